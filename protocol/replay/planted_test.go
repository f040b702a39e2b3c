package replay_test

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Mistakes that recovery by replay invites, planted to see that they are found. They
// are planted in the machine's own source: the tests of this package are built once
// more with a few lines of it replaced, each by lines that do the wrong thing if the
// environment says so.

// mistakeVariable names the mistake.
const mistakeVariable = "COPPICE_MISTAKE"

// How they come to light.
const (
	otherBits = "a task returns with other bits"
	noEnd     = "a live process does not come to the end"
	early     = "the job has ended, and a task has returned nowhere"
)

var mistakes = []struct {
	name     string
	file     string
	old, new string // what is replaced
	found    string // in this world of recoveries
	by       string // in this way; empty: in any
}{
	{
		name: "the log is not sent again", file: "process.go",
		old:   `t.again(to)`,
		new:   `t.againUnless("the log is not sent again", to)`,
		found: "two", by: noEnd,
	},
	{
		name: "the log is sent again once, though the adopter died", file: "process.go",
		old: `		for _, t := range s.tasks {
			t.`,
		new: `		for _, t := range s.tasks {
			if before.Owners[to] != j.first.Owners[to] && wrong("the log is sent again once, though the adopter died") {
				continue
			}
			t.`,
		found: "four of whom three crash", by: noEnd,
	},
	{
		name: "the log is forgotten once it is sent again", file: "task.go",
		old: `		t.out = append(t.out, logged(head, value))
	}
`,
		new: `		t.out = append(t.out, logged(head, value))
	}
	if wrong("the log is forgotten once it is sent again") {
		t.log = NewLog(headLen)
	}
`,
		found: "four of whom three crash", by: noEnd,
	},
	{
		name: "messages to the dead are not logged", file: "process.go",
		old: `	t.keep(f)
`,
		new: `	for _, m := range s.members.Failed() {
		if m.ID == s.view.Owners[f.To] && wrong("messages to the dead are not logged") {
			return
		}
	}
	t.keep(f)
`,
		found: "three that lose what is on its way", by: noEnd,
	},
	{
		name: "the log refers to memory that is written later", file: "task.go",
		old: `		v = bytes.Clone(v) // the`,
		new: `		if !wrong("the log refers to memory that is written later") {
			v = bytes.Clone(v)
		}
		// the`,
		found: "two and sums",
	},
	{
		name: "what has come twice is folded twice", file: "task.go",
		old: `	if i < 0 { // it has come before
`,
		new: `	if i < 0 && wrong("what has come twice is folded twice") {
		steps := c.programs[t.number].Steps
		for k := range steps[:len(steps)-1] {
			if st := &steps[k]; st.Kind == collective.RecvStep && st.Peer == f.From && st.Lane == f.Lane && steps[k+1].Kind == collective.FoldStep {
				t.do(c, move{int32(k), f})
				t.do(c, move{step: int32(k + 1)})
			}
		}
	}
	if i < 0 { // it has come before
`,
		found: "two and sums", by: otherBits,
	},
	{
		name: "a message is taken for one of the present operation", file: "task.go",
		old: `	switch at := int(f.Op); {
`,
		new: `	at := int(f.Op)
	if wrong("a message is taken for one of the present operation") && at > t.op && t.begun {
		at = t.op
	}
	switch {
`,
		found: "three that lose what is on its way",
	},
	{
		name: "messages for a task of another process are dropped", file: "process.go",
		old: `	s.held = append(`,
		new: `	if wrong("messages for a task of another process are dropped") {
		return
	}
	s.held = append(`,
		found: "four of whom three crash", by: noEnd,
	},
	{
		name: "a new attempt begins where others are", file: "process.go",
		old: `newTask(j.program, to, v.Number))`,
		new: `newTask(j.program, to, v.Number))
			if at > 0 && wrong("a new attempt begins where others are") {
				s.tasks[at].op = s.tasks[at-1].op
			}`,
		found: "two",
	},
	{
		name: "a new attempt works in another's store", file: "process.go",
		old: `			at, _ := slices.`,
		new: `			defer func() {
				if t := s.find(to); len(s.tasks) > 1 && wrong("a new attempt works in another's store") {
					t.store = s.tasks[0].store
				}
			}()
			at, _ := slices.`,
		found: "two and sums",
	},
	{
		name: "a new attempt receives before its time", file: "task.go",
		old:   `first: view == firstView,`,
		new:   `first: view == firstView || wrong("a new attempt receives before its time"),`,
		found: "two and sums",
	},
	{
		name: "a task that had returned is not run again", file: "process.go",
		old: `	held := s.held
`,
		new: `	if len(s.tasks) > 1 && wrong("a task that had returned is not run again") && s.tasks[0].returned {
		for _, t := range s.tasks {
			t.returned, t.announced = true, true
		}
	}
	held := s.held
`,
		found: "four of whom three crash",
	},
	{
		name: "what is sent again goes to the first owner", file: "process.go",
		old: `		if owner := s.view.Owners[f.To]; owner`,
		new: `		owner := s.view.Owners[f.To]
		if wrong("what is sent again goes to the first owner") {
			owner = j.first.Owners[f.To]
		}
		if owner`,
		found: "two", by: noEnd,
	},
	{
		name: "the job ends without who has not returned", file: "ending.go",
		old: `		if v == nil ||`,
		new: `		if v == nil && m.ID > 0 && wrong("the job ends without who has not returned") {
			continue
		}
		if v == nil ||`,
		found: "two", by: early,
	},
	{
		name: "the job ends in views of which one is without more", file: "ending.go",
		old:   `!latest.Has(m) })`,
		new:   `!latest.Has(m) && !wrong("the job ends in views of which one is without more") })`,
		found: "four of whom three crash", by: early,
	},
	{
		name: "a process leaves when its tasks have returned", file: "process.go",
		old:   `	case s.ended:`,
		new:   `	case s.ended || s.told > 0 && wrong("a process leaves when its tasks have returned"):`,
		found: "three that lose what is on its way",
	},
}

