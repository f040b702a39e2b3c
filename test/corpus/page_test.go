package corpus_test

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-go/coppice/test/corpus/breach"
	"github.com/coppice-go/coppice/test/corpus/correct"
)

// The tables of what finds which breach: the first is checked here, the second in module vet. The page shows both.
const (
	byRunning = "testdata/found.txt"
	byVet     = "../../vet/testdata/corpus.txt"
	page      = "../../docs/corpus.md"
)

// How often something is found.
const (
	always    = "always"
	sometimes = "sometimes"
	never     = "-"
	notRun    = "not-run"
)

// lines reads a table: by program, what is said of it.
func lines(t *testing.T, file string) map[string][]string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	said := map[string][]string{}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); len(words) > 1 && words[0] != "#" {
			said[words[0]] = words[1:]
		}
	}
	return said
}

// found is, by program, how often each finder finds it.
func found(t *testing.T) map[string][]string { return lines(t, byRunning) }

// byRules is, by program, which rules of vet find it.
func byRules(t *testing.T) map[string]string {
	rules := map[string]string{}
	for name, words := range lines(t, byVet) {
		if words[0] != "-" {
			rules[name] = strings.Join(words, ", ")
		}
	}
	return rules
}

// write writes the table of what is found by running.
func write(t *testing.T, found map[string][]string) {
	var b strings.Builder
	fmt.Fprint(&b, "# How often of 20 times a breach is found by coppicetest without rehearsal, in a rehearsal, and in a job without faults.\n")
	for _, p := range breach.Programs {
		fmt.Fprintln(&b, p.Name, strings.Join(found[p.Name], " "))
	}
	if err := os.WriteFile(byRunning, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
}

// examples are programs of some size, by their folder in examples, and what they use.
var examples = [][2]string{
	{"pagerank", "`Once`, `Save`, `AllToAll`"},
	{"wordcount", "`Once`, `AllToAll`, `Gather`"},
	{"heat", "`Save`, `Send` and `Recv` between neighbours"},
	{"sweep", "a master and workers: `RecvAny`"},
	{"summa", "`Split`, `Go`, `Broadcast` in rows and columns"},
	{"kmeans", "`Once`, `Broadcast`, `Save`, `AllReduce`"},
	{"histogram", "`AllReduce`, `Rand`"},
}

// TestPage compares the page with the tables. COPPICE_UPDATE=1 writes it.
func TestPage(t *testing.T) {
	text := pageText(t)
	if os.Getenv("COPPICE_UPDATE") != "" {
		if err := os.WriteFile(page, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != text {
		t.Errorf("%s is not what the tables say; COPPICE_UPDATE=1 go test ./test/corpus writes it", page)
	}
}

func pageText(t *testing.T) string {
	vet, running := byRules(t), found(t)
	var rows strings.Builder
	count := make([]int, len(finders)+1)
	none := 0
	for _, p := range breach.Programs {
		rules, words := vet[p.Name], slices.Clone(running[p.Name])
		if rules != "" {
			count[0]++
		}
		some := rules != ""
		for i, w := range words {
			switch w {
			case always:
				count[i+1]++
				some = true
			case notRun:
				words[i] = "not run"
			case never:
				words[i] = ""
			}
		}
		if !some {
			none++
		}
		fmt.Fprintf(&rows, "| [%s](../test/corpus/breach/%s.go) | %s | %s | %s |\n", p.Name, snake(p.Name), p.Wrong, rules, strings.Join(words, " | "))
	}
	var b strings.Builder
	fmt.Fprintf(&b, `# What finds which breach

This page is written by `+"`COPPICE_UPDATE=1 go test ./test/corpus`"+`; tests compare it with what is found. The corpus (`+"`test/corpus`"+`) has
%d programs that break one [duty](api.md#the-users-duties) each, as users do, and %d correct ones, some of which look as if they did not keep them.

| means | what it is | finds always |
|---|---|---|
| vet | [`+"`coppice vet`"+`](vet.md): the rules that report it | %d of %d |
| faults | `+"`coppicetest.Survives`"+` with at most 150 runs, [kills, pauses, joins and departures](replay.md#tests), without its rehearsal | %d |
| rehearsal | a job in `+"`Local`"+` with [`+"`Job.Rehearse`"+`](replay.md#rehearsals) 1, without faults | %d |
| run time | a job in `+"`Local`"+` without faults: an error of an operation, such as `+"`ErrMismatch`"+` | %d |
| none of them | | %d |

Of the correct programs, the [examples](../examples), the applications and the benchmarks `+"`coppice vet`"+` reports none, and the correct programs survive all faults.

`, len(breach.Programs), len(correct.Programs), count[0], len(breach.Programs), count[1], count[2], count[3], none)
	b.WriteString(`## Programs
Programs of some size that the tests kill at every operation (` + "`coppicetest.Survives`" + `). Lines are those of ` + "`main.go`" + ` with code: without comments and blank lines.

| program | uses | lines |
|---|---|---|
`)
	for _, e := range examples {
		fmt.Fprintf(&b, "| [%s](../examples/%s/main.go) | %s | %d |\n", e[0], e[0], e[1], codeLines(t, "../../examples/"+e[0]+"/main.go"))
	}
	b.WriteString(`
## Breaches
"always" is in each of 20 tries, "sometimes" in some of them: that depends on what takes how long. Programs that end or block their process are not run.

| program | what is wrong | vet | faults | rehearsal | run time |
|---|---|---|---|---|---|
`)
	return b.String() + rows.String()
}

// codeLines counts the lines of a file with code.
func codeLines(t *testing.T, file string) (n int) {
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			n++
		}
	}
	return n
}

// snake is the name of a program's file.
func snake(name string) string {
	var b strings.Builder
	for _, r := range name {
		if 'A' <= r && r <= 'Z' {
			b.WriteByte('_')
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}
