package control

import (
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// endingOf says how a child of this process ended that nobody has waited for yet,
// and leaves it to be waited for. ok is false if it is no such process.
func endingOf(pid int) (how string, ok bool) {
	// What follows the first three numbers depends on the event: for a child its
	// number, its user and its status, after a gap on systems of 64 bits.
	var info struct {
		unix.Siginfo
	}
	err := unix.Waitid(unix.P_PID, pid, &info.Siginfo, unix.WEXITED|unix.WNOHANG|unix.WNOWAIT, nil)
	if err != nil || info.Signo == 0 {
		return "", false
	}
	fields := (*[32]int32)(unsafe.Pointer(&info))
	at := 3
	if unsafe.Sizeof(uintptr(0)) == 8 {
		at = 4
	}
	if int(fields[at]) != pid {
		return "", false
	}
	const exited = 1 // CLD_EXITED
	if status := fields[at+2]; info.Code == exited {
		return Ending(int(status), 0), true
	} else {
		return Ending(0, syscall.Signal(status)), true
	}
}
