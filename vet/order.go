package vet

import (
	"go/token"
	"go/types"

	"golang.org/x/tools/go/ssa"
)

// compared reports whether the loop compares a value with the variable that it is assigned to: the largest of a map does
// not depend on the order.
func compared(variable *ssa.Phi, v ssa.Value, l *loop) bool {
	sources := map[ssa.Value]bool{variable: true}
	var trace func(v ssa.Value)
	trace = func(v ssa.Value) {
		if sources[v] {
			return
		}
		sources[v] = true
		if p, ok := v.(*ssa.Phi); ok && l.blocks[p.Block()] {
			for _, e := range p.Edges {
				trace(e)
			}
		}
	}
	trace(v)
	for b := range l.blocks {
		for _, in := range b.Instrs {
			if c, ok := in.(*ssa.BinOp); ok && comparison(c.Op) && sources[c.X] && sources[c.Y] {
				return true
			}
			if c, ok := in.(*ssa.Call); ok { // min, max, cmp.Compare
				all := len(c.Call.Args) > 1
				for _, a := range c.Call.Args {
					all = all && sources[a]
				}
				if all || sources[c] && isBuiltin(&c.Call, "min", "max") {
					return true
				}
			}
		}
	}
	return false
}

func comparison(op token.Token) bool {
	switch op {
	case token.LSS, token.LEQ, token.GTR, token.GEQ, token.EQL, token.NEQ:
		return true
	}
	return false
}

// isSum reports whether a value comes of its variable by exact arithmetic, whose order makes no difference.
func isSum(v ssa.Value, variable *ssa.Phi) bool {
	seen := map[ssa.Value]bool{}
	var is func(v ssa.Value) bool
	is = func(v ssa.Value) bool {
		if v == variable || seen[v] {
			return true
		}
		seen[v] = true
		switch v := v.(type) {
		case *ssa.BinOp:
			return true // sums of floats and strings are seen where they are made
		case *ssa.Phi:
			for _, e := range v.Edges {
				if !is(e) {
					return false
				}
			}
			return true
		case *ssa.Const:
			return true
		case *ssa.Call:
			return isBuiltin(&v.Call, "append", "min", "max")
		}
		return false
	}
	return is(v)
}

// accumulate sees sums of floats and strings in the order of a map.
func (u *unit) accumulate(f *function, in *ssa.BinOp) {
	basic, ok := in.Type().Underlying().(*types.Basic)
	if !ok || basic.Info()&(types.IsFloat|types.IsComplex|types.IsString) == 0 || comparison(in.Op) {
		return
	}
	for _, pair := range [][2]ssa.Value{{in.X, in.Y}, {in.Y, in.X}} {
		t := u.of(pair[0])
		if !t.has(1 << element) {
			if g := f.goroutine(); g != nil && g.many && g.started != "coppice.Go" && carries(pair[1], in) && captured(pair[1]) {
				t = source(element, u.p.why("goroutines", in.Pos()))
			} else {
				continue
			}
		}
		if carries(pair[1], in) {
			u.add(in, source(order, t.why[element]))
		}
	}
}

// carries reports whether a value is that of a variable to which the result is assigned.
func carries(v ssa.Value, result ssa.Value) bool {
	switch v := v.(type) {
	case *ssa.Phi:
		seen := map[ssa.Value]bool{}
		var reaches func(v ssa.Value) bool
		reaches = func(x ssa.Value) bool {
			if x == result {
				return true
			}
			p, ok := x.(*ssa.Phi)
			if !ok || seen[p] {
				return false
			}
			seen[p] = true
			for _, e := range p.Edges {
				if reaches(e) {
					return true
				}
			}
			return false
		}
		return reaches(v)
	case *ssa.UnOp:
		if v.Op != token.MUL {
			return false
		}
		if at, ok := v.X.(*ssa.IndexAddr); ok {
			if _, constant := at.Index.(*ssa.Const); !constant {
				return false // another element for each
			}
		}
		for _, ref := range *result.Referrers() {
			if s, ok := ref.(*ssa.Store); ok && sameAddress(s.Addr, v.X) {
				return true
			}
		}
	}
	return false
}

