package vet

import (
	"golang.org/x/tools/go/ssa"
)

// checkInputs reports operations that do not get the same on every attempt: what they pass, or whether they are called,
// depends on a clock, on the order of a map, on random numbers, on what is outside.
func checkInputs(f *function, report reporter) {
	if f.inOnce() {
		return
	}
	u := f.unit
	for _, o := range f.operations {
		for _, v := range o.data {
			t := u.allOf(v)
			if kind, ok := t.first(unrepeatable); ok {
				report(o.pos(), "%s gets a value that depends on %s: a task that is run again passes something else; %s", o.name, t.say(kind), remedies[kind])
			}
		}
	}
	for _, b := range f.Blocks {
		for _, in := range b.Instrs {
			call, ok := in.(ssa.CallInstruction)
			if !ok {
				continue
			}
			if s := u.p.called(call.Common()); s != nil {
				for _, k := range s.Sinks {
					t := u.given(s, k.Input, call.Common().Args)
					if kind, ok := t.first(unrepeatable); ok {
						report(call.Pos(), "%s passes to %s a value that depends on %s: a task that is run again passes something else; %s",
							callee(call.Common()).Name(), k.What, t.say(kind), remedies[kind])
					}
				}
				for _, k := range s.Conditions {
					t := u.given(s, k, call.Common().Args)
					if kind, ok := t.first(unrepeatable); ok {
						report(call.Pos(), "which operations %s calls depends on %s: a task that is run again calls others; %s",
							callee(call.Common()).Name(), t.say(kind), remedies[kind])
					}
				}
			}
			if name := f.called(call); name != "" && (f.overMap(b) || f.yielded()) {
				report(call.Pos(), "%s is called in a loop over a map: a task that is run again calls it in another order; loop over sorted keys", name)
			}
		}
	}
	for _, c := range f.branches() {
		t := u.of(c.Cond)
		kind, ok := t.first(unrepeatable)
		if !ok {
			continue
		}
		if what := f.differs(c, true); what != "" {
			report(condPos(c), "whether %s is called depends on %s: a task that is run again calls something else; %s", what, t.say(kind), remedies[kind])
		}
	}
}

// overMap reports whether a block is in a loop over a map.
func (f *function) overMap(b *ssa.BasicBlock) bool {
	for _, l := range f.loops {
		if !l.blocks[b] {
			continue
		}
		for _, in := range l.header.Instrs {
			if n, ok := in.(*ssa.Next); ok && !n.IsString {
				return true
			}
		}
	}
	return false
}

// yielded reports whether a function literal is the body of a loop over what maps.Keys and the like return.
func (f *function) yielded() bool {
	if f.Synthetic == "" || f.Parent() == nil {
		return false
	}
	for _, param := range f.Params {
		if f.unit.of(param).has(1 << element) {
			return true
		}
	}
	return false
}
