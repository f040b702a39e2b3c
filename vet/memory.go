package vet

import (
	"go/types"

	"golang.org/x/tools/go/ssa"
)

// A node is the memory that a value refers to, or a value itself. Nodes that may be the same memory are joined; fields
// of structs have nodes of their own.
type node struct {
	forward *node
	taint   taint
	up      *node // of which this is a field
	index   int
	fields  map[int]*node
	input   int // this is input number input-1 of the function; 0: of none
	depth   int // of fields below the parameter
	param   int // of the function, where input > 0
	sorted  bool
	mixed   bool // a channel to which several goroutines send
}

func (n *node) rep() *node {
	for n.forward != nil {
		if n.forward.forward != nil {
			n.forward = n.forward.forward
		}
		n = n.forward
	}
	return n
}

// read returns the taint of a node, with that of what it is part of.
func (n *node) read() taint {
	n = n.rep()
	t := n.taint
	seen := 0
	for up := n.up; up != nil && seen < 8; seen++ {
		up = up.rep()
		above := up.taint
		if up.input > 0 {
			above.mask &^= 1 << (inputShift + up.input - 1)
		}
		t.join(above)
		up = up.up
	}
	if n.sorted {
		t.mask &^= 1 << order
	}
	return t
}

// deep returns the taint of a node with that of all its fields.
func (n *node) deep() taint {
	t := n.read()
	n.below(map[*node]bool{}, func(f *node) {
		u := f.taint
		if f.sorted {
			u.mask &^= 1 << order
		}
		t.join(u)
	})
	return t
}

func (n *node) below(seen map[*node]bool, visit func(*node)) {
	n = n.rep()
	if seen[n] {
		return
	}
	seen[n] = true
	for _, f := range n.fields {
		visit(f.rep())
		f.below(seen, visit)
	}
}

// inputMax is how many inputs of a function the analysis follows one by one.
const inputMax = 64 - inputShift

// field returns the node of a field.
func (u *unit) field(n *node, index int) *node {
	n = n.rep()
	if f := n.fields[index]; f != nil {
		return f.rep()
	}
	f := &node{up: n, index: index}
	if n.fields == nil {
		n.fields = map[int]*node{}
	}
	n.fields[index] = f
	if n.input > 0 && n.depth < 2 {
		u.addInput(f, append(append([]int(nil), u.inputs[n.input-1].Fields...), index), n.param)
		f.depth = n.depth + 1
	}
	return f
}

// addInput makes a node an input of the unit's function.
func (u *unit) addInput(n *node, fields []int, param int) {
	if len(u.inputs) >= inputMax {
		return
	}
	u.inputs = append(u.inputs, input{Param: param, Fields: fields})
	n.input, n.param = len(u.inputs), param
	n.taint.mask |= 1 << (inputShift + len(u.inputs) - 1)
}

// unify joins two nodes.
func (u *unit) unify(a, b *node) {
	a, b = a.rep(), b.rep()
	if a == b {
		return
	}
	u.changed = true
	if b.input > 0 && a.input == 0 {
		a, b = b, a
	}
	b.forward = a
	a.taint.join(b.taint)
	a.sorted = a.sorted || b.sorted
	a.mixed = a.mixed || b.mixed
	if a.up == nil && (b.up == nil || b.up.rep() != a) {
		a.up, a.index = b.up, b.index
	}
	for i, f := range b.fields {
		if g := a.fields[i]; g != nil {
			u.unify(g, f)
			a = a.rep()
		} else {
			if a.fields == nil {
				a.fields = map[int]*node{}
			}
			a.fields[i] = f
			f.rep().up = a
		}
	}
}

// node returns the node of a value.
func (u *unit) node(v ssa.Value) *node {
	if n := u.nodes[v]; n != nil {
		return n.rep()
	}
	n := &node{}
	u.nodes[v] = n
	return n
}

// of returns the taint of a value.
func (u *unit) of(v ssa.Value) taint {
	switch v := v.(type) {
	case nil, *ssa.Const, *ssa.Function, *ssa.Builtin:
		return taint{}
	case *ssa.Global:
		return u.globals(v)
	}
	return u.node(v).read()
}

// allOf returns the taint of a value and of the memory that it refers to.
func (u *unit) allOf(v ssa.Value) taint {
	switch v.(type) {
	case nil, *ssa.Const, *ssa.Function, *ssa.Builtin, *ssa.Global:
		return u.of(v)
	}
	return u.node(v).deep()
}

// add gives a value a taint.
func (u *unit) add(v ssa.Value, t taint) {
	if t.mask == 0 {
		return
	}
	switch v.(type) {
	case *ssa.Const, *ssa.Function, *ssa.Builtin, *ssa.Global:
		return
	}
	if u.node(v).taint.join(t) {
		u.changed = true
	}
}

// same joins the memory of two values, if they refer to any.
func (u *unit) same(a, b ssa.Value) {
	for _, v := range []ssa.Value{a, b} {
		switch v.(type) {
		case nil, *ssa.Const, *ssa.Function, *ssa.Builtin, *ssa.Global:
			return
		}
	}
	u.unify(u.node(a), u.node(b))
}

// refers reports whether values of a type refer to memory, or are made of parts.
func refers(t types.Type) bool {
	switch t := t.Underlying().(type) {
	case *types.Basic:
		return false
	case *types.Interface:
		return !isError(t)
	case *types.Signature:
		return false
	}
	return !isError(t)
}

var errorType = types.Universe.Lookup("error").Type()

func isError(t types.Type) bool { return types.Identical(t.Underlying(), errorType.Underlying()) }
