//go:build !linux

package control

// starter needs Linux.
func starter() string { return "" }
