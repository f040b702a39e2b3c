// Package plant checks that tests find mistakes. A test that never failed proves little; so plant
// builds the tests of a package once more with a few lines of a machine's source replaced. Each
// replacement does the wrong thing if the environment selects it, and then the tests must find it. By
// default a test checks only that the lines exist, since building and running take long. COPPICE_FULL=1
// plants all mistakes (make mutants); with COPPICE_MUTANTS=N as well, one tenth of them, as CI does,
// with a different tenth each day.
package plant

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/extent"
)

// Variable is the environment variable that names the mistake to make.
const Variable = "COPPICE_MISTAKE"

// tenthVariable is the environment variable that selects a tenth of all mistakes, 0 to 9; without it,
// all are planted.
const tenthVariable = "COPPICE_MUTANTS"

// None is the value of Variable that selects no mistake.
const None = "none of them"

// seedVariable is the environment variable with the seed of a mistake.
const seedVariable = "COPPICE_MISTAKE_SEED"

// Seed returns the seed at which random schedules begin: one that finds the mistake, if it is known.
func Seed() uint64 {
	if n, err := strconv.ParseUint(os.Getenv(seedVariable), 10, 64); err == nil {
		return n
	}
	return 1
}

// Mistake is a planted mistake.
type Mistake struct {
	Name     string
	File     string   // the machine's source file
	Old, New string   // New replaces Old; in it, wrong("name") reports whether to go wrong
	Test     string   // the test that must find it, as -test.run takes it
	By       []string // the test's output contains one of them; none: any output will do
	Seed     uint64   // finds it at once, as long as nothing else changes; 0: not known
}

// Garden is a machine's package in which mistakes are planted.
type Garden struct {
	Machine  string // the folder of the machine
	Package  string // its name
	Imports  string // the imports of Help, a line each
	Help     string // functions that the new lines call
	Mistakes []Mistake
	Healthy  string   // a test that passes without a mistake, as -test.run takes it
	Tests    []string // the files of the tests; only these are built, unless there are none
}

// Find checks that the tests of the package under test find every mistake.
func (g *Garden) Find(t *testing.T) {
	t.Helper()
	Find(t, g)
}

// Find does the same for several machines and builds the tests only once.
func Find(t *testing.T, gardens ...*Garden) {
	t.Helper()
	for _, g := range gardens {
		g.sources(t) // checks that all mistakes could be made
	}
	if extent.Few(t, "the mistakes, with which the tests are built once more") {
		return
	}
	tenth := os.Getenv(tenthVariable)
	gardens = slices.DeleteFunc(slices.Clone(gardens), func(g *Garden) bool { return len(g.due(tenth)) == 0 })
	if len(gardens) == 0 {
		t.Logf("none of these mistakes is in tenth %s; all of them: make mutants", tenth)
		return
	}
	program := plant(t, gardens)
	for _, g := range gardens {
		t.Run(g.Package, func(t *testing.T) { g.find(t, program, g.due(tenth)) })
	}
}

// due returns the mistakes of a tenth, or all. It keeps five neighbours together, since their tests are
// built only once; where a garden begins depends on its first mistake, so that small gardens are not
// all due on the same day.
func (g *Garden) due(tenth string) (due []Mistake) {
	h := fnv.New32a()
	h.Write([]byte(g.Mistakes[0].Name))
	for i, m := range g.Mistakes {
		if tenth == "" || tenth == strconv.Itoa((int(h.Sum32()%10)+i/5)%10) {
			due = append(due, m)
		}
	}
	return due
}

