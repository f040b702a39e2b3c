package large

import "golang.org/x/sys/unix"

// adviseHuge asks for huge pages from start to end. Nothing depends on the answer.
func adviseHuge(start, end uintptr) {
	_, _, _ = unix.Syscall(unix.SYS_MADVISE, start, end-start, unix.MADV_HUGEPAGE)
}

// MachineMemory returns how many bytes of memory the machine has.
func MachineMemory() uint64 {
	var info unix.Sysinfo_t
	if err := unix.Sysinfo(&info); err != nil {
		return totalUnknown
	}
	return uint64(info.Totalram) * uint64(info.Unit)
}
