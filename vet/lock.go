package vet

import (
	"strings"

	"golang.org/x/tools/go/ssa"
)

// checkLocks reports locks that are held across an operation.
func checkLocks(f *function, report reporter) {
	for _, b := range f.Blocks {
		for _, in := range b.Instrs {
			lock, ok := in.(*ssa.Call)
			if !ok || !lockCall(&lock.Call, "Lock", "RLock") {
				continue
			}
			follow(lock, func(in ssa.Instruction) bool {
				call, ok := in.(*ssa.Call)
				if !ok {
					return true
				}
				if lockCall(&call.Call, "Unlock", "RUnlock") && sameLock(&call.Call, &lock.Call) {
					return false
				}
				if name := f.called(call); name != "" {
					report(call.Pos(), "%s is called while a lock is held (%s): a task of this process that waits for the lock, while this one waits for it, never goes on; unlock before operations", name, f.unit.p.line(lock.Pos()))
					return false
				}
				return true
			})
		}
	}
}

func lockCall(c *ssa.CallCommon, names ...string) bool {
	path, name := nameOf(callee(c))
	if path != "sync" {
		return false
	}
	_, method, _ := strings.Cut(name, ".")
	for _, n := range names {
		if method == n {
			return true
		}
	}
	return false
}

func sameLock(a, b *ssa.CallCommon) bool {
	if len(a.Args) == 0 || len(b.Args) == 0 {
		return true
	}
	return sameAddress(a.Args[0], b.Args[0])
}
