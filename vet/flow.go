package vet

import (
	"fmt"
	"go/token"
	"go/types"
	"path/filepath"

	"golang.org/x/tools/go/ssa"
)

// stepsMax bounds how often the instructions of a unit are gone through.
const stepsMax = 25

// solve finds what the values of a unit depend on.
func (u *unit) solve() {
	for range stepsMax {
		u.changed = false
		for _, f := range u.functions {
			for _, b := range f.Blocks {
				for _, in := range b.Instrs {
					u.step(f, in)
				}
			}
		}
		if !u.changed {
			return
		}
	}
}

// why says what a source is, and where.
func (p *program) why(what string, pos token.Pos) string {
	at := p.pass.Fset.Position(pos)
	return fmt.Sprintf("%s, %s:%d", what, filepath.Base(at.Filename), at.Line)
}

// pass hands a value on: memory is the same memory, anything else depends on it.
func (u *unit) pass(to, from ssa.Value) {
	if refers(to.Type()) && refers(from.Type()) {
		u.same(to, from)
		return
	}
	u.add(to, u.allOf(from))
}

func (u *unit) step(f *function, in ssa.Instruction) {
	switch in := in.(type) {
	case *ssa.Phi:
		u.phi(f, in)
	case *ssa.UnOp:
		u.unary(f, in)
	case *ssa.BinOp:
		u.add(in, joined(u.of(in.X), u.of(in.Y)))
		u.accumulate(f, in)
	case *ssa.Store:
		u.store(f, in)
	case *ssa.FieldAddr:
		if _, ok := in.X.(*ssa.Global); !ok {
			u.unify(u.node(in), u.field(u.node(in.X), in.Field))
		}
	case *ssa.Field:
		u.unify(u.node(in), u.field(u.node(in.X), in.Field))
	case *ssa.IndexAddr:
		u.same(in, in.X)
	case *ssa.Index:
		u.pass(in, in.X)
		u.add(in, u.of(in.Index))
	case *ssa.Lookup:
		u.lookup(in)
	case *ssa.MapUpdate:
		key, value := u.allOf(in.Key), u.allOf(in.Value)
		if value.has(1<<element) && !key.has(1<<element) {
			value.join(source(order, value.why[element]))
		}
		if refers(in.Value.Type()) {
			u.same(in.Map, in.Value)
		}
		u.add(in.Map, joined(key, value, u.implicit(f, in.Block())).without(1<<element))
	case *ssa.Convert:
		u.pass(in, in.X)
	case *ssa.MultiConvert:
		u.pass(in, in.X)
	case *ssa.ChangeType:
		u.pass(in, in.X)
	case *ssa.ChangeInterface:
		u.pass(in, in.X)
	case *ssa.MakeInterface:
		u.pass(in, in.X)
	case *ssa.SliceToArrayPointer:
		u.pass(in, in.X)
	case *ssa.Slice:
		u.pass(in, in.X)
	case *ssa.TypeAssert:
		if in.CommaOk {
			u.unify(u.field(u.node(in), 0), u.node(in.X))
		} else {
			u.pass(in, in.X)
		}
	case *ssa.Extract:
		n := u.field(u.node(in.Tuple), in.Index)
		if refers(in.Type()) {
			u.unify(u.node(in), n)
		} else {
			u.add(in, n.read())
			u.add(in, u.tupleOwn(in.Tuple))
		}
	case *ssa.MakeClosure:
		for i, b := range in.Bindings {
			u.same(in.Fn.(*ssa.Function).FreeVars[i], b)
		}
	case *ssa.Range:
		u.same(in, in.X)
	case *ssa.Next:
		u.next(in)
	case *ssa.Select:
		u.selected(in)
	case *ssa.Send:
		if g := f.goroutine(); g != nil && g.many {
			u.node(in.Chan).mixed = true
		}
		u.pass(in.Chan, in.X)
		u.add(in.Chan, u.of(in.X))
	case *ssa.Return:
		for i, v := range in.Results {
			if i >= len(f.results) {
				break
			}
			t := u.leaving(f, v, in.Block())
			if refers(v.Type()) {
				if !u.allOf(v).has(1 << element) {
					t = taint{}
				}
				switch v.(type) {
				case *ssa.Const, *ssa.Function, *ssa.Global:
				default:
					u.unify(f.results[i], u.node(v))
				}
			}
			if !isError(v.Type()) {
				t.join(u.implicit(f, in.Block()))
			}
			if f.results[i].rep().taint.join(t.without(1 << element)) {
				u.changed = true
			}
		}
	case ssa.CallInstruction:
		u.call(f, in)
	}
}

