package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/bench/clock"
	benchloop "github.com/coppice-go/coppice/bench/loop"
	"github.com/coppice-go/coppice/bench/ops"
	"github.com/coppice-go/coppice/model"
)

type benchRecoveryCmd struct {
	N       int           `bounds:"%d processes; allowed: 3 to 512" name:"processes" short:"n" default:"16" placeholder:"N" help:"Number of processes, 3 or more (default ${default})."`
	Op      []string      `default:"allreduce" placeholder:"OP" help:"What a process dies in: broadcast, reduce, allreduce, scan, scatter, gather, allgather, alltoall, barrier, or all of these (default ${default})."`
	Size    string        `default:"8B" placeholder:"SIZE" help:"Bytes of a task's block, for alltoall of a pair's (default ${default})."`
	Mode    string        `default:"replay" placeholder:"M" help:"Mode of the operation: ${recoveryModes} (default ${default})."`
	Work    time.Duration `placeholder:"D" help:"Values are combined by a function that takes so long, such as 5ms: for reduce, allreduce and scan (default: they are added)."`
	Backups string        `default:"auto" placeholder:"B" help:"With --work, what was combined is kept at other processes: on, off, or auto, by cost (default ${default})."`
	Rounds  int           `bounds:"%d rounds; allowed: 1 to 10000" default:"9" placeholder:"R" help:"Deaths in each operation, each in a job of its own (default ${default})."`
	JSON    bool          `name:"json" help:"Print JSON."`

	bytes int // Size
}

// recoveryModes are the modes that outlive a death.
var recoveryModes = []string{replayMode, agreedMode}

// check checks what is asked for, and fills in the rest.
func (b *benchRecoveryCmd) check() (err error) {
	if b.bytes, err = parseSize(b.Size); err != nil {
		return err
	}
	if slices.Equal(b.Op, []string{all}) {
		b.Op = benchloop.Collectives
	}
	for i, op := range b.Op {
		switch {
		case !slices.Contains(benchloop.Collectives, op) || slices.Contains(b.Op[:i], op):
			return fmt.Errorf("operation %q; allowed: %s, each once, or all", op, strings.Join(benchloop.Collectives, ", "))
		case benchloop.Sums(op) && b.bytes%8 != 0:
			return fmt.Errorf("%d bytes for %s; allowed: multiples of 8", b.bytes, op)
		case b.Work > 0 && !benchloop.Sums(op):
			return fmt.Errorf("--work with %s; allowed with: reduce, allreduce, scan", op)
		}
	}
	switch {
	case b.Work < 0 || b.Work > time.Minute:
		return fmt.Errorf("--work %v; allowed: up to %v", b.Work, time.Minute)
	case !slices.Contains([]string{backupsAuto, backupsOn, backupsOff}, b.Backups):
		return fmt.Errorf("--backups %q; allowed: on, off, auto", b.Backups)
	case b.Work == 0 && b.Backups != backupsAuto:
		return errors.New("--backups without --work; allowed with it")
	case !slices.Contains(recoveryModes, b.Mode):
		return fmt.Errorf("mode %q; allowed: %s", b.Mode, strings.Join(recoveryModes, ", "))
	}
	return nil
}

func (b *benchRecoveryCmd) Run(c *console) error {
	if err := b.check(); err != nil {
		return badInput{err}
	}
	ctx, stop := untilFirstSignal()
	defer stop()
	var sides []recoverySides
	seconds, err := c.timed(b.Rounds*len(b.Op), func(done func(int)) (err error) {
		sides, err = b.measure(ctx, done)
		return err
	})
	if err != nil {
		return interruptedOr(ctx, err)
	}
	report := newRecoveryReport(b, sides)
	report.Seconds = seconds
	return c.show(b.JSON, report, report.write)
}

// recoverySides is what was measured of one operation.
type recoverySides struct {
	op      string
	any     []survival
	first   []survival // from the first death of each job, of one process more
	floor   []float64  // µs
	noticed []float64  // µs: the first survivor of the floor has seen a connection break
}

// measure does all rounds. In each, every operation has a death, and the floor beside
// it.
func (b *benchRecoveryCmd) measure(ctx context.Context, done func(int)) ([]recoverySides, error) {
	sides := make([]recoverySides, len(b.Op))
	for i, op := range b.Op {
		sides[i].op = op
	}
	for round := range b.Rounds {
		victim := victimOf(b.N, round)
		for i := range sides {
			s := &sides[i]
			err := inTurn(
				ctx, round,
				func() error { return b.kills(ctx, s, victim) },
				func() error { return b.floor(ctx, s, victim) },
			)
			if err != nil {
				return nil, err
			}
			done(round*len(sides) + i + 1)
		}
	}
	return sides, nil
}

