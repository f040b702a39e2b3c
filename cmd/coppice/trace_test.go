package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/alecthomas/kong"
	"github.com/coppice-go/coppice/dashboard/trace"
)

var traceData = regexp.MustCompile(`(?s)<script id="trace" type="application/json">(.*?)</script>`)

// readPage takes the trace out of a page.
func readPage(t *testing.T, name string) (shows trace.Trace) {
	t.Helper()
	page, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	found := traceData.FindSubmatch(page)
	if found == nil {
		t.Fatalf("no trace in %s", name)
	}
	if err := json.Unmarshal(found[1], &shows); err != nil {
		t.Fatal(err)
	}
	return shows
}

// TestTracePageTellsTheRun: the tiny run of logp's TestTraceOfATinyRun, with one
// more death: 1 is dead, 2 dies at 4, and a message to it is under way.
func TestTracePageTellsTheRun(t *testing.T) {
	_, got := pageOf(t, "-P 4 -L 0 --correction opportunistic:1 --sides 1 --sync overlapped --failed 1 --die 2@4")
	want := trace.Trace{
		Title: "binomial interleaved, opportunistic:1 overlapped; P=4 L=0 o=1; one side; dead: [1]; 1 die on the way; 1 run, seed 1",
		Figures: []trace.Figure{
			{Name: "coloring", Value: "4 steps"},
			{Name: "quiescence", Value: "5 steps"},
			{Name: "correction", Value: "3 steps"},
			{Name: "dissemination messages", Value: "2"},
			{Name: "correction messages", Value: "3"},
			{Name: "messages per process", Value: "1.25"},
			{Name: "largest gap", Value: "1"},
			{Name: "uncolored", Value: "0"},
		},
		L: 0, O: 1, Start: 2, Color: 4, End: 5, Tree: true,
		Processes: []trace.Process{
			{Parent: -1, From: -1, Died: -1, Colored: 0, By: trace.Origin, Delivered: 0},
			{Parent: 0, From: -1, Died: 0, Colored: -1, Delivered: -1},
			{Parent: 0, From: 0, Died: 4, Colored: 3, By: trace.Dissemination, Delivered: 3},
			{Parent: 1, From: 0, Died: -1, Colored: 4, By: trace.Correction, Delivered: 4},
		},
		Messages: []trace.Message{
			{To: 1, Ended: 1, Kind: "spread", Outcome: trace.Lost},
			{To: 2, Sent: 1, Ended: 3, Kind: "spread"},
			{To: 3, Sent: 2, Ended: 4, Kind: "left", Correction: true},
			{From: 2, To: 1, Sent: 3, Ended: 4, Kind: "left", Correction: true, Outcome: trace.Lost},
			{From: 3, To: 2, Sent: 4, Ended: 5, Kind: "left", Correction: true, Outcome: trace.Lost},
		},
	}
	want.Command = got.Command // has a path of this run; see TestCommandRepeatsTheRun
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%+v, want\n%+v", got, want)
	}
}

// TestTraceTellsWhatBecameOfMessages: taken; lost to one that dies while it is
// under way, there and then; ignored by one that has finished.
func TestTraceTellsWhatBecameOfMessages(t *testing.T) {
	_, shows := pageOf(t, "-P 2 -L 3 --correction none --die 1@2")
	if want := []trace.Message{{To: 1, Ended: 4, Kind: "spread", Outcome: trace.Lost}}; !reflect.DeepEqual(shows.Messages, want) {
		t.Errorf("dies in flight: %+v, want %+v", shows.Messages, want)
	}
	_, shows = pageOf(t, "-P 2 -L 3 -o 2 --correction none --die 1@6")
	if want := []trace.Message{{To: 1, Ended: 6, Kind: "spread", Outcome: trace.Lost}}; !reflect.DeepEqual(shows.Messages, want) {
		t.Errorf("dies while it receives: %+v, want %+v", shows.Messages, want)
	}
	_, shows = pageOf(t, "-P 16")
	ignored := slices.ContainsFunc(shows.Messages, func(m trace.Message) bool { return m.Outcome == trace.Ignored })
	lost := slices.ContainsFunc(shows.Messages, func(m trace.Message) bool { return m.Outcome == trace.Lost })
	if !ignored || lost {
		t.Errorf("without failures: ignored %v, lost %v; want some, none", ignored, lost)
	}
}

