// Package posix makes the Unix system calls that package syscall does not offer on every system. On
// Windows they fail with errors.ErrUnsupported: what needs no other process, such as the simulator and
// jobs of goroutines, works there too.
package posix