// tupleOwn is the taint of a tuple that is not one of its parts'.
func (u *unit) tupleOwn(v ssa.Value) taint { return u.node(v).rep().taint }

func (u *unit) phi(f *function, in *ssa.Phi) {
	if isError(in.Type()) {
		return
	}
	l := f.headed(in.Block())
	for i, e := range in.Edges {
		if refers(in.Type()) {
			u.same(in, e)
			continue
		}
		t := u.leavingBy(f, e, in.Block().Preds[i], in.Block())
		if l != nil {
			if t.has(1<<element) && l.blocks[in.Block().Preds[i]] && !compared(in, e, l) && !isSum(e, in) {
				t.join(source(order, t.why[element]))
			}
			t = t.without(1 << element)
		}
		u.add(in, t)
	}
	if l != nil {
		for b := range l.blocks { // how often the loop runs decides what it leaves
			c, ok := last(b).(*ssa.If)
			if ok && !isCheck(c) && (!l.blocks[b.Succs[0]] || !l.blocks[b.Succs[1]]) {
				u.add(in, u.of(c.Cond).without(1<<element|1<<size))
			}
		}
		return
	}
	if same(in.Edges) {
		return
	}
	own := map[*ssa.If]bool{}
	for _, c := range f.control[in.Block()] {
		own[c] = true
	}
	for _, pred := range in.Block().Preds {
		conds := f.conditions(pred)
		if c, ok := last(pred).(*ssa.If); ok && !isCheck(c) {
			conds = append(conds[:len(conds):len(conds)], c)
		}
		for _, c := range conds {
			if !own[c] || c.Block() == pred {
				u.add(in, u.of(c.Cond).without(1<<element))
			}
		}
	}
}

func same(values []ssa.Value) bool {
	for _, v := range values[1:] {
		if v != values[0] {
			return false
		}
	}
	return true
}

// headed returns the loop that a block is the header of, or nil.
func (f *function) headed(b *ssa.BasicBlock) *loop {
	for _, l := range f.loops {
		if l.header == b {
			return l
		}
	}
	return nil
}

func isBuiltin(c *ssa.CallCommon, names ...string) bool {
	b, ok := c.Value.(*ssa.Builtin)
	if !ok {
		return false
	}
	for _, name := range names {
		if b.Name() == name {
			return true
		}
	}
	return false
}

// implicit is the taint of the conditions under which a block is reached.
func (u *unit) implicit(f *function, b *ssa.BasicBlock) (t taint) {
	for _, c := range f.conditions(b) {
		t.join(u.of(c.Cond))
	}
	return t.without(1<<element | 1<<size)
}

func (u *unit) unary(f *function, in *ssa.UnOp) {
	switch in.Op {
	case token.ARROW:
		u.receive(f, in)
	case token.MUL:
		if g, ok := in.X.(*ssa.Global); ok {
			u.add(in, u.globals(g))
			return
		}
		u.pass(in, in.X)
		if at, ok := in.X.(*ssa.IndexAddr); ok && !refers(in.Type()) {
			u.add(in, u.of(at.Index))
		}
	default:
		u.add(in, u.of(in.X))
	}
}

// receive is what comes out of a channel.
func (u *unit) receive(f *function, in *ssa.UnOp) {
	to := u.node(in)
	if in.CommaOk {
		to = u.field(to, 0)
	}
	elem := in.Type()
	if tuple, ok := elem.(*types.Tuple); ok {
		elem = tuple.At(0).Type()
	}
	if refers(elem) {
		u.unify(to, u.node(in.X))
		to = u.node(in)
	}
	t := u.allOf(in.X)
	if u.node(in.X).mixed {
		kind := race
		if f.innermost(in.Block()) != nil {
			kind = element
		}
		t.join(source(kind, u.p.why("a channel to which several goroutines send", in.Pos())))
	}
	if to.rep().taint.join(t) {
		u.changed = true
	}
}

func (u *unit) lookup(in *ssa.Lookup) {
	to := u.node(in)
	t := joined(u.allOf(in.X), u.of(in.Index))
	elem := in.Type()
	if in.CommaOk {
		to, elem = u.field(to, 0), elem.(*types.Tuple).At(0).Type()
	}
	if refers(elem) {
		u.unify(to, u.node(in.X))
		return
	}
	if to.rep().taint.join(t) {
		u.changed = true
	}
}

