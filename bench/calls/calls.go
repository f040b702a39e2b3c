// Package calls counts the system calls of programs as strace does, with ptrace: it needs neither a tool nor a privilege, and
// of a program only that it calls getrusage where what is to be counted begins, and again where it ends.
//
// Whoever is traced is slow. So what a program does because time passes is in the counts many times over, and what it does
// because nobody else has come yet may be missing; what it does for each message is exact.
package calls

import "errors"

// Section is what lies between two calls of getrusage: the k-th section of all processes, added up.
type Section struct {
	Processes int
	All       int // system calls
	Library   int // those that are not made by Go's runtime to schedule goroutines and to manage memory
	Sends     int // those that sent something
	Bytes     int // what these sent
}

// ErrUnsupported is returned where programs cannot be traced in this way.
var ErrUnsupported = errors.New("system calls are counted on Linux only")
