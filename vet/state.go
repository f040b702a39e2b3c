package vet

import (
	"go/token"
	"go/types"

	"golang.org/x/tools/go/ssa"
)

// checkState reports what changes from one Save to the next and is not in the state: a task that is run again finds in it
// what it had before the first Save.
func checkState(f *function, report reporter) {
	if f.inOnce() {
		return
	}
	reported := map[string]bool{}
	for _, s := range f.saves() {
		f.checkRand(s, report)
		l := f.outermost(s.in.Block())
		if l == nil {
			continue
		}
		for _, v := range f.carried(s, l) {
			k := &stale{f: f, s: s, values: map[ssa.Value]bool{}}
			users := f.usedAfter(s.in, v)
			if refers(v.Type()) && !isStruct(v.Type()) {
				if f.rewritten(s.in, v) {
					continue
				}
				users = contents(users, v)
			}
			for _, use := range users {
				k.use(use, v)
			}
			if k.at != nil {
				name := nameFor(v)
				if reported[name] {
					continue
				}
				reported[name] = true
				pos := k.at.Pos()
				if v.Pos().IsValid() {
					pos = v.Pos()
				}
				if !pos.IsValid() {
					pos = s.in.Pos()
				}
				report(pos, "%s is carried across Save (%s) and not in the saved state: a task that is run again goes on with the value of its first round, and %s depends on it; make it part of the state",
					name, f.unit.p.line(s.in.Pos()), k.what)
			}
		}
		f.checkMemory(s, l, report)
	}
}

// saving is a call of Save, or of a function that calls it.
type saving struct {
	in    ssa.CallInstruction
	state *node
}

// saves returns the calls of a function that save the task's state.
func (f *function) saves() (all []saving) {
	for _, b := range f.Blocks {
		for _, in := range b.Instrs {
			call, ok := in.(ssa.CallInstruction)
			if !ok {
				continue
			}
			if o := operationOf(call); o != nil {
				if o.name == "Save" {
					all = append(all, saving{call, f.unit.node(o.value)})
				}
				continue
			}
			c := call.Common()
			if s := f.unit.p.called(c); s != nil {
				for _, i := range s.Saves {
					if i < len(c.Args) {
						all = append(all, saving{call, f.unit.node(c.Args[i])})
					}
				}
			} else if g := f.unit.p.of[closure(c.Value)]; g != nil && g.unit == f.unit && !c.IsInvoke() && !isGo(call) {
				for _, o := range g.operations {
					if o.name == "Save" {
						all = append(all, saving{call, f.unit.node(o.value)})
					}
				}
			}
		}
	}
	return all
}

// outermost returns the largest loop that contains a block, or nil.
func (f *function) outermost(b *ssa.BasicBlock) (found *loop) {
	for _, l := range f.loops {
		if l.blocks[b] && (found == nil || len(l.blocks) > len(found.blocks)) {
			found = l
		}
	}
	return found
}

// carried returns the values of a loop that vary from round to round and are used after a Save, though they were computed
// before it.
func (f *function) carried(s saving, l *loop) (found []ssa.Value) {
	invariant := f.invariants(l)
	for _, b := range f.Blocks {
		if !l.blocks[b] {
			continue
		}
		for _, in := range b.Instrs {
			v, ok := in.(ssa.Value)
			if !ok || v == resultOf(s.in) || invariant[v] || !varies(v.Type()) || v.Referrers() == nil || len(*v.Referrers()) == 0 {
				continue
			}
			switch v := v.(type) {
			case *ssa.FieldAddr, *ssa.IndexAddr, *ssa.Alloc, *ssa.MakeClosure, *ssa.Range, *ssa.Next, *ssa.Select:
				continue
			case *ssa.Slice:
				if _, array := v.X.(*ssa.Alloc); array {
					continue
				}
			case *ssa.Call:
				if _, tuple := v.Type().(*types.Tuple); tuple {
					continue
				}
			case *ssa.MakeSlice, *ssa.MakeMap, *ssa.MakeChan:
				continue
			}
			if len(f.usedAfter(s.in, v)) > 0 && !known(v, s.in) {
				found = append(found, v)
			}
		}
	}
	// Variables have names: they come first, and speak for what is computed from them.
	named := found[:0:0]
	for _, v := range found {
		if p, ok := v.(*ssa.Phi); ok && p.Comment != "" {
			named = append(named, v)
		}
	}
	if len(named) > 0 {
		return named
	}
	return found
}