// kills measures two deaths in a job, each in an operation of its own; the first is a rehearsal.
func (b *benchRecoveryCmd) kills(ctx context.Context, s *recoverySides, victim int) error {
	first, second, err := killTwo(ctx, b.N, victim, true, b.words(s.op), nil, (*deathSink).survival)
	if err != nil {
		return fmt.Errorf("%s: %w", s.op, err)
	}
	s.first, s.any = append(s.first, first), append(s.any, second)
	return nil
}

// floor is a death among plain processes.
func (b *benchRecoveryCmd) floor(ctx context.Context, s *recoverySides, victim int) error {
	times, err := floorTimes(ctx, b.N, victim)
	if err != nil {
		return err
	}
	s.floor = append(s.floor, microseconds(times.Took()))
	s.noticed = append(s.noticed, float64(slices.Min(times.Noticed)-times.Killed)/1e3)
	return nil
}

// words start a process of such a job.
func (b *benchRecoveryCmd) words(op string) []string {
	return []string{"bench-recovery-process", "--work", b.Work.String(), "--backups", b.Backups, b.Mode, op, fmt.Sprint(b.bytes)}
}

// benchRecoveryProcessCmd is what `coppice bench recovery` starts: one process of a job
// in which others, or itself, are killed one after the other. Each death has an
// operation of its own, in which all others wait for the one that is to die.
type benchRecoveryProcessCmd struct {
	Mode    string `arg:""`
	Op      string `arg:""`
	Bytes   int    `arg:""`
	Victims []int  `arg:""`

	Work    time.Duration
	Backups string
}

func (b *benchRecoveryProcessCmd) Run(c *console) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	p := &recoveryProcess{benchRecoveryProcessCmd: *b, deathLog: newDeathLog(b.Victims, c.stderr), out: json.NewEncoder(c.stdout)}
	job := coppice.Job{Recovery: coppice.Replay, Logger: slog.New(p.deathLog)}
	return job.Run(ctx, p.task)
}

// recoveryProcess is one of the processes.
type recoveryProcess struct {
	benchRecoveryProcessCmd
	*deathLog

	mu  sync.Mutex
	out *json.Encoder
}

// warmups are the operations before the first in which somebody dies: a task that is
// run again has to pass them, too.
const warmups = 3

// task is the program. A task that is run again says nothing of the deaths before its
// own, and loses no time there.
func (p *recoveryProcess) task(ctx context.Context, t *coppice.Task) error {
	began := clock.Now()
	own := -1 // the death of this task
	if t.Attempt() > 0 {
		own = p.deaths() - 1
	}
	root := 0
	if p.Work > 0 {
		root = p.Victims[len(p.Victims)-1] // it has something to combine again
	}
	for i := range warmups {
		if err := p.operate(ctx, t, i, root); err != nil {
			return err
		}
	}
	for i, victim := range p.Victims {
		if i > own {
			if err := p.await(ctx, t, i); err != nil {
				return err
			}
		}
		line := deathLine{Rank: t.Rank(), Death: i, Entered: clock.Now()}
		if err := p.operate(ctx, t, warmups+i, victim); err != nil {
			return err
		}
		line.Done = clock.Now()
		if i == own {
			line.Started = began
		}
		if i >= own {
			if err := p.tell(ctx, line); err != nil {
				return err
			}
		}
	}
	return nil
}

// await says that a task is ready for a death. The one that is to die waits for it.
func (p *recoveryProcess) await(ctx context.Context, t *coppice.Task, i int) error {
	line := deathLine{Rank: t.Rank(), Death: i, Ready: true}
	if t.Attempt() == 0 {
		line.PID = os.Getpid()
	}
	if err := p.write(line); err != nil {
		return err
	}
	if t.Attempt() == 0 && t.Rank() == p.Victims[i] {
		<-ctx.Done()
		return fmt.Errorf("task %d was to be killed: %w", t.Rank(), ctx.Err())
	}
	return nil
}

