package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"reflect"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coppice-go/coppice/bench/clock"
	"github.com/coppice-go/coppice/bench/floor"
	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/internal/launch"
	"github.com/coppice-go/coppice/internal/posix"
	"github.com/coppice-go/coppice/internal/transport"
	"github.com/coppice-go/coppice/model"
)

// What the benchmarks share that kill processes: what a job tells, and how deaths are
// summed up.

// deathLine is what a process or a task writes: that it is ready for a death, or what it
// saw of it. Times are those of the common clock.
type deathLine struct {
	Rank    int   `json:"rank"`
	Death   int   `json:"death"` // which, from 0
	Ready   bool  `json:"ready,omitempty"`
	PID     int   `json:"pid,omitempty"`     // of the process, or the one that the task began in
	Noticed int64 `json:"noticed,omitempty"` // by its process; absent: it had no connection
	Learned int64 `json:"learned,omitempty"` // by its process; absent: only by the view
	Opened  int64 `json:"opened,omitempty"`  // the view, by its process
	Started int64 `json:"started,omitempty"` // the task, if this death is why it was run again
	Entered int64 `json:"entered,omitempty"` // the operation
	Done    int64 `json:"done,omitempty"`
}

// deathSink takes the lines of all processes of a job.
type deathSink struct {
	n     int             // processes
	tasks bool            // write the lines, and all of them outlive a death; otherwise processes do
	ready []chan struct{} // by death: closed when all are ready for it

	mu    sync.Mutex
	lines lineWriter
	pids  map[int]int
	armed []map[int]bool      // by death: who is ready
	seen  []map[int]deathLine // by death and rank
}

// newDeathSink is for a job of n processes and so many deaths.
func newDeathSink(n, deaths int, tasks bool) *deathSink {
	s := &deathSink{n: n, tasks: tasks, pids: map[int]int{}}
	s.lines.take = s.take
	for range deaths {
		s.ready = append(s.ready, make(chan struct{}))
		s.armed = append(s.armed, map[int]bool{})
		s.seen = append(s.seen, map[int]deathLine{})
	}
	return s
}

func (s *deathSink) pid(rank int) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pids[rank]
}

func (s *deathSink) Write(text []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.lines.Write(text)
}

// take reads a JSON document.
func (s *deathSink) take(line []byte) error {
	var l deathLine
	err := json.Unmarshal(line, &l)
	if err != nil || l.Rank < 0 || l.Rank >= s.n || l.Death < 0 || l.Death >= len(s.seen) {
		who := "process"
		if s.tasks {
			who = "task"
		}
		return fmt.Errorf("line %q of a %s; want what it saw", line, who)
	}
	if !l.Ready {
		s.seen[l.Death][l.Rank] = l
		return nil
	}
	if l.PID != 0 {
		s.pids[l.Rank] = l.PID
	}
	left := s.n
	if !s.tasks {
		left -= l.Death
	}
	if armed := s.armed[l.Death]; !armed[l.Rank] {
		if armed[l.Rank] = true; len(armed) == left {
			close(s.ready[l.Death])
		}
	}
	return nil
}

// killTwo starts a job of one process more than n, kills two of its processes, one after the
// other, and sums up how the others got over each: the first death is a rehearsal, in which
// code runs that has never run, and n processes are left then. The words start a process; the
// victims follow.
func killTwo[D any](ctx context.Context, n, victim int, tasks bool, words, env []string, sum func(s *deathSink, death int, killed int64, victims []int) (D, error)) (first, second D, err error) {
	victims := []int{n, victim}
	sink := newDeathSink(n+1, len(victims), tasks)
	killed, err := deadlyJob{n: n + 1, victims: victims, args: append(words, decimals(victims)...), env: env, sink: sink}.run(ctx)
	if err == nil {
		first, err = sum(sink, 0, killed[0], victims)
	}
	if err == nil {
		second, err = sum(sink, 1, killed[1], victims)
	}
	return first, second, err
}

// inTurn does the steps of a round: neighbours in time are compared, and none always comes
// first.
func inTurn(ctx context.Context, round int, steps ...func() error) error {
	if round%2 == 1 {
		slices.Reverse(steps)
	}
	for _, step := range steps {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// deathLog is the slog.Handler of a process: the library logs what happens to it, and that is
// when. A task learns of it later. Of all else only errors are shown.
type deathLog struct {
	victims []int
	noticed []atomic.Int64  // by death: when a connection to the dead broke, last; 0: not yet
	learned []atomic.Int64  // by death: when the library first knew of it
	opened  []atomic.Int64  // by death: when the view without the dead was open here
	views   []chan struct{} // by death: closed when that view is open
	errors  slog.Handler
}

func newDeathLog(victims []int, stderr io.Writer) *deathLog {
	d := &deathLog{victims: victims, errors: slog.NewTextHandler(stderr, nil)}
	for _, times := range []*[]atomic.Int64{&d.noticed, &d.learned, &d.opened} {
		*times = make([]atomic.Int64, len(victims))
	}
	for range victims {
		d.views = append(d.views, make(chan struct{}))
	}
	return d
}

// deaths is how many the process has a view without.
func (d *deathLog) deaths() (n int) {
	for i := range d.opened {
		if d.opened[i].Load() != 0 {
			n = i + 1
		}
	}
	return n
}

// What the library logs of a death, a connection, and a view.
const (
	deathMessage  = "dead"
	deathOf       = "peer"
	brokenMessage = "connection broken"
	viewMessage   = "view"
	viewMembers   = "members"
)

// Enabled implements slog.Handler.
func (d *deathLog) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

// Handle implements slog.Handler.
func (d *deathLog) Handle(ctx context.Context, r slog.Record) error {
	if r.Level >= slog.LevelError {
		return d.errors.Handle(ctx, r)
	}
	victim := slices.Index(d.victims, intOf(r, deathOf))
	switch {
	case r.Message == brokenMessage && victim >= 0: // two that call each other at first drop one of two
		d.noticed[victim].Store(clock.Now())
	case r.Message == deathMessage && victim >= 0:
		d.learned[victim].CompareAndSwap(0, clock.Now())
	case r.Message == viewMessage:
		all := d.victims[0] + 1 // the first to die is the last of them
		if i := all - intOf(r, viewMembers) - 1; i >= 0 && i < len(d.victims) && d.opened[i].CompareAndSwap(0, clock.Now()) {
			close(d.views[i])
		}
	}
	return nil
}

// WithAttrs implements slog.Handler.
func (d *deathLog) WithAttrs([]slog.Attr) slog.Handler { return d }

// WithGroup implements slog.Handler.
func (d *deathLog) WithGroup(string) slog.Handler { return d }

// intOf is a number in a record, −1 if it has none of that name.
func intOf(r slog.Record, key string) int {
	n := -1
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == key && a.Value.Kind() == slog.KindInt64 {
			n = int(a.Value.Int64())
		}
		return true
	})
	return n
}

