// Package recovery attacks recovery by replay: random programs under random schedules, and crashes at every
// moment of every operation. Its API may change.
package recovery

import (
	"cmp"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coppice-go/coppice/chaos"
	"github.com/coppice-go/coppice/chaos/replay"
	"github.com/coppice-go/coppice/protocol"
)

// Job is a job, to attack, whose tasks survive crashes of processes: all processes but one may crash, at any
// moment, and every task must return with the bits that it gets without messages. If the only survivors are
// processes that had not joined, nothing is promised.
type Job struct {
	// P is the number of processes. Tasks is the number of tasks; 0: P. Task t belongs to process t mod
	// P; with fewer tasks than processes there are spares.
	P, Tasks int

	// Joiners is the number of processes that get a notice to join, at any moment. Their ranks follow.
	Joiners int

	// Ops are the operations of programs. nil: all.
	Ops []replay.Op

	// Operations is the length of a random program. A tenth of them are short.
	Operations int

	// Cancels is how many contexts end at most, each the context of one operation of one task at one
	// process, at any moment. With it some operations are agreed.
	Cancels int

	// Saves is how often programs call Save: random ones at random places; the programs of plans before
	// the operation, after it, and so on. Some: up to three times, in half of the random programs. With
	// it, tasks of some random programs call Once, too.
	Saves int

	// Copies is how many other processes keep what a task saves. 0: as many as may crash; in a third of
	// the random programs any number up to that, with which tasks may be lost.
	Copies int

	// Moves lets tasks begin anywhere, in plans all at process 0, and move in Save to processes that have
	// fewer. They also move if processes may join, restart, leave or begin late.
	Moves bool

	// Whole sends every copy of a state in one message. Otherwise some are sent in parts.
	Whole bool

	Crashes      int  // at most; with P−1 there is always a survivor; with P−1+Joiners the survivor may have joined
	LossyCrashes bool // as in chaos.Config

	// Suspicions, Cuts, OneWay and Restarts are as in chaos.Config. A suspected process is killed, or
	// excluded beyond a cut; then all processes may be lost. A process that comes back joins.
	Suspicions, Cuts, Restarts int
	OneWay                     bool

	// Frozen is as in chaos.Config. If a majority is not frozen, suspicion is enough for it to progress.
	Frozen int

	// Late is as in chaos.Config. In a swarm a quarter of the runs have late processes.
	Late int

	// Logless lets a process drop its log, at any moment. What it sent to a task that is to be run again
	// is lost, and so is the task.
	Logless bool

	// Drains is the greatest number of orders to leave. A process that leaves hands over its tasks and
	// copies first. In a swarm a quarter of the runs have such orders.
	Drains int

	// Hosts is as in replay.Config.
	Hosts int

	// Stored keeps what tasks save in files, in a quarter of a swarm: no task is lost for want of its
	// state.
	Stored bool

	// Inside makes the coordinator part of a process, which may crash like any other. Otherwise the
	// coordinator is apart, and never crashes. SomeInside does so in a quarter of a swarm.
	Inside, SomeInside bool

	// Swarm lets every run draw its own sizes, faults and options, up to those above.
	Swarm bool

	KeepGoing, AsFound bool // as in chaos.Config
	StatesMax          int
	Progress           func(runs int) // as in chaos.Config
}

// Some stands for a random number of Saves.
const Some = -1

type (
	replayState   = replay.State
	replayMessage = replay.Message
	replayWorld   = chaos.World[replayState, replayMessage]
	replayConfig  = chaos.Config[replayState, replayMessage]
	replaySetup   = chaos.Setup[replayState, replayMessage]
)

// short is the length of short programs.
const short = 8

// Random runs random programs, a new one each time, under random schedules.
func (r Job) Random(seed uint64, runs, workers int) (chaos.Report, error) {
	cfg, counts, err := r.random()
	if err != nil {
		return chaos.Report{}, err
	}
	report, err := chaos.Random(cfg, seed, runs, workers)
	report.Situations = counts.list()
	return report, err
}