// tell writes what a task saw of a death, when all are over it: to report is not to get
// in the way of those who are not.
func (p *recoveryProcess) tell(ctx context.Context, line deathLine) error {
	select { // a task that needed nobody is done before the death
	case <-p.views[line.Death]:
	case <-ctx.Done():
		return ctx.Err()
	}
	time.Sleep(reportAfter)
	line.Noticed, line.Learned, line.Opened = p.noticed[line.Death].Load(), p.learned[line.Death].Load(), p.opened[line.Death].Load()
	return p.write(line)
}

func (p *recoveryProcess) write(line deathLine) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Encode(line)
}

// operate carries out the i-th operation once, as one task, and checks what it gives.
// Values come from the victim where the operation has one source, so that all others
// need it.
func (p *recoveryProcess) operate(ctx context.Context, t *coppice.Task, i, victim int) (err error) {
	ok := false
	if p.Work > 0 {
		ok, err = p.combine(ctx, t, i, victim)
	} else {
		ok, err = ops.Once(ctx, t, p.Op, p.Bytes, i, victim, ops.How{Mode: recoveryOptions[p.Mode]})
	}
	if err == nil && !ok {
		err = fmt.Errorf("wrong data in operation %d, %s", i, p.Op)
	}
	return err
}

// recoveryOptions are the modes as the library has them.
var recoveryOptions = map[string]coppice.Option{replayMode: coppice.Replayed(), agreedMode: coppice.Agreed()}

// What --backups may be.
const backupsAuto, backupsOn, backupsOff = "auto", "on", "off"

// combine adds by a function that takes long. The victim is the root: it combines most. A task adds its rank and
// the operation's number.
func (p *recoveryProcess) combine(ctx context.Context, t *coppice.Task, i, victim int) (ok bool, err error) {
	opts := []coppice.Option{recoveryOptions[p.Mode]}
	if p.Backups != backupsAuto {
		opts = append(opts, coppice.Backups(p.Backups == backupsOn))
	}
	add := func(a, b []float64) []float64 {
		time.Sleep(p.Work)
		for i := range a {
			a[i] += b[i]
		}
		return a
	}
	numbers := slices.Repeat([]float64{float64(i + t.Rank())}, p.Bytes/8)
	var got []float64
	switch ranks := t.Size(); p.Op {
	case benchloop.Reduce:
		got, err = coppice.ReduceFunc(ctx, t, numbers, add, append(opts, coppice.Root(victim))...)
		return t.Rank() != victim || sums(got, p.Bytes, i, ranks), err
	case benchloop.AllReduce:
		got, err = coppice.AllReduceFunc(ctx, t, numbers, add, opts...)
		return sums(got, p.Bytes, i, ranks), err
	default:
		got, err = coppice.ScanFunc(ctx, t, numbers, add, opts...)
		return sums(got, p.Bytes, i, t.Rank()+1), err
	}
}

// sums reports whether so many bytes of numbers are the sums of those of the first so many ranks in the i-th operation.
func sums(got []float64, bytes, i, ranks int) bool {
	want := float64(ranks*i + ranks*(ranks-1)/2)
	return slices.Equal(got, slices.Repeat([]float64{want}, bytes/8))
}

// survival is how one death was got over, or what several came to: µs since SIGKILL, medians over the rounds unless said otherwise.
type survival struct {
	Total     float64 `json:"median_us"` // the operation is complete at all tasks
	P99       float64 `json:"p99_us"`
	Noticed   float64 `json:"noticed_us"`   // the first survivor has seen a connection break
	Detection float64 `json:"detection_us"` // the first survivor knows that it is a death
	View      float64 `json:"view_us"`      // all survivors have the view
	Started   float64 `json:"started_us"`   // the dead task's program has begun again
	Resumed   float64 `json:"resumed_us"`   // it has come to the operation
}