// summedUp are the medians of what some deaths came to, figure by figure. The first figure of D is the whole; the second is
// what 99 of 100 do not exceed of it.
func summedUp[D any](deaths []D) (sum D) {
	figure := func(d *D, i int) reflect.Value { return reflect.ValueOf(d).Elem().Field(i) }
	all := func(i int) []float64 { return each(deaths, func(d D) float64 { return figure(&d, i).Float() }) }
	for i := range reflect.TypeFor[D]().NumField() {
		figure(&sum, i).SetFloat(model.Median(all(i)))
	}
	figure(&sum, 1).SetFloat(percentile(slices.Sorted(slices.Values(all(0))), 99))
	return sum
}

// medianRatio is the median of the rounds' own ratios, whose two sides are neighbours in time.
func medianRatio(some, others []float64) float64 {
	ratios := make([]float64, len(some))
	for i := range some {
		ratios[i] = some[i] / others[i]
	}
	return model.Median(ratios)
}

// each is what a function makes of each of a list.
func each[A, B any](list []A, of func(A) B) (all []B) {
	for _, one := range list {
		all = append(all, of(one))
	}
	return all
}

// settleTime is how long processes are left alone before one is killed: longer than
// it takes them to connect with their children in the tree of the view.
const settleTime = 600 * time.Millisecond

// jobSilence is how long a process may be silent: longer than it waits for its turn
// where hundreds share a processor. Here it is the kernel that tells of a death.
const jobSilence = 30 * time.Second

// jobTime bounds a job of n processes.
func jobTime(n int) time.Duration { return 30*time.Second + time.Duration(n)*200*time.Millisecond }

// deadlyJob is a job of this command's own processes, some of which are killed one
// after the other.
type deadlyJob struct {
	n       int
	victims []int    // ranks
	args    []string // of a process
	env     []string
	sink    *deathSink
}

// run returns when they were killed. If anybody else dies, or a task does not end well,
// it is an error.
func (d deadlyJob) run(ctx context.Context) ([]int64, error) {
	plan, err := launch.New(launch.Config{
		N: d.n, StdinRank: -1, Settings: control.Settings{Silence: jobSilence},
		Env:     append([]string{transport.ChooseVariable + "=" + transport.Unix}, d.env...),
		Program: self(), Args: d.args,
		Output: launch.Output{Stdout: d.sink, Prefix: true},
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, jobTime(d.n))
	defer cancel()
	times := make(chan []int64, 1)
	go func() { times <- d.killInTurn(ctx) }()
	run, err := plan.Run(ctx)
	late := ctx.Err() == context.DeadlineExceeded
	cancel()
	killed := <-times
	if err != nil {
		return nil, err
	}
	if late {
		return nil, fmt.Errorf("deaths of ranks %v of %d: no end within %v", d.victims, d.n, jobTime(d.n))
	}
	if !slices.Equal(slices.Sorted(slices.Values(run.Killed)), slices.Sorted(slices.Values(d.victims))) || run.Exit != 0 || len(killed) != len(d.victims) {
		return nil, fmt.Errorf("deaths of ranks %v of %d: %s", d.victims, d.n, cmp.Or(run.Cause, "nobody died"))
	}
	return killed, nil
}

// killInTurn kills processes, each when all are ready for it, and returns when.
func (d deadlyJob) killInTurn(ctx context.Context) (killed []int64) {
	for i, victim := range d.victims {
		select {
		case <-d.sink.ready[i]:
		case <-ctx.Done():
			return killed
		}
		time.Sleep(settleTime)
		pid := d.sink.pid(victim)
		at := clock.Now()
		if posix.Kill(pid, syscall.SIGKILL) != nil {
			return killed
		}
		killed = append(killed, at)
	}
	return killed
}

func decimals[N ~int | ~int32](numbers []N) []string {
	return each(numbers, func(n N) string { return strconv.Itoa(int(n)) })
}

func floorTimes(ctx context.Context, n, victim int) (floor.Times, error) {
	return floor.Measure(ctx, n, victim, func(dir string, rank int) []string {
		return []string{self(), "bench-floor-process", dir, strconv.Itoa(rank), strconv.Itoa(n)}
	})
}

// benchFloorProcessCmd is a process of the floor.
type benchFloorProcessCmd struct {
	Dir  string `arg:""`
	Rank int    `arg:""`
	N    int    `arg:""`
}

func (b *benchFloorProcessCmd) Run(c *console) error {
	return floor.Run(b.Dir, b.Rank, b.N, os.Stdin, c.stdout)
}
