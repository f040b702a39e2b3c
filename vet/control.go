package vet

import (
	"go/token"

	"golang.org/x/tools/go/ssa"
)

// A loop is a natural loop of a function.
type loop struct {
	header *ssa.BasicBlock
	blocks map[*ssa.BasicBlock]bool
}

func loopsOf(f *ssa.Function) (loops []*loop) {
	byHeader := map[*ssa.BasicBlock]*loop{}
	for _, b := range f.Blocks {
		for _, h := range b.Succs {
			if !h.Dominates(b) {
				continue
			}
			l := byHeader[h]
			if l == nil {
				l = &loop{header: h, blocks: map[*ssa.BasicBlock]bool{h: true}}
				byHeader[h] = l
				loops = append(loops, l)
			}
			stack := []*ssa.BasicBlock{b}
			for len(stack) > 0 {
				b := stack[len(stack)-1]
				stack = stack[:len(stack)-1]
				if !l.blocks[b] {
					l.blocks[b] = true
					stack = append(stack, b.Preds...)
				}
			}
		}
	}
	return loops
}

// innermost returns the smallest loop that contains a block, or nil.
func (f *function) innermost(b *ssa.BasicBlock) (found *loop) {
	for _, l := range f.loops {
		if l.blocks[b] && (found == nil || len(l.blocks) < len(found.blocks)) {
			found = l
		}
	}
	return found
}

// blocksMax is the size of a function beyond which its control is not examined.
const blocksMax = 1500

// controlOf returns for each block the conditions that decide whether it is reached, by postdominance, and theirs in turn.
// It takes for granted that nothing fails: what follows a check for an error does not depend on it.
func controlOf(f *ssa.Function) map[*ssa.BasicBlock][]*ssa.If {
	n := len(f.Blocks)
	control := map[*ssa.BasicBlock][]*ssa.If{}
	if n > blocksMax {
		return control
	}
	next := make([][]*ssa.BasicBlock, n) // of each block
	for i, b := range f.Blocks {
		next[i] = b.Succs
		if _, ok := last(b).(*ssa.If); ok && failing(b.Succs[0]) != failing(b.Succs[1]) {
			if next[i] = b.Succs[:1]; failing(b.Succs[0]) {
				next[i] = b.Succs[1:]
			}
		}
	}
	post := make([]map[int]bool, n) // the blocks that postdominate each
	all := map[int]bool{}
	for i := range n {
		all[i] = true
	}
	for i, b := range f.Blocks {
		if len(b.Succs) == 0 {
			post[i] = map[int]bool{i: true}
		} else {
			post[i] = all
		}
	}
	for changed := true; changed; {
		changed = false
		for i := n - 1; i >= 0; i-- {
			b := f.Blocks[i]
			if len(b.Succs) == 0 {
				continue
			}
			now := map[int]bool{i: true}
			for j := range post[next[i][0].Index] {
				in := true
				for _, s := range next[i][1:] {
					in = in && post[s.Index][j]
				}
				if in {
					now[j] = true
				}
			}
			if len(now) != len(post[i]) {
				post[i], changed = now, true
			}
		}
	}
	direct := map[*ssa.BasicBlock][]*ssa.BasicBlock{}
	for _, b := range f.Blocks {
		if _, ok := last(b).(*ssa.If); !ok {
			continue
		}
		for _, s := range next[b.Index] {
			for j := range post[s.Index] {
				if j != b.Index && post[b.Index][j] {
					continue
				}
				direct[f.Blocks[j]] = append(direct[f.Blocks[j]], b)
			}
		}
	}
	for _, b := range f.Blocks {
		seen := map[*ssa.BasicBlock]bool{}
		var visit func(b *ssa.BasicBlock)
		visit = func(at *ssa.BasicBlock) {
			for _, by := range direct[at] {
				if !seen[by] {
					seen[by] = true
					control[b] = append(control[b], last(by).(*ssa.If))
					visit(by)
				}
			}
		}
		visit(b)
	}
	return control
}

func last(b *ssa.BasicBlock) ssa.Instruction {
	if len(b.Instrs) == 0 {
		return nil
	}
	return b.Instrs[len(b.Instrs)-1]
}

