package coppice_test

// The rules of the house, as tests. The tables come first, the rules below. Every
// rule is a function of a set of files, so house_breaches_test.go can prove on
// planted breaches that it is able to fail.

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

const module = "github.com/coppice-go/coppice"

// A room is a row of the table in docs/design.md: folders that belong together and
// what they may import of ours, subfolders included.
type room struct {
	in     string // its folders
	may    string // rooms it may import; with them, what those may import
	pure   bool   // no clock, network, goroutine, channel or global randomness
	apart  bool   // its subfolders see its top folder, but not each other
	strict bool   // may means exactly these, not what those may import
	closed bool   // holds for its tests too
}

const everything = "*"

var rooms = []room{
	{in: ".", may: "internal topology protocol"},
	{in: "topology", pure: true, closed: true},
	{in: "protocol", may: "topology", pure: true, apart: true},
	{in: "protocol/recovery protocol/ending", may: "protocol", pure: true},
	{in: "model", may: "topology", pure: true},
	{in: "logp", may: "protocol"},
	{in: "chaos", may: "protocol chaos/replay"},
	{in: "chaos/replay", may: "protocol", pure: true},
	{in: "experiment", may: "logp model"},
	{in: "internal/node internal/transport internal/wire", may: "protocol internal/detect internal/large internal/segment internal/node/engine internal/node/roster"},
	{in: "internal/node/engine", may: "protocol internal/large internal/segment"},
	{in: "internal/node/roster", may: "protocol", pure: true},
	{in: "internal/codec internal/fold", may: "internal/large"},
	{in: "internal/difference internal/explore internal/extent internal/plant internal/posix internal/watch"},
	{in: "coppicetest", may: ". internal/difference internal/watch"},
	{in: "internal/store", may: "internal/posix"},
	{in: "internal/spool", may: "internal/detect"},
	{in: "internal/large internal/segment"},
	{in: "internal/detect", may: "internal/posix"},
	{in: "swim", may: "internal/detect"},
	{in: "etcd", may: "internal/control"}, // a module of its own
	{in: "vet"},                           // a module of its own
	{in: "internal/control internal/launch", may: "internal/wire internal/transport internal/detect internal/spool protocol"},
	{in: "internal/doctor", may: "internal/control internal/launch internal/transport"},
	{in: "apps examples bench", may: ".", strict: true}, // programs on the public API only
	{in: "test", may: ". internal chaos"},               // jobs of real processes
	{in: "etcd/internal/program", may: "etcd test"},     // a program of these jobs
	{in: "dashboard"},
	{in: "cmd", may: everything},
}

// impureImports are packages (with those below them) that a pure room does without:
// they bring in time, the outside world, concurrency, or chance.
var impureImports = []string{
	"C", "context", "crypto/rand", "hash/maphash", "log", "net", "os", "plugin",
	"runtime", "sync", "syscall", "testing", "time", "unsafe",
}

// pureNames are all that a pure room may use of these packages: for math/rand what
// makes a generator of its own, never the global one; for fmt what leaves standard
// input and output alone.
var pureNames = map[string][]string{
	"math/rand":    {"New", "NewSource", "NewZipf", "Rand", "Source", "Source64", "Zipf"},
	"math/rand/v2": {"ChaCha8", "New", "NewChaCha8", "NewPCG", "NewZipf", "PCG", "Rand", "Source", "Zipf"},
	"fmt": {
		"Append", "Appendf", "Appendln", "Errorf", "FormatString", "Formatter",
		"Fprint", "Fprintf", "Fprintln", "GoStringer", "Sprint", "Sprintf", "Sprintln",
		"Sscan", "Sscanf", "Sscanln", "State", "Stringer",
	},
}

// vagueNames say nothing about what is in a file or a folder.
var vagueNames = []string{
	"base", "common", "helper", "helpers", "misc", "types", "util", "utils",
}

// linesMax is the length of the longest Go file we want to read.
const linesMax = 700

