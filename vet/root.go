package vet

import "golang.org/x/tools/go/ssa"

// checkRoots reports roots, operators and options that differ between tasks.
func checkRoots(f *function, report reporter) {
	u := f.unit
	for _, o := range f.operations {
		for what, v := range map[string]ssa.Value{"root": o.root, "operator": o.op} {
			if v == nil {
				continue
			}
			if t := u.of(v); t.has(uneven) {
				kind, _ := t.first(uneven)
				report(o.pos(), "the %s of %s depends on %s: tasks that pass different ones get ErrMismatch; compute it from what all tasks know", what, o.name, t.say(kind))
			}
		}
		if !o.collective() || !onTask(o.task) {
			continue
		}
		for _, v := range o.options {
			if _, call := v.(*ssa.Call); call {
				continue
			}
			if t := u.of(v); t.has(uneven) {
				kind, _ := t.first(uneven)
				report(o.pos(), "an option of %s depends on %s: all tasks have to pass the same; choose it by what all tasks know", o.name, t.say(kind))
			}
		}
	}
}
