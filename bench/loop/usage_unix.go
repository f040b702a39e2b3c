//go:build unix

package loop

import "syscall"

// askKernel asks the kernel what this process has used.
func (u *Usage) askKernel() {
	var r syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &r) != nil {
		return
	}
	u.CPU, u.Voluntary, u.Involuntary = r.Utime.Nano()+r.Stime.Nano(), int64(r.Nvcsw), int64(r.Nivcsw)
}
