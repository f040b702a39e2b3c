package vet

import (
	"go/token"
	"go/types"

	"golang.org/x/tools/go/ssa"
)

// checkMemory reports memory that was made before the loop of a Save, is changed in it depending on what was there, and is
func (f *function) checkMemory(s saving, l *loop, report reporter) {
	u := f.unit
	state := s.state.rep()
	inState := func(n *node) bool {
		for i := 0; n != nil && i < 8; i++ {
			n = n.rep()
			if n == state {
				return true
			}
			n = n.up
		}
		return false
	}
	done := map[*node]bool{}
	for _, c := range f.changedIn(l) {
		n := c.node.rep()
		if !c.adds || done[n] || inState(n) || above(state, n) {
			continue
		}
		b := c.base
		if free, ok := b.(*ssa.FreeVar); ok && free.Parent() != f.Function {
			for free, ok := b.(*ssa.FreeVar); ok && free.Parent() != f.Function; free, ok = b.(*ssa.FreeVar) {
				b = binding(free)
			}
		}
		in, ok := b.(ssa.Instruction)
		if b == nil || ok && (in.Parent() != f.Function || l.blocks[in.Block()]) {
			continue
		}
		if t := deref(b.Type()); isTask(t) || isError(t) || f.cleared(l, n) {
			continue
		}
		if load, ok := loaded(b); ok && inState(u.node(load)) {
			continue
		}
		k := &stale{f: f, s: s, values: map[ssa.Value]bool{}}
		f.seed(k, n)
		if k.at == nil {
			continue
		}
		done[n] = true
		pos := c.in.Pos()
		if !pos.IsValid() {
			pos = s.in.Pos()
		}
		report(pos, "memory that is changed here was made before Save (%s) and is not in the saved state: a task that is run again finds what it had before its first round, and %s depends on it; make it part of the state",
			u.p.line(s.in.Pos()), k.what)
	}
}

// above reports whether a node has another as a field, through several.
func above(field, n *node) bool {
	field = field.rep().up
	for i := 0; field != nil && i < 8; i++ {
		field = field.rep()
		if field == n.rep() {
			return true
		}
		field = field.up
	}
	return false
}

func loaded(v ssa.Value) (ssa.Value, bool) {
	load, ok := v.(*ssa.UnOp)
	if ok && load.Op == token.MUL {
		return load.X, true
	}
	return nil, false
}

// changedIn returns what a loop changes, with what function literals that it calls change.
func (f *function) changedIn(l *loop) (all []changed) {
	for _, c := range f.changes() {
		if l.blocks[c.in.Block()] {
			all = append(all, c)
		}
	}
	for b := range l.blocks {
		for _, in := range b.Instrs {
			call, ok := in.(*ssa.Call)
			if !ok {
				continue
			}
			if g := f.unit.p.of[closure(call.Call.Value)]; g != nil && g.unit == f.unit && g != f {
				all = append(all, g.changes()...)
			}
		}
	}
	return all
}

// cleared reports whether a loop empties memory, or sets it without regard to what was there.
func (f *function) cleared(l *loop, n *node) bool {
	for b := range l.blocks {
		for _, in := range b.Instrs {
			switch in := in.(type) {
			case *ssa.Store:
				if f.unit.node(in.Addr).rep() == n && !isAdded(in) {
					return true
				}
			case *ssa.Call:
				if isBuiltin(&in.Call, "clear", "delete", "copy") && f.unit.node(in.Call.Args[0]).rep() == n {
					return true
				}
			}
		}
	}
	return false
}

// covers reports whether a value is memory, or has it as a part.
func (f *function) covers(v ssa.Value, n *node) bool {
	switch v.(type) {
	case *ssa.Const, *ssa.Function, *ssa.Global, *ssa.Builtin:
		return false
	}
	return f.unit.node(v).rep() == n.rep() || above(n, f.unit.node(v))
}

// reads follows memory into a call that gets it, or what it is part of.
func (k *stale) reads(in ssa.CallInstruction, n *node) {
	u, c := k.f.unit, in.Common()
	s := u.p.called(c)
	if s == nil {
		for _, a := range c.Args {
			if k.f.covers(a, n) {
				k.call(in, a)
			}
		}
		return
	}
	touches := func(i int) bool {
		if i >= len(s.Inputs) || s.Inputs[i].Param >= len(c.Args) {
			return false
		}
		a := c.Args[s.Inputs[i].Param]
		switch a.(type) {
		case *ssa.Const, *ssa.Function, *ssa.Global, *ssa.Builtin:
			return false
		}
		part := u.at(u.node(a), s.Inputs[i].Fields)
		return part.rep() == n.rep() || above(n, part) || above(part, n)
	}
	for _, sink := range s.Sinks {
		if touches(sink.Input) {
			k.sink(in, "what %s passes to %s", callee(c).Name(), sink.What)
		}
	}
	result := resultOf(in)
	if result == nil {
		return
	}
	tuple, several := result.Type().(*types.Tuple)
	for i, r := range s.Results {
		for _, from := range inputsOf(taint{mask: r.Mask}) {
			if !touches(from) {
				continue
			}
			if !several {
				k.mark(result)
				continue
			}
			for _, ref := range *result.Referrers() {
				if e, ok := ref.(*ssa.Extract); ok && e.Index == i && i < tuple.Len() {
					k.mark(e)
				}
			}
		}
	}
}

// seed follows all that is read of memory.
func (f *function) seed(k *stale, n *node) {
	for _, b := range f.Blocks {
		for _, in := range b.Instrs {
			switch in := in.(type) {
			case *ssa.UnOp:
				if in.Op == token.MUL && f.covers(in.X, n) && !isGlobal(in.X) {
					k.mark(in)
				}
			case *ssa.Lookup:
				if f.unit.node(in.X).rep() == n {
					k.mark(in)
				}
			case *ssa.Range:
				if f.unit.node(in.X).rep() == n {
					k.mark(in)
				}
			case *ssa.Return:
				for _, v := range in.Results {
					if f.covers(v, n) {
						k.sink(in, "what the function returns")
					}
				}
			case ssa.CallInstruction:
				if o := operationOf(in); o != nil {
					for _, d := range o.data {
						if o.name != "Save" && f.covers(d, n) {
							k.sink(in, "what is passed to %s", o.name)
						}
					}
					continue
				}
				for _, a := range in.Common().Args {
					if f.covers(a, n) {
						k.reads(in, n)
					}
				}
			}
		}
	}
}

func isGlobal(v ssa.Value) bool { _, ok := v.(*ssa.Global); return ok }
