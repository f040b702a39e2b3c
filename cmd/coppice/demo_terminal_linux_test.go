package main

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/coppice-go/coppice/internal/control"
)

// TestDemoIsDrawnOnATerminal: processes, the view and what happens are drawn in place.
func TestDemoIsDrawnOnATerminal(t *testing.T) {
	t.Setenv("TERM", "xterm")
	screen, _ := terminal(t)
	v := newDemoView(newConsole(screen, os.Stderr), 3, true, false)
	v.step(tpchLine{Task: 1, Step: "gather"})
	v.step(tpchLine{Task: 2, Step: "alltoall"})
	for _, e := range []string{
		`{"type":"view","time":"2026-01-01T00:00:00Z","rank":0,"opened":true,"number":1,"members":[[0,1],[1,1],[2,1]],"owners":[0,1,2]}`,
		`{"type":"died","time":"2026-01-01T00:00:00Z","rank":2,"incarnation":1,"certain":true,"how":"killed by SIGKILL"}`,
		`{"type":"view","time":"2026-01-01T00:00:00Z","rank":0,"opened":true,"number":2,"members":[[0,1],[1,1]],"owners":[0,1,0]}`,
	} {
		v.event(eventOf(t, e))
	}
	v.step(tpchLine{Task: 2, Attempt: 1, Step: "tables"})
	v.step(tpchLine{Task: 2, Attempt: 0, Step: "reduce"}) // late, of who is dead: so far had it come
	text := strings.Join(v.lines(24), "\n")
	for _, want := range []string{
		"\x1b[32m●\x1b[0m 0  task 0: starts · \x1b[33mtook over task 2: tables\x1b[0m",
		"\x1b[32m●\x1b[0m 1  task 1: gather",
		"\x1b[31m  ✗ 2  killed at reduce\x1b[0m",
		"view 2: 0 1",
		"process 2 is dead, its task was at alltoall",
		"process 0 runs task 2 again",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%q", want, text)
		}
	}
	if v.last() != 2 {
		t.Errorf("view %d", v.last())
	}
}

// TestDemoFitsTheTerminal: a picture that is higher than the screen would scroll by with each change.
func TestDemoFitsTheTerminal(t *testing.T) {
	for _, c := range []struct{ n, height, processes int }{
		{8, 24, 8}, {32, 24, 11}, {8, 10, 1}, {1000, 24, 11}, {2, 10, 2}, {1000, 1020, 1000},
	} {
		screen, _ := terminal(t)
		if err := unix.IoctlSetWinsize(int(screen.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: uint16(c.height), Col: 40}); err != nil {
			t.Fatal(err)
		}
		room := screenRoom(screen)
		v := newDemoView(newConsole(screen, os.Stderr), c.n, true, false)
		for i := range 30 {
			v.tell("news %d", i)
		}
		lines := v.lines(room)
		text := strings.Join(lines, "\n")
		if room != c.height-1 || room < demoRoom || len(lines) > room || strings.Count(text, "task ") != c.processes || !strings.HasSuffix(text, "news 29") {
			t.Errorf("%d processes on %d lines: %d lines\n%s", c.n, c.height, len(lines), text)
		}
		if hidden := fmt.Sprintf("%d others", c.n-c.processes); c.processes < c.n && !strings.Contains(text, hidden) {
			t.Errorf("no %s in\n%s", hidden, text)
		}
		screen.Close()
	}
}

func TestLinesAreCut(t *testing.T) {
	for line, want := range map[string]string{
		"short":               "short",
		"longer than that":    "longe\x1b[0m",
		"\x1b[31mé✗\x1b[0mab": "\x1b[31mé✗\x1b[0mab",
	} {
		if got := cut(line, 5); got != want {
			t.Errorf("%q: %q; want %q", line, got, want)
		}
	}
}

func eventOf(t *testing.T, text string) (e control.Event) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &e); err != nil {
		t.Fatal(err)
	}
	return e
}
