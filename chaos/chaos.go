// Package chaos runs a protocol under adversarial schedules and checks its invariants: it draws schedules by
// the million, or explores all of them. Its API may change.
//
// # The world
//
// A world has P processes, each a state of a protocol.Protocol, and a reliable first-in first-out channel for
// every ordered pair. A run is a sequence of transitions, and an adversary chooses the next one:
//
//   - a process receives the oldest message of a channel (with Config.Reorder: any message of it);
//   - the driver calls Next of a process that may act, and its answer takes effect;
//   - a process is handed its next input, the notice that its Work is done, or (with Config.Detect) the
//     notice that another process crashed;
//   - a process crashes, while the budget Config.Crashes lasts. What it has sent still arrives, unless
//     Config.LossyCrashes takes some of it away;
//   - other faults come, as often as the configuration says: a crashed process restarts in a new life
//     (Config.Restarts), a cut parts all processes into two sides that do not reach each other until it heals
//     (Config.Cuts), a process is notified to suspect another (Config.Suspicions, Config.DetectCuts) or has it
//     killed (Config.Fence), some processes begin later than the others (Config.Late);
//   - all faults end, some processes freeze, and the others must finish without them (Config.Frozen);
//   - when nothing else can happen, time passes to the earliest moment that a process waits for; with
//     Config.EagerTimers it may pass at any moment, which makes every time-out premature that can be.
//
// Messages to processes that are dead or Done vanish. A process has one Next before anything reaches it, as
// the contract of package protocol says, but that may be late. The run ends when nothing can happen and no
// process waits. A run that does not end within Config.StepsMax transitions is a livelock.
//
// # Three ways to choose
//
// [Random] draws schedules from a seed, of several kinds, since uniform ones find few bugs that need one
// process to be late for a long time. [Exhaustive] explores every schedule of a small world, with a reduction
// that exhaustive.go justifies. Random answers "not in ten million schedules", Exhaustive "never, for this
// many processes". [DelayBounded] stands between the two: it explores every schedule that differs from the
// ordinary one in a few transitions, in worlds too large for Exhaustive.
//
// All report a violation as the shortest script they could find, and as the choices that [Replay] turns into
// the same run again.
//
// # The caller's duties
//
//  1. The protocol keeps the contract of package protocol: above all, the same calls give the same answers.
//     Otherwise a violation does not replay.
//  2. Check, Step, Witness, Vary and the other functions of Config are pure: they are called from several
//     goroutines and in any order, and they keep nothing of the World.
//  3. Check says what must hold at the end: what must not happen (safety) and what must have happened
//     (liveness). It does not see what happened and was undone: that is for Step.
//  4. Plant a mistake before you trust a zero: a Check that cannot fail, or a world in which nothing happens,
//     never finds anything.
//  5. For Exhaustive, states that hold pointers, slices or maps need the methods Clone() S and
//     Fingerprint() [2]uint64; messages that hold them need Fingerprint.
package chaos

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"

	"github.com/coppice-go/coppice/protocol"
)

