package vet

import (
	"go/token"

	"golang.org/x/tools/go/ssa"
)

// checkCombine reports functions of reductions that are not associative, or depend on more than their arguments.
func checkCombine(f *function, report reporter) {
	u := f.unit
	for _, o := range f.operations {
		if o.function == nil || o.name == "Once" {
			continue
		}
		g := closure(o.function)
		own := u.p.of[g]
		if own == nil {
			continue
		}
		for _, r := range own.results {
			if kind, ok := r.deep().first(unrepeatable | 1<<rank); ok && own.unit == u {
				t := r.deep()
				report(o.pos(), "the function of %s depends on %s: tasks that combine the same values get different results; let it depend on its arguments alone", o.name, t.say(kind))
			}
		}
		for _, b := range g.Blocks {
			for _, in := range b.Instrs {
				if s, ok := in.(*ssa.Store); ok {
					if v, ok := base(s.Addr).(*ssa.FreeVar); ok && v.Parent() == g {
						report(o.pos(), "the function of %s changes a variable outside it: how often a task calls it differs between attempts; let it depend on its arguments alone", o.name)
					}
				}
				if r, ok := in.(*ssa.Return); ok && len(r.Results) == 1 && len(g.Params) == 2 {
					if b, ok := r.Results[0].(*ssa.BinOp); ok && (b.Op == token.SUB || b.Op == token.QUO) && b.X == g.Params[0] && b.Y == g.Params[1] {
						report(o.pos(), "the function of %s is not associative: the result depends on how values are paired; combine with an associative function", o.name)
					}
				}
			}
		}
	}
}
