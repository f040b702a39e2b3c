//go:build !linux

package control

// endingOf needs Linux.
func endingOf(int) (how string, ok bool) { return "", false }
