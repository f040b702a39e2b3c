package vet

import "golang.org/x/tools/go/ssa"

// checkOnce reports what a function of Once must not do: call operations, and leave results in variables.
func checkOnce(f *function, report reporter) {
	if !f.inOnce() {
		return
	}
	for _, b := range f.Blocks {
		for _, in := range b.Instrs {
			switch in := in.(type) {
			case *ssa.Store:
				f.leaves(in.Addr, in, report)
			case ssa.CallInstruction:
				if o := operationOf(in); o != nil {
					report(in.Pos(), "%s is called inside Once: a task that is run again does not call the function, so the operation would be missing; call it outside", o.name)
				} else if name := f.called(in); name != "" {
					report(in.Pos(), "%s calls operations inside Once: a task that is run again does not call the function, so they would be missing; call it outside", name)
				}
			}
		}
	}
}

// leaves reports a change of a variable of the function around that of Once, if something reads it there.
func (f *function) leaves(addr ssa.Value, in ssa.Instruction, report reporter) {
	if _, element := addr.(*ssa.IndexAddr); element { // it may be a cache
		return
	}
	v, ok := base(addr).(*ssa.FreeVar)
	if !ok {
		return
	}
	outer := binding(v)
	for inner, ok := outer.(*ssa.FreeVar); ok && f.unit.p.of[inner.Parent()] != nil && f.unit.p.of[inner.Parent()].inOnce(); inner, ok = outer.(*ssa.FreeVar) {
		outer = binding(inner)
	}
	if outer == nil || outer.Referrers() == nil || isErrorVariable(outer) {
		return
	}
	for _, ref := range *outer.Referrers() {
		switch ref.(type) {
		case *ssa.UnOp, *ssa.FieldAddr, *ssa.IndexAddr, *ssa.Lookup:
			pos := in.Pos()
			if !pos.IsValid() {
				pos = f.Pos()
			}
			report(pos, "the function of Once changes a variable of the task: a task that is run again does not call it, and finds the variable unchanged; return the value from the function")
			return
		}
	}
}

func isErrorVariable(v ssa.Value) bool {
	a, ok := v.(*ssa.Alloc)
	if !ok {
		return false
	}
	return isError(deref(a.Type()))
}