// random returns the world of Random, and the counts of situations that occur in it.
func (r Job) random() (replayConfig, *tally, error) {
	menus := make([]*replay.Menu, r.tasks()+1)
	for tasks := range menus {
		if tasks == 0 || tasks < r.tasks() && !r.Swarm {
			continue
		}
		menu, err := replay.NewMenu(tasks, r.Ops...)
		if err != nil {
			return replayConfig{}, nil, err
		}
		menu.Agreed = r.Cancels > 0
		menus[tasks] = menu
	}
	if _, err := r.Plans(); err != nil {
		return replayConfig{}, nil, err
	}
	if r.Operations < 1 {
		return replayConfig{}, nil, fmt.Errorf("chaos: programs of %d operations, allowed are 1 and more", r.Operations)
	}
	menu := menus[r.tasks()]
	cfg, err := r.world(menu.Random(0, r.Operations), nil)
	counts := new(tally)
	cfg.Vary = func(s *replaySetup) {
		own, ok := s.Own.(*own)
		if !ok {
			own = newOwn()
			s.Own = own
		}
		own.memory.Reset()
		if r.Swarm {
			d := r.draw(s)
			s.Inputs = d.inputs()
			menu := menus[d.tasks()].Some(d.some, own.memory)
			menu.Agreed = d.Cancels > 0
			d.prepare(s, &menu, 1+s.Choose(r.Operations), counts)
			return
		}
		n := r.Operations
		if !s.Chance(9, 10) {
			n = 1 + s.Choose(min(n, short))
		}
		menu := *menu
		menu.Memory = own.memory
		r.prepare(s, &menu, n, counts)
	}
	cfg.Reuse = true
	cfg.Claim = nil // the recorder checks claims; a list of them would be long
	cfg.Dying = func(w *replayWorld, p protocol.Rank) { observer(w).dies(w, p) }
	cfg.StepsMax = r.stepsMax(menu.MessagesMax(r.Operations), r.savesMax(), r.Operations)
	return cfg, counts, err
}

// prepare draws a program of n operations, and how to run it.
func (r Job) prepare(s *replaySetup, menu *replay.Menu, n int, counts *tally) {
	g, copies := r.saving(s, menu, n)
	job, err := r.job(g, r.vary(s, g), copies, func() int { return s.Choose(r.P) })
	if err != nil {
		panic(err) // a job with another program was possible
	}
	if r.Swarm {
		s.Shrink(job.Ranks())
		s.Faults = r.faults(s.Own.(*own).mayCrash)
		s.Expect(1+g.Messages()/r.P, 1+g.Messages())
	}
	if r.Logless {
		s.Inputs = append(slices.Clip(s.Inputs), chaos.Input{Rank: protocol.Rank(s.Choose(r.P)), Notice: replay.Logless})
	}
	if r.Drains > 0 {
		s.Inputs = slices.Grow(slices.Clip(s.Inputs), r.Drains)
	}
	for range r.Drains { // some processes twice
		s.Inputs = append(s.Inputs, chaos.Input{Rank: protocol.Rank(s.Choose(r.P + r.Joiners)), Notice: replay.Drain})
	}
	l := newRecorder(s.Own.(*own), r, job, counts)
	// The process that joined last may have no copy.
	l.strict = g.Onces() == 0 || copies >= r.deaths()+r.Suspicions && r.Cuts == 0 && r.deaths() < r.P
	l.safe = r.keepsAll(copies)
	s.Protocol = l
}

// deaths returns the greatest number of processes that die unsuspected. Leaving processes count only if
// possibly no process stays.
func (r Job) deaths() int {
	n := r.Crashes + r.Frozen
	if n+r.Drains >= r.P {
		n += r.Drains
	}
	return n
}

// keepsAll reports whether nothing may be lost, with the given number of copies: fewer processes die than
// have one, and some processes stay.
func (r Job) keepsAll(copies int) bool {
	n := r.Crashes + r.Frozen
	return copies >= n && n+r.Drains < r.P && r.Suspicions+r.Cuts == 0 && !r.Logless
}

// own is what a worker reuses from run to run.
type own struct {
	memory   *replay.Memory
	recorder recorder
	mayCrash func(protocol.Rank) bool
}

func newOwn() *own {
	o := &own{memory: replay.NewMemory(), recorder: recorder{said: map[uint64]uint64{}}}
	o.mayCrash = func(p protocol.Rank) bool { return p != o.recorder.Coordinator() }
	return o
}

// savesMax returns how many Saves a program has at most.
func (r Job) savesMax() int {
	if r.Saves == Some {
		return 3
	}
	return r.Saves
}

