// Package recovery attacks recovery by replay: random programs under random schedules,
// and crashes at every moment of every operation.
package recovery

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coppice-go/coppice/chaos"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
	"github.com/coppice-go/coppice/protocol/replay"
)

// Job is one whose tasks survive the death of processes, to be attacked: all
// but one may crash, at any moment, and every task must return with the bits that it
// has without any message.
type Job struct {
	// P is the number of processes, Tasks that of tasks, 0: as many. Task t belongs to
	// process t mod P; with fewer tasks than processes there are spares.
	P, Tasks int

	// Joiners is the number of processes that are told to join, at any moment. Their
	// ranks follow.
	Joiners int

	// Ops are the operations of programs. nil: all.
	Ops []replay.Op

	// Operations is the length of a random program. A tenth of them are short.
	Operations int

	Crashes      int  // at most; P−1 always leave a survivor
	LossyCrashes bool // as in chaos.Config

	KeepGoing bool // as in chaos.Config
	StatesMax int
}

type (
	replayState   = replay.State
	replayMessage = replay.Message
	replayWorld   = chaos.World[replayState, replayMessage]
	replayConfig  = chaos.Config[replayState, replayMessage]
	replaySetup   = chaos.Setup[replayState, replayMessage]
)

// short is the length of programs that are short.
const short = 8

// Random runs random programs, another one each, under random schedules.
func (r Job) Random(seed uint64, runs, workers int) (chaos.Report, error) {
	cfg, err := r.random()
	if err != nil {
		return chaos.Report{}, err
	}
	return chaos.Random(cfg, seed, runs, workers)
}

// random is the world of Random.
func (r Job) random() (replayConfig, error) {
	menu, err := replay.NewMenu(r.tasks(), r.Ops...)
	if err != nil {
		return replayConfig{}, err
	}
	if r.Operations < 1 {
		return replayConfig{}, fmt.Errorf("chaos: programs of %d operations, allowed are 1 and more", r.Operations)
	}
	cfg, err := r.world(menu.Random(0, r.Operations))
	cfg.Vary = func(s *replaySetup) {
		n := r.Operations
		if !s.Chance(9, 10) {
			n = 1 + s.Choose(min(n, short))
		}
		job, err := r.job(menu.Random(s.Seed, n))
		if err != nil {
			panic(err) // the same but for the program was possible
		}
		s.Protocol = &recorder{Job: job, said: map[replay.Name]uint64{}}
	}
	cfg.Claim = nil // the recorder's; a list of claims would be long
	cfg.StepsMax = r.stepsMax(menu.MessagesMax(r.Operations))
	return cfg, err
}

func (r Job) tasks() int {
	if r.Tasks > 0 {
		return r.Tasks
	}
	return r.P
}

// Plans lists the ways of carrying out the operations.
func (r Job) Plans() (all []*replay.Plan, err error) {
	ops := r.Ops
	if ops == nil {
		ops = replay.Ops()
	}
	for _, op := range ops {
		plans, err := replay.Plans(op, r.tasks())
		if err != nil {
			return nil, err
		}
		all = append(all, plans...)
	}
	return all, nil
}

// CrashPoints lets, in one schedule, processes crash at every moment, up to Crashes of
// them: for every plan, in a program that sends messages before. With LossyCrashes a
// crash takes nothing that is on its way with it, or everything. The plans are shared
// out to workers (0: one per core).
func (r Job) CrashPoints(workers int) (chaos.Report, error) {
	return r.eachPlan(workers, func(cfg replayConfig) (chaos.Report, error) { return chaos.CrashPoints(cfg) })
}

// DelayBounded runs the program of every plan under every schedule with so many
// delays, each crash one of them.
func (r Job) DelayBounded(delays, workers int) (chaos.Report, error) {
	return r.eachPlan(workers, func(cfg replayConfig) (chaos.Report, error) { return chaos.DelayBounded(cfg, delays) })
}

// Exhaustive runs the program of every plan under every schedule.
func (r Job) Exhaustive(workers int) (chaos.Report, error) {
	return r.eachPlan(workers, chaos.Exhaustive[replayState, replayMessage])
}

