//go:build linux

package hosts

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-go/coppice/test/program"
	"github.com/coppice-go/coppice/test/stage"
)

func TestMain(m *testing.M) {
	if len(os.Args) > 1 {
		switch os.Args[1] {
		case programWord:
			os.Exit(program.Main(os.Args[2:]))
		case commandWord:
			os.Exit(command(os.Args[2:]))
		}
	}
	stage.Main(m)
}

// netnsVariable is the environment variable that lets tests make network namespaces.
const netnsVariable = "COPPICE_NETNS"

// openLab makes what jobs across hosts need, or skips the test.
func openLab(t *testing.T) *lab {
	t.Helper()
	if os.Getenv(netnsVariable) == "" {
		t.Skipf("jobs across hosts need network namespaces and sshd: set %s=1 and be root, or see step integration of .ci/run", netnsVariable)
	}
	l, err := newLab("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(l.close)
	return l
}

// TestHostsSample runs a few rows once, all at the same time. On a machine with other work it only
// shows how long jobs stall.
func TestHostsSample(t *testing.T) {
	t.Parallel()
	l := openLab(t)
	for i, r := range rows() {
		if !r.sample {
			continue
		}
		t.Run(r.name, func(t *testing.T) {
			t.Parallel()
			o := r.try(t.Context(), l, i)
			if o.skipped != nil {
				t.Skip(o.skipped)
			}
			t.Logf("stall %.1f s, %v %v", o.stall.Seconds(), o.extra, o.slow)
			if o.late {
				t.Skipf("the machine is too busy: %s", strings.Join(o.problems, "\n"))
			}
			if len(o.problems) > 0 {
				t.Errorf("%s\n%s", strings.Join(o.problems, "\n"), o.log)
			}
		})
	}
}

// TestHostsCutOneWay: a cut loses what is sent one way, that way only, and heals.
func TestHostsCutOneWay(t *testing.T) {
	t.Parallel()
	if os.Getenv(netnsVariable) == "" {
		t.Skipf("needs network namespaces: set %s=1 and be root", netnsVariable)
	}
	n, err := newHostNetwork(2)
	if errors.Is(err, errNoRight) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	reached := datagrams(t, n)
	for _, c := range []struct {
		ways []way
		want [2]bool // datagrams from 0 to 1, and from 1 to 0
	}{
		{nil, [2]bool{true, true}},
		{[]way{{From: 0, To: 1}}, [2]bool{false, true}},
		{[]way{{From: 1, To: 0}}, [2]bool{true, false}},
		{[]way{{From: 0, To: 1}, {From: 1, To: 0}}, [2]bool{false, false}},
		{nil, [2]bool{true, true}},
	} {
		if err := n.Cut(c.ways...); err != nil {
			t.Fatal(err)
		}
		if got := [2]bool{reached(0, c.want[0]), reached(1, c.want[1])}; got != c.want {
			t.Errorf("cut %v: reached %v, want %v", c.ways, got, c.want)
		}
	}
}

func TestEvictedAreJudgedByTheSetThatFitsBest(t *testing.T) {
	for _, c := range []struct {
		name    string
		evicted []int
		may     [][]int
		must    bool
		healthy int
		ok      bool
	}{
		{"nobody", nil, [][]int{nil}, false, 0, true},
		{"one where nobody may be", []int{3}, [][]int{nil}, false, 1, false},
		{"exactly", []int{2, 3}, [][]int{{2, 3}}, true, 0, true},
		{"too few", []int{2}, [][]int{{2, 3}}, true, 0, false},
		{"nobody where some must be", nil, [][]int{{2, 3}}, true, 0, false},
		{"others instead", []int{4, 5}, [][]int{{2, 3}}, true, 2, false},
		{"one more", []int{2, 3, 4}, [][]int{{2, 3}}, true, 1, false},
		{"part of one of two", []int{4}, [][]int{{2, 3}, {4, 5}}, false, 0, true},
		{"the other of two", []int{4, 5}, [][]int{{2, 3}, {4, 5}}, false, 0, true},
		{"some of both", []int{2, 4, 5}, [][]int{{2, 3}, {4, 5}}, false, 1, false},
	} {
		var o outcome
		o.judgeEvicted(c.evicted, c.may, c.must)
		if o.healthy != c.healthy || (len(o.problems) == 0) != c.ok {
			t.Errorf("%s: %d healthy, %q; want %d, ok %v", c.name, o.healthy, o.problems, c.healthy, c.ok)
		}
	}
}

func TestEvictedAreAllWhoDidNotEndWell(t *testing.T) {
	r := report{Killed: []int{4}}
	r.Tasks = append(r.Tasks, []struct {
		Rank, Exit int
		Signal     string
		Heirs      []int
	}{{Rank: 0}, {Rank: 1, Exit: 1}, {Rank: 2, Signal: "SIGKILL"}, {Rank: 3, Heirs: []int{0}}, {Rank: 4}}...)
	if got := r.evicted(); !slices.Equal(got, []int{1, 2, 3, 4}) {
		t.Errorf("evicted %v", got)
	}
}

func TestTheLongestStallIsBetweenTwoSteps(t *testing.T) {
	at := func(ms ...int) (all []time.Time) {
		for _, m := range ms {
			all = append(all, time.UnixMilli(int64(m)))
		}
		return all
	}
	for want, times := range map[time.Duration][]time.Time{
		0:                      at(70),
		900 * time.Millisecond: at(0, 40, 940, 980),
	} {
		if got := longest(times); got != want {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

// TestJobsNoteEveryStepOnce: a task that is run again notes its last step again, at a later time, which
// is not when the step was done.
func TestJobsNoteEveryStepOnce(t *testing.T) {
	j := &job{steps: t.TempDir() + "/steps"}
	if err := os.WriteFile(j.steps, []byte("0 10\n1 20\n1 90\n2 95\n3 "), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := j.times(); len(got) != 3 || got[1].UnixNano() != 20 || got[2].UnixNano() != 95 {
		t.Errorf("%v", got)
	}
}

func TestVerdictsCountFailedRuns(t *testing.T) {
	good, bad, late := outcome{right: true}, outcome{problems: []string{"exit 1"}}, outcome{right: true, slow: []string{"stall"}}
	for want, r := range map[string]*result{
		"ok":           {outcomes: []outcome{good, good}},
		"FAILS 2 of 3": {outcomes: []outcome{good, bad, late}},
		"FAILS 2 of 3, 1 of them slow on a machine that stood still": {outcomes: []outcome{good, bad, {right: true, slow: []string{"stall"}, machine: time.Second}}},
		"skipped: no sshd": {skipped: errors.New("no sshd")},
		"not run":          {},
	} {
		if got := r.verdict(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestTableHasMediansAndMaxima(t *testing.T) {
	r := &result{row: row{name: "cut"}, outcomes: []outcome{
		{right: true, stall: 100 * time.Millisecond, machine: 20 * time.Millisecond},
		{right: true, healthy: 2, stall: 3 * time.Second, extra: map[string]float64{"job s": 9}, problems: []string{"evicted"}},
		{healthy: 1, stall: 200 * time.Millisecond},
	}}
	want := "" +
		"| scenario | runs | right | evicted healthy | stall s   | machine still s | other figures   | verdict      |\n" +
		"|----------|------|-------|-----------------|-----------|-----------------|-----------------|--------------|\n" +
		"| cut      | 3    | 2     | 0 / 1 / 2       | 0.2 / 3.0 | 0.0 / 0.0       | job s 9.0 / 9.0 | FAILS 1 of 3 |\n"
	if got := table([]*result{r}); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestRowsHaveNamesOfTheirOwn(t *testing.T) {
	seen, samples := map[string]bool{}, 0
	for _, r := range rows() {
		if seen[r.name] {
			t.Errorf("two rows %q", r.name)
		}
		seen[r.name] = true
		if r.sample {
			samples++
		}
	}
	if samples != len(sampled) {
		t.Errorf("%d rows are sampled, want %d", samples, len(sampled))
	}
}
