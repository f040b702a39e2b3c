package vet

import (
	"go/types"
	"strings"

	"golang.org/x/tools/go/ssa"
)

// call is what a call does to the values of its caller.
func (u *unit) call(f *function, in ssa.CallInstruction) {
	c := in.Common()
	result := resultOf(in)
	if b, ok := c.Value.(*ssa.Builtin); ok {
		u.builtin(f, b.Name(), in)
		return
	}
	if o := operationOf(in); o != nil {
		u.operation(o)
		return
	}
	fn := callee(c)
	path, name := nameOf(fn)
	if path == module && !c.IsInvoke() {
		u.library(name, in)
		return
	}
	if fn != nil && !c.IsInvoke() {
		if s := u.p.summaryOf(fn); s != nil {
			u.apply(s, in)
			return
		}
	}
	if g := u.p.of[closure(c.Value)]; g != nil && g.unit == u && !c.IsInvoke() {
		u.enter(g, c.Args)
		u.results(g, result)
		return
	}
	if kind, ok := sourceOf(path, name); ok && !c.IsInvoke() {
		if result != nil {
			u.setResult(result, source(kind, u.p.why(packageName(path)+"."+name, in.Pos())))
		}
		if kind == outside || kind == chance {
			t := source(kind, u.p.why(packageName(path)+"."+name, in.Pos()))
			for _, a := range c.Args {
				if _, slice := a.Type().Underlying().(*types.Slice); slice {
					u.add(a, t)
				}
			}
			u.callbacks(c.Args, t, nil)
			u.foreign(f, path, name, in)
		}
		return
	}
	u.foreign(f, path, name, in)
}

// setResult gives a taint to what a call returns, except its error.
func (u *unit) setResult(result ssa.Value, t taint) {
	if tuple, ok := result.Type().(*types.Tuple); ok {
		for i := range tuple.Len() {
			if !isError(tuple.At(i).Type()) {
				if u.field(u.node(result), i).taint.join(t) {
					u.changed = true
				}
			}
		}
		return
	}
	if !isError(result.Type()) {
		u.add(result, t)
	}
}

// enter passes arguments to a function of the unit.
func (u *unit) enter(g *function, args []ssa.Value) {
	for i, a := range args {
		if i < len(g.Params) {
			u.pass(g.Params[i], a)
		}
	}
}

// results makes the result of a call what a function of the unit returns.
func (u *unit) results(g *function, result ssa.Value) {
	if result == nil {
		return
	}
	if tuple, ok := result.Type().(*types.Tuple); ok {
		for i := range tuple.Len() {
			if i < len(g.results) && !isError(tuple.At(i).Type()) {
				u.unify(u.field(u.node(result), i), g.results[i])
			}
		}
		return
	}
	if len(g.results) > 0 && !isError(result.Type()) {
		if refers(result.Type()) {
			u.unify(u.node(result), g.results[0])
		}
		u.add(result, g.results[0].read())
	}
}

// apply is a call of a function of which a summary is known.
func (u *unit) apply(s *summary, in ssa.CallInstruction) {
	args := in.Common().Args
	for _, to := range s.Sorts {
		if to.Param >= len(args) {
			continue
		}
		switch args[to.Param].(type) {
		case *ssa.Const, *ssa.Function, *ssa.Global:
			continue
		}
		if n := u.at(u.node(args[to.Param]), to.Fields).rep(); !n.sorted {
			n.sorted, u.changed = true, true
		}
	}
	for _, w := range s.Writes {
		if w.To.Param >= len(args) {
			continue
		}
		switch args[w.To.Param].(type) {
		case *ssa.Const, *ssa.Function, *ssa.Global:
			continue
		}
		n := u.at(u.node(args[w.To.Param]), w.To.Fields)
		if n.rep().taint.join(u.translate(s, w.Flow, args).without(1 << element)) {
			u.changed = true
		}
	}
	for _, a := range args { // function literals that are passed: they may be called with anything
		if g := u.p.of[closure(a)]; g != nil && g.unit == u {
			for _, b := range args {
				for _, param := range g.Params {
					u.add(param, u.allOf(b).without(1<<element|uneven))
				}
			}
		}
	}
	result := resultOf(in)
	if result == nil {
		return
	}
	tuple, several := result.Type().(*types.Tuple)
	for i, r := range s.Results {
		n, typ := u.node(result), result.Type()
		if several {
			if i >= tuple.Len() {
				break
			}
			n, typ = u.field(n, i), tuple.At(i).Type()
		}
		if isError(typ) {
			continue
		}
		if n.rep().taint.join(u.translate(s, r, args)) {
			u.changed = true
		}
		for _, a := range s.Aliases {
			if a.Result == i && a.Param < len(args) {
				switch args[a.Param].(type) {
				case *ssa.Const, *ssa.Function, *ssa.Global:
				default:
					u.unify(n, u.node(args[a.Param]))
				}
			}
		}
	}
}

