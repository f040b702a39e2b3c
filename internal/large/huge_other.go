//go:build !linux

package large

// adviseHuge would ask for huge pages.
func adviseHuge(_, _ uintptr) {}

// MachineMemory is how many bytes of memory the machine has, as far as that is known.
func MachineMemory() uint64 { return totalUnknown }
