package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8/cwriter"

	"github.com/coppice-go/coppice/internal/control"
)

// demoView shows a job as it runs: drawn again with every change on a terminal, otherwise a line for each
// thing that happens.
type demoView struct {
	*console
	n     int // processes
	live  bool
	quiet bool

	mu     sync.Mutex
	began  time.Time
	roster *roster
	doing  map[int]tpchLine // by task: its latest step
	news   []string
	drawn  int            // lines on the screen
	ended  bool           // nothing is drawn any more
	dead   map[int]bool   // by rank
	first  map[int]string // by task: the latest step of its first attempt
}

func newDemoView(c *console, n int, live, quiet bool) *demoView {
	v := &demoView{
		console: c, n: n, live: live, quiet: quiet, began: time.Now(),
		roster: newRoster(""), doing: map[int]tpchLine{}, first: map[int]string{}, dead: map[int]bool{},
	}
	v.roster.size = n
	return v
}

// step takes what a task tells.
func (v *demoView) step(l tpchLine) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if l.Attempt == 0 {
		v.first[l.Task] = l.Step
	}
	if old, ok := v.doing[l.Task]; !ok || old.Attempt <= l.Attempt {
		v.doing[l.Task] = l
	}
	v.draw()
}

// event takes what the coordinator tells.
func (v *demoView) event(e control.Event) {
	v.mu.Lock()
	defer v.mu.Unlock()
	before := v.roster.view
	v.roster.learn(e)
	switch e.Type {
	case control.EventDied:
		v.dies(e.Rank)
	case control.EventView:
		v.changed(before, v.roster.view)
	}
	v.draw()
}

// dies tells that a process is dead, once: the others may know it before the coordinator.
func (v *demoView) dies(rank int) {
	if !v.dead[rank] {
		v.dead[rank] = true
		v.tell("process %d is dead, its task was at %s", rank, v.lastStep(rank))
	}
}

// lastStep is the last that a process told of the task that it began with.
func (v *demoView) lastStep(rank int) string { return cmp.Or(v.first[rank], "the start") }

// changed tells of a new view.
func (v *demoView) changed(before, now *control.View) {
	if now == nil || before == nil || before.Number == now.Number {
		return
	}
	for _, m := range before.Members {
		if !now.Has(m.Rank(), m.Incarnation()) {
			v.dies(m.Rank())
		}
	}
	v.tell("view %d: %d processes agree on who is left", now.Number, len(now.Members))
	for task, owner := range now.Owners {
		if task < len(before.Owners) && before.Owners[task] != owner {
			v.tell("process %d runs task %d again, from its tables on", owner, task)
		}
	}
}

// tell adds a line about something that happened.
func (v *demoView) tell(format string, args ...any) {
	line := fmt.Sprintf("%6.3f s  ", time.Since(v.began).Seconds()) + fmt.Sprintf(format, args...)
	v.news = append(v.news, line)
	if !v.live && !v.quiet {
		fmt.Fprintln(v.stdout, line)
	}
}

// last is the number of the last view.
func (v *demoView) last() uint64 {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.roster.view == nil {
		return 1
	}
	return v.roster.view.Number
}

// end draws no more.
func (v *demoView) end() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.ended = true
}

// draw draws the present state over the last one.
func (v *demoView) draw() {
	if !v.live || v.ended {
		return
	}
	width, _, err := cwriter.GetSize(int(v.stdout.Fd()))
	if err != nil || width < 20 {
		width = 80
	}
	room := screenRoom(v.stdout)
	var b bytes.Buffer
	v.drawn = min(v.drawn, room)
	if v.drawn > 0 {
		fmt.Fprintf(&b, "\x1b[%dA", v.drawn)
	}
	lines := v.lines(room)
	for _, line := range lines {
		fmt.Fprintf(&b, "\x1b[2K%s\n", cut(line, width-1))
	}
	for range v.drawn - len(lines) {
		b.WriteString("\x1b[2K\n")
	}
	v.drawn = max(v.drawn, len(lines))
	_, _ = v.stdout.Write(b.Bytes())
}

// screenRoom is how many lines a terminal can show above the one of the cursor.
func screenRoom(screen *os.File) int {
	_, height, err := cwriter.GetSize(int(screen.Fd()))
	if err != nil || height < 1 {
		height = 24
	}
	return height - 1
}

// Lines of the picture. It takes demoRoom at least: that is with two for processes and one for what happened.
const (
	demoFrame = 5 // beside processes and what happened
	demoNews  = 6 // for what happened, if there is room
	demoRoom  = demoFrame + 3
)

// lines are those of the screen, room at most: the processes, the view, and what happened. If there is too little, it
// has the first and the last processes, and what happened last.
func (v *demoView) lines(room int) []string {
	title := fmt.Sprintf("TPC-H query 3 in memory of %d processes, slowed down to watch", v.n)
	lines := []string{v.in(bold, title), ""}
	shown := min(v.n, max(2, room-demoFrame-demoNews))
	for rank := range v.n {
		switch hidden := v.n - shown + 1; {
		case shown == v.n || rank < shown/2 || rank >= shown/2+hidden:
			lines = append(lines, v.process(rank))
		case rank == shown/2:
			lines = append(lines, v.in(faint, fmt.Sprintf("    %d others", hidden)))
		}
	}
	view := "no view yet"
	if now := v.roster.view; now != nil {
		members := each(now.Members, func(m control.Identity) string { return fmt.Sprint(m.Rank()) })
		view = fmt.Sprintf("view %d: %s", now.Number, strings.Join(members, " "))
	}
	news := v.news[max(0, len(v.news)-max(0, room-demoFrame-shown)):]
	return append(append(lines, "", "  "+view, ""), news...)
}

// process is the line of one.
func (v *demoView) process(rank int) string {
	if v.dead[rank] {
		return v.in(red, fmt.Sprintf("  ✗ %d  killed at %s", rank, v.lastStep(rank)))
	}
	var tasks []string
	for _, task := range v.tasksOf(rank) {
		text := fmt.Sprintf("task %d: %s", task, cmp.Or(v.doing[task].Step, "starts"))
		if task != rank {
			text = v.in(yellow, "took over "+text)
		}
		tasks = append(tasks, text)
	}
	return fmt.Sprintf("  %s %d  %s", v.in(green, "●"), rank, strings.Join(tasks, " · "))
}

// tasksOf are the tasks of a process.
func (v *demoView) tasksOf(rank int) (owned []int) {
	if v.roster.view == nil || v.roster.view.Owners == nil {
		return []int{rank}
	}
	for task, owner := range v.roster.view.Owners {
		if owner == rank {
			owned = append(owned, task)
		}
	}
	return owned
}

// cut shortens a line to what is seen of it in so many columns; paint takes none.
func cut(line string, width int) string {
	seen, painted := 0, false
	for i, r := range line {
		switch {
		case r == '\x1b':
			painted = true
		case painted:
			painted = r != 'm'
		default:
			if seen++; seen > width {
				return line[:i] + "\x1b[0m"
			}
		}
	}
	return line
}
