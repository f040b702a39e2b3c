package segment

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// seals keep everybody, the process that made the memory included, from changing its length: a page that is gone would
// end whoever touches it.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// create makes memory that other processes can open with the file.
func create(name string, size int) (*os.File, []byte, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, nil, fmt.Errorf("shared memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if err = f.Truncate(int64(size)); err == nil {
		_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals)
	}
	var memory []byte
	if err == nil {
		memory, err = open(f)
	}
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("shared memory: %w", err), f.Close())
	}
	return f, memory, nil
}

// open maps memory that another process may have made.
func open(f *os.File) ([]byte, error) {
	has, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0)
	if err == nil && has&unix.F_SEAL_SHRINK == 0 {
		err = errors.New("its length is not sealed")
	}
	var info os.FileInfo
	if err == nil {
		info, err = f.Stat()
	}
	if err == nil && (info.Size() < 1 || info.Size() > 1<<30) {
		err = fmt.Errorf("%d bytes", info.Size())
	}
	if err != nil {
		return nil, fmt.Errorf("shared memory: %w", err)
	}
	return unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
}

func unmap(memory []byte) error { return unix.Munmap(memory) }

// PullFrom reads bytes of another process's memory.
func PullFrom(pid int, b []byte, address uint64) error {
	for len(b) > 0 {
		local := [1]unix.Iovec{{Base: &b[0]}}
		local[0].SetLen(len(b))
		n, err := unix.ProcessVMReadv(pid, local[:], []unix.RemoteIovec{{Base: uintptr(address), Len: len(b)}}, 0)
		switch {
		case err == unix.EINTR:
			continue
		case err == nil && n == 0:
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return fmt.Errorf("reading the peer's memory: %w", err)
		}
		b, address = b[n:], address+uint64(n)
	}
	return nil
}

// readable reports whether other processes of the same user may read the memory of this one. They may not any more when it has changed
// its user.
func readable() bool {
	yes, err := unix.PrctlRetInt(unix.PR_GET_DUMPABLE, 0, 0, 0, 0)
	return err != nil || yes == 1
}

// Gone reports whether an error of PullFrom says that there is no such process.
func Gone(err error) bool { return errors.Is(err, unix.ESRCH) }

// Yield lets another process have the processor, if one waits for it.
func Yield() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