// eachPlan adds up what comes of attacking the programs of all plans, up to the first
// that violates something.
func (r Job) eachPlan(workers int, attack func(replayConfig) (chaos.Report, error)) (sum chaos.Report, err error) {
	worlds, err := r.worlds()
	if err != nil {
		return sum, err
	}
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	begin := time.Now()
	reports, errs := make([]chaos.Report, len(worlds)), make([]error, len(worlds))
	var taken, failed atomic.Int64
	var wg sync.WaitGroup
	for range min(workers, len(worlds)) {
		wg.Go(func() {
			for failed.Load() == 0 {
				i := int(taken.Add(1)) - 1
				if i >= len(worlds) {
					return
				}
				if reports[i], errs[i] = attack(worlds[i]); errs[i] != nil {
					failed.Add(1)
				}
			}
		})
	}
	wg.Wait()
	for i, one := range reports {
		sum.Add(one)
		if errs[i] == nil {
			continue
		}
		if sum.First = one.First; sum.First != nil {
			g := worlds[i].Protocol.(*replay.Job).Program()
			sum.First.Err = fmt.Errorf("%v: %w", &g.Calls[len(g.Calls)-1], sum.First.Err)
		}
		err = errs[i]
		break
	}
	sum.Seconds = time.Since(begin).Seconds()
	return sum, err
}

// worlds are those of all plans.
func (r Job) worlds() (all []replayConfig, err error) {
	plans, err := r.Plans()
	if err != nil {
		return nil, err
	}
	for i, plan := range plans {
		g, err := r.program(plan, i)
		if err != nil {
			return nil, err
		}
		cfg, err := r.world(g)
		if err != nil {
			return nil, err
		}
		all = append(all, cfg)
	}
	return all, nil
}

// program is messages and then the operation of a plan.
func (r Job) program(plan *replay.Plan, seed int) (*replay.Program, error) {
	sends, err := replay.Plans(replay.Send, r.tasks())
	if err != nil {
		return nil, err
	}
	calls := []replay.Call{{Plan: sends[0], Elems: 2}, {Plan: plan, Elems: r.tasks() + 1}}
	return replay.NewProgram(r.tasks(), uint64(seed), calls...), nil
}

func (r Job) job(g *replay.Program) (*replay.Job, error) {
	return replay.New(replay.Config{Program: g, Processes: r.P, Joiners: r.Joiners})
}

// world is that of a job with a program.
func (r Job) world(g *replay.Program) (replayConfig, error) {
	if r.Crashes < 0 || r.Crashes > r.P-1 {
		return replayConfig{}, fmt.Errorf("chaos: %d crashes among %d processes, allowed are 0 … %d, since one survives", r.Crashes, r.P, r.P-1)
	}
	job, err := r.job(g)
	if err != nil {
		return replayConfig{}, err
	}
	var inputs []chaos.Input
	for joiner := protocol.Rank(r.P); joiner < job.Coordinator(); joiner++ {
		inputs = append(inputs, chaos.Input{Rank: joiner, Notice: protocol.Notice{Kind: protocol.Begin, Value: 1}})
	}
	return replayConfig{
		Protocol: job, P: int(job.Coordinator()) + 1, Detect: true, Inputs: inputs,
		Crashes: r.Crashes, LossyCrashes: r.LossyCrashes,
		MayCrash:  func(p protocol.Rank) bool { return p != job.Coordinator() },
		Testament: func(s *replayState) (replayMessage, bool) { return replay.Testament(s), true },
		KeepGoing: r.KeepGoing, StatesMax: r.StatesMax, StepsMax: r.stepsMax(g.Messages()),
		Claim: claimBits, Witness: witnessReplay, Check: r.check,
	}, nil
}

// stepsMax bounds a run of a program with M messages. Every attempt of a task sends what the task sends, every view
// may have everything sent again: with K crashes at most (1+2K)·M messages among
// tasks, each of which is a step of the sender, one of the receiver, and one in which
// the receiver has nothing to do. The rest is for the views.
func (r Job) stepsMax(m int) int {
	k := r.Crashes
	return 3*(1+2*k)*m + 3*(1+k)*r.tasks() + 30*(1+k+r.Joiners)*(r.P+r.Joiners+1)
}

// What must hold.
var (
	errBits     = errors.New("a task returns with other bits")
	errTwice    = errors.New("a task is adopted that a live process owns")
	errUnended  = errors.New("a live process does not come to the end")
	errReturned = errors.New("the job has ended, and a task has returned nowhere")
	errSteps    = errors.New("a run takes more steps than it may")
)

