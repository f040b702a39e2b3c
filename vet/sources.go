package vet

import (
	"go/types"
	"strings"

	"golang.org/x/tools/go/ssa"
)

const module = "github.com/coppice-go/coppice"

// callee returns the function that a call names, by its declaration: for an instance of a generic function that of the
// generic one. It is nil for a call of a value.
func callee(c *ssa.CallCommon) *types.Func {
	if c.IsInvoke() {
		return c.Method
	}
	if f := c.StaticCallee(); f != nil {
		if o := f.Origin(); o != nil {
			f = o
		}
		if obj, ok := f.Object().(*types.Func); ok {
			return obj.Origin()
		}
	}
	return nil
}

// nameOf returns the path of a function's package, and its name: "Now", or "Rand.Int" for a method.
func nameOf(f *types.Func) (path, name string) {
	if f == nil || f.Pkg() == nil {
		return "", ""
	}
	name = f.Name()
	if recv := f.Signature().Recv(); recv != nil {
		name = typeName(recv.Type()) + "." + name
	}
	return f.Pkg().Path(), name
}

func typeName(t types.Type) string {
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	if n, ok := t.(*types.Named); ok {
		return n.Obj().Name()
	}
	return ""
}

// sourceOf returns the kind of source that a function of the standard library is.
func sourceOf(path, name string) (kind int, ok bool) {
	in := func(names string) bool { return words(names)[name] }
	switch path {
	case "time":
		return clock, in("Now Since Until After Tick NewTimer NewTicker")
	case "math/rand", "math/rand/v2":
		return chance, !strings.Contains(name, ".") && !strings.HasPrefix(name, "New")
	case "crypto/rand", "github.com/google/uuid":
		return chance, true
	case "hash/maphash":
		return chance, in("MakeSeed String Bytes Comparable")
	case "maps":
		return order, in("Keys Values All")
	case "reflect":
		return order, in("Value.MapKeys")
	case "os":
		return outside, in(`Getenv LookupEnv Environ Hostname Getpid Getppid Getuid Getwd TempDir UserHomeDir Executable
			ReadFile Open OpenFile ReadDir Stat Lstat Readlink CreateTemp MkdirTemp ExpandEnv`)
	case "os/user", "os/exec", "net", "net/http", "io/ioutil":
		return outside, true
	case "path/filepath":
		return outside, in("Glob Walk WalkDir")
	case "runtime":
		switch {
		case in("NumCPU GOMAXPROCS"):
			return machine, true
		case in("NumGoroutine ReadMemStats"):
			return outside, true
		}
	}
	return 0, false
}

// purePackages have functions that change no memory of their arguments.
var purePackages = words("time strings strconv math math/bits math/cmplx unicode unicode/utf8 errors path path/filepath cmp log log/slog testing sync sync/atomic context runtime hash/crc32 reflect")

// prints reports whether a function only writes to people.
func prints(path, name string) bool {
	return path == "fmt" && strings.HasPrefix(name, "Print") || path == "log" || path == "log/slog" || path == "testing"
}

// sorts reports whether a function puts its first argument in order.
func sorts(path, name string) bool {
	switch path {
	case "sort":
		return words("Sort Stable Slice SliceStable Strings Ints Float64s")[name]
	case "slices":
		return words("Sort SortFunc SortStableFunc")[name]
	}
	return false
}

// settles reports whether the result of a function does not depend on the order of its arguments' elements.
func settles(path, name string) bool {
	switch path {
	case "slices":
		return words("Sorted SortedFunc SortedStableFunc Max Min Contains")[name]
	case "maps":
		return words("Collect Clone Equal")[name]
	}
	return false
}

// changes reports whether a function of the standard library, of those that are known, changes its first argument.
func changes(path, name string) bool {
	return sorts(path, name) || path == "slices" && (name == "Reverse" || name == "Delete" || name == "Insert" || name == "Compact")
}

// packageName returns the name of a package by its path.
func packageName(path string) string {
	path = strings.TrimSuffix(path, "/v2")
	return path[strings.LastIndex(path, "/")+1:]
}

func isTask(t types.Type) bool { return isCoppice(t, "Task") }

// isCoppice reports whether a type is one of package coppice, or a pointer to it.
func isCoppice(t types.Type, name string) bool {
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	n, ok := t.(*types.Named)
	return ok && n.Obj().Pkg() != nil && n.Obj().Pkg().Path() == module && n.Obj().Name() == name
}
