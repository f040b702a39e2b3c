package vet

import (
	"go/token"
	"sort"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// checkPartners reports operations of all tasks that only some tasks call, since whether they are called depends on the
// rank or on a result that differs between tasks.
func checkPartners(f *function, report reporter) {
	if f.inOnce() {
		return
	}
	u := f.unit
	for _, c := range f.branches() {
		t := u.of(c.Cond)
		kind, ok := t.first(uneven)
		if !ok || f.exits(c) && !t.has(uneven&^(1<<size)) {
			continue
		}
		if what := f.differ(c); what != "" {
			report(condPos(c), "whether %s is called depends on %s: tasks that do not call it leave the others waiting; have all tasks of the group call the same operations", what, t.say(kind))
		}
	}
	for _, b := range f.Blocks {
		for _, in := range b.Instrs {
			call, ok := in.(ssa.CallInstruction)
			if !ok {
				continue
			}
			s := u.p.called(call.Common())
			if s == nil {
				continue
			}
			for _, k := range s.Uneven {
				if t := u.given(s, k, call.Common().Args); t.has(uneven) {
					kind, _ := t.first(uneven)
					report(call.Pos(), "which operations %s calls depends on %s: tasks that do not call them leave the others waiting; have all tasks of the group call the same operations",
						callee(call.Common()).Name(), t.say(kind))
				}
			}
		}
	}
}

// branches returns the conditions of a function that are no checks for errors.
func (f *function) branches() (found []*ssa.If) {
	if len(f.control) == 0 && len(f.Blocks) > blocksMax {
		return nil
	}
	for _, b := range f.Blocks {
		if c, ok := last(b).(*ssa.If); ok && !isCheck(c) {
			found = append(found, c)
		}
	}
	return found
}

func condPos(c *ssa.If) token.Pos {
	if v, ok := c.Cond.(ssa.Instruction); ok && v.Pos().IsValid() {
		return v.Pos()
	}
	for b := c.Block(); b != nil; b = b.Idom() {
		for i := len(b.Instrs) - 1; i >= 0; i-- {
			if b.Instrs[i].Pos().IsValid() {
				return b.Instrs[i].Pos()
			}
		}
	}
	return c.Parent().Pos()
}

// exits reports whether a condition decides if a loop goes on.
func (f *function) exits(c *ssa.If) bool { return f.left(c) != nil }

// left returns the largest loop that a condition may leave.
func (f *function) left(c *ssa.If) (found *loop) {
	b := c.Block()
	for _, l := range f.loops {
		if l.blocks[b] && (!l.blocks[b.Succs[0]] || !l.blocks[b.Succs[1]]) && (found == nil || len(l.blocks) > len(found.blocks)) {
			found = l
		}
	}
	return found
}

// differ names an operation of all tasks that one branch of a condition calls and the other does not, or returns "".
func (f *function) differ(c *ssa.If) string { return f.differs(c, false) }

// differs is differ, with messages and the operations of groups if all counts.
func (f *function) differs(c *ssa.If, all bool) string {
	if l := f.left(c); l != nil {
		for _, b := range f.Blocks {
			if !l.blocks[b] {
				continue
			}
			if names := f.sequence(b, all); len(names) > 0 {
				return names[0]
			}
		}
		return f.exitsDiffer(l, all)
	}
	w := walker{f: f, all: all, stop: c.Block(), found: map[*ssa.BasicBlock]map[string]bool{}, on: map[*ssa.BasicBlock]bool{}}
	one, two := w.sequences(c.Block().Succs[0]), w.sequences(c.Block().Succs[1])
	if w.many {
		return ""
	}
	return difference(one, two)
}

// exitsDiffer names an operation that follows one way out of a loop and not another, or returns "".
func (f *function) exitsDiffer(l *loop, all bool) string {
	var first map[string]bool
	for _, b := range f.Blocks {
		for _, s := range b.Succs {
			if c, ok := last(b).(*ssa.If); !l.blocks[b] || l.blocks[s] || ok && errorCheck(c) || failing(s) {
				continue
			}
			w := walker{f: f, all: all, stop: l.header, found: map[*ssa.BasicBlock]map[string]bool{}, on: map[*ssa.BasicBlock]bool{}}
			set := w.sequences(s)
			if w.many {
				return ""
			}
			if first == nil {
				first = set
			} else if what := difference(first, set); what != "" {
				return what
			}
		}
	}
	return ""
}

// difference names an operation that is in the sequences of one set and not in those of the other.
func difference(one, two map[string]bool) string {
	var names []string
	for i, set := range []map[string]bool{one, two} {
		other := two
		if i == 1 {
			other = one
		}
		for s := range set {
			if !other[s] {
				names = append(names, s)
			}
		}
	}
	if len(names) == 0 || len(one) == 0 || len(two) == 0 {
		return ""
	}
	sort.Slice(names, func(i, j int) bool {
		if len(names[i]) != len(names[j]) {
			return len(names[i]) > len(names[j])
		}
		return names[i] < names[j]
	})
	for _, name := range strings.Split(names[0], separator) {
		if name != "" && name != again {
			return name
		}
	}
	return ""
}

// again stands for another round of a loop in a sequence of operations.
const again = "again"

// separator is between the operations of a sequence.
const separator = "\n"

// walker finds the sequences of operations that may follow.
type walker struct {
	f     *function
	all   bool
	stop  *ssa.BasicBlock
	found map[*ssa.BasicBlock]map[string]bool
	on    map[*ssa.BasicBlock]bool
	many  bool // too many to compare
}

// sequencesMax bounds how many sequences are compared.
const sequencesMax = 64

func (w *walker) sequences(b *ssa.BasicBlock) map[string]bool {
	if b == w.stop || w.on[b] {
		return map[string]bool{again: true}
	}
	if s := w.found[b]; s != nil {
		return s
	}
	own := strings.Join(w.f.sequence(b, w.all), separator)
	next := b.Succs
	if c, ok := last(b).(*ssa.If); ok {
		switch {
		case errorCheck(c):
			next = []*ssa.BasicBlock{b.Succs[1-errorBranch(c)]}
		case failing(b.Succs[0]):
			next = b.Succs[1:]
		case failing(b.Succs[1]):
			next = b.Succs[:1]
		}
	}
	w.on[b] = true
	set := map[string]bool{}
	if len(next) == 0 {
		set[own] = true
	}
	for _, s := range next {
		for rest := range w.sequences(s) {
			text := own
			if rest != "" {
				if text != "" {
					text += separator
				}
				text += rest
			}
			set[text] = true
		}
	}
	delete(w.on, b)
	if len(set) > sequencesMax {
		w.many = true
	}
	w.found[b] = set
	return set
}

// sequence returns the signatures of the operations that a block calls.
func (f *function) sequence(b *ssa.BasicBlock, all bool) (names []string) {
	for _, in := range b.Instrs {
		call, ok := in.(ssa.CallInstruction)
		if !ok {
			continue
		}
		if o := operationOf(call); o != nil {
			if o.collective() && onTask(o.task) || all && o.name != "Once" {
				names = append(names, o.signature())
			}
			continue
		}
		if s := f.unit.p.called(call.Common()); s != nil {
			if ownTask(call.Common()) || all {
				names = append(names, s.Operations...)
			}
			if all && len(s.Messages) > 0 {
				names = append(names, callee(call.Common()).Name())
			}
		}
	}
	return names
}

// ownTask reports whether the tasks that a call passes are no groups.
func ownTask(c *ssa.CallCommon) bool {
	for _, a := range c.Args {
		if isTask(a.Type()) && !onTask(a) {
			return false
		}
	}
	return true
}
