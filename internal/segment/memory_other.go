//go:build !linux

package segment

import (
	"errors"
	"os"
)

func create(string, int) (*os.File, []byte, error) { return nil, nil, errors.ErrUnsupported }

func open(*os.File) ([]byte, error) { return nil, errors.ErrUnsupported }

func unmap([]byte) error { return errors.ErrUnsupported }

// PullFrom needs Linux.
func PullFrom(int, []byte, uint64) error { return errors.ErrUnsupported }

func readable() bool { return false }

// Gone needs Linux.
func Gone(error) bool { return false }

// Yield needs Linux.
func Yield() {}