// survival sums up what the tasks saw of a death.
func (s *deathSink) survival(death int, killed int64, victims []int) (r survival, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	seen, victim := s.seen[death], victims[death]
	if len(seen) != s.n {
		return r, fmt.Errorf("death of rank %d: %d tasks were through with the operation; want %d", victim, len(seen), s.n)
	}
	since := func(at int64) float64 { return float64(at-killed) / 1e3 }
	var noticed, learned int64
	for _, l := range seen {
		learned = earlier(learned, l.Learned)
		if l.Noticed >= killed { // else its connection broke before, for another reason
			noticed = earlier(noticed, l.Noticed)
		}
		r.View, r.Total = max(r.View, since(l.Opened)), max(r.Total, since(l.Done))
		if (l.Started != 0) != (l.Rank == victim) {
			return r, fmt.Errorf("death of rank %d: task %d was run again: %t", victim, l.Rank, l.Started != 0)
		}
		if l.Opened == 0 {
			return r, fmt.Errorf("death of rank %d: no view without it in the log of task %d's process", victim, l.Rank)
		}
	}
	own := seen[victim]
	r.Detection, r.Started, r.Resumed = since(learned), since(own.Started), since(own.Entered)
	r.Noticed = since(earlier(noticed, learned))
	if learned == 0 || r.Noticed < 0 || r.View < r.Detection || r.Started < r.Detection || r.Resumed < r.Started || r.Total < r.Resumed {
		return r, fmt.Errorf("death of rank %d: times out of order: %+v", victim, r)
	}
	return r, nil
}

// earlier is the earlier of two times; 0 is none.
func earlier(a, b int64) int64 {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

// recoveryRatios are medians of the rounds' own ratios.
type recoveryRatios struct {
	TotalToFloor float64 `json:"total_to_floor"`
	ViewToFloor  float64 `json:"view_to_floor"`
	TotalToView  float64 `json:"total_to_view"`
}

// recoveryCell is what came of one operation.
type recoveryCell struct {
	Op    string `json:"op"`
	Bytes int    `json:"bytes"`
	survival
	First  survival       `json:"first"` // the first death of a job, in which everything is new
	Floor  float64        `json:"floor_us"`
	Seen   float64        `json:"floor_noticed_us"` // the floor's first survivor has seen a connection break
	Ratios recoveryRatios `json:"ratios"`
}

// recoveryReport is the whole.
type recoveryReport struct {
	Cells      []recoveryCell `json:"cells"`
	Processes  int            `json:"processes"`
	Mode       string         `json:"mode"`
	Work       float64        `json:"work_us,omitempty"` // of the function that combines two values
	Backups    string         `json:"backups,omitempty"` // of what it makes
	Rounds     int            `json:"rounds"`
	Processors int            `json:"processors"`
	Seconds    float64        `json:"seconds"`
}

func newRecoveryReport(b *benchRecoveryCmd, sides []recoverySides) *recoveryReport {
	r := &recoveryReport{Processes: b.N, Mode: b.Mode, Rounds: b.Rounds, Processors: runtime.NumCPU()}
	if b.Work > 0 {
		r.Work, r.Backups = microseconds(b.Work), b.Backups
	}
	r.Cells = each(sides, func(s recoverySides) recoveryCell { return s.sumUp(b.bytes) })
	return r
}

func (s *recoverySides) sumUp(bytes int) recoveryCell {
	total := each(s.any, func(r survival) float64 { return r.Total })
	view := each(s.any, func(r survival) float64 { return r.View })
	return recoveryCell{
		Op: s.op, Bytes: bytes, survival: summedUp(s.any), First: summedUp(s.first), Floor: model.Median(s.floor), Seen: model.Median(s.noticed),
		Ratios: recoveryRatios{medianRatio(total, s.floor), medianRatio(view, s.floor), medianRatio(total, view)},
	}
}

// manner is how the operation is carried out.
func (r *recoveryReport) manner() string {
	if r.Work == 0 {
		return r.Mode
	}
	return fmt.Sprintf("%s, %.0f µs to combine two values, backups %s", r.Mode, r.Work, r.Backups)
}

// write prints the report for people.
func (r *recoveryReport) write(w *bufio.Writer) {
	fmt.Fprintf(w, "a process is killed in an operation of %d, %s; %s, medians in µs since then, %.0f s\n\n", r.Processes, r.manner(), count(r.Rounds, "round"), r.Seconds)
	tabulate(newTable(w), "         \tsize\tlink breaks\tfirst knows\tall have the view\tit runs again\tis back in it\tall are through\tp99\tfirst death\tfloor: link breaks\tfloor\ttotal/floor\t", r.Cells, func(c recoveryCell) string {
		ratio := c.Ratios.TotalToFloor
		return fmt.Sprintf("%-9s\t%s\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%s\t", c.Op, sizeText(c.Bytes),
			c.Noticed, c.Detection, c.View, c.Started, c.Resumed, c.Total, c.P99, c.First.Total, c.Seen, c.Floor, verdict(ratio, ratio <= totalToFloorMax))
	})
	fmt.Fprintf(w, "\ntarget: total/floor ≤ %d; ! misses\n", totalToFloorMax)
}
