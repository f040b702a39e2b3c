// Package calls counts the system calls of programs as strace does, with ptrace. It needs neither a
// tool nor a privilege; a program only has to call getrusage where the counted section begins, and
// again where it ends. Its API may change.
//
// A traced program is slow. So the counts contain calls that it makes because time passes many times
// over, and may lack calls that it makes because no other process has come yet; what it does for each
// message is exact.
package calls

import "errors"

// Section is what lies between two calls of getrusage: the k-th section of all processes, added up.
type Section struct {
	Processes int
	All       int // system calls
	Library   int // those that Go's runtime does not make to schedule goroutines and to manage memory
	Sends     int // those that sent something
	Bytes     int // what these sent
}

// ErrUnsupported is returned where programs cannot be traced this way.
var ErrUnsupported = errors.New("system calls are counted on Linux only")
