package vet

import (
	"go/types"

	"golang.org/x/tools/go/ssa"
)

// checkSaves reports calls of Save at a wrong place, or whose error is dropped.
func checkSaves(f *function, report reporter) {
	var first *operation
	for _, o := range f.operations {
		if o.name != "Save" {
			continue
		}
		if onFork(o.task) {
			report(o.pos(), "Save is called on a fork or a group, which is an error; call it on the task that the function was given")
		}
		if v := resultOf(o.call); v != nil && len(*v.Referrers()) == 0 {
			report(o.pos(), "the error of Save is dropped: a task that has moved to another process goes on here; return the error")
		}
		if first != nil && first.typ != o.typ {
			report(o.pos(), "Save saves a %s here and a %s elsewhere (%s): a task that is run again gets the value of either; save one type", o.typ, first.typ, f.unit.p.line(first.pos()))
		}
		if first == nil {
			first = o
		}
		f.checkSites(o, report)
	}
	for _, b := range f.Blocks {
		for _, in := range b.Instrs {
			if call, ok := in.(*ssa.Call); ok {
				if path, name := nameOf(callee(&call.Call)); path == module && name == "Go" {
					f.checkPending(call, report)
				}
			}
		}
	}
}

// checkSites reports two calls of Save in a row with operations between them: a task that is run again gets its last
// state from the first call, and calls these operations once more.
func (f *function) checkSites(s *operation, report reporter) {
	for _, other := range f.operations {
		if other.name != "Save" || other == s || !s.call.Block().Dominates(other.call.Block()) {
			continue
		}
		if s.call.Block() == other.call.Block() && indexOf(s.call) > indexOf(other.call) {
			continue
		}
		for _, o := range f.operations {
			if o == s || o == other || o.name == "Once" || o.name == "Save" {
				continue
			}
			if before(s.call, o.call) && before(o.call, other.call) {
				report(other.pos(), "Save is called a second time after other operations (%s): a task that is run again gets its last state from the first Save, and calls these operations again; call Save at one place, in a loop, and keep in the state how far the task is", f.unit.p.line(s.pos()))
				return
			}
		}
	}
}

// before reports whether one instruction comes before another on every path to that.
func before(a, b ssa.Instruction) bool {
	if a.Block() == b.Block() {
		return indexOf(a) < indexOf(b)
	}
	return a.Block().Dominates(b.Block())
}

// checkPending reports a Save that comes before a future is waited for.
func (f *function) checkPending(started *ssa.Call, report reporter) {
	follow(started, func(in ssa.Instruction) bool {
		switch in := in.(type) {
		case *ssa.UnOp:
			if in.Op.String() == "<-" {
				return false
			}
		case *ssa.Call:
			_, name := nameOf(callee(&in.Call))
			if name == "Future.Wait" {
				return false
			}
			if o := operationOf(in); o != nil && o.name == "Save" {
				report(o.pos(), "Save is called before the future of Go (%s) is waited for, which is an error; call Wait first", f.unit.p.line(started.Pos()))
				return false
			}
			for _, a := range in.Call.Args { // whoever has the future may wait for it
				if isFuture(a.Type()) {
					return false
				}
			}
		}
		return true
	})
}

func isFuture(t types.Type) bool { return isCoppice(t, "Future") }

func deref(t types.Type) types.Type {
	if p, ok := t.Underlying().(*types.Pointer); ok {
		return p.Elem()
	}
	return t
}
