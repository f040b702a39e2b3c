package coppice_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-go/coppice"
)

// watching is a play in which tasks tell every view they see, until one has as
// few processes as the argument says, or they are let go by an interrupt. The
// tasks given as further arguments kill themselves at barriers meanwhile.
func watching(tell func(line), args []string) coppice.Func {
	few := number(args[0])
	return func(ctx context.Context, t *coppice.Task) error {
		tell := telling(tell, t)
		tell(line{What: "ready"})
		if slices.Contains(args[1:], fmt.Sprint(t.Rank())) {
			_ = coppice.Barrier(ctx, t) // it dies in it
		}
		for v := range t.Views(ctx) {
			tell(line{What: "view", Value: int(v.Number), Text: sketch(v)})
			if len(v.Processes) <= few {
				return nil
			}
		}
		err := context.Cause(ctx)
		if err == nil { // the job has ended for this process: any operation says why
			err = coppice.Barrier(ctx, t)
		}
		tell(failure("error", err))
		return nil
	}
}

// sketch is a view in short.
func sketch(v coppice.View) string {
	ids := make([]string, len(v.Processes))
	for i, p := range v.Processes {
		ids[i] = fmt.Sprint(p.ID)
		if p.Incarnation > 1 {
			ids[i] += fmt.Sprint(".", p.Incarnation)
		}
	}
	return strings.Join(ids, " ")
}

// sameViews checks that no two tasks saw different views of a number, and that
// numbers grow.
func sameViews(t *testing.T, views []line) {
	t.Helper()
	by, last := map[int]string{}, map[int]int{}
	for _, l := range views {
		if by[l.Value] == "" {
			by[l.Value] = l.Text
		}
		if by[l.Value] != l.Text {
			t.Errorf("two views of number %d: %s and %s", l.Value, by[l.Value], l.Text)
		}
		if l.Value <= last[l.Rank] {
			t.Errorf("task %d saw view %d after %d", l.Rank, l.Value, last[l.Rank])
		}
		last[l.Rank] = l.Value
	}
}

func TestSurvivorsSeeTheSameViews(t *testing.T) {
	s := scene{n: 6, play: []string{"watch", "3", "0", "2", "5"}, settings: settings{Kill: []string{"0@barrier#1", "2@barrier#1", "5@barrier#1"}}}
	check := func(t *testing.T, x *script) {
		t.Helper()
		views := x.of("view")
		sameViews(t, views)
		for _, rank := range []int{1, 3, 4} {
			i := slices.IndexFunc(views, func(l line) bool { return l.Rank == rank && l.Text == "1 3 4" })
			if i < 0 {
				t.Errorf("task %d has not seen the view of the survivors: %v", rank, views)
			}
		}
	}
	t.Run("Local", func(t *testing.T) {
		x, err := s.local(t)
		if err != nil {
			t.Error(err)
		}
		check(t, x)
	})
	t.Run("processes", func(t *testing.T) {
		x, report := s.real(t)
		if report.Exit != 0 {
			t.Errorf("exit %d", report.Exit)
		}
		check(t, x)
	})
}

// TestHalfDieAtOnce kills half of 64 processes at one instant, the lowest of all
// among them: the others agree on one view.
func TestHalfDieAtOnce(t *testing.T) {
	n := short(64, 16)
	for range short(2, 1) {
		g := scene{n: n, play: []string{"watch", fmt.Sprint(n / 2)}}.begin(t)
		pids := g.pids(t, "ready")
		g.await(t, "view", n)
		victims := rand.Perm(n - 1)[:n/2-1]
		for i := range victims {
			victims[i]++
		}
		victims = append(victims, 0)
		for _, r := range victims {
			if err := syscall.Kill(pids[r], syscall.SIGKILL); err != nil {
				t.Fatal(err)
			}
		}
		report := g.end(t)
		if report.Exit != 0 {
			t.Errorf("exit %d", report.Exit)
		}
		views := g.of("view")
		sameViews(t, views)
		var survivors []string
		for r := range n {
			if !slices.Contains(victims, r) {
				survivors = append(survivors, fmt.Sprint(r))
			}
		}
		for r := range n {
			if slices.Contains(victims, r) {
				continue
			}
			if !slices.ContainsFunc(views, func(l line) bool { return l.Rank == r && l.Text == strings.Join(survivors, " ") }) {
				t.Errorf("task %d has not seen the view of the survivors", r)
			}
		}
	}
}

// TestAStoppedProcessIsFenced stops one of two processes: it is killed, and the
// other goes on alone.
func TestAStoppedProcessIsFenced(t *testing.T) {
	g := scene{n: 2, play: []string{"watch", "1"}, settings: settings{Silence: 400 * time.Millisecond}}.begin(t)
	pids := g.pids(t, "ready")
	g.await(t, "view", 2)
	if err := syscall.Kill(pids[0], syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	report := g.end(t)
	if len(report.Killed) != 1 || report.Killed[0] != 0 {
		t.Errorf("killed %v", report.Killed)
	}
	views := g.of("view")
	sameViews(t, views)
	if last := views[len(views)-1]; last.Rank != 1 || last.Text != "1" {
		t.Errorf("%v", views)
	}
}

// TestPausesChangeNoView stops processes for a third of the silence that is
// allowed, again and again.
func TestPausesChangeNoView(t *testing.T) {
	const n, silence = 4, 3 * time.Second
	g := scene{n: n, play: []string{"watch", "0"}, settings: settings{Silence: silence}}.begin(t)
	pids := g.pids(t, "ready")
	g.await(t, "view", n)
	for i := range short(3, 1) {
		pid := pids[(i*2+1)%n]
		if err := syscall.Kill(pid, syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		time.Sleep(silence / 3)
		if err := syscall.Kill(pid, syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
	time.Sleep(silence / 3)
	for _, pid := range pids {
		_ = syscall.Kill(pid, syscall.SIGINT)
	}
	g.end(t)
	for _, l := range g.of("view") {
		if l.Value != 1 {
			t.Errorf("task %d saw view %d: %s", l.Rank, l.Value, l.Text)
		}
	}
}
