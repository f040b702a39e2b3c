package vet

import (
	"golang.org/x/tools/go/ssa"
)

// checkMessages reports messages that nobody receives, and receives for which nobody sends. It looks at whole programs:
// functions of a context and a task that no other function of the package calls.
func checkMessages(f *function, report reporter) {
	u := f.unit
	if f != u.top || !u.isProgram() {
		return
	}
	all := u.summary.Messages
	if len(all) >= listMax {
		return
	}
	for _, g := range u.functions {
		for _, o := range g.operations {
			if o.name != "Send" && !o.receives() {
				continue
			}
			tag, known := number(o.tag)
			if !known || !onTask(o.task) {
				continue
			}
			partner, typed := false, ""
			for _, m := range all {
				if m.Send == (o.name == "Send") || m.Known && m.Tag != tag {
					continue
				}
				if partner = !m.Known || m.Type == o.typ; partner {
					break
				}
				typed = m.Type
			}
			switch {
			case partner:
			case typed != "" && o.receives():
				report(o.pos(), "%s takes a %s with tag %d, and the program sends a %s with it, which is ErrMismatch; receive the type that is sent", o.name, o.typ, tag, typed)
			case typed != "":
			case o.receives():
				report(o.pos(), "no task sends with tag %d: %s waits until the sender has returned, and fails; use the tag of the Send", tag, o.name)
			default:
				report(o.pos(), "no task receives with tag %d: what is sent is dropped; use the tag of the Recv", tag)
			}
		}
	}
	u.checkFirst(report)
}

// checkFirst reports a Recv that all tasks call before any has sent anything.
func (u *unit) checkFirst(report reporter) {
	for _, f := range u.functions {
		if f.goroutine() != nil || f != u.top {
			continue
		}
		for _, o := range f.operations {
			if !o.receives() || !onTask(o.task) {
				continue
			}
			alone := true
			for _, c := range f.control[o.call.Block()] {
				if !errorCheck(c) && (u.of(c.Cond).has(uneven) || isCheck(c)) {
					alone = false
				}
			}
			follow(f.Blocks[0].Instrs[0], func(in ssa.Instruction) bool {
				if in == o.call {
					return false
				}
				call, ok := in.(ssa.CallInstruction)
				if ok {
					other := operationOf(call)
					s := u.p.called(call.Common())
					path, name := nameOf(callee(call.Common()))
					if other != nil && other.name == "Send" || s != nil && len(s.Messages) > 0 || path == module && name == "Go" || isGo(call) || other == nil && s == nil && u.p.of[closure(call.Common().Value)] != nil {
						if before(call, o.call) || u.mayPrecede(f, call, o.call) {
							alone = false
						}
					}
				}
				return true
			})
			if alone {
				report(o.pos(), "all tasks receive here before any has sent: they wait for each other; send first")
			}
		}
	}
}

func (u *unit) mayPrecede(f *function, a, b ssa.Instruction) (yes bool) {
	follow(a, func(in ssa.Instruction) bool {
		yes = yes || in == b
		return !yes
	})
	return yes
}

// isProgram reports whether a unit is a function of a context and a task, and no function of the package calls it.
func (u *unit) isProgram() bool {
	sig := u.top.Signature
	if u.object == nil || sig.Recv() != nil || sig.Params().Len() != 2 || !isTask(sig.Params().At(1).Type()) {
		return false
	}
	for _, f := range u.p.functions {
		for _, b := range f.Blocks {
			for _, in := range b.Instrs {
				if call, ok := in.(ssa.CallInstruction); ok && callee(call.Common()) == u.object {
					return false
				}
			}
		}
	}
	return true
}
