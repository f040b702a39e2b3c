package transport

import (
	"errors"
	"time"
)

// These need Unix.

func stallAfter(int, time.Duration) {}

func receive(int, []byte) (int, error) { return 0, errors.ErrUnsupported }

func send(int, []byte) (int, error) { return 0, errors.ErrUnsupported }

type vector struct{}

func (*vector) send(int, [][]byte) (int, error) { return 0, errors.ErrUnsupported }
