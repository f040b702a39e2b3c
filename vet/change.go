package vet

import (
	"go/token"

	"golang.org/x/tools/go/ssa"
)

// changed is an instruction that changes memory.
type changed struct {
	node *node
	base ssa.Value // by which the function knows the memory
	in   ssa.Instruction
	adds bool // depending on what was there
}

// changes returns what a function changes.
func (f *function) changes() (all []changed) {
	u := f.unit
	add := func(v ssa.Value, in ssa.Instruction, adds bool) {
		switch v.(type) {
		case *ssa.Const, *ssa.Function, *ssa.Global:
			return
		}
		all = append(all, changed{u.node(v), base(v), in, adds})
	}
	for _, b := range f.Blocks {
		for _, in := range b.Instrs {
			switch in := in.(type) {
			case *ssa.Store:
				if !variadicStore(in) {
					add(in.Addr, in, isAdded(in))
				}
			case *ssa.MapUpdate:
				add(in.Map, in, u.reads(in.Map))
			case ssa.CallInstruction:
				c := in.Common()
				path, name := nameOf(callee(c))
				switch {
				case isBuiltin(c, "copy", "clear", "delete"), changes(path, name):
					add(c.Args[0], in, false)
				default:
					s := u.p.called(c)
					if s == nil {
						continue
					}
					for _, ch := range s.Changes {
						if ch.To.Param < len(c.Args) {
							v := c.Args[ch.To.Param]
							switch v.(type) {
							case *ssa.Const, *ssa.Function, *ssa.Global:
								continue
							}
							all = append(all, changed{u.at(u.node(v), ch.To.Fields), base(v), in, ch.Adds})
						}
					}
				}
			}
		}
	}
	return all
}

// reads reports whether the unit looks anything up in a map.
func (u *unit) reads(m ssa.Value) bool {
	n := u.node(m)
	for _, f := range u.functions {
		for _, b := range f.Blocks {
			for _, in := range b.Instrs {
				switch in := in.(type) {
				case *ssa.Lookup:
					if u.node(in.X).rep() == n.rep() {
						return true
					}
				case *ssa.Range:
					if u.node(in.X).rep() == n.rep() {
						return true
					}
				}
			}
		}
	}
	return false
}

// base returns the value by which a function knows memory: that of which the address is a part.
func base(v ssa.Value) ssa.Value {
	for {
		switch x := v.(type) {
		case *ssa.FieldAddr:
			v = x.X
		case *ssa.IndexAddr:
			v = x.X
		case *ssa.Slice:
			v = x.X
		case *ssa.ChangeType:
			v = x.X
		case *ssa.MakeInterface:
			v = x.X
		case *ssa.UnOp:
			if x.Op != token.MUL {
				return v
			}
			v = x.X
		case *ssa.Call:
			if !isBuiltin(&x.Call, "append") {
				return v
			}
			v = x.Call.Args[0]
		default:
			return v
		}
	}
}

// sameMemory reports whether two values are views of the same memory, without variables between them that may have been
// assigned anew.
func sameMemory(a, b ssa.Value) bool {
	return view(a) == view(b) || sameAddress(view(a), view(b))
}

// view returns the memory of which a value is a part, as the function knows it.
func view(v ssa.Value) ssa.Value {
	for {
		switch x := v.(type) {
		case *ssa.IndexAddr:
			v = x.X
		case *ssa.Slice:
			v = x.X
		case *ssa.ChangeType:
			v = x.X
		case *ssa.MakeInterface:
			v = x.X
		default:
			return v
		}
	}
}

// writesTo reports whether an instruction changes memory that the function knows by a value.
func (f *function) writesTo(in ssa.Instruction, memory ssa.Value) bool {
	switch in := in.(type) {
	case *ssa.Store:
		at, ok := in.Addr.(*ssa.IndexAddr)
		return ok && sameMemory(at, memory)
	case *ssa.MapUpdate:
		return sameMemory(in.Map, memory)
	case ssa.CallInstruction:
		c := in.Common()
		path, name := nameOf(callee(c))
		if isBuiltin(c, "copy", "clear", "delete") || changes(path, name) {
			return sameMemory(c.Args[0], memory)
		}
		if isBuiltin(c, "append") {
			s, ok := c.Args[0].(*ssa.Slice) // into memory that is there
			return ok && sameMemory(s, memory)
		}
		if s := f.unit.p.called(c); s != nil {
			for _, ch := range s.Changes {
				if ch.To.Param < len(c.Args) && len(ch.To.Fields) == 0 && sameMemory(c.Args[ch.To.Param], memory) {
					return true
				}
			}
		}
	}
	return false
}
