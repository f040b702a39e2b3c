package vet

import (
	"fmt"
	"go/types"

	"golang.org/x/tools/go/ssa"
)

// A summary is what callers know of a function: a fact of it. Its fields are exported for package gob.
type summary struct {
	Inputs     []input
	Results    []flow
	Aliases    []alias
	Writes     []write
	Changes    []change
	Sorts      []input // that it puts in order
	Sinks      []sink
	Conditions []int    // inputs that decide which operations are called
	Uneven     []int    // inputs that decide it, and the operations differ
	Operations []string // signatures of collective operations, in the order of the source
	Messages   []message
	Saves      []int // parameters that are saved
	Exits      string
}

// input is a parameter, or a field of it.
type input struct {
	Param  int
	Fields []int
}

// flow is a taint with the inputs of a summary.
type flow struct {
	Mask uint64
	Why  []string
}

// alias says that a result may be the memory of a parameter.
type alias struct{ Result, Param int }

// write says what a function stores in memory of a parameter.
type write struct {
	To   input
	Flow flow
}

// change says that a function changes memory of a parameter; Adds: depending on what was there.
type change struct {
	To   input
	Adds bool
}

// sink says that an input is passed to an operation.
type sink struct {
	Input int
	What  string
}

// message is a Send or a Recv.
type message struct {
	Send  bool
	Tag   int64
	Known bool // the tag is a constant
	Type  string
}

func (*summary) AFact() {}

func (s *summary) String() string { return fmt.Sprintf("operations%v", s.Operations) }

func (t taint) flow() flow {
	f := flow{Mask: t.mask &^ (1 << element)}
	if t.mask&allKinds != 0 {
		f.Why = t.why[:]
	}
	return f
}

// performs reports whether the function calls operations of the task.
func (s *summary) performs() bool { return len(s.Operations) > 0 || len(s.Messages) > 0 }

// summaryOf returns what is known of a function, or nil.
func (p *program) summaryOf(f *types.Func) *summary {
	if f == nil || f.Pkg() == nil {
		return nil
	}
	if u := p.declared[f]; u != nil {
		return u.summary
	}
	if f.Pkg() == p.pass.Pkg {
		return nil
	}
	s := &summary{}
	if p.pass.ImportObjectFact(f, s) {
		return s
	}
	return nil
}

// called returns what is known of the function that a call names; for an operation, nil.
func (p *program) called(c *ssa.CallCommon) *summary {
	f := callee(c)
	if f == nil || c.IsInvoke() || f.Pkg() != nil && f.Pkg().Path() == module {
		return nil
	}
	return p.summaryOf(f)
}

// roundsMax bounds how often functions that call each other are examined.
const roundsMax = 8

// summarize finds how values flow in all functions, and exports facts.
func (p *program) summarize() {
	for range roundsMax {
		changed := false
		for _, u := range p.units {
			u.solve()
			before := u.summary.size()
			u.conclude()
			changed = changed || u.summary.size() != before
		}
		if !changed {
			break
		}
	}
	for obj, u := range p.declared {
		if obj.Exported() && u.summary.size() > 0 {
			p.pass.ExportObjectFact(obj, u.summary)
		}
	}
}

// size grows with what a summary says.
func (s *summary) size() int {
	n := len(s.Aliases) + len(s.Sorts) + len(s.Changes) + len(s.Sinks) + len(s.Conditions) + len(s.Uneven) + len(s.Operations) + len(s.Messages) + len(s.Saves) + len(s.Exits)
	for _, r := range s.Results {
		n += bits(r.Mask)
	}
	for _, w := range s.Writes {
		n += 1 + bits(w.Flow.Mask)
	}
	return n
}

func bits(mask uint64) (n int) {
	for ; mask != 0; mask &= mask - 1 {
		n++
	}
	return n
}