// captured reports whether a value is loaded from a variable of the function around a literal.
func captured(v ssa.Value) bool {
	load, ok := v.(*ssa.UnOp)
	if !ok {
		return false
	}
	_, free := load.X.(*ssa.FreeVar)
	return free
}

func sameAddress(a, b ssa.Value) bool {
	if a == b {
		return true
	}
	switch x := a.(type) {
	case *ssa.FieldAddr:
		y, ok := b.(*ssa.FieldAddr)
		return ok && x.Field == y.Field && sameAddress(x.X, y.X)
	case *ssa.IndexAddr:
		y, ok := b.(*ssa.IndexAddr)
		return ok && sameAddress(x.X, y.X) && (x.Index == y.Index || sameAddress(x.Index, y.Index))
	case *ssa.UnOp:
		y, ok := b.(*ssa.UnOp)
		return ok && x.Op == token.MUL && y.Op == token.MUL && sameAddress(x.X, y.X)
	case *ssa.Const:
		y, ok := b.(*ssa.Const)
		return ok && x.Value != nil && y.Value != nil && x.Value.ExactString() == y.Value.ExactString()
	}
	return false
}

// leaving is the taint of a value in a block: an element that leaves its loop by a break that nothing guards is that
// which happened to come first.
func (u *unit) leaving(f *function, v ssa.Value, b *ssa.BasicBlock) taint {
	return u.leavingBy(f, v, b, b)
}

func (u *unit) leavingBy(f *function, v ssa.Value, by, to *ssa.BasicBlock) taint {
	t := u.allOf(v)
	in, ok := v.(ssa.Instruction)
	if !t.has(1<<element) || !ok || in.Block() == nil {
		return t
	}
	l := f.innermost(in.Block())
	if e, ok := v.(*ssa.Extract); l == nil && ok {
		if _, ok := e.Tuple.(*ssa.Next); ok { // a loop that has no second round
			t.join(source(order, t.why[element]))
		}
	}
	if l == nil || l.blocks[to] {
		return t
	}
	for _, c := range f.control[by] {
		if l.blocks[c.Block()] && c.Block() != l.header {
			return t
		}
	}
	if c, ok := last(by).(*ssa.If); ok && by != l.header && c != nil {
		return t
	}
	t.join(source(order, t.why[element]))
	return t
}

// isAdded reports whether what is stored is computed from what was there.
func isAdded(in *ssa.Store) bool {
	b, ok := in.Val.(*ssa.BinOp)
	if !ok {
		c, ok := in.Val.(*ssa.Call)
		return ok && isBuiltin(&c.Call, "append", "min", "max")
	}
	for _, v := range []ssa.Value{b.X, b.Y} {
		if load, ok := v.(*ssa.UnOp); ok && sameAddress(load.X, in.Addr) {
			return true
		}
	}
	return false
}

func comparedInMemory(in *ssa.Store, l *loop) bool {
	for b := range l.blocks {
		for _, other := range b.Instrs {
			c, ok := other.(*ssa.BinOp)
			if !ok || !comparison(c.Op) {
				continue
			}
			for _, v := range []ssa.Value{c.X, c.Y} {
				if load, ok := v.(*ssa.UnOp); ok && sameAddress(load.X, in.Addr) {
					return true
				}
			}
		}
	}
	return false
}

func declaredOutside(addr ssa.Value, l *loop) bool {
	for {
		switch a := addr.(type) {
		case *ssa.FieldAddr:
			addr = a.X
			continue
		case *ssa.Alloc:
			return !l.blocks[a.Block()]
		}
		return true
	}
}

// madeOrder reports whether a taint has the order of a map that a value does not have.
func madeOrder(t, of taint) bool { return t.has(1<<order) && !of.has(1<<order) }

// makes reports whether a store fills a field of a struct that is made in the same round of a loop.
func (f *function) makes(in *ssa.Store) bool {
	at, ok := in.Addr.(*ssa.FieldAddr)
	if !ok {
		return false
	}
	a, ok := at.X.(*ssa.Alloc)
	l := f.innermost(in.Block())
	return ok && l != nil && l.blocks[a.Block()]
}