// saving draws a program of n operations with Saves, and the number of copies.
func (r Job) saving(s *replaySetup, menu *replay.Menu, n int) (*replay.Program, int) {
	saves := r.Saves
	if saves == Some {
		saves = max(s.Choose(7)-3, 0)
	}
	if saves == 0 {
		return menu.Random(s.Seed, n), 1
	}
	copies := r.Copies
	if copies == 0 {
		copies = max(r.Crashes+r.Frozen, 1)
		if s.Choose(3) == 1 {
			copies = 1 + s.Choose(copies)
		}
	}
	with := *menu
	with.Once = s.Choose(2) == 1
	g := with.Random(s.Seed, n)
	before := make([]int, saves)
	for i := range before {
		before[i] = s.Choose(n + 1)
	}
	return g.Saved(before...), copies
}

func (r Job) tasks() int { return cmp.Or(max(r.Tasks, 0), r.P) }

// Plans lists the ways of carrying out the operations; with Cancels, only of those that can be agreed.
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
		if r.Cancels == 0 || plans[0].Agreeable() {
			all = append(all, plans...)
		}
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("chaos: %v cannot be aborted, allowed are all but send, stream and corrected", ops)
	}
	return all, nil
}

// CrashPoints makes up to Crashes processes crash, in one schedule, at every moment: for every plan, in a
// program that sends messages before. With LossyCrashes a crash loses none or all of the messages in flight.
// With Cancels every task in turn aborts the operation, and messages follow. The plans are divided among
// workers (0: one per core).
func (r Job) CrashPoints(workers int) (chaos.Report, error) {
	return r.eachPlan(workers, func(cfg replayConfig) (chaos.Report, error) { return chaos.CrashPoints(cfg) })
}

// DelayBounded runs the program of every plan under every schedule with at most that many delays. Each crash
// is a delay.
func (r Job) DelayBounded(delays, workers int) (chaos.Report, error) {
	return r.eachPlan(workers, func(cfg replayConfig) (chaos.Report, error) { return chaos.DelayBounded(cfg, delays) })
}

// Exhaustive runs the program of every plan under every schedule.
func (r Job) Exhaustive(workers int) (chaos.Report, error) {
	return r.eachPlan(workers, chaos.Exhaustive[replayState, replayMessage])
}

// eachPlan adds up the reports of attacking the programs of all plans, up to the first that violates
// something.
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
				if reports[i], errs[i] = attack(worlds[i].config); errs[i] != nil {
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
			sum.First.Err = fmt.Errorf("%v: %w", worlds[i].plan, sum.First.Err)
		}
		err = errs[i]
		break
	}
	sum.Seconds = time.Since(begin).Seconds()
	return sum, err
}

// planned is the world of a plan.
type planned struct {
	plan   *replay.Plan
	config replayConfig
}

// worlds returns the worlds of all plans and, with Cancels, of all tasks that may abort.
func (r Job) worlds() (all []planned, err error) {
	plans, err := r.Plans()
	if err != nil {
		return nil, err
	}
	for i, plan := range plans {
		g, err := r.program(plan, i)
		if err != nil {
			return nil, err
		}
		cancels := [][]replay.Cancel{nil}
		if r.Cancels > 0 {
			cancels = r.eachTask()
		}
		for _, some := range cancels {
			cfg, err := r.world(g, some)
			if err != nil {
				return nil, err
			}
			all = append(all, planned{plan, cfg})
		}
	}
	return all, nil
}

// eachTask lists the tasks whose contexts end in the first operation, wherever they run.
func (r Job) eachTask() (all [][]replay.Cancel) {
	for task := range protocol.Rank(r.tasks()) {
		var everywhere []replay.Cancel
		for at := range protocol.Rank(r.P + r.Joiners) {
			everywhere = append(everywhere, replay.Cancel{At: at, Task: task})
		}
		all = append(all, everywhere)
	}
	return all
}

// program returns a program of messages and then the operation of a plan or, with Cancels, the other way
// round.
func (r Job) program(plan *replay.Plan, seed int) (*replay.Program, error) {
	sends, err := replay.Plans(replay.Send, r.tasks())
	if err != nil {
		return nil, err
	}
	calls := []replay.Call{{Plan: sends[0], Elems: 2}, {Plan: plan, Elems: r.tasks() + 1}}
	if r.Cancels > 0 {
		calls[1].Agreed = true
		slices.Reverse(calls)
	}
	var before []int
	for i := range max(r.Saves, 0) {
		before = append(before, min(i+1, len(calls)))
	}
	return replay.NewProgram(r.tasks(), uint64(seed), calls...).Saved(before...), nil
}

