package vet

import "golang.org/x/tools/go/ssa"

// checkShared reports memory that was lent with Shared and is changed before the next Save.
func checkShared(f *function, report reporter) {
	for _, o := range f.operations {
		if !o.shared || o.value == nil {
			continue
		}
		lent := view(o.value)
		follow(o.call, func(in ssa.Instruction) bool {
			if v, ok := in.(ssa.Value); ok && v == lent {
				return false // made anew
			}
			if call, ok := in.(ssa.CallInstruction); ok {
				if other := operationOf(call); other != nil && other.name == "Save" {
					return false
				}
				if s := f.unit.p.called(call.Common()); s != nil && len(s.Saves) > 0 {
					return false
				}
			}
			if f.writesTo(in, lent) {
				pos := in.Pos()
				if !pos.IsValid() {
					pos = o.pos()
				}
				report(pos, "memory that %s was lent with Shared (%s) is changed before the next Save: a task that is run again gets the changed values; pass a copy, or no Shared", o.name, f.unit.p.line(o.pos()))
				return false
			}
			return true
		})
	}
}