// Config describes a world and what must hold in it.
type Config[S, M any] struct {
	// Protocol is the protocol that every process runs.
	Protocol protocol.Protocol[S, M]

	// P is the number of processes.
	P int

	// Failed lists processes that are dead from the start and never run.
	Failed []protocol.Rank

	// Crashes is how many processes may crash in a run, at any moment.
	Crashes int

	// LossyCrashes lets a crash take with it the end of every channel from the crashed process: any
	// number of the messages sent last. A host that fails loses what it had not put on the wire.
	LossyCrashes bool

	// MayCrash reports whether a process may crash. nil: all may.
	MayCrash func(protocol.Rank) bool

	// Detect notifies every live process of every crash, those at the start included, by a Death notice
	// at any later moment and in any order.
	Detect bool

	// Testament returns the record that a process leaves when it crashes in this state, if any. With
	// Detect, a process that is notified of the crash receives the record just before, as a message from
	// the crashed process, in the same transition.
	Testament func(*S) (m M, ok bool)

	// Restarts is how often crashed processes, fenced ones included, come back, at any later moment:
	// Init, the first Next, then a Begin notice whose Value is the number of the life, before anything
	// else arrives. Messages to the earlier life, and Inputs that it was not handed, are lost; what it
	// sent still arrives. A new life is notified of all crashes of others. A process for which Returns is not nil and
	// false at that moment stays away.
	Restarts int
	Returns  func(w *World[S, M], r protocol.Rank) bool

	// Cuts is how often a cut may part the processes into two sides, any two, one cut at a time.
	// Messages, Death notices and fencing wait at the cut until it heals, which can be at any moment. A
	// cut heals at the latest after time has passed CutTicks times (default 4), or when the run would
	// end. With CutsStay the run ends then, with the cut.
	Cuts, CutTicks int
	CutsStay       bool

	// OneWay makes half of the cuts one-way: one side still hears the other. Random only.
	OneWay bool

	// DetectCuts lets every process be notified to suspect every process on the other side of a cut.
	// Before time passes or the run ends, all are notified; a notice still pending when the cut heals may
	// come later.
	DetectCuts bool

	// Suspicions is how often a process may be notified, at any moment and for no reason, to suspect
	// another.
	Suspicions int

	// Frozen is how many processes may freeze forever. At a random moment all faults end: a cut heals,
	// and no further fault of the kinds above comes. Some processes freeze: they make no step, and no
	// message reaches or leaves them. The others must finish without them, within StepsMax. If Without
	// reports that suspicion is enough for that, then in half of the runs every process is notified to
	// suspect the frozen ones; otherwise the frozen ones are found dead. Random only.
	Frozen  int
	Without func(w *World[S, M], frozen []bool) bool

	// Late is how many of the processes that may crash may begin late. Until such a process begins, at
	// any moment or when nothing else can happen, it makes no step and what is for it waits. Every
	// process that has begun gets a Heard notice about every other one. Begins returns the life in which
	// the process begins: 1; 2, as with Restarts, because the others have stopped waiting for it; or 0,
	// never. nil: 1. Random only.
	Late   int
	Begins func(w *World[S, M], r protocol.Rank) uint32

	// Fence returns which process, in which life, a Work asks to kill. The agent of that process kills
	// it: a crash that Crashes does not count, and that comes before time passes or the run ends, unless
	// the two processes are cut from each other.
	Fence func(M) (rank protocol.Rank, life uint64, ok bool)

	// Inputs are notices from outside, for instance Begin. Each is handed over once, at any moment; those
	// of one process in the order given.
	Inputs []Input

	// Vary draws what differs from run to run; see Setup. Exhaustive explores every answer. nil: nothing
	// differs.
	Vary func(*Setup[S, M])

	// Cumulative declares that receiving is learning: a message that is received again at once changes
	// nothing, and messages that lead a state to the same state do so from every state that comes after
	// it, whatever is received or done in between. It spares Exhaustive most of the states of a protocol
	// whose messages often repeat what is known; see effect.go.
	Cumulative bool

	// Reorder lets messages of one channel overtake each other.
	Reorder bool

	// EagerTimers lets time pass while other things could still happen.
	EagerTimers bool

	// ExtraNext calls Next once more whenever a process rests, and demands the same answer and an
	// unchanged state (a machine's duty 1). Slow in Random.
	ExtraNext bool

	// StepsMax bounds the transitions of a run: a run with more is a livelock. Raise it for protocols
	// that need many steps, not to silence one that does not end. Default: 10,000 + 100·P².
	StepsMax int

	// StatesMax bounds the states that Exhaustive keeps; beyond it the result is ErrIncomplete. A state
	// takes from 100 bytes to a kilobyte, with what leads to and from it. Default: 5,000,000.
	StatesMax int

	// KeepGoing makes Random go on after a violation and count them all;
	// otherwise it stops at the first.
	KeepGoing bool

	// Reuse hands Init the state that the process of this rank had at the end of the run before, so that
	// it may reuse its memory. Otherwise Init gets a zero state.
	Reuse bool

	// Progress, if not nil, is called by Random's workers with the number of runs made so far.
	Progress func(runs int)

	// AsFound makes Random report a violation as it was found. Otherwise Random looks for a shorter one
	// of the same nature, which may take seconds.
	AsFound bool

	// Check returns what is wrong at the end of a run, or nil.
	Check func(*World[S, M]) error

	// Claim returns what a message (sent, delivered, or to work on) claims: that a key has this value.
	// Two values of one key in a run, from any processes, are ErrClaims.
	Claim func(M) (key, value uint64, ok bool)

	// Witness returns what is wrong right after a process has delivered. Exhaustive keeps the order of
	// what is delivered here and what is sent elsewhere, but other processes may not have received their
	// messages yet.
	Witness func(*World[S, M], protocol.Rank) error

	// Dying observes a process that is about to crash or to be killed. nil: nothing observes.
	Dying func(*World[S, M], protocol.Rank)

	// Step returns what is wrong after a transition. Random and DelayBounded only: Exhaustive skips
	// states that differ only in which processes have received their messages.
	Step func(*World[S, M]) error
}

