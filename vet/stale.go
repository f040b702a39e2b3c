package vet

import (
	"fmt"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/ssa"
)

// stale follows values that a task that is run again does not have.
type stale struct {
	f      *function
	s      saving
	values map[ssa.Value]bool
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
