package runtime

import "golang.org/x/sys/unix"

// adviseHuge asks for huge pages from start to end. It is a wish: nothing depends on it.
func adviseHuge(start, end uintptr) {
	_, _, _ = unix.Syscall(unix.SYS_MADVISE, start, end-start, unix.MADV_HUGEPAGE)
}
