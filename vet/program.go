package vet

import (
	"go/ast"
	"go/types"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/ssa"
)

// A program is a package in SSA form, with what is known of its functions.
type program struct {
	pass      *analysis.Pass
	functions []*function // with function literals, each after the function that it is in
	units     []*unit
	of        map[*ssa.Function]*function
	declared  map[*types.Func]*unit
	counted   map[*ssa.Global]taint // package variables that tasks change depending on what they were
}

// A unit is a declared function with the function literals in it. Values flow freely between these.
type unit struct {
	p         *program
	object    *types.Func
	top       *function
	functions []*function
	nodes     map[ssa.Value]*node
	inputs    []input
	changed   bool
	summary   *summary
}

// A function is a function of a unit.
type function struct {
	*ssa.Function
	unit       *unit
	loops      []*loop
	control    map[*ssa.BasicBlock][]*ssa.If
	operations []*operation
	results    []*node
	started    string // how another goroutine comes to run it: "go", "coppice.Go", or ""
	many       bool   // by several goroutines
	ofOnce     *operation
}

// build makes the SSA form of a package. It is not a required analyzer, so that the standard library needs none.
func build(pass *analysis.Pass) *program {
	prog := ssa.NewProgram(pass.Fset, 0)
	prog.SetNoReturn(func(f *types.Func) bool { path, name := nameOf(f); return exits(path, name) })
	created := map[*types.Package]bool{}
	var create func([]*types.Package)
	create = func(packages []*types.Package) {
		for _, p := range packages {
			if !created[p] {
				created[p] = true
				prog.CreatePackage(p, nil, nil, true)
				create(p.Imports())
			}
		}
	}
	create(pass.Pkg.Imports())
	pkg := prog.CreatePackage(pass.Pkg, pass.Files, pass.TypesInfo, false)
	pkg.Build()
	p := &program{pass: pass, of: map[*ssa.Function]*function{}, declared: map[*types.Func]*unit{}, counted: map[*ssa.Global]taint{}}
	for _, file := range pass.Files {
		for _, decl := range file.Decls {
			if d, ok := decl.(*ast.FuncDecl); ok && d.Body != nil {
				obj := pass.TypesInfo.Defs[d.Name].(*types.Func)
				if f := prog.FuncValue(obj); f != nil {
					p.addUnit(obj, f)
				}
			}
		}
	}
	if init := pkg.Func("init"); init != nil { // function literals of package variables
		for _, anon := range init.AnonFuncs {
			p.addUnit(nil, anon)
		}
	}
	return p
}

func (p *program) addUnit(obj *types.Func, f *ssa.Function) {
	u := &unit{p: p, object: obj, nodes: map[ssa.Value]*node{}, summary: &summary{}}
	var add func(f *ssa.Function)
	add = func(f *ssa.Function) {
		own := &function{Function: f, unit: u, loops: loopsOf(f), control: controlOf(f)}
		for range f.Signature.Results().Len() {
			own.results = append(own.results, &node{})
		}
		for _, b := range f.Blocks {
			for _, in := range b.Instrs {
				if call, ok := in.(ssa.CallInstruction); ok {
					if o := operationOf(call); o != nil {
						own.operations = append(own.operations, o)
					}
				}
			}
		}
		p.of[f] = own
		p.functions = append(p.functions, own)
		u.functions = append(u.functions, own)
		for _, anon := range f.AnonFuncs {
			add(anon)
		}
	}
	add(f)
	u.top = u.functions[0]
	for i, param := range f.Params {
		if !isTask(param.Type()) {
			u.addInput(u.node(param), nil, i)
		}
	}
	if obj != nil {
		p.declared[obj] = u
	}
	p.units = append(p.units, u)
	for _, f := range u.functions {
		u.mark(f)
	}
}

// mark notes which functions other goroutines run, and which are those of Once.
func (u *unit) mark(f *function) {
	for _, b := range f.Blocks {
		for _, in := range b.Instrs {
			call, ok := in.(ssa.CallInstruction)
			if !ok {
				continue
			}
			c := call.Common()
			started := ""
			var run *ssa.Function
			path, name := nameOf(callee(c))
			switch {
			case isGo(call):
				started, run = "go", closure(c.Value)
			case path == module && name == "Go" && len(c.Args) == 2:
				started, run = "coppice.Go", closure(c.Args[1])
			case (path == "sync" && name == "WaitGroup.Go" || path == "golang.org/x/sync/errgroup" && (name == "Group.Go" || name == "Group.TryGo")) && len(c.Args) == 2:
				started, run = name, closure(c.Args[1])
			case path == module && name == "Once" && len(c.Args) > 2:
				if g := u.p.of[closure(c.Args[2])]; g != nil {
					g.ofOnce = operationOf(call)
				}
			}
			if g := u.p.of[run]; g != nil && started != "" {
				g.many = g.started != "" || f.innermost(b) != nil || f.Parent() != nil
				g.started = started
			}
		}
	}
}

func isGo(call ssa.CallInstruction) bool { _, ok := call.(*ssa.Go); return ok }

// within reports whether a function is another or a literal in it.
func within(f, outer *ssa.Function) bool {
	for ; f != nil; f = f.Parent() {
		if f == outer {
			return true
		}
	}
	return false
}

// inOnce reports whether a function runs inside Once.
func (f *function) inOnce() bool {
	for g := f.Function; g != nil; g = g.Parent() {
		if own := f.unit.p.of[g]; own != nil && own.ofOnce != nil {
			return true
		}
	}
	return false
}

// goroutine returns the literal, of those that a function is in, that another goroutine runs; nil if there is none.
func (f *function) goroutine() *function {
	for g := f.Function; g != nil; g = g.Parent() {
		if own := f.unit.p.of[g]; own != nil && own.started != "" {
			return own
		}
	}
	return nil
}

// ofTask reports whether a function belongs to a task: it, or one that it is in, has a parameter that is a task.
func (f *function) ofTask() bool {
	for g := f.Function; g != nil; g = g.Parent() {
		if hasTask(g.Signature) {
			return true
		}
	}
	return false
}