// job returns a job that runs a program. With Moves, owner draws the process where a task begins.
func (r Job) job(g *replay.Program, cancels []replay.Cancel, copies int, owner func() int) (*replay.Job, error) {
	cfg := replay.Config{
		Program: g, Processes: r.P, Joiners: r.Joiners, Cancels: cancels, Called: r.Restarts+r.Late > 0, Copies: copies,
		Moves: r.Moves || r.Joiners+r.Restarts+r.Drains+r.Late > 0, Whole: r.Whole, Hosts: r.Hosts, Stored: r.Stored && r.Swarm,
		Inside: r.Inside, Gather: r.Late > 0,
	}
	for range g.Tasks {
		if r.Moves {
			cfg.Owners = append(cfg.Owners, protocol.Rank(owner()))
		}
	}
	return replay.New(cfg)
}

// vary makes some contexts end: half of them those of first attempts, half of them before the job begins, the
// others at any moment.
func (r Job) vary(s *replaySetup, g *replay.Program) (before []replay.Cancel) {
	var agreed []int
	for at := range g.Calls {
		if g.Begins(at) {
			agreed = append(agreed, at)
		}
	}
	if len(agreed) == 0 || r.Cancels == 0 {
		return nil
	}
	s.Inputs = slices.Clip(s.Inputs)
	for range s.Choose(r.Cancels + 1) {
		task := protocol.Rank(s.Choose(g.Tasks))
		c := replay.Cancel{At: task % protocol.Rank(r.P), Task: task, Op: agreed[s.Choose(len(agreed))]}
		if s.Choose(2) == 1 {
			c.At = protocol.Rank(s.Choose(r.P))
		}
		if s.Choose(2) == 1 {
			before = append(before, c)
		} else {
			s.Inputs = append(s.Inputs, chaos.Input{Rank: c.At, Notice: c.Notice()})
		}
	}
	return before
}

// world returns the world of a job with a program.
func (r Job) world(g *replay.Program, cancels []replay.Cancel) (replayConfig, error) {
	if min(r.Cancels, r.Suspicions, r.Cuts, r.Restarts, r.Frozen, r.Drains, r.Late) < 0 {
		return replayConfig{}, fmt.Errorf("chaos: %d contexts that end, %d suspicions, %d cuts, %d restarts, %d frozen, %d that leave, %d that begin late, allowed are 0 and more", r.Cancels, r.Suspicions, r.Cuts, r.Restarts, r.Frozen, r.Drains, r.Late)
	}
	if all := r.P + r.Joiners; r.P < 1 || r.Crashes < 0 || r.Crashes > all-1 {
		return replayConfig{}, fmt.Errorf("chaos: %d crashes among %d processes, allowed are 0 … %d, since one survives", r.Crashes, all, all-1)
	}
	if r.Saves < Some || r.Copies < 0 {
		return replayConfig{}, fmt.Errorf("chaos: %d saves with %d copies, allowed are 0 and more", r.Saves, r.Copies)
	}
	job, err := r.job(g, cancels, cmp.Or(r.Copies, r.Crashes), func() int { return 0 })
	if err != nil {
		return replayConfig{}, err
	}
	return replayConfig{
		Protocol: job, P: job.Ranks(), Detect: true, Inputs: r.inputs(),
		Crashes: r.Crashes, LossyCrashes: r.LossyCrashes, MayCrash: func(p protocol.Rank) bool { return p != job.Coordinator() },
		Testament:  func(s *replayState) (replayMessage, bool) { return replay.Testament(s), true },
		Suspicions: r.Suspicions, Cuts: r.Cuts, OneWay: r.OneWay, Restarts: r.Restarts, DetectCuts: true, Fence: wishedDead,
		Frozen: r.Frozen, Without: without, Late: r.Late, Begins: begins, Returns: returns,
		KeepGoing: r.KeepGoing, Progress: r.Progress, AsFound: r.AsFound, StatesMax: r.StatesMax, StepsMax: r.stepsMax(g.Messages(), g.Saves(), g.Onces()),
		Claim: claimBits, Witness: witnessReplay, Check: r.check,
	}, nil
}

// inputs returns Begin notices for the processes that join, and, if any may restart or be late, for all.
func (r Job) inputs() (all []chaos.Input) {
	if r.Joiners+r.Restarts+r.Late > 0 {
		all = make([]chaos.Input, 0, r.P+r.Joiners)
	}
	for p := range protocol.Rank(r.P + r.Joiners) {
		if int(p) >= r.P || r.Restarts+r.Late > 0 {
			all = append(all, chaos.Input{Rank: p, Notice: protocol.Notice{Kind: protocol.Begin, Value: 1}})
		}
	}
	return all
}