// known reports whether a condition says what a value is where an instruction comes: the same in every round.
func known(v ssa.Value, at ssa.Instruction) bool {
	for _, ref := range *v.Referrers() {
		if c, ok := ref.(*ssa.If); ok && (c.Block().Succs[0].Dominates(at.Block()) || c.Block().Succs[1].Dominates(at.Block())) {
			return true
		}
	}
	return false
}

// varies reports whether values of a type are data.
func varies(t types.Type) bool {
	if isError(t) || isTask(t) || isFuture(t) {
		return false
	}
	switch t := t.Underlying().(type) {
	case *types.Interface:
		return !isContext(t)
	case *types.Signature, *types.Chan, *types.Tuple:
		return false
	case *types.Pointer:
		return false
	}
	return t.String() != "invalid type" && !isCoppice(t, "Option")
}

func isStruct(t types.Type) bool { _, ok := t.Underlying().(*types.Struct); return ok }

// invariants returns the values of a loop that are the same in every round.
func (f *function) invariants(l *loop) map[ssa.Value]bool {
	same := map[ssa.Value]bool{}
	written := map[*node]bool{}
	for _, c := range f.changes() {
		if l.blocks[c.in.Block()] {
			written[c.node.rep()] = true
		}
	}
	for _, s := range f.saves() {
		s.state.below(map[*node]bool{}, func(n *node) { written[n] = true })
		written[s.state.rep()] = true
	}
	is := func(v ssa.Value) bool {
		in, ok := v.(ssa.Instruction)
		return v == nil || !ok || !l.blocks[in.Block()] || same[v]
	}
	for changed := true; changed; {
		changed = false
		for b := range l.blocks {
			for _, in := range b.Instrs {
				v, ok := in.(ssa.Value)
				if !ok || same[v] {
					continue
				}
				switch x := v.(type) {
				case *ssa.Phi, *ssa.Next, *ssa.Select, *ssa.Alloc, *ssa.Range:
					continue
				case *ssa.UnOp:
					if x.Op == token.ARROW || x.Op == token.MUL && f.touched(written, x.X) {
						continue
					}
				case *ssa.Lookup:
					if written[f.unit.node(x.X).rep()] {
						continue
					}
				case *ssa.Call:
					if operationOf(x) != nil || f.called(x) != "" {
						continue
					}
					path, name := nameOf(callee(&x.Call))
					if _, ok := sourceOf(path, name); ok || x.Call.IsInvoke() || strideOf(path, name) {
						continue
					}
				}
				all := true
				for _, o := range in.Operands(nil) {
					all = all && (*o == nil || is(*o))
				}
				if all {
					same[v], changed = true, true
				}
			}
		}
	}
	return same
}

// strideOf reports whether every call of a function gives something new: a random generator's.
func strideOf(path, name string) bool {
	return path == "math/rand" || path == "math/rand/v2" || path == module && name == "Task.Rand"
}

// touched reports whether memory at an address, or what it is part of, is written.
func (f *function) touched(written map[*node]bool, addr ssa.Value) bool {
	if _, ok := addr.(*ssa.Global); ok {
		return false
	}
	n := f.unit.node(addr).rep()
	for i := 0; n != nil && i < 8; i++ {
		if written[n] {
			return true
		}
		if n.up == nil {
			break
		}
		n = n.up.rep()
	}
	return false
}

