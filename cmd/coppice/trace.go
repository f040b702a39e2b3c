package main

import (
	"bufio"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/coppice-go/coppice/dashboard/trace"
	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
	"github.com/coppice-go/coppice/topology"
)

// checkTrace says what is wrong with --trace, before anything is simulated.
func (s *simCmd) checkTrace() error {
	if s.Trace != "" && s.P > trace.ProcessesMax {
		return fmt.Errorf("--trace with %d processes; allowed: up to %d", s.P, trace.ProcessesMax)
	}
	return checkNewFile("--trace", s.Trace)
}

// writeTrace draws run i into a file.
func (s *simCmd) writeTrace(c *console, i int) error {
	spec, net, runs, err := s.plan()
	if err != nil {
		return err
	}
	records, result, err := logp.TraceBroadcast(spec, net, runs, i)
	if err != nil {
		return err
	}
	drawing := newDrawing(records, result, net, spec)
	config := s.config(runs)
	drawing.Title, drawing.Command = config.summary(), s.command(runs)
	line := "trace: " + s.Trace
	if runs.Runs > 1 {
		drawing.Note = fmt.Sprintf("run %d of %d, the one with the longest quiescence", i+1, runs.Runs)
		line += ": " + drawing.Note
	}
	if err := replaceFile(s.Trace, func(w *bufio.Writer) error { return trace.Write(w, drawing) }); err != nil {
		return err
	}
	_, err = fmt.Fprintln(c.stderr, line)
	return err
}

// newDrawing turns the records of a run into what the page draws.
func newDrawing(records []logp.Record, result logp.Result, net logp.Network, spec broadcast.Spec) trace.Trace {
	t := trace.Trace{
		Figures: figures(result, net.P),
		L:       int(net.L), O: int(net.O), Root: int(spec.Root),
		Start: trace.Never, Color: int(result.Coloring), End: int(result.Quiescence),
		Processes: make([]trace.Process, net.P),
	}
	for r := range t.Processes {
		t.Processes[r] = trace.Process{Parent: -1, From: -1, Died: trace.Never, Colored: trace.Never, Delivered: trace.Never}
	}
	for _, r := range records {
		draw(&t, r)
	}
	settleMessages(&t, records)
	t.Tree = addParents(t.Processes, spec)
	return t
}

func figures(r logp.Result, p int) []trace.Figure {
	return []trace.Figure{
		{Name: "coloring", Value: steps(r.Coloring)},
		{Name: "quiescence", Value: steps(r.Quiescence)},
		{Name: "correction", Value: steps(r.Correction)},
		{Name: "dissemination messages", Value: thousands(r.Disseminations)},
		{Name: "correction messages", Value: thousands(r.Corrections)},
		{Name: "messages per process", Value: number(float64(r.Sent()) / float64(p))},
		{Name: "largest gap", Value: strconv.Itoa(r.GapMax)},
		{Name: "uncolored", Value: strconv.Itoa(r.Uncolored)},
	}
}

func steps(t protocol.Time) string { return count(int(t), "step") }

// draw adds one record. Who sends or delivers before it receives has the
// message by itself.
func draw(t *trace.Trace, r logp.Record) {
	at := int(r.At)
	from, to := &t.Processes[r.From], &t.Processes[r.To]
	switch r.Kind {
	case logp.Died:
		to.Died = at
	case logp.Delivered:
		colorIt(to, at, trace.Origin, -1)
		to.Delivered = at
	case logp.Sent:
		colorIt(from, at, trace.Origin, -1)
		if r.Correction && t.Start == trace.Never {
			t.Start = at
		}
		t.Messages = append(t.Messages, trace.Message{
			From: int(r.From), To: int(r.To), Sent: at, Ended: int(r.Until),
			Kind: r.Message.String(), Correction: r.Correction, Names: each(r.Names, func(r protocol.Rank) int { return int(r) }), Detail: r.Detail,
		})
	case logp.Received:
		cause := trace.Dissemination
		if r.Correction {
			cause = trace.Correction
		}
		colorIt(to, at, cause, int(r.From))
	}
}

func colorIt(p *trace.Process, at int, by trace.Cause, from int) {
	if p.Colored == trace.Never {
		p.Colored, p.By, p.From = at, by, from
	}
}

// settleMessages tells what became of each message. One that was not received
// met a process that was dead, or one that had finished.
func settleMessages(t *trace.Trace, records []logp.Record) {
	type ended struct{ from, to, at int }
	received := map[ended]bool{}
	for _, r := range records {
		if r.Kind == logp.Received {
			received[ended{int(r.From), int(r.To), int(r.At)}] = true
		}
	}
	for i := range t.Messages {
		m := &t.Messages[i]
		died := t.Processes[m.To].Died
		switch {
		case received[ended{m.From, m.To, m.Ended}]:
			m.Outcome = trace.Taken
		case died == trace.Never || died > m.Ended:
			m.Outcome = trace.Ignored
		default:
			m.Outcome, m.Ended = trace.Lost, max(m.Sent+t.O+t.L, died)
		}
	}
}

// addParents gives the processes their parents: those of the tree, and true; or
// after gossip who colored them.
func addParents(processes []trace.Process, spec broadcast.Spec) bool {
	shape, err := topology.ParseShape(spec.Tree)
	if err == nil {
		if tree, err := shape.Tree(len(processes), spec.Order, int(spec.L), int(spec.O)); err == nil {
			tree = topology.Rooted(tree, int(spec.Root))
			for r := range processes {
				processes[r].Parent = tree.Parent(r)
			}
			return true
		}
	}
	for r := range processes {
		processes[r].Parent = processes[r].From
	}
	return false
}

// replaceFile writes a file beside the old one and puts it in its place when it
// is complete: whatever goes wrong, what was there stays.
func replaceFile(path string, write func(*bufio.Writer) error) (err error) {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target
	}
	mode := fs.FileMode(0o644)
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			f.Close()
			os.Remove(f.Name())
		}
	}()
	w := bufio.NewWriter(f)
	err = write(w)
	if err == nil {
		err = w.Flush()
	}
	if err = errors.Join(err, f.Chmod(mode), f.Close()); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.Rename(f.Name(), path)
}

// command is what repeats the simulation. What is as usual is left out, except the few flags that say what is simulated.
func (s *simCmd) command(runs logp.Runs) string {
	again := *s
	again.Faults, again.Workers, again.JSON = nil, 0, false // the seed draws from a number of processes
	if again.FaultCount = nil; runs.Faults.Count > 0 {
		again.FaultCount = &runs.Faults.Count
	}
	flags := repeated(&again, "processes", "latency", "overhead", "tree", "correction")
	return strings.Join(each(append([]string{"coppice", "sim"}, flags...), shellWord), " ")
}

// shellWord quotes a word that a shell would not take as it is.
func shellWord(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("-_./:=,@%+", r)
	}
	if word != "" && !slices.ContainsFunc([]rune(word), func(r rune) bool { return !plain(r) }) {
		return word
	}
	return quote(word)
}