// TestCommandRepeatsTheRun: what the page offers as its command, run again,
// gives the same page; everything that matters is in it.
func TestCommandRepeatsTheRun(t *testing.T) {
	used := map[string]bool{}
	for _, flags := range []string{
		"-P 8",
		"-P 50 -L 3 -o 2 -g 4 --tree lame:3 --order in-order --root 7 --correction optimized:3 --sync overlapped --early serve --first right --wrap=false --runs 5 --seed 9 --faults 10% --block 2",
		"-P 20 --tree gossip:6 --queue=false --failed 3,4 --die 5@2 --die 6#1 --correction opportunistic:2 --sides 1",
		"-P 12 --tree bfb --correction none --failed 3,4 --detect 7",
	} {
		page, first := pageOf(t, flags)
		command, err := shellWords(first.Command)
		if err != nil || len(command) < 2 || command[0] != "coppice" {
			t.Fatalf("%s: command %q: %v", flags, first.Command, err)
		}
		if err := os.Remove(page); err != nil {
			t.Fatal(err)
		}
		null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer null.Close()
		if exit := run(command[1:], null, null); exit != 0 {
			t.Fatalf("%s: exit code %d", first.Command, exit)
		}
		if again := readPage(t, page); !reflect.DeepEqual(again, first) {
			t.Errorf("%s\ngives\n%+v\nnot\n%+v", first.Command, again.Title, first.Title)
		}
		for _, word := range command {
			name, _, _ := strings.Cut(word, "=")
			used[name] = true
		}
	}
	for _, flag := range simFlags(t) {
		if !used["--"+flag.Name] && !used["-"+string(flag.Short)] {
			t.Errorf("no command uses --%s: is it missing in simCmd.command?", flag.Name)
		}
	}
}

// simFlags are the flags of coppice sim that a run depends on.
func simFlags(t *testing.T) (flags []*kong.Flag) {
	t.Helper()
	parser, err := kong.New(&commands{}, words)
	if err != nil {
		t.Fatal(err)
	}
	for _, command := range parser.Model.Children {
		for _, flag := range command.Flags {
			same := flag.Name == "faults" || // written as --fault-count
				flag.Group != nil && strings.HasPrefix(flag.Group.Key, "Collective") // of which there are no pages
			if command.Name == "sim" && !same && flag.Name != "help" && flag.Name != "json" && flag.Name != "workers" {
				flags = append(flags, flag)
			}
		}
	}
	if len(flags) < 20 {
		t.Fatalf("%d flags", len(flags))
	}
	return flags
}

// shellWords splits a line as a shell does, as far as shellWord needs it.
func shellWords(line string) (words []string, err error) {
	word, quoted, open := []rune{}, false, false
	escaped := false
	for _, r := range line {
		switch {
		case escaped:
			word, escaped = append(word, r), false
		case r == '\\' && !quoted:
			escaped = true
		case r == '\'':
			quoted, open = !quoted, true
		case r == ' ' && !quoted:
			words, word, open = append(words, string(word)), word[:0], false
		default:
			word = append(word, r)
		}
	}
	if quoted || escaped {
		return nil, errors.New("a quote is open")
	}
	if len(word) > 0 || open {
		words = append(words, string(word))
	}
	return words, nil
}

func TestShellWordsAreQuoted(t *testing.T) {
	for _, c := range []struct{ word, want string }{
		{"out.html", "out.html"},
		{"a b", "'a b'"},
		{"it's", `'it'\''s'`},
		{"$(rm)", "'$(rm)'"},
		{"6#1", "'6#1'"},
		{"", "''"},
	} {
		got := shellWord(c.word)
		if got != c.want {
			t.Errorf("%q: %s, want %s", c.word, got, c.want)
		}
		if back, err := shellWords(got); err != nil || !slices.Equal(back, []string{c.word}) {
			t.Errorf("%q: a shell reads %q, %v", got, back, err)
		}
	}
}

// TestReplaceFileLosesNothing: what fails in the middle leaves the old file, and
// nothing beside it.
func TestReplaceFileLosesNothing(t *testing.T) {
	dir := t.TempDir()
	name := filepath.Join(dir, "run.html")
	link := filepath.Join(dir, "link.html")
	if err := errors.Join(writeFile(name, "old"), os.Chmod(name, 0o600), os.Symlink("run.html", link)); err != nil {
		t.Fatal(err)
	}
	failure := errors.New("halfway")
	err := replaceFile(name, func(w *bufio.Writer) error {
		w.WriteString("new")
		return failure
	})
	if !errors.Is(err, failure) {
		t.Errorf("got %v, want %v", err, failure)
	}
	check := func(want string) {
		t.Helper()
		text, err := os.ReadFile(name)
		if err != nil || string(text) != want {
			t.Errorf("%q, %v; want %q", text, err, want)
		}
		if files, err := os.ReadDir(dir); err != nil || len(files) != 2 {
			t.Errorf("files %v, %v; want the page and the link", files, err)
		}
	}
	check("old")
	if err := replaceFile(link, func(w *bufio.Writer) error { _, err := w.WriteString("new"); return err }); err != nil {
		t.Fatal(err)
	}
	check("new")
	if info, err := os.Lstat(link); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link became %v, %v", info, err)
	}
	if info, err := os.Stat(name); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v; want that of the old file", info.Mode(), err)
	}
}
