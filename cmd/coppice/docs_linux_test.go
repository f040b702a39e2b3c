package main

// Pages are run as a reader would run them: their programs are written to files, their commands are entered into one
// shell, and what these print is compared with what the page shows.

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-go/coppice/internal/extent"
)

func TestPagesShowWhatTheirCommandsPrint(t *testing.T) {
	pages := []string{"README.md", "docs/simulator.md", "docs/tutorial.md"}
	if extent.Few(t, "docs/tutorial.md, which builds many programs") {
		pages = pages[:2]
	}
	for _, page := range pages {
		t.Run(page, func(t *testing.T) {
			t.Parallel()
			if testing.Short() {
				t.Skip("builds programs and simulates many processes; runs without -short")
			}
			text, err := os.ReadFile(filepath.Join(checkout, page))
			if err != nil {
				t.Fatal(err)
			}
			blocks, err := blocksOf(string(text))
			if err != nil {
				t.Fatal(err)
			}
			for _, wrong := range try(t, blocks) {
				t.Error(page + ":" + wrong)
			}
		})
	}
}

// block is a piece of a page between fences.
type block struct {
	line int    // of its first fence
	kind string // the first word after the fence
	file string // the second: where the reader is told to write it
	text string
}

var fenced = regexp.MustCompile("(?ms)^```(\\S+)[ ]?([^\n]*)\n(.*?)^```$")

// blocksOf returns the programs and the sessions of a page.
func blocksOf(page string) (blocks []block, err error) {
	for _, at := range fenced.FindAllStringSubmatchIndex(page, -1) {
		b := block{
			line: 1 + strings.Count(page[:at[0]], "\n"),
			kind: page[at[2]:at[3]], file: page[at[4]:at[5]], text: page[at[6]:at[7]],
		}
		switch {
		case b.kind == "go" && (b.file == "" || !strings.HasPrefix(b.text, "package ")):
			return nil, fmt.Errorf("line %d: a program that cannot be tried; wanted: a whole file, and its name after ```go", b.line)
		case b.kind == "console" && !strings.HasPrefix(b.text, "$ "):
			return nil, fmt.Errorf("line %d: no command; wanted: lines that begin with $, each with what it prints", b.line)
		case b.kind == "go" || b.kind == "console":
			blocks = append(blocks, b)
		}
	}
	return blocks, nil
}

// entry is a command of a session, and what it is shown to print.
type entry struct {
	line    int
	entered string
	printed string
}

func (b block) entries() (all []entry) {
	for i, line := range strings.SplitAfter(b.text, "\n") {
		if entered, ok := strings.CutPrefix(line, "$ "); ok {
			all = append(all, entry{line: b.line + 1 + i, entered: strings.TrimSuffix(entered, "\n")})
		} else {
			all[len(all)-1].printed += line
		}
	}
	return all
}

// prelude spares the reader's shell a build: coppice is this program already.
const prelude = `checkout=$PWD
go() {
	case "$*" in
	"install ./cmd/coppice") ;;
	"run ./cmd/coppice "*) shift 2; coppice "$@" ;;
	*) command go "$@" ;;
	esac
}
`

// boundary comes between what two commands print.
const boundary = "\x01\n"

// try writes the programs of a page and enters its commands, in their order, and returns what is wrong.
func try(t *testing.T, blocks []block) (wrong []string) {
	t.Helper()
	var script strings.Builder
	var commands []entry
	script.WriteString(prelude)
	for _, b := range blocks {
		if b.kind == "go" {
			fmt.Fprintf(&script, "[[ $PWD != $checkout ]] || exit\nmkdir -p %s && cat > %s <<'END OF FILE'\n%sEND OF FILE\n", filepath.Dir(b.file), b.file, b.text)
			continue
		}
		for _, c := range b.entries() {
			fmt.Fprintf(&script, "printf '%s'; (exit $status)\n%s\nstatus=$?\n", boundary, c.entered)
			commands = append(commands, c)
		}
	}
	if slices.ContainsFunc(blocks, func(b block) bool { return b.kind == "go" }) {
		last := entry{line: blocks[len(blocks)-1].line, entered: "go vet ./... # by the test"}
		fmt.Fprintf(&script, "printf '%s'\n%s\n", boundary, last.entered)
		commands = append(commands, last)
	}
	printed := strings.Split(reader(t, script.String()), boundary)[1:]
	if len(printed) != len(commands) {
		t.Fatalf("%d commands were run of %d; the last printed\n%s", len(printed), len(commands), printed[len(printed)-1])
	}
	for i, c := range commands {
		if !shows(c.printed, printed[i]) {
			wrong = append(wrong, fmt.Sprintf("%d: $ %s\nshown:\n%s\nprinted:\n%s", c.line, c.entered, c.printed, printed[i]))
		}
	}
	return wrong
}