// conclude makes the summary of a unit from how values flow in it.
func (u *unit) conclude() {
	s := &summary{Inputs: u.inputs}
	for i, r := range u.top.results {
		s.Results = append(s.Results, r.deep().flow())
		for j, param := range u.top.Params {
			if refers(param.Type()) && refers(u.top.Signature.Results().At(i).Type()) && r.rep() == u.node(param).rep() {
				s.Aliases = append(s.Aliases, alias{i, j})
			}
		}
	}
	for i, in := range u.inputs {
		if !refers(u.top.Params[in.Param].Type()) {
			continue
		}
		n := u.at(u.node(u.top.Params[in.Param]), in.Fields)
		if n.rep().sorted {
			s.Sorts = append(s.Sorts, in)
		}
		if t := n.rep().taint.without(1<<(inputShift+i) | 1<<element); t.mask != 0 {
			s.Writes = append(s.Writes, write{in, t.flow()})
		}
	}
	for _, f := range u.functions {
		u.concludeFunction(s, f)
	}
	u.summary = s
}

func (u *unit) concludeFunction(s *summary, f *function) {
	if f.ofOnce != nil || f.ofOtherJob() {
		return
	}
	for _, c := range f.changes() {
		if n := c.node.rep(); n.input > 0 {
			s.Changes = append(s.Changes, change{u.inputs[n.input-1], c.adds})
		}
	}
	for _, o := range f.operations {
		if o.collective() && onTask(o.task) {
			s.Operations = append(s.Operations, o.signature())
		}
		if o.name == "Send" || o.receives() {
			tag, known := number(o.tag)
			s.Messages = append(s.Messages, message{o.name == "Send", tag, known && onTask(o.task), o.typ})
		}
		for _, v := range o.data {
			for _, i := range inputsOf(u.allOf(v)) {
				s.Sinks = append(s.Sinks, sink{i, o.name})
			}
		}
		if o.name == "Save" {
			for i, param := range u.top.Params {
				if refers(param.Type()) && u.node(param).rep() == u.node(o.value).rep() {
					s.Saves = append(s.Saves, i)
				}
			}
		}
	}
	for _, b := range f.Blocks {
		for _, in := range b.Instrs {
			call, ok := in.(ssa.CallInstruction)
			if !ok {
				continue
			}
			if path, name := nameOf(callee(call.Common())); exits(path, name) && s.Exits == "" {
				s.Exits = name
				if path == "os" || path == "log" {
					s.Exits = path + "." + name
				}
			}
			c := u.p.called(call.Common())
			if c == nil {
				continue
			}
			if c.Exits != "" && s.Exits == "" && callee(call.Common()).Name() != "main" {
				s.Exits = c.Exits
			}
			s.Operations = append(s.Operations, c.Operations...)
			s.Messages = append(s.Messages, c.Messages...)
			if len(s.Operations) > listMax || len(s.Messages) > listMax { // of functions that call themselves
				s.Operations, s.Messages = s.Operations[:min(len(s.Operations), listMax)], s.Messages[:min(len(s.Messages), listMax)]
			}
			for _, k := range c.Sinks {
				for _, i := range inputsOf(u.given(c, k.Input, call.Common().Args)) {
					s.Sinks = append(s.Sinks, sink{i, k.What})
				}
			}
			for _, k := range c.Conditions {
				s.Conditions = append(s.Conditions, inputsOf(u.given(c, k, call.Common().Args))...)
			}
			for _, k := range c.Uneven {
				s.Uneven = append(s.Uneven, inputsOf(u.given(c, k, call.Common().Args))...)
			}
			for _, k := range c.Saves {
				for i, param := range u.top.Params {
					if k < len(call.Common().Args) && refers(param.Type()) && u.node(param).rep() == u.node(call.Common().Args[k]).rep() {
						s.Saves = append(s.Saves, i)
					}
				}
			}
		}
		if f.calls(b) {
			for _, c := range f.conditions(b) {
				s.Conditions = append(s.Conditions, inputsOf(u.of(c.Cond))...)
			}
		}
	}
	for _, c := range f.branches() {
		if f.differ(c) != "" {
			s.Uneven = append(s.Uneven, inputsOf(u.of(c.Cond))...)
		}
	}
	s.Conditions, s.Uneven, s.Sinks, s.Changes, s.Saves = distinct(s.Conditions), distinct(s.Uneven), distinctBy(s.Sinks), distinctBy(s.Changes), distinct(s.Saves)
}

