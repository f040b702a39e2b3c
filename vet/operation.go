package vet

import (
	"fmt"
	"go/constant"
	"go/token"
	"go/types"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// An operation is a call of a function of package coppice on a task.
type operation struct {
	name string // Broadcast
	call ssa.CallInstruction
	task ssa.Value
	data []ssa.Value // what it passes: values, roots, tags; for Save the pointer to the state
	// of these
	value    ssa.Value // that is combined, sent or saved
	function ssa.Value // of Once, and of the …Func
	op       ssa.Value
	to, tag  ssa.Value // of Send and Recv; to is also the task to receive from
	typ      string    // of the value
	options  []ssa.Value
	root     ssa.Value
	shared   bool
	into     ssa.Value
}

// collectives are the operations of all tasks of a group. Of those at true, the result is the same at all tasks.
var collectives = map[string]bool{
	"Barrier": true, "Broadcast": true, "Scatter": false, "Gather": false, "AllGather": true, "AllToAll": false,
	"Reduce": false, "AllReduce": true, "Scan": false, "ExScan": false, "ReduceScatter": false,
	"ReduceFunc": false, "AllReduceFunc": true, "ScanFunc": false, "ExScanFunc": false, "ReduceScatterFunc": false,
	"Agree": true, "Save": true, "Task.Split": false,
}

// operationOf returns the operation that a call is, or nil.
func operationOf(call ssa.CallInstruction) *operation {
	c := call.Common()
	path, name := nameOf(callee(c))
	if path != module || c.IsInvoke() {
		return nil
	}
	_, collective := collectives[name]
	if !collective && !words("Send Recv RecvAny Once")[name] {
		return nil
	}
	args := c.Args
	o := &operation{name: strings.TrimPrefix(name, "Task."), call: call}
	if f := c.StaticCallee(); f != nil && len(f.TypeArgs()) > 0 {
		o.typ = types.TypeString(f.TypeArgs()[0], (*types.Package).Name)
	}
	if name == "Task.Split" {
		if len(args) < 4 {
			return nil
		}
		o.task, o.data = args[0], args[2:4]
		return o
	}
	if len(args) < 2 {
		return nil
	}
	o.task = args[1]
	rest := args[2:]
	take := func() (v ssa.Value) {
		if len(rest) > 0 {
			v, rest = rest[0], rest[1:]
		}
		return v
	}
	switch name {
	case "Barrier":
	case "Send":
		o.to, o.tag, o.value = take(), take(), take()
		o.data = []ssa.Value{o.to, o.tag, o.value}
	case "Recv":
		o.to, o.tag = take(), take()
		o.data = []ssa.Value{o.to, o.tag}
	case "RecvAny":
		o.tag = take()
		o.data = []ssa.Value{o.tag}
	case "Once":
		o.function = take()
	default:
		o.value = take()
		o.data = []ssa.Value{o.value}
		switch {
		case strings.HasSuffix(name, "Func") || name == "Agree":
			o.function = take()
		case words("Reduce AllReduce Scan ExScan ReduceScatter")[name]:
			o.op = take()
			o.data = append(o.data, o.op)
		}
	}
	if len(rest) > 0 {
		o.options = listed(rest[len(rest)-1])
	}
	for _, option := range o.options {
		c, ok := option.(*ssa.Call)
		if !ok {
			continue
		}
		switch _, name := nameOf(callee(c.Common())); name {
		case "Root":
			o.root = c.Call.Args[0]
			o.data = append(o.data, o.root)
		case "Shared":
			o.shared = true
		case "Into":
			o.into = c.Call.Args[0]
		}
	}
	return o
}

// listed returns the values of a variadic argument that the compiler has put into an array.
func listed(v ssa.Value) (values []ssa.Value) {
	s, ok := v.(*ssa.Slice)
	if !ok {
		return nil
	}
	array, ok := s.X.(*ssa.Alloc)
	if !ok {
		return nil
	}
	for _, ref := range *array.Referrers() {
		at, ok := ref.(*ssa.IndexAddr)
		if !ok {
			continue
		}
		for _, use := range *at.Referrers() {
			if store, ok := use.(*ssa.Store); ok && store.Addr == at {
				values = append(values, store.Val)
			}
		}
	}
	return values
}

func (o *operation) pos() token.Pos { return o.call.Pos() }

// collective reports whether all tasks of the group call the operation.
func (o *operation) collective() bool {
	return o.name != "Send" && !o.receives() && o.name != "Once"
}

// receives reports whether the operation takes a message.
func (o *operation) receives() bool { return o.name == "Recv" || o.name == "RecvAny" }

// signature is what has to be the same at all tasks.
func (o *operation) signature() string {
	text := o.name
	if o.typ != "" {
		text += "[" + o.typ + "]"
	}
	if n, ok := number(o.op); ok && n >= 0 && int(n) < len(operators) {
		text += " with " + operators[n]
	}
	if n, ok := number(o.root); ok && n != 0 {
		text += fmt.Sprintf(" from root %d", n)
	}
	return text
}

// operators are the values of coppice.Op.
var operators = []string{"Sum", "Product", "Min", "Max", "And", "Or", "Xor"}

// number returns the value of a constant, and whether it is one.
func number(v ssa.Value) (n int64, ok bool) {
	c, ok := v.(*ssa.Const)
	if !ok || c.Value == nil || c.Value.Kind() != constant.Int {
		return 0, false
	}
	return c.Int64(), true
}

// onTask reports whether an operation is on a task that the function was given, or a fork of it: not on a group.
func onTask(v ssa.Value) bool { return !fromCall(v, "Split", "Shrink") }

// onFork reports whether a task is a fork, a group, or that of a function of Go.
func onFork(v ssa.Value) bool { return fromCall(v, "Split", "Shrink", "Fork") }

// fromCall reports whether a value is the result of a method of Task of one of these names.
func fromCall(v ssa.Value, names ...string) bool {
	seen := map[ssa.Value]bool{}
	var from func(v ssa.Value) bool
	from = func(v ssa.Value) bool {
		if v == nil || seen[v] {
			return false
		}
		seen[v] = true
		switch v := v.(type) {
		case *ssa.Call:
			path, name := nameOf(callee(v.Common()))
			for _, n := range names {
				if path == module && name == "Task."+n {
					return true
				}
			}
		case *ssa.Extract:
			return from(v.Tuple)
		case *ssa.Phi:
			for _, e := range v.Edges {
				if from(e) {
					return true
				}
			}
		case *ssa.UnOp:
			return from(v.X)
		case *ssa.IndexAddr:
			return from(v.X)
		case *ssa.FieldAddr:
			return from(v.X)
		case *ssa.Slice:
			return from(v.X)
		case *ssa.FreeVar:
			return from(binding(v))
		case *ssa.Alloc, *ssa.MakeSlice, *ssa.MakeMap:
			return storedFrom(v, from)
		}
		return false
	}
	return from(v)
}

// storedFrom reports whether a value of which from holds is stored in memory.
func storedFrom(v ssa.Value, from func(ssa.Value) bool) bool {
	refs := v.Referrers()
	if refs == nil {
		return false
	}
	for _, ref := range *refs {
		switch ref := ref.(type) {
		case *ssa.Store:
			if ref.Addr == v && from(ref.Val) {
				return true
			}
		case *ssa.MapUpdate:
			if from(ref.Value) {
				return true
			}
		case *ssa.IndexAddr, *ssa.FieldAddr, *ssa.Slice:
			if storedFrom(ref.(ssa.Value), from) {
				return true
			}
		}
	}
	return false
}

// binding returns what a variable of a closure is outside it.
func binding(v *ssa.FreeVar) ssa.Value {
	f := v.Parent()
	outer := f.Parent()
	if outer == nil {
		return nil
	}
	for i, own := range f.FreeVars {
		if own != v {
			continue
		}
		for _, b := range outer.Blocks {
			for _, in := range b.Instrs {
				if m, ok := in.(*ssa.MakeClosure); ok && m.Fn == f {
					return m.Bindings[i]
				}
			}
		}
	}
	return nil
}

// closure returns the function that a value is: a function literal, or a named function.
func closure(v ssa.Value) *ssa.Function { return closureWithin(v, 8) }

func closureWithin(v ssa.Value, steps int) *ssa.Function {
	if steps == 0 {
		return nil
	}
	switch v := v.(type) {
	case *ssa.MakeClosure:
		return v.Fn.(*ssa.Function)
	case *ssa.Function:
		return v
	case *ssa.ChangeType:
		return closureWithin(v.X, steps-1)
	case *ssa.UnOp:
		if a, ok := v.X.(*ssa.Alloc); ok { // a variable that is captured, too
			for _, ref := range *a.Referrers() {
				if s, ok := ref.(*ssa.Store); ok && s.Addr == a {
					return closureWithin(s.Val, steps-1)
				}
			}
		}
	}
	return nil
}

// line says where a source is.
func (p *program) line(pos token.Pos) string {
	if !pos.IsValid() {
		return ""
	}
	return fmt.Sprintf("line %d", p.pass.Fset.Position(pos).Line)
}

// hasTask reports whether a function has a parameter that is a task.
func hasTask(sig *types.Signature) bool {
	for i := range sig.Params().Len() {
		if isTask(sig.Params().At(i).Type()) {
			return true
		}
	}
	return sig.Recv() != nil && isTask(sig.Recv().Type())
}
