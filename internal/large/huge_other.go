//go:build !linux

package large

// adviseHuge would ask for huge pages.
func adviseHuge(_, _ uintptr) {}

// MachineMemory returns an assumed number of bytes of memory: the machine's is not known here.
func MachineMemory() uint64 { return totalUnknown }