// ofOtherJob reports whether a function literal is the program of a job, not a part of the function around it: it has a task
// of its own.
func (f *function) ofOtherJob() bool {
	for g := f.Function; g.Parent() != nil; g = g.Parent() {
		if own := f.unit.p.of[g]; hasTask(g.Signature) && (own == nil || own.started != "coppice.Go") && !f.unit.invoked(g) {
			return true
		}
	}
	return false
}

// invoked reports whether the unit itself calls a function literal.
func (u *unit) invoked(g *ssa.Function) bool {
	for _, f := range u.functions {
		for _, b := range f.Blocks {
			for _, in := range b.Instrs {
				if call, ok := in.(ssa.CallInstruction); ok && !call.Common().IsInvoke() && closure(call.Common().Value) == g {
					return true
				}
			}
		}
	}
	return false
}

// listMax bounds how many operations a summary lists.
const listMax = 200

func distinct(list []int) (once []int) {
	seen := map[int]bool{}
	for _, i := range list {
		if !seen[i] {
			seen[i] = true
			once = append(once, i)
		}
	}
	return once
}

func distinctBy[T any](list []T) (once []T) {
	seen := map[string]bool{}
	for _, v := range list {
		if k := fmt.Sprint(v); !seen[k] {
			seen[k] = true
			once = append(once, v)
		}
	}
	return once
}

// inputsOf returns the inputs that a value depends on.
func inputsOf(t taint) (inputs []int) {
	for i := range inputMax {
		if t.mask&(1<<(inputShift+i)) != 0 {
			inputs = append(inputs, i)
		}
	}
	return inputs
}

// at returns the node of a field, through several.
func (u *unit) at(n *node, fields []int) *node {
	for _, i := range fields {
		n = u.field(n, i)
	}
	return n
}

// given returns the taint of what a caller passes as an input of a function.
func (u *unit) given(s *summary, i int, args []ssa.Value) taint {
	if i >= len(s.Inputs) || s.Inputs[i].Param >= len(args) {
		return taint{}
	}
	arg := args[s.Inputs[i].Param]
	if len(s.Inputs[i].Fields) == 0 {
		return u.allOf(arg)
	}
	switch arg.(type) {
	case *ssa.Const, *ssa.Function, *ssa.Builtin, *ssa.Global:
		return u.of(arg)
	}
	return u.at(u.node(arg), s.Inputs[i].Fields).deep()
}

// translate returns the taint of a flow of a function, for a caller.
func (u *unit) translate(s *summary, f flow, args []ssa.Value) (t taint) {
	t.mask = f.Mask & allKinds
	copy(t.why[:], f.Why)
	for _, i := range inputsOf(taint{mask: f.Mask}) {
		t.join(u.given(s, i, args))
	}
	return t
}

// calls reports whether operations are called in a block.
func (f *function) calls(b *ssa.BasicBlock) bool {
	for _, in := range b.Instrs {
		if call, ok := in.(ssa.CallInstruction); ok && f.called(call) != "" {
			return true
		}
	}
	return false
}

// called names the operation, or the function with operations, that a call is of, or returns "".
func (f *function) called(call ssa.CallInstruction) string {
	if o := operationOf(call); o != nil {
		if o.name == "Once" {
			return ""
		}
		return o.name
	}
	if s := f.unit.p.called(call.Common()); s != nil && s.performs() {
		return callee(call.Common()).Name()
	}
	return ""
}
