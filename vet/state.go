package vet

import (
	"fmt"
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
			k := &stale{f: f, s: s, values: map[ssa.Value]bool{}, roots: map[ssa.Value]bool{}, l: l}
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

// stale follows values that a task that is run again does not have.
type stale struct {
	f      *function
	s      saving
	l      *loop
	values map[ssa.Value]bool
	roots  map[ssa.Value]bool
	at     ssa.Instruction // where it matters
	what   string
}

func (k *stale) mark(v ssa.Value) {
	if v == nil || k.values[v] || isError(v.Type()) {
		return
	}
	k.values[v] = true
	if v.Referrers() == nil {
		return
	}
	for _, r := range *v.Referrers() {
		k.use(r, v)
	}
}

func (k *stale) sink(in ssa.Instruction, format string, args ...any) {
	if k.at == nil {
		k.at, k.what = in, fmt.Sprintf(format, args...)
	}
}

// use follows a stale value into an instruction.
func (k *stale) use(in ssa.Instruction, v ssa.Value) {
	switch in := in.(type) {
	case *ssa.Return:
		k.sink(in, "what the function returns")
	case *ssa.If:
		if what := k.f.differs(in, true); what != "" {
			k.sink(in, "whether %s is called", what)
		}
		k.chosen(in)
	case *ssa.Store:
		if in.Val != v {
			if at, ok := in.Addr.(*ssa.IndexAddr); ok && at.Index == v && !variadic(at) {
				k.stored(in, at)
			}
			return
		}
		k.stored(in, in.Addr)
	case *ssa.MapUpdate:
		k.mark(base(in.Map))
	case *ssa.Send:
	case ssa.CallInstruction:
		k.call(in, v)
	case *ssa.Slice:
		if n, ok := number(in.High); ok && n == 0 {
			return
		}
		k.mark(in)
	case *ssa.IndexAddr:
		k.mark(in)
	case *ssa.MakeClosure:
	case ssa.Value:
		k.mark(in)
	}
}

// chosen follows a stale condition into the variables that its branches assign.
func (k *stale) chosen(c *ssa.If) {
	if isCheck(c) {
		return
	}
	for _, b := range k.f.Blocks {
		for _, in := range b.Instrs {
			p, ok := in.(*ssa.Phi)
			if !ok {
				break
			}
			if isError(p.Type()) || same(p.Edges) || k.f.headed(b) != nil {
				continue
			}
			for _, pred := range b.Preds {
				for _, by := range append(k.f.control[pred], ends(pred)...) {
					if by == c && (pred == c.Block() || !contains(k.f.control[b], c)) {
						k.mark(p)
					}
				}
			}
		}
	}
}

func ends(b *ssa.BasicBlock) []*ssa.If {
	if c, ok := last(b).(*ssa.If); ok {
		return []*ssa.If{c}
	}
	return nil
}

func contains(list []*ssa.If, c *ssa.If) bool {
	for _, other := range list {
		if other == c {
			return true
		}
	}
	return false
}

// stored follows a stale value into memory.
func (k *stale) stored(in ssa.Instruction, addr ssa.Value) {
	n := k.f.unit.node(addr).rep()
	for up, i := n, 0; up != nil && i < 8; i++ {
		if up == k.s.state.rep() {
			k.sink(in, "the state itself")
			return
		}
		if up.up == nil {
			break
		}
		up = up.up.rep()
	}
	for _, b := range k.f.Blocks {
		for _, other := range b.Instrs {
			if load, ok := other.(*ssa.UnOp); ok && load.Op == token.MUL && sameAddress(load.X, addr) {
				k.mark(load)
			}
		}
	}
	if at, ok := addr.(*ssa.IndexAddr); ok {
		k.mark(base(at))
	}
}

// call follows a stale value into a call.
func (k *stale) call(in ssa.CallInstruction, v ssa.Value) {
	if o := operationOf(in); o != nil {
		for _, d := range o.data {
			if d == v {
				k.sink(in, "what is passed to %s", o.name)
			}
		}
		return
	}
	c := in.Common()
	path, name := nameOf(callee(c))
	if prints(path, name) || path == module || path == "fmt" && len(name) > 5 && name[:6] == "Fprint" {
		return
	}
	if s := k.f.unit.p.called(c); s != nil {
		for _, sink := range s.Sinks {
			if sink.Input < len(s.Inputs) && s.Inputs[sink.Input].Param < len(c.Args) && c.Args[s.Inputs[sink.Input].Param] == v {
				k.sink(in, "what %s passes to %s", name, sink.What)
			}
		}
	}
	if result := resultOf(in); result != nil {
		k.mark(result)
		if _, tuple := result.Type().(*types.Tuple); tuple {
			for _, r := range *result.Referrers() {
				if e, ok := r.(*ssa.Extract); ok {
					k.mark(e)
				}
			}
		}
	}
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

// checkMemory reports memory that was made before the loop of a Save, is changed in it depending on what was there, and is
// not in the state.
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
		k := &stale{f: f, s: s, l: l, values: map[ssa.Value]bool{}, roots: map[ssa.Value]bool{}}
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
						k.call(in, a)
					}
				}
			}
		}
	}
}

func isGlobal(v ssa.Value) bool { _, ok := v.(*ssa.Global); return ok }
