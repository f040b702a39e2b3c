// Command hog keeps one processor busy until its standard input ends. It stands for the other work that
// a measured program has to live with, and does not outlive the process that started it.
package main

import (
	"io"
	"os"
	"sync/atomic"
)

func main() {
	var ended atomic.Bool
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		ended.Store(true)
	}()
	for !ended.Load() {
	}
}