// recorder is a job, and what is said in one run.
type recorder struct {
	*replay.Job
	said map[replay.Name]uint64
	err  error
}

// Next is the job's. It notes what is said.
func (l *recorder) Next(s *replayState, now protocol.Time) protocol.Action[replayMessage] {
	a := l.Job.Next(s, now)
	if a.Kind != protocol.Send || a.Msg.Frame == nil {
		return a
	}
	sum := a.Msg.Frame.Sum()
	if before, ok := l.said[a.Msg.Frame.Name]; !ok {
		l.said[a.Msg.Frame.Name] = sum
	} else if before != sum && l.err == nil {
		l.err = fmt.Errorf("%w: %v has other bits than before", chaos.ErrClaims, a.Msg)
	}
	return a
}

// jobOf is the job of a run.
func jobOf(w *replayWorld) *replay.Job {
	if l, ok := w.Protocol().(*recorder); ok {
		return l.Job
	}
	return w.Protocol().(*replay.Job)
}

// claimBits: who sends a message claims that these are the bits of its name.
func claimBits(m replayMessage) (key, value uint64, ok bool) {
	if m.Frame == nil {
		return 0, 0, false
	}
	return m.Frame.Key(), m.Frame.Sum(), true
}

// witnessReplay says what is wrong with what r has just delivered.
func witnessReplay(w *replayWorld, r protocol.Rank) error {
	all := w.Delivered(r)
	switch m := &all[len(all)-1].Msg; {
	case m.Result != nil:
		return checkBits(jobOf(w).Program(), r, m.Result)
	case m.Letter.Letter != nil && m.Letter.Kind == membership.Opened:
		return checkAdopted(w, r, m.Letter.Base)
	}
	return nil
}

// checkBits compares what a task got with what it gets without messages.
func checkBits(g *replay.Program, r protocol.Rank, a *replay.Attempt) error {
	want := g.Digests(a.Task)
	if slices.Equal(a.Digests, want) {
		return nil
	}
	at := 0
	for at < min(len(want), len(a.Digests)) && a.Digests[at] == want[at] {
		at++
	}
	what := "its end"
	if at < len(g.Calls) {
		what = g.Calls[at].String()
	}
	return fmt.Errorf("%w: task %d at p%d, begun in view %d, from operation %d on: %s", errBits, a.Task, r, a.View, at, what)
}

// checkAdopted looks at the tasks that r has adopted with a view.
func checkAdopted(w *replayWorld, r protocol.Rank, v *membership.View) error {
	for t := range v.Owners {
		task := protocol.Rank(t)
		if since, ok := w.State(r).Runs(task); !ok || since != v.Number {
			continue
		}
		for other := range jobOf(w).Coordinator() {
			if other == r || !w.Alive(other) {
				continue
			}
			if _, ok := w.State(other).Runs(task); ok {
				return fmt.Errorf("%w: task %d of p%d, by p%d", errTwice, task, other, r)
			}
		}
	}
	return nil
}

// check says what is wrong at the end of a run.
func (r Job) check(w *replayWorld) error {
	if most := r.stepsMax(jobOf(w).Program().Messages()); w.Steps() > most {
		return fmt.Errorf("%w: %d, allowed are %d", errSteps, w.Steps(), most)
	}
	return checkReturned(w)
}

// checkReturned says who has not come to the end.
func checkReturned(w *replayWorld) error {
	if l, ok := w.Protocol().(*recorder); ok && l.err != nil {
		return l.err
	}
	job := jobOf(w)
	returned := make([]bool, job.Program().Tasks)
	for r := range protocol.Rank(w.P()) {
		for _, d := range w.Delivered(r) {
			if d.Msg.Result != nil {
				returned[d.Msg.Result.Task] = true
			}
		}
		if !w.Alive(r) {
			continue
		}
		if err := w.State(r).Err(); err != nil {
			return fmt.Errorf("p%d: %w", r, err)
		}
		if w.Rest(r) != chaos.Done {
			return fmt.Errorf("%w: p%d, in %v", errUnended, r, w.State(r).View())
		}
	}
	if t := slices.Index(returned, false); t >= 0 {
		return fmt.Errorf("%w: task %d", errReturned, t)
	}
	return nil
}