// planting is a file of its own in the machine's package.
const planting = `package replay

import (
	"os"

	"github.com/coppice-go/coppice/protocol"
)

var mistake = os.Getenv("` + mistakeVariable + `")

func wrong(name string) bool { return mistake == name }

func (t *task) againUnless(name string, to protocol.Rank) {
	if !wrong(name) {
		t.again(to)
	}
}
`

func TestPlantedMistakesAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the tests once more")
	}
	planted := plant(t)
	run := func(name, test string) (string, error) {
		cmd := exec.Command(planted, "-test.v", "-test.run", test, "-test.timeout", "1m")
		cmd.Env = append(os.Environ(), mistakeVariable+"="+name)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for _, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			begin := time.Now()
			out, err := run(m.name, "^TestRecoveryKeepsItsPromises$/^"+strings.ReplaceAll(m.found, " ", "_")+"$")
			var failed *exec.ExitError
			switch {
			case err == nil:
				t.Fatalf("not found in the world: %s\n%s", m.found, out)
			case !errors.As(err, &failed) || !strings.Contains(out, "--- FAIL"):
				t.Fatalf("%v\n%s", err, out)
			case !strings.Contains(out, m.by):
				t.Errorf("found, but not as: %s\n%s", m.by, out)
			}
			t.Logf("in %.1f s: %s", time.Since(begin).Seconds(), verdictOf(out))
		})
	}
	if out, err := run("none of them", "^TestRecoveryKeepsItsPromises$/^two$"); err != nil {
		t.Errorf("without a mistake: %v\n%s", err, out)
	}
}

// verdictOf is the line of a failing test that says what is wrong.
func verdictOf(out string) string {
	for line := range strings.Lines(out) {
		if i := strings.Index(line, "=> "); i >= 0 {
			return strings.TrimSpace(line[i:])
		}
	}
	return "?"
}

// plant builds the tests of this package with the mistakes, and returns where.
func plant(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	machine, err := filepath.Abs(".")
	if err != nil {
		t.Fatal(err)
	}
	sources := map[string]string{"planted.go": planting}
	for _, m := range mistakes {
		if sources[m.file] == "" {
			text, err := os.ReadFile(filepath.Join(machine, m.file))
			if err != nil {
				t.Fatal(err)
			}
			sources[m.file] = string(text)
		}
		if n := strings.Count(sources[m.file], m.old); n != 1 {
			t.Fatalf("%s: what is to be replaced occurs %d times in %s:\n%s", m.name, n, m.file, m.old)
		}
		sources[m.file] = strings.Replace(sources[m.file], m.old, m.new, 1)
	}
	replace := map[string]string{}
	for name, text := range sources {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(machine, name)] = path
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "planted.test")
	if out, err := exec.Command("go", "test", "-c", "-overlay", list, "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}