// operation is a call of an operation.
func (u *unit) operation(o *operation) {
	result := resultOf(o.call)
	if result == nil {
		return
	}
	switch {
	case o.name == "Once":
		g := u.p.of[closure(o.function)]
		if g != nil && len(g.results) > 0 && g.results[0].deep().has(uneven) {
			u.setResult(result, source(local, u.p.why("Once", o.pos())))
		}
	case o.receives() || o.name != "Split" && !collectives[o.name] && o.collective():
		u.setResult(result, source(local, u.p.why(o.name, o.pos())))
	}
}

// library is a call of another function of package coppice.
func (u *unit) library(name string, in ssa.CallInstruction) {
	c, result := in.Common(), resultOf(in)
	switch name {
	case "Task.Rank":
		u.add(result, source(rank, u.p.why("Rank", in.Pos())))
	case "Task.Attempt", "Task.View", "Task.Views", "Task.FailedAck":
		if result != nil {
			u.setResult(result, source(attempt, u.p.why(name, in.Pos())))
		}
	case "Go":
		if g := u.p.of[closure(c.Args[1])]; g != nil && g.unit == u && result != nil && len(g.results) > 0 {
			u.unify(u.node(result), g.results[0])
		}
	case "Future.Wait":
		if result != nil && len(c.Args) > 0 {
			u.unify(u.field(u.node(result), 0), u.node(c.Args[0]))
		}
	}
}

// builtin is a call of a function of the language.
func (u *unit) builtin(f *function, name string, in ssa.CallInstruction) {
	c, result := in.Common(), resultOf(in)
	switch name {
	case "append":
		u.appended(f, c, result)
	case "copy":
		t := u.allOf(c.Args[1])
		u.add(c.Args[0], t.without(1<<element))
	case "len", "cap":
		t := u.of(c.Args[0]).without(1<<order | 1<<element)
		if t.has(1 << local) {
			t.mask = t.mask&^(1<<local) | 1<<size
			t.why[size] = t.why[local]
		}
		if result != nil {
			u.add(result, t)
		}
	case "min", "max":
		for _, a := range c.Args {
			u.add(result, u.of(a))
		}
	}
}

// appended is a call of append.
func (u *unit) appended(f *function, c *ssa.CallCommon, result ssa.Value) {
	u.same(result, c.Args[0])
	if len(c.Args) < 2 {
		return
	}
	t := u.allOf(c.Args[1])
	if elem, ok := c.Args[1].Type().Underlying().(*types.Slice); ok && refers(elem.Elem()) {
		u.same(result, c.Args[1])
		t = t.only(1 << element)
	}
	if g := f.goroutine(); g != nil && g.many && g.started != "coppice.Go" && captured(c.Args[0]) {
		t.join(source(element, u.p.why("goroutines", c.Pos())))
	}
	if t.has(1 << element) {
		t.join(source(order, t.why[element]))
	}
	u.add(result, joined(t, u.implicit(f, result.(ssa.Instruction).Block())).without(1<<element))
}

