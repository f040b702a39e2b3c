package vet

import (
	"os"

	"golang.org/x/tools/go/ssa"
)

// checkEffects reports effects outside the job that a second attempt would not repeat but double.
func checkEffects(f *function, report reporter) {
	if !f.ofTask() {
		return
	}
	for _, b := range f.Blocks {
		for _, in := range b.Instrs {
			call, ok := in.(ssa.CallInstruction)
			if !ok {
				continue
			}
			c := call.Common()
			path, name := nameOf(callee(c))
			if path != "os" || name != "OpenFile" {
				continue
			}
			if flags, ok := number(c.Args[1]); ok && flags&int64(os.O_APPEND) != 0 {
				report(call.Pos(), "a task that is run again appends to the file a second time; write a file named by Task.Attempt, and rename it")
			}
		}
	}
}
