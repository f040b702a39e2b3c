//go:build !linux && !darwin

package posix

import "errors"

// Free needs Linux or macOS.
func Free(string) (uint64, error) { return 0, errors.ErrUnsupported }
