// Package vet finds, in the source of programs for Coppice, what breaks the user's duties (docs/api.md): inputs of
// operations that another attempt would not have, operations that not all tasks call, state that Save does not get.
// Its API may change.
//
// It is an analysis of golang.org/x/tools/go/analysis. It builds the SSA form of each package and follows values from
// where they come (a clock, the order of a map, a rank) to where they matter: an operation, a Save, or a condition under
// which operations are called. A clock that is only printed is no breach. Functions of other packages are known by facts.
//
// A report says which rule it is of, why it matters and what to do. The comment
//
//	//coppice:ok reason
//
// at the end of the line, or in the line above, silences the reports of that line.
package vet

import (
	"fmt"
	"go/token"
	"sort"
	"strings"

	"golang.org/x/tools/go/analysis"
)

// Analyzer reports breaches of the user's duties.
var Analyzer = &analysis.Analyzer{
	Name:      "coppice",
	Doc:       "report what breaks the duties of programs for Coppice: what another attempt of a task would not repeat, and operations that not all tasks call",
	URL:       "https://github.com/coppice-go/coppice/blob/main/docs/vet.md",
	Run:       run,
	FactTypes: []analysis.Fact{new(summary)},
}

// A rule checks one function after the flow of values is known.
type rule struct {
	name  string
	check func(*function, reporter)
}

// rules are all rules, in the order of docs/vet.md.
var rules = []rule{
	{"input", checkInputs},
	{"partner", checkPartners},
	{"root", checkRoots},
	{"option", checkOptions},
	{"message", checkMessages},
	{"goroutine", checkGoroutines},
	{"once", checkOnce},
	{"save", checkSaves},
	{"state", checkState},
	{"shared", checkShared},
	{"unreceived", checkUnreceived},
	{"combine", checkCombine},
	{"lock", checkLocks},
	{"effect", checkEffects},
	{"exit", checkExits},
}

// reporter takes a breach: where, and what is wrong and what to do.
type reporter func(pos token.Pos, format string, args ...any)

func run(pass *analysis.Pass) (any, error) {
	if !isUserCode(pass) {
		return nil, nil
	}
	p := build(pass)
	p.summarize()
	silences := readSilences(pass)
	type key struct {
		line int
		rule string
		file string
	}
	reported := map[key]bool{}
	var found []analysis.Diagnostic
	for _, f := range p.functions {
		for _, r := range rules {
			r.check(f, func(pos token.Pos, format string, args ...any) {
				at := pass.Fset.Position(pos)
				k := key{at.Line, r.name, at.Filename}
				if !pos.IsValid() || reported[k] || silences.covers(at) || strings.HasSuffix(at.Filename, "_test.go") {
					return
				}
				reported[k] = true
				found = append(found, analysis.Diagnostic{Pos: pos, Category: r.name, Message: fmt.Sprintf(format, args...) + " [" + r.name + "]"})
			})
		}
	}
	sort.SliceStable(found, func(i, j int) bool { return found[i].Pos < found[j].Pos })
	for _, d := range found {
		pass.Report(d)
	}
	silences.complain(pass)
	return nil, nil
}

// isUserCode reports whether a package is a program or a part of one: not the standard library, and not Coppice itself.
func isUserCode(pass *analysis.Pass) bool {
	path := pass.Pkg.Path()
	if rest, ours := strings.CutPrefix(path, module+"/"); path == module || ours {
		first, _, _ := strings.Cut(rest, "/")
		return ours && strings.Contains(" apps cmd examples bench test vet ", " "+first+" ")
	}
	first, _, _ := strings.Cut(path, "/")
	return strings.Contains(first, ".") || pass.Module != nil && pass.Module.Path != "" || !standard[first]
}

// standard are the first words of the import paths of the standard library.
var standard = words(`archive arena bufio bytes cmp compress container context crypto database debug embed encoding errors
	expvar flag fmt go hash html image index internal io iter log maps math mime net os path plugin reflect regexp runtime
	slices sort strconv strings structs sync syscall testing text time unicode unique unsafe vendor weak cmd`)

func words(text string) map[string]bool {
	set := map[string]bool{}
	for _, word := range strings.Fields(text) {
		set[word] = true
	}
	return set
}
