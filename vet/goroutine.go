package vet

import (
	"golang.org/x/tools/go/ssa"
)

// checkGoroutines reports tasks that two goroutines use.
func checkGoroutines(f *function, report reporter) {
	for _, b := range f.Blocks {
		for _, in := range b.Instrs {
			call, ok := in.(ssa.CallInstruction)
			if !ok {
				continue
			}
			c := call.Common()
			path, name := nameOf(callee(c))
			var run *ssa.Function
			switch {
			case isGo(call):
				run = closure(c.Value)
				if s := f.unit.p.called(c); s != nil && s.performs() {
					for _, a := range c.Args {
						if isTask(a.Type()) && !onFork(a) && f.busy(call) {
							report(call.Pos(), "%s uses the task in another goroutine while this one uses it, too: a task is for one goroutine at a time; pass it t.Fork(), or use coppice.Go", callee(c).Name())
						}
					}
					continue
				}
			case path == module && name == "Go" && len(c.Args) == 2:
				if g := f.unit.p.of[closure(c.Args[1])]; g != nil && g.unit == f.unit && len(g.Params) > 0 {
					g.outerUses(func(use ssa.CallInstruction, what string) {
						report(use.Pos(), "%s in a function of coppice.Go uses the task outside it, not the one that it is given: two goroutines use one task; use the parameter", what)
					}, f.unit.p)
				}
				continue
			case path == "sync" && name == "WaitGroup.Go" || path == "golang.org/x/sync/errgroup" && name == "Group.Go":
				run = closure(c.Args[1])
			default:
				continue
			}
			if g := f.unit.p.of[run]; g != nil && g.unit == f.unit && f.busy(call) {
				g.outerUses(func(use ssa.CallInstruction, what string) {
					report(use.Pos(), "%s uses the task in another goroutine: a task is for one goroutine at a time; give the goroutine t.Fork(), or use coppice.Go", what)
				}, f.unit.p)
			}
		}
	}
}

// outerUses visits the operations of a function literal, and of those in it, on a task of the function around it that is
// no fork.
func (f *function) outerUses(visit func(ssa.CallInstruction, string), p *program) {
	for _, g := range f.unit.functions {
		if !within(g.Function, f.Function) {
			continue
		}
		for _, b := range g.Blocks {
			for _, in := range b.Instrs {
				call, ok := in.(ssa.CallInstruction)
				if !ok {
					continue
				}
				name := g.called(call)
				if o := operationOf(call); o != nil {
					name = o.name
				}
				if name == "" {
					continue
				}
				for _, a := range call.Common().Args {
					if isTask(a.Type()) && isOuter(a, f.Function) && !onFork(a) {
						visit(call, name)
					}
				}
			}
		}
	}
}

// isOuter reports whether a task is a variable of the function around a literal.
func isOuter(v ssa.Value, literal *ssa.Function) bool {
	switch b := base(v).(type) {
	case *ssa.FreeVar:
		if b.Parent() == literal {
			return true
		}
		if outer := binding(b); outer != nil {
			return isOuter(outer, literal)
		}
	case *ssa.Parameter:
		return !within(b.Parent(), literal)
	case *ssa.Alloc:
		return !within(b.Parent(), literal)
	}
	return false
}

// busy reports whether the task is used after a goroutine was started, before anything waits for it.
func (f *function) busy(started ssa.CallInstruction) (busy bool) {
	follow(started, func(in ssa.Instruction) bool {
		switch in := in.(type) {
		case *ssa.UnOp:
			if in.Op.String() == "<-" {
				return false
			}
		case *ssa.Select:
			return false
		case ssa.CallInstruction:
			_, name := nameOf(callee(in.Common()))
			if name == "WaitGroup.Wait" || name == "Group.Wait" {
				return false
			}
			if in == started || f.called(in) != "" && !isDeferred(in) {
				for _, a := range in.Common().Args {
					if in == started || isTask(a.Type()) && !onFork(a) {
						busy = true
					}
				}
				if in == started {
					busy = true
				}
			}
		}
		return !busy
	})
	return busy
}

func isDeferred(in ssa.CallInstruction) bool { _, ok := in.(*ssa.Defer); return ok }
