package vet_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/go/analysis/unitchecker"

	"github.com/coppice-go/coppice/vet"
)

// TestMain makes the test binary a tool of go vet, which calls it with a file of settings.
func TestMain(m *testing.M) {
	args := os.Args[1:]
	if len(args) > 0 && (strings.HasPrefix(args[0], "-V=") || slices.Contains(args, "-flags") || strings.HasSuffix(args[len(args)-1], ".cfg")) {
		unitchecker.Main(vet.Analyzer)
	}
	os.Exit(m.Run())
}

// report is a line of go vet: file, line, column, message, rule.
var report = regexp.MustCompile(`(?m)^(\S+\.go):(\d+):(\d+): (.*) \[(\w+)\]$`)

// reports has go vet examine packages of the module above.
func reports(t *testing.T, packages ...string) (found [][]string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	c := exec.Command("go", append([]string{"vet", "-vettool=" + self}, packages...)...)
	c.Dir, c.Stdout, c.Stderr = "..", &out, &out
	err = c.Run()
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	found = report.FindAllStringSubmatch(out.String(), -1)
	if err != nil && len(found) == 0 {
		t.Fatalf("go vet fails: %v\n%s", err, out.String())
	}
	return found
}

// TestNoFalseReports checks programs that keep their duties: those of the corpus, and all of the tree.
func TestNoFalseReports(t *testing.T) {
	for _, r := range reports(t, "./test/corpus/correct", "./examples/...", "./apps/...", "./bench/...", "./test/...") {
		if !strings.Contains(filepath.ToSlash(r[1]), "corpus/breach") {
			t.Error(r[0])
		}
	}
}

// named matches a line of the table of programs.
var named = regexp.MustCompile(`\{Name: "(\w+)"`)

// TestBreachesAreFound checks which rules find which breach of the corpus, by the table in testdata, and that nearly all are
// found. COPPICE_UPDATE=1 writes the table.
func TestBreachesAreFound(t *testing.T) {
	programs, err := os.ReadFile("../test/corpus/breach/programs.go")
	if err != nil {
		t.Fatal(err)
	}
	rules := map[string][]string{}
	for _, r := range reports(t, "./test/corpus/breach") {
		name := strings.TrimSuffix(filepath.Base(r[1]), ".go")
		if !slices.Contains(rules[name], r[5]) {
			rules[name] = append(rules[name], r[5])
		}
	}
	var b strings.Builder
	fmt.Fprintln(&b, "# Which rules of coppice vet find which breaches. \"-\": none.")
	all, found := 0, 0
	for _, m := range named.FindAllStringSubmatch(string(programs), -1) {
		all++
		by := rules[snake(m[1])]
		slices.Sort(by)
		if len(by) == 0 {
			by = []string{"-"}
		} else {
			found++
		}
		fmt.Fprintln(&b, m[1], strings.Join(by, " "))
	}
	t.Logf("%d of %d breaches found", found, all)
	if found*100 < all*85 {
		t.Errorf("%d of %d breaches found; want 85%%", found, all)
	}
	const golden = "testdata/corpus.txt"
	if os.Getenv("COPPICE_UPDATE") != "" {
		if err := os.WriteFile(golden, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if string(want) != b.String() {
		t.Errorf("rules find other breaches than %s says; got\n%s", golden, b.String())
	}
}

// snake is the name of a program's file.
func snake(name string) string {
	return strings.ToLower(regexp.MustCompile(`[A-Z]`).ReplaceAllString(name, "_$0"))
}