var (
	unfinished = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|XX` + `X)\b`)

	// A path that exists on one machine only. What precedes the slash tells it from
	// the middle of a longer path or address.
	machinePath = regexp.MustCompile(`(^|[^\w.~})*-])/(work|root|home|Users)/`)
)

// A rule returns its breaches in a set of files, each with its place.
type rule func([]file) (breaches []string)

var rules = []struct {
	name  string
	check rule
}{
	{"imports go one way", importsOneWay},
	{"rooms of a process are closed", nodeRoomsClosed},
	{"pure rooms are pure", pureRooms},
	{"pure rooms need no other module", pureRoomsStandAlone},
	{"heavy modules stay apart", heavyModulesApart},
	{"no dot imports", noDotImports},
	{"names say what is inside", tellingNames},
	{"one package comment each", onePackageComment},
	{"what is not stable says so", unstableSayIt},
	{"files are short", shortFiles},
	{"nothing is left to do", nothingUnfinished},
	{"no path of one machine", noMachinePath},
	{"no promises", noPromises},
	{"links lead somewhere", linksLead},
	{"the index lists every page", indexListsPages},
}

func TestHouseRules(t *testing.T) {
	files := readTree(t)
	for _, r := range rules {
		t.Run(r.name, func(t *testing.T) {
			for _, breach := range r.check(files) {
				t.Error(breach)
			}
		})
	}
}

func importsOneWay(files []file) (breaches []string) {
	for _, f := range goFiles(files) {
		r, ok := roomOf(f.dir())
		if !ok {
			breaches = append(breaches, fmt.Sprintf(
				"%s: folder %q is no room: add it to the table in house_test.go and in docs/design.md", f.path, f.dir()))
			continue
		}
		if f.isTest() && !r.closed {
			continue
		}
		for _, spec := range f.syntax.Imports {
			to, ours := ourFolder(importPath(spec))
			if ours && !mayImport(f.dir(), to) {
				breaches = append(breaches, f.at(spec, "folder %q may not import %q", f.dir(), to))
			}
		}
	}
	return breaches
}

// mayImport tells whether a package in folder from may import the one in folder to.
func mayImport(from, to string) bool {
	r, ok := roomOf(from)
	if !ok || from == to {
		return ok
	}
	if dest, ok := roomOf(to); ok && dest == r {
		return !r.apart || to == r.in || part(from, r.in) == part(to, r.in)
	}
	return slices.ContainsFunc(reach(r), func(folder string) bool {
		return folder == everything || within(to, folder)
	})
}

// reach returns the folders that a room may import from, directly or through those.
func reach(r room) []string {
	folders := strings.Fields(r.may)
	if r.strict {
		return folders
	}
	for i := 0; i < len(folders); i++ {
		for _, other := range rooms {
			if !slices.ContainsFunc(strings.Fields(other.in), func(in string) bool { return within(in, folders[i]) }) {
				continue
			}
			for _, more := range strings.Fields(other.may) {
				if !slices.Contains(folders, more) {
					folders = append(folders, more)
				}
			}
		}
	}
	return folders
}

// roomOf returns the room of a folder: the one that names the longest part of it.
func roomOf(folder string) (found room, ok bool) {
	longest := -1
	for _, r := range rooms {
		for _, in := range strings.Fields(r.in) {
			if within(folder, in) && len(in) > longest {
				found, ok, longest = r, true, len(in)
			}
		}
	}
	return found, ok
}

// within tells whether a folder is the other or lies below it. Nothing counts as
// below the root: its subfolders are rooms of their own.
func within(folder, other string) bool {
	return folder == other || strings.HasPrefix(folder, other+"/")
}

// part returns the first element of a folder's path below its room.
func part(folder, top string) string {
	name, _, _ := strings.Cut(strings.TrimPrefix(folder, top+"/"), "/")
	return name
}

func pureRooms(files []file) (breaches []string) {
	for _, f := range pureFiles(files) {
		restricted := map[string]string{} // the local name of a package in pureNames → its path
		for _, spec := range f.syntax.Imports {
			p := importPath(spec)
			if slices.ContainsFunc(impureImports, func(impure string) bool { return within(p, impure) }) {
				breaches = append(breaches, f.at(spec, "a pure room imports %q", p))
			}
			if pureNames[p] != nil {
				restricted[localName(spec)] = p
			}
		}
		ast.Inspect(f.syntax, func(n ast.Node) bool {
			if what := impurity(n, restricted); what != "" {
				breaches = append(breaches, f.at(n, "a pure room has %s", what))
			}
			return true
		})
	}
	return breaches
}

// impurity names what is impure about a node itself, or returns "". A variable that
// bears the name of a restricted package is taken for it: rename the variable.
func impurity(n ast.Node, restricted map[string]string) string {
	switch n := n.(type) {
	case *ast.GoStmt:
		return "a go statement"
	case *ast.ChanType:
		return "a channel type"
	case *ast.SelectStmt:
		return "a select statement"
	case *ast.SendStmt:
		return "a send on a channel"
	case *ast.UnaryExpr:
		if n.Op == token.ARROW {
			return "a receive from a channel"
		}
	case *ast.CallExpr:
		if fun, ok := n.Fun.(*ast.Ident); ok && (fun.Name == "print" || fun.Name == "println") {
			return "output by " + fun.Name
		}
	case *ast.SelectorExpr:
		pkg, ok := n.X.(*ast.Ident)
		if !ok {
			break
		}
		if p, ok := restricted[pkg.Name]; ok && !slices.Contains(pureNames[p], n.Sel.Name) {
			return fmt.Sprintf("%s of %q", n.Sel.Name, p)
		}
	}
	return ""
}

func pureRoomsStandAlone(files []file) (breaches []string) {
	for _, f := range pureFiles(files) {
		for _, spec := range f.syntax.Imports {
			p := importPath(spec)
			host, _, _ := strings.Cut(p, "/")
			if _, ours := ourFolder(p); !ours && strings.Contains(host, ".") {
				breaches = append(breaches, f.at(spec, "a pure room imports another module, %q", p))
			}
		}
	}
	return breaches
}

// heavyModules take long to build: only files of these folders with this build tag import them, so that
// nobody builds them without asking (docs/dependencies.md).
var heavyModules = map[string]struct{ folder, tag string }{
	"github.com/parquet-go/parquet-go": {"apps/tpch", "parquet"},
}

func heavyModulesApart(files []file) (breaches []string) {
	for _, f := range goFiles(files) {
		for _, spec := range f.syntax.Imports {
			for heavy, only := range heavyModules {
				if within(importPath(spec), heavy) && (!within(f.dir(), only.folder) || !strings.HasPrefix(f.text, "//go:build "+only.tag+"\n")) {
					breaches = append(breaches, f.at(spec, "%q is for files in %q that begin with //go:build %s", importPath(spec), only.folder, only.tag))
				}
			}
		}
	}
	return breaches
}

func noDotImports(files []file) (breaches []string) {
	for _, f := range goFiles(files) {
		for _, spec := range f.syntax.Imports {
			if spec.Name != nil && spec.Name.Name == "." {
				breaches = append(breaches, f.at(spec, "dot import of %q", importPath(spec)))
			}
		}
	}
	return breaches
}

func tellingNames(files []file) (breaches []string) {
	for _, f := range goFiles(files) {
		name := strings.TrimSuffix(path.Base(f.path), ".go")
		name = strings.TrimSuffix(name, "_test")
		for _, name := range []string{name, path.Base(f.dir())} {
			if slices.Contains(vagueNames, name) {
				breaches = append(breaches, fmt.Sprintf("%s: %q says nothing: name it for what is inside", f.path, name))
			}
		}
	}
	return breaches
}

func onePackageComment(files []file) (breaches []string) {
	commented := map[string][]string{} // folder → its files with a package comment
	for _, f := range goFiles(files) {
		if f.isTest() {
			continue
		}
		if _, seen := commented[f.dir()]; !seen {
			commented[f.dir()] = nil
		}
		if f.syntax.Doc.Text() != "" {
			commented[f.dir()] = append(commented[f.dir()], f.path)
		}
	}
	for dir, in := range commented {
		if len(in) != 1 {
			breaches = append(breaches, fmt.Sprintf("folder %q: package comment in %d files %q, want 1", dir, len(in), in))
		}
	}
	return breaches
}

// stable are the packages that docs/stability.md promises to keep; programs should not build on others.
var stable = []string{".", "coppicetest", "etcd", "swim"}

const unstable = "Its API may change."

// unstableSayIt is about packages that a program could import and that are not for tests of ours.
func unstableSayIt(files []file) (breaches []string) {
	for _, f := range goFiles(files) {
		if f.syntax.Doc == nil || f.isTest() || f.syntax.Name.Name == "main" || within(f.dir(), "test") || slices.Contains(strings.Split(f.dir(), "/"), "internal") {
			continue
		}
		said := strings.Contains(strings.Join(strings.Fields(f.syntax.Doc.Text()), " "), unstable)
		switch is := slices.Contains(stable, f.dir()); {
		case is && said:
			breaches = append(breaches, fmt.Sprintf("%s: %q, and package %q is stable", f.path, unstable, f.dir()))
		case !is && !said:
			breaches = append(breaches, fmt.Sprintf("%s: the package comment lacks %q, and the package is not among the stable ones", f.path, unstable))
		}
	}
	return breaches
}

func shortFiles(files []file) (breaches []string) {
	for _, f := range goFiles(files) {
		if n := strings.Count(f.text, "\n"); n > linesMax {
			breaches = append(breaches, fmt.Sprintf("%s: %d lines, more than %d: what is its second subject?", f.path, n, linesMax))
		}
	}
	return breaches
}

func nothingUnfinished(files []file) (breaches []string) {
	for _, f := range goFiles(files) {
		for _, group := range f.syntax.Comments {
			for _, c := range group.List {
				if mark := unfinished.FindString(c.Text); mark != "" {
					breaches = append(breaches, f.at(c, "%s: do it, or leave it", mark))
				}
			}
		}
	}
	return breaches
}

func noMachinePath(files []file) (breaches []string) {
	for _, f := range files {
		for i, line := range strings.Split(f.text, "\n") {
			if machinePath.MatchString(line) {
				breaches = append(breaches, fmt.Sprintf("%s:%d: a path of one machine: %s", f.path, i+1, strings.TrimSpace(line)))
			}
		}
	}
	return breaches
}

// file is a text file of the repository; syntax is nil unless it is Go.
type file struct {
	path, text string
	set        *token.FileSet
	syntax     *ast.File
}

func (f file) dir() string  { return path.Dir(f.path) }
func (f file) isTest() bool { return strings.HasSuffix(f.path, "_test.go") }

func (f file) at(n ast.Node, format string, args ...any) string {
	return fmt.Sprintf("%s:%d: %s", f.path, f.set.Position(n.Pos()).Line, fmt.Sprintf(format, args...))
}

func parse(t *testing.T, name, text string) file {
	t.Helper()
	f := file{path: name, text: text, set: token.NewFileSet()}
	if strings.HasSuffix(name, ".go") && !slices.Contains(strings.Split(name, "/"), "testdata") {
		var err error
		f.syntax, err = parser.ParseFile(f.set, name, text, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
	}
	return f
}

// readTree reads the text files below the root. Hidden folders are not ours, but for
// those of continuous integration.
func readTree(t *testing.T) (files []file) {
	t.Helper()
	root := os.DirFS(".")
	err := fs.WalkDir(root, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			hidden := strings.HasPrefix(d.Name(), ".") && name != "."
			if hidden && name != ".ci" && name != ".github" {
				return fs.SkipDir
			}
			return nil
		}
		if !d.Type().IsRegular() || name == ".git" { // in a work tree beside others, that is a file
			return nil
		}
		text, err := fs.ReadFile(root, name)
		if err != nil {
			return err
		}
		if utf8.Valid(text) && !slices.Contains(text, 0) {
			files = append(files, parse(t, name, string(text)))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func goFiles(files []file) (found []file) {
	for _, f := range files {
		if f.syntax != nil {
			found = append(found, f)
		}
	}
	return found
}

// pureFiles returns the Go files of the pure rooms, without their tests.
func pureFiles(files []file) (found []file) {
	for _, f := range goFiles(files) {
		if r, _ := roomOf(f.dir()); r.pure && !f.isTest() {
			found = append(found, f)
		}
	}
	return found
}

// ourFolder returns the folder of an import path of this module.
func ourFolder(importPath string) (folder string, ours bool) {
	if importPath == module {
		return ".", true
	}
	return strings.CutPrefix(importPath, module+"/")
}

func importPath(spec *ast.ImportSpec) string {
	p, _ := strconv.Unquote(spec.Path.Value) // the parser has checked it
	return p
}

// localName returns the name by which a file calls an import.
func localName(spec *ast.ImportSpec) string {
	if spec.Name != nil {
		return spec.Name.Name
	}
	p := importPath(spec)
	if name := path.Base(p); !regexp.MustCompile(`^v[0-9]+$`).MatchString(name) {
		return name
	}
	return path.Base(path.Dir(p))
}