// reader runs a script in the checkout, with a home of its own and what Go has fetched already, and returns what it prints.
func reader(t *testing.T, script string) string {
	t.Helper()
	for _, tool := range []string{"bash", "mkdir", "cat", "sleep"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("the pages are written for a shell: %v; on Debian: apt-get install bash coreutils", err)
		}
	}
	shell := exec.CommandContext(t.Context(), "bash", "-c", script)
	shell.Dir = checkout
	shell.Env = append(os.Environ(), "HOME="+t.TempDir(), "GOPROXY=off", "GONOSUMDB=*", "PWD=")
	for _, name := range []string{"GOPATH", "GOMODCACHE", "GOCACHE"} {
		value, err := exec.Command("go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		shell.Env = append(shell.Env, name+"="+strings.TrimSpace(string(value)))
	}
	var printed bytes.Buffer
	shell.Stdout, shell.Stderr = &printed, &printed
	err := shell.Run()
	if shell.ProcessState == nil {
		t.Fatal(err)
	}
	return printed.String()
}

// varying are figures that differ from run to run.
var varying = []struct {
	figures *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`\b\d[\d.e+]* ?s\b`), "N s"},
	{regexp.MustCompile(`[\d.]+ million a second`), "N million a second"},
	{regexp.MustCompile(`\bview \d+`), "view N"},
}

// shows reports whether a page shows what was printed. Lines of one process are in order; a line of three dots
// leaves out others, and then those that are shown may be anywhere.
func shows(shown, printed string) bool {
	want, got := steady(shown), steady(printed)
	if !slices.Contains(want, "...") {
		return slices.Equal(want, got)
	}
	for _, line := range want {
		if line != "..." && !slices.Contains(got, line) {
			return false
		}
	}
	return true
}

// steady returns lines without what differs from run to run, those of one process together.
func steady(text string) (lines []string) {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, " \n")
		for _, v := range varying {
			line = v.figures.ReplaceAllString(line, v.instead)
		}
		if line != "" {
			lines = append(lines, line)
		}
	}
	process := func(line string) string { return regexp.MustCompile(`^\[\d+\] |`).FindString(line) }
	slices.SortStableFunc(lines, func(a, b string) int { return cmp.Compare(process(a), process(b)) })
	return lines
}

// TestPagesThatShowSomethingElseAreFound: the comparison is able to fail.
func TestPagesThatShowSomethingElseAreFound(t *testing.T) {
	for _, c := range []struct {
		shown, printed string
		want           bool
	}{
		{"a\n", "a\n", true},
		{"a\n", "b\n", false},
		{"", "a\n", false},
		{"a\n", "", false},
		{"a\nb\n", "b\na\n", false},
		{"[0] a\n[1] b\n", "[1] b\n[0] a\n", true},
		{"[0] a\n[0] b\n", "[0] b\n[0] a\n", false},
		{"[0] a\n[1] b\n", "[1] a\n[0] b\n", false},
		{"in 0.04 s, 2 s, 1s\n", "in 12.5 s, 1e+01 s, 3.5s\n", true},
		{"in 3 rounds\n", "in 4 rounds\n", false},
		{"a\n...\nd\n", "a\nb\nc\nd\n", true},
		{"a\n...\ne\n", "a\nb\nc\nd\n", false},
	} {
		if shows(c.shown, c.printed) != c.want {
			t.Errorf("shown %q, printed %q: want %v", c.shown, c.printed, c.want)
		}
	}
	for _, page := range []string{"```go\npackage p\n```\n", "```go main.go\nx := 1\n```\n", "```console\nno command\n```\n"} {
		if _, err := blocksOf(page); err == nil {
			t.Errorf("%q is taken for a page that can be tried", page)
		}
	}
	if testing.Short() {
		return
	}
	for page, want := range map[string]string{
		"```console\n$ (exit 3)\n$ echo $?\n3\n```\n":                                                  "",
		"```console\n$ cd $HOME\n$ echo yes\nno\n```\n":                                                "3: $ echo yes",
		"```console\n$ cd $HOME\n```\n```go a.go\npackage main\n```\n```console\n$ go run a.go\n```\n": "8: $ go run a.go",
	} {
		blocks, err := blocksOf(page)
		if err != nil {
			t.Fatal(err)
		}
		if wrong := strings.Join(try(t, blocks), "\n"); !strings.HasPrefix(wrong, want) || (want == "") != (wrong == "") {
			t.Errorf("found %q in %q, want %q", wrong, page, want)
		}
	}
}
