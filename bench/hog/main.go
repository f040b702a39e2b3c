// Command hog keeps one processor busy until its standard input ends: it stands for
// the others at work that a measured program has to live with, and does not outlive
// who started it.
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
