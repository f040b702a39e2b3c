package coppice_test

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestEveryExportedNameHasAnExample: one that runs and whose output is compared.
func TestEveryExportedNameHasAnExample(t *testing.T) {
	fset := token.NewFileSet()
	names := exportedNames(t, fset, rootFiles(t, fset, false))
	if !slices.Contains(names, "Task_Rank") || !slices.Contains(names, "ErrLost") || !slices.Contains(names, "Into") {
		t.Fatalf("names are missing among %q", names)
	}
	shown := checkedExamples(rootFiles(t, fset, true))
	for _, name := range names {
		if !shown[name] {
			t.Errorf("%s has no func Example%s with an Output", strings.ReplaceAll(name, "_", "."), name)
		}
		delete(shown, name)
	}
	delete(shown, "") // that of the package
	for name := range shown {
		if of := name[:max(0, strings.LastIndex(name, "_"))]; slices.Contains(names, of) && name[len(of)+1:] == strings.ToLower(name[len(of)+1:]) {
			continue // another one, ExampleSend_overlap
		}
		t.Errorf("Example%s shows nothing that is exported", name)
	}
}

func TestExampleWithoutOutputDoesNotCount(t *testing.T) {
	const src = "package p\nfunc ExampleA() {\n}\nfunc ExampleB() {\n\t// Output: 1\n}\nfunc ExampleC() {\n\t// Unordered output:\n}\n"
	file, err := parser.ParseFile(token.NewFileSet(), "p_test.go", src, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	if got := checkedExamples([]*ast.File{file}); len(got) != 1 || !got["B"] {
		t.Errorf("examples %v count, want B alone", got)
	}
}

func TestExportedNamesAreFound(t *testing.T) {
	const src = `package p
const A, b = 1, 2
var C = 3
type D struct{}
func (D) E() {}
func (*D) f() {}
func NewD() D { return D{} }
func G[T any](h []T) {}
type i struct{}
func (i) J() {}
`
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, "p.go", src, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"A", "C", "D", "D_E", "G", "NewD"}
	if got := exportedNames(t, fset, []*ast.File{file}); !slices.Equal(got, want) {
		t.Errorf("names %q, want %q", got, want)
	}
}

// rootFiles parses the files of the root package: its tests, or all others.
func rootFiles(t *testing.T, fset *token.FileSet, tests bool) (files []*ast.File) {
	t.Helper()
	entries, err := os.ReadDir(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || strings.HasSuffix(e.Name(), "_test.go") != tests {
			continue
		}
		file, err := parser.ParseFile(fset, e.Name(), nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
	}
	return files
}

// exportedNames lists what a package exports, methods as Type_Method, sorted.
func exportedNames(t *testing.T, fset *token.FileSet, files []*ast.File) (names []string) {
	t.Helper()
	pkg, err := doc.NewFromFiles(fset, files, module)
	if err != nil {
		t.Fatal(err)
	}
	values := slices.Concat(pkg.Consts, pkg.Vars)
	funcs := pkg.Funcs
	for _, typ := range pkg.Types {
		names = append(names, typ.Name)
		values = slices.Concat(values, typ.Consts, typ.Vars)
		funcs = slices.Concat(funcs, typ.Funcs)
		for _, m := range typ.Methods {
			names = append(names, typ.Name+"_"+m.Name)
		}
	}
	for _, f := range funcs {
		names = append(names, f.Name)
	}
	for _, v := range values {
		for _, name := range v.Names {
			if ast.IsExported(name) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// checkedExamples are the names of examples whose output is compared with
// something.
func checkedExamples(files []*ast.File) map[string]bool {
	names := map[string]bool{}
	for _, e := range doc.Examples(files...) {
		if e.Output != "" {
			names[e.Name] = true
		}
	}
	return names
}