func (g *Garden) find(t *testing.T, program string, due []Mistake) {
	t.Helper()
	run := func(name, test string, seed uint64) (string, error) {
		cmd := exec.Command(program, "-test.v", "-test.run", test, "-test.timeout", "2m")
		cmd.Env = append(os.Environ(), Variable+"="+name, extent.Variable+"=1") // a part may miss it
		if seed > 0 {
			cmd.Env = append(cmd.Env, fmt.Sprintf("%s=%d", seedVariable, seed))
		}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for _, m := range due {
		t.Run(m.Name, func(t *testing.T) {
			begin := time.Now()
			out, err := run(m.Name, m.Test, m.Seed)
			var failed *exec.ExitError
			switch {
			case err == nil:
				t.Fatalf("not found by %s\n%s", m.Test, out)
			case !errors.As(err, &failed) || !strings.Contains(out, "--- FAIL"):
				t.Fatalf("%v\n%s", err, out)
			case len(m.By) > 0 && !slices.ContainsFunc(m.By, func(by string) bool { return strings.Contains(out, by) }):
				t.Errorf("found, but not as one of: %q\n%s", m.By, out)
			}
			t.Logf("in %.1f s: %s %s", time.Since(begin).Seconds(), replayed.FindString(out), verdict(out))
		})
	}
	if out, err := run(None, g.Healthy, 0); err != nil {
		t.Errorf("without a mistake: %v\n%s", err, out)
	}
}

// replayed matches the line of a violation with the seed that finds it at once.
var replayed = regexp.MustCompile(`replay: runs 1, seed \d+`)

// verdict returns the line of a failing test that says what is wrong.
func verdict(out string) string {
	for line := range strings.Lines(out) {
		if i := strings.Index(line, "=> "); i >= 0 {
			return strings.TrimSpace(line[i:])
		}
	}
	return "?"
}

// plant builds the tests with the mistakes, and returns the path of the program.
func plant(t *testing.T, gardens []*Garden) string {
	t.Helper()
	dir := t.TempDir()
	replace := map[string]string{}
	for _, g := range gardens {
		machine, err := filepath.Abs(g.Machine)
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range g.sources(t) {
			path := filepath.Join(dir, g.Package+"-"+name)
			write(t, path, []byte(text))
			replace[filepath.Join(machine, name)] = path
		}
	}
	for _, path := range others(t, gardens) {
		replace[path] = "" // removes the file
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	list, program := filepath.Join(dir, "overlay.json"), filepath.Join(dir, "planted.test")
	write(t, list, overlay)
	build := []string{"test", "-c", "-overlay", list, "-o", program}
	if len(gardens) > 1 { // without inlining: where many kinds of worlds are compiled and mistakes are found soon, that saves half of the time
		build = append(build, "-gcflags=-l")
	}
	if out, err := exec.Command("go", append(build, ".")...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}

// others returns the test files that no garden lists, if any garden lists some.
func others(t *testing.T, gardens []*Garden) (paths []string) {
	t.Helper()
	var has []string
	for _, g := range gardens {
		has = append(has, g.Tests...)
	}
	all, err := filepath.Glob("*_test.go")
	if err != nil || has == nil {
		return nil
	}
	for _, name := range all {
		if !slices.Contains(has, name) {
			path, err := filepath.Abs(name)
			if err != nil {
				t.Fatal(err)
			}
			paths = append(paths, path)
		}
	}
	return paths
}

// sources returns the machine's files with their mistakes, and the helper file that these need.
func (g *Garden) sources(t *testing.T) map[string]string {
	t.Helper()
	sources := map[string]string{"planted.go": g.helpers()}
	for _, m := range g.Mistakes {
		if sources[m.File] == "" {
			text, err := os.ReadFile(filepath.Join(g.Machine, m.File))
			if err != nil {
				t.Fatal(err)
			}
			sources[m.File] = string(text)
		}
		if n := strings.Count(sources[m.File], m.Old); n != 1 {
			t.Fatalf("%s: what is to be replaced occurs %d times in %s:\n%s", m.Name, n, m.File, m.Old)
		}
		sources[m.File] = strings.Replace(sources[m.File], m.Old, m.New, 1)
	}
	return sources
}

// helpers returns the source of the helper file in the machine's package.
func (g *Garden) helpers() string {
	return "package " + g.Package + "\n\nimport (\n\t\"os\"\n" + g.Imports + ")\n\n" +
		"var mistake = os.Getenv(\"" + Variable + "\")\n\n" +
		"func wrong(name string) bool { return mistake == name }\n" + g.Help
}

func write(t *testing.T, path string, text []byte) {
	t.Helper()
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
}
