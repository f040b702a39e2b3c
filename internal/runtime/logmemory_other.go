//go:build !linux

package runtime

// adviseHuge would ask for huge pages.
func adviseHuge(_, _ uintptr) {}
