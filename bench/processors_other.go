//go:build !linux

package main

import "github.com/coppice-go/coppice/bench/calls"

// onTwoProcessors needs Linux.
func onTwoProcessors() error { return calls.ErrUnsupported }