// Input is a notice from outside.
type Input struct {
	Rank   protocol.Rank // the process that gets it
	Notice protocol.Notice
}

// Report is the result of an exploration.
type Report struct {
	// Schedules is the number of runs made by Random. For Exhaustive it is the
	// number of paths through the states, each of which stands for many
	// interleavings; math.MaxUint64 if there are more.
	Schedules uint64

	// Violations is 0 or 1; with KeepGoing it is the number of runs that have one.
	Violations uint64

	// First is the violation of the first run that has one, nil if none has.
	First *Violation

	// States, Transitions and Terminals are Exhaustive's: distinct states,
	// steps between them, and distinct ends of a run.
	States, Transitions, Terminals uint64

	// Situations counts, for each situation that the author of the configuration named, the runs in which
	// it occurred.
	Situations []Situation

	Seconds float64
}

// Situation is a situation that schedules should lead to.
type Situation struct {
	Name string
	Runs uint64
}

// ErrIncomplete is returned by Exhaustive when there are more states than Config.StatesMax: what was explored
// holds, the rest is unknown.
var ErrIncomplete = errors.New("exploration incomplete")

// What a run can violate besides the caller's Check and Step.
var (
	ErrLivelock = errors.New("livelock")
	ErrContract = errors.New("contract broken") // the contract of package protocol, by the machine
	ErrPanic    = errors.New("panic")
	ErrClaims   = errors.New("contradiction") // see Config.Claim
	ErrStalled  = errors.New("no progress")   // after the faults; see Config.Frozen
)

func (cfg *Config[S, M]) stepsMax() int { return cmp.Or(max(cfg.StepsMax, 0), 10_000+100*cfg.P*cfg.P) }

func (cfg *Config[S, M]) cutTicks() int { return cmp.Or(cfg.CutTicks, 4) }

func (cfg *Config[S, M]) statesMax() int { return cmp.Or(max(cfg.StatesMax, 0), 5_000_000) }

func (cfg *Config[S, M]) validate() error {
	switch {
	case cfg.Protocol == nil:
		return errors.New("chaos: no Protocol")
	case cfg.P < 1 || cfg.P > ranksMax:
		return fmt.Errorf("chaos: P is %d, allowed are 1 … %d", cfg.P, ranksMax)
	case cfg.Crashes < 0:
		return fmt.Errorf("chaos: Crashes is %d, allowed are 0 and more", cfg.Crashes)
	case cfg.Check == nil && cfg.Step == nil && cfg.Witness == nil && cfg.Claim == nil:
		return errors.New("chaos: neither Check nor Step nor Witness nor Claim: nothing to find")
	}
	for _, number := range []struct {
		name string
		is   int
	}{{"Restarts", cfg.Restarts}, {"Cuts", cfg.Cuts}, {"CutTicks", cfg.CutTicks}, {"Suspicions", cfg.Suspicions}, {"Frozen", cfg.Frozen}, {"Late", cfg.Late}} {
		if number.is < 0 {
			return fmt.Errorf("chaos: %s is %d, allowed are 0 and more", number.name, number.is)
		}
	}
	if cfg.ExtraNext {
		if _, ok := any(new(S)).(Cloner[S]); !ok && !isPlain(reflect.TypeFor[S]()) {
			return fmt.Errorf("chaos: ExtraNext cannot keep a copy of a %v; give it the method Clone", reflect.TypeFor[S]())
		}
	}
	for _, r := range cfg.Failed {
		if r < 0 || int(r) >= cfg.P {
			return fmt.Errorf("chaos: Failed names rank %d, allowed are 0 … %d", r, cfg.P-1)
		}
	}
	return validInputs(cfg.Inputs, cfg.P)
}

// validInputs rejects inputs that the caller may not give: the world itself knows which processes are dead
// and whose Work is done.
func validInputs(inputs []Input, p int) error {
	for _, in := range inputs {
		switch {
		case in.Rank < 0 || int(in.Rank) >= p:
			return fmt.Errorf("chaos: Inputs names rank %d, allowed are 0 … %d", in.Rank, p-1)
		case in.Notice.Kind == protocol.Death:
			return errors.New("chaos: a Death notice in Inputs; Config.Detect sends them")
		case in.Notice.Kind == protocol.WorkDone:
			return errors.New("chaos: a WorkDone notice in Inputs; it follows Work by itself")
		}
	}
	return nil
}