// usedAfter returns the instructions that use a value after another instruction, before the value is computed anew. The
// use by a phi is in the block that it comes from.
func (f *function) usedAfter(from ssa.Instruction, v ssa.Value) (users []ssa.Instruction) {
	refs := map[ssa.Instruction]bool{}
	for _, r := range *v.Referrers() {
		refs[r] = true
	}
	if len(refs) == 0 {
		return nil
	}
	seen := map[*ssa.BasicBlock]bool{}
	added := map[ssa.Instruction]bool{}
	var walk func(b *ssa.BasicBlock, at int)
	walk = func(b *ssa.BasicBlock, at int) {
		for _, in := range b.Instrs[at:] {
			if _, phi := in.(*ssa.Phi); !phi && refs[in] && !added[in] {
				added[in] = true
				users = append(users, in)
			}
			if in == v.(ssa.Instruction) {
				return
			}
		}
		for _, s := range b.Succs {
			for _, in := range s.Instrs {
				p, ok := in.(*ssa.Phi)
				if !ok {
					break
				}
				for i, pred := range s.Preds {
					if pred == b && p.Edges[i] == v && p != v && !added[p] {
						added[p] = true
						users = append(users, p)
					}
				}
			}
			if !seen[s] {
				seen[s] = true
				walk(s, 0)
			}
		}
	}
	walk(from.Block(), indexOf(from)+1)
	return users
}

// rewritten reports whether the memory of a value is written after a Save: then it may be no more than room.
func (f *function) rewritten(save ssa.Instruction, v ssa.Value) (yes bool) {
	n := f.unit.node(v).rep()
	follow(save, func(in ssa.Instruction) bool {
		if f.writesTo(in, v) {
			yes = true
		}
		if s, ok := in.(*ssa.Store); ok {
			if _, element := s.Addr.(*ssa.IndexAddr); element && f.unit.node(s.Addr).rep() == n {
				yes = true
			}
		}
		if call, ok := in.(ssa.CallInstruction); ok {
			if s := f.unit.p.called(call.Common()); s != nil {
				for _, ch := range s.Changes {
					if ch.To.Param < len(call.Common().Args) && call.Common().Args[ch.To.Param] == v {
						yes = true
					}
				}
			}
		}
		return !yes
	})
	return yes
}

// contents returns those of the uses of memory that read it.
func contents(users []ssa.Instruction, v ssa.Value) (reads []ssa.Instruction) {
	for _, use := range users {
		switch use := use.(type) {
		case *ssa.Slice:
			if n, ok := number(use.High); ok && n == 0 {
				continue
			}
		case *ssa.Store:
			if use.Val == v {
				if _, varargs := use.Addr.(*ssa.IndexAddr); !varargs {
					reads = append(reads, use)
				}
				continue
			}
		case *ssa.Call:
			if path, name := nameOf(callee(&use.Call)); path == module && name == "Into" {
				continue
			}
		case *ssa.MakeInterface:
			continue
		}
		reads = append(reads, use)
	}
	return reads
}

// nameFor returns the name of the variable that a value is assigned to.
func nameFor(v ssa.Value) string {
	switch v := v.(type) {
	case *ssa.Phi:
		if v.Comment != "" && v.Comment != "rangeindex" && v.Comment != "rangeint.iter" {
			return "variable " + v.Comment
		}
		return "the number of the round"
	case *ssa.Call:
		return "a value computed before Save"
	}
	if v.Referrers() != nil {
		for _, r := range *v.Referrers() {
			if p, ok := r.(*ssa.Phi); ok && p.Comment != "" {
				return "variable " + p.Comment
			}
		}
	}
	return "a value computed before Save"
}

// checkRand reports a generator that was asked for before a Save and is used after it.
func (f *function) checkRand(s saving, report reporter) {
	for _, b := range f.Blocks {
		for _, in := range b.Instrs {
			call, ok := in.(*ssa.Call)
			if !ok {
				continue
			}
			if path, name := nameOf(callee(&call.Call)); path != module || name != "Task.Rand" {
				continue
			}
			if f.mayFollow(call, s.in) && len(f.usedAfter(s.in, call)) > 0 {
				report(call.Pos(), "the result of Task.Rand is used after Save (%s), which begins new random numbers: a task that is run again draws others; call Task.Rand again after Save", f.unit.p.line(s.in.Pos()))
			}
		}
	}
}

func (f *function) mayFollow(a, b ssa.Instruction) (yes bool) {
	follow(a, func(in ssa.Instruction) bool {
		yes = yes || in == b
		return !yes
	})
	return yes
}

// not in the state.
