package main

import (
	"errors"
	"time"
)

// ownTime needs Unix.
func ownTime() (time.Duration, error) { return 0, errors.ErrUnsupported }
