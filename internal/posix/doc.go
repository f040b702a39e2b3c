// Package posix has the calls of a Unix kernel that the other packages make and package syscall does not have
// everywhere. On Windows they fail with errors.ErrUnsupported: what needs no other process, such as the simulator and
// jobs of goroutines, works there too.
package posix