// foreign is a call of a function of which nothing is known but its name, or not even that.
func (u *unit) foreign(f *function, path, name string, in ssa.CallInstruction) {
	c, result := in.Common(), resultOf(in)
	if prints(path, name) {
		return
	}
	args := c.Args
	if c.IsInvoke() {
		args = append([]ssa.Value{c.Value}, args...)
	}
	if sorts(path, name) && len(args) > 0 {
		if n := u.node(args[0]); !n.sorted {
			n.sorted, u.changed = true, true
		}
		for _, a := range args[1:] {
			if g := u.p.of[closure(a)]; g != nil && g.unit == u && len(g.results) > 0 {
				u.add(args[0], g.results[0].read().only(unrepeatable&^(1<<order)))
			}
		}
		return
	}
	if path == "sort" && name == "Reverse" && result != nil {
		u.same(result, args[0])
		return
	}
	var all taint
	for _, a := range args {
		all.join(u.allOf(a))
	}
	if !c.IsInvoke() && c.StaticCallee() == nil {
		all.join(u.of(c.Value))
	}
	u.callbacks(args, all, result)
	if settles(path, name) {
		all = all.without(1 << order)
	}
	if path == "fmt" && len(args) > 0 {
		for _, a := range args {
			if c, ok := a.(*ssa.Const); ok && c.Value != nil && strings.Contains(c.Value.ExactString(), "%p") {
				all.join(source(chance, u.p.why("an address", in.Pos())))
			}
		}
	}
	passed := all.without(1 << machine)
	if path == "" || c.IsInvoke() {
		passed = passed.without(1 << element)
	}
	if result != nil {
		u.setResult(result, passed)
	}
	if purePackages[path] || strings.HasPrefix(path, "math/rand") || c.IsInvoke() && strings.HasPrefix(name, "Context.") {
		return
	}
	stored := all.without(1<<element | 1<<machine | uneven)
	if all.has(1<<element) && (strings.HasPrefix(name, "Builder.Write") || strings.HasPrefix(name, "Buffer.Write") || path == "fmt" && strings.HasPrefix(name, "Fprint") || strings.HasSuffix(name, ".Write")) {
		stored.join(source(order, all.why[element]))
	}
	if stored.mask == 0 {
		return
	}
	for i, a := range args {
		if path == "fmt" && i > 0 && strings.HasPrefix(name, "Fprint") {
			break
		}
		if isTask(a.Type()) || !changeable(a.Type()) || path == "fmt" && strings.HasPrefix(name, "Sprint") {
			continue
		}
		if fromGlobal(a) {
			continue
		}
		u.add(a, stored)
	}
}

// changeable reports whether a function can change what a value of a type refers to.
func changeable(t types.Type) bool {
	switch t := t.Underlying().(type) {
	case *types.Pointer, *types.Slice, *types.Map:
		return true
	case *types.Interface:
		return !isError(t) && !isContext(t)
	}
	return false
}

func isContext(t *types.Interface) bool {
	for i := range t.NumMethods() {
		if t.Method(i).Name() == "Deadline" {
			return true
		}
	}
	return false
}

func fromGlobal(v ssa.Value) bool {
	switch v := v.(type) {
	case *ssa.Global:
		return true
	case *ssa.UnOp:
		return fromGlobal(v.X)
	case *ssa.MakeInterface:
		return fromGlobal(v.X)
	}
	return false
}

// callbacks are function literals that are passed to a function of which nothing is known: they may be called with
// anything that it has, and their results are among its own.
func (u *unit) callbacks(args []ssa.Value, all taint, result ssa.Value) {
	for _, a := range args {
		g := u.p.of[closure(a)]
		if g == nil || g.unit != u {
			continue
		}
		t := all
		if t.has(1 << order) { // a loop over what maps.Keys returns
			t = joined(t.without(1<<order), source(element, t.why[order]))
		}
		for _, param := range g.Params {
			if !isTask(param.Type()) {
				u.add(param, t)
			}
		}
		if result != nil && len(g.results) > 0 {
			u.setResult(result, g.results[0].read())
		}
	}
}

// resultOf returns the value of a call; nil if it has none, as one that go or defer starts.
func resultOf(in ssa.CallInstruction) ssa.Value {
	if v := in.Value(); v != nil {
		return v
	}
	return nil
}