// isCheck reports whether a condition only tells errors from success: it compares an error with nil, or one of its
// branches does nothing but fail.
func isCheck(c *ssa.If) bool {
	if errorCheck(c) {
		return true
	}
	for _, s := range c.Block().Succs {
		if failing(s) {
			return true
		}
	}
	return false
}

func errorCheck(c *ssa.If) bool {
	b, ok := c.Cond.(*ssa.BinOp)
	return ok && (b.Op == token.EQL || b.Op == token.NEQ) && isError(b.X.Type())
}

// errorBranch returns the number of the branch that is taken if the error is not nil.
func errorBranch(c *ssa.If) int {
	if c.Cond.(*ssa.BinOp).Op == token.NEQ {
		return 0
	}
	return 1
}

// failing reports whether all that follows is to return an error, or to panic.
func failing(b *ssa.BasicBlock) bool {
	for range 4 {
		for _, in := range b.Instrs {
			if call, ok := in.(ssa.CallInstruction); ok && operationOf(call) != nil {
				return false
			}
		}
		switch end := last(b).(type) {
		case *ssa.Panic:
			return true
		case *ssa.Return:
			if len(end.Results) == 0 {
				return false
			}
			err := end.Results[len(end.Results)-1]
			return isError(err.Type()) && failure(err, b)
		case *ssa.Jump:
			b = b.Succs[0]
			continue
		}
		return false
	}
	return false
}

// failure reports whether an error that a block returns is not nil: it is made there, or was compared with nil.
func failure(err ssa.Value, b *ssa.BasicBlock) bool {
	switch err := err.(type) {
	case *ssa.Const:
		return false
	case *ssa.MakeInterface:
		return true
	case *ssa.UnOp:
		if isGlobal(err.X) {
			return true
		}
	case *ssa.Call:
		path, _ := nameOf(callee(&err.Call))
		if path == "fmt" || path == "errors" || path == "context" {
			return true
		}
		for _, a := range err.Call.Args { // what wraps an error, but calls no operation
			if isError(a.Type()) && !hasTask(err.Call.Signature()) {
				return true
			}
		}
		if err.Block() == b {
			return false
		}
	}
	for ; len(b.Preds) == 1; b = b.Preds[0] {
		c, ok := last(b.Preds[0]).(*ssa.If)
		if !ok {
			continue
		}
		if !errorCheck(c) || b.Preds[0].Succs[errorBranch(c)] != b {
			continue
		}
		if x := c.Cond.(*ssa.BinOp).X; x == err || sameAddress(x, err) || isPart(err, x) {
			return true
		}
	}
	return false
}

// isPart reports whether an error may be another: a variable to which it is assigned.
func isPart(v, of ssa.Value) bool {
	p, ok := v.(*ssa.Phi)
	if !ok {
		return false
	}
	for _, e := range p.Edges {
		if e == of {
			return true
		}
	}
	return false
}

// conditions returns the conditions that decide whether a block is reached, without checks for errors.
func (f *function) conditions(b *ssa.BasicBlock) (found []*ssa.If) {
	for _, c := range f.control[b] {
		if !isCheck(c) {
			found = append(found, c)
		}
	}
	return found
}

// indexOf returns the place of an instruction in its block.
func indexOf(in ssa.Instruction) int {
	for i, other := range in.Block().Instrs {
		if other == in {
			return i
		}
	}
	return -1
}

// follow visits the instructions that may come after one, in its function, until visit returns false on a path.
func follow(from ssa.Instruction, visit func(ssa.Instruction) (on bool)) {
	seen := map[*ssa.BasicBlock]bool{}
	var walk func(b *ssa.BasicBlock, at int)
	walk = func(b *ssa.BasicBlock, at int) {
		for _, in := range b.Instrs[at:] {
			if !visit(in) {
				return
			}
		}
		for _, s := range b.Succs {
			if !seen[s] {
				seen[s] = true
				walk(s, 0)
			}
		}
	}
	walk(from.Block(), indexOf(from)+1)
}