// next is a key and a value of a map, in a loop.
func (u *unit) next(in *ssa.Next) {
	if in.IsString {
		u.add(in, u.of(in.Iter))
		return
	}
	it, ok := in.Iter.(*ssa.Range)
	if !ok {
		return
	}
	parts := in.Type().(*types.Tuple) // also of a map of a type parameter
	t := joined(u.allOf(it.X).without(1<<element), source(element, u.p.why("a loop over a map", it.Pos())))
	for i, typ := range []types.Type{parts.At(1).Type(), parts.At(2).Type()} {
		n := u.field(u.node(in), 1+i)
		if refers(typ) && i == 1 {
			// elements that are memory are taken for the map: they are no news
			n2 := u.node(it.X)
			if n.rep().taint.join(n2.deep()) {
				u.changed = true
			}
		}
		if n.rep().taint.join(t) {
			u.changed = true
		}
	}
}

// selected is what a select chose.
func (u *unit) selected(in *ssa.Select) {
	choices := 0
	for _, s := range in.States {
		if s.Dir != types.RecvOnly || !isDone(s.Chan) {
			choices++
		}
	}
	if !in.Blocking {
		choices++
	}
	if choices > 1 {
		u.add(in, source(race, u.p.why("select", in.Pos())))
	}
	n := 2
	for _, s := range in.States {
		if s.Dir == types.RecvOnly {
			to := u.field(u.node(in), n)
			if to.rep().taint.join(u.allOf(s.Chan)) {
				u.changed = true
			}
			n++
		}
	}
}

// isDone reports whether a channel is that of a context.
func isDone(v ssa.Value) bool {
	c, ok := v.(*ssa.Call)
	if !ok {
		return false
	}
	path, name := nameOf(callee(c.Common()))
	return path == "context" && name == "Context.Done"
}

func (u *unit) store(f *function, in *ssa.Store) {
	t := u.allOf(in.Val)
	if isError(in.Val.Type()) {
		return
	}
	if t.has(1 << element) {
		switch at := in.Addr.(type) {
		case *ssa.IndexAddr:
			if !u.of(at.Index).has(1<<element) && !variadic(at) {
				t.join(source(order, t.why[element]))
			}
		case *ssa.Alloc, *ssa.FreeVar, *ssa.FieldAddr:
			if l := f.innermost(in.Block()); l != nil && !isAdded(in) && !comparedInMemory(in, l) && declaredOutside(in.Addr, l) {
				t.join(source(order, t.why[element]))
			}
		}
	}
	if !variadicStore(in) && !f.makes(in) {
		t = t.without(1 << element)
	}
	if g, ok := in.Addr.(*ssa.Global); ok {
		u.count(f, g, in)
		return
	}
	if at, ok := in.Addr.(*ssa.IndexAddr); ok {
		t.join(u.of(at.Index).without(1 << element))
	}
	if refers(in.Val.Type()) {
		u.same(in.Addr, in.Val)
		t = t.only(1<<element | t.mask&(1<<order)) // the rest is the same memory
		if !madeOrder(t, u.allOf(in.Val)) {
			t = t.without(1 << order)
		}
	}
	u.add(in.Addr, t)
	if !variadicStore(in) {
		u.add(in.Addr, u.implicit(f, in.Block()))
	}
}

// variadic reports whether memory is the array of the arguments of one call.
func variadic(at *ssa.IndexAddr) bool {
	a, ok := at.X.(*ssa.Alloc)
	return ok && a.Comment == "varargs"
}

func variadicStore(in *ssa.Store) bool {
	at, ok := in.Addr.(*ssa.IndexAddr)
	return ok && variadic(at)
}

// globals is the taint of a package variable.
func (u *unit) globals(g *ssa.Global) taint {
	if g.Pkg != nil && g.Pkg.Pkg.Path() == "os" && g.Name() == "Stdin" {
		return source(outside, "os.Stdin")
	}
	return u.p.counted[g]
}

// count notes that a task changes a package variable depending on what it was.
func (u *unit) count(f *function, g *ssa.Global, in *ssa.Store) {
	if !f.ofTask() || f.inOnce() {
		return
	}
	added := false
	var from func(v ssa.Value, depth int)
	from = func(v ssa.Value, depth int) {
		if depth > 4 || added {
			return
		}
		switch v := v.(type) {
		case *ssa.UnOp:
			added = added || v.X == g
		case *ssa.BinOp:
			from(v.X, depth+1)
			from(v.Y, depth+1)
		case *ssa.Call:
			if isBuiltin(&v.Call, "append") {
				from(v.Call.Args[0], depth+1)
			}
		}
	}
	from(in.Val, 0)
	t := u.p.counted[g]
	if added && t.join(source(global, u.p.why(g.Name(), in.Pos()))) {
		u.p.counted[g] = t
		u.changed = true
	}
}
