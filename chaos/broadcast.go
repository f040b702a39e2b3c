package chaos

import (
	"cmp"
	"errors"
	"fmt"
	"strings"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
	"github.com/coppice-go/coppice/topology"
)

// Broadcast is a broadcast to attack.
type Broadcast struct {
	// Spec describes it. Synchronized correction begins when dissemination is over, gossip counts rounds, and
	// bfb has a detector and a root that survives.
	Spec broadcast.Spec

	// Failed is the largest number of processes that are dead from the start.
	Failed int

	// Crashes is the largest number of processes that crash during the run.
	Crashes int

	// LossyCrashes is as in Config. With it, a delivery by a process that crashes does not count; see
	// Promise.
	LossyCrashes bool

	// Cumulative is as in Config. Random and Exhaustive derive it from Spec.
	Cumulative bool

	Reorder, EagerTimers, ExtraNext, KeepGoing bool // as in Config
	StatesMax                                  int
	Progress                                   func(runs int) // as in Config
}

// Random runs the broadcast under random schedules.
func (b Broadcast) Random(seed uint64, runs, workers int) (Report, error) {
	return b.attack(attack{seed: seed, runs: runs, workers: workers})
}

// Exhaustive runs the broadcast under every schedule, with every set of processes dead from the start and
// every crash.
func (b Broadcast) Exhaustive() (Report, error) { return b.attack(attack{exhaustive: true}) }

type attack struct {
	exhaustive    bool
	seed          uint64
	runs, workers int
}

func (b Broadcast) attack(how attack) (Report, error) {
	if b.Spec.Synchronized {
		if b.EagerTimers {
			return Report{}, errors.New("chaos: synchronized correction needs a common clock; eager timers break it")
		}
		b.Spec.Start = 1 // time passes when nothing else happens
	}
	b.Spec.Counted = true
	b.Cumulative = cumulative(b.Spec)
	b.Spec.O = cmp.Or(b.Spec.O, 1)
	built, err := b.Spec.Build()
	if err != nil {
		return Report{}, err
	}
	promise := PromiseOf(b.Spec)
	promise.Survivors = promise.Survivors || b.LossyCrashes
	switch p := built.(type) {
	case *broadcast.Plain:
		return run(BroadcastConfig(b, p, promise), how)
	case *broadcast.Delays:
		return run(BroadcastConfig(b, p, promise), how)
	case *broadcast.Provers:
		return run(BroadcastConfig(b, p, promise), how)
	case *broadcast.BFB:
		return run(BFBConfig(b, p), how)
	default:
		return Report{}, fmt.Errorf("chaos: no attack on %T", p)
	}
}

func run[S, M any](cfg Config[S, M], how attack) (Report, error) {
	if how.exhaustive {
		return Exhaustive(cfg)
	}
	return Random(cfg, how.seed, how.runs, how.workers)
}

// BroadcastConfig returns the world in which the broadcast p, whether b describes it or not, must keep its
// promise. Use it to attack a correction or dissemination of your own.
func BroadcastConfig[C, E any](b Broadcast, p *broadcast.Protocol[C, E], promise Promise) Config[broadcast.State[C], broadcast.Message[E]] {
	return Config[broadcast.State[C], broadcast.Message[E]]{
		Protocol: p, P: p.P, Crashes: b.Crashes,
		LossyCrashes: b.LossyCrashes, Cumulative: b.Cumulative,
		Reorder: b.Reorder, EagerTimers: b.EagerTimers, ExtraNext: b.ExtraNext,
		KeepGoing: b.KeepGoing, Progress: b.Progress, StatesMax: b.StatesMax,
		Vary: func(s *Setup[broadcast.State[C], broadcast.Message[E]]) {
			if b.Failed > 0 {
				s.FailUpTo(b.Failed, p.Root)
			}
		},
		Check: func(w *World[broadcast.State[C], broadcast.Message[E]]) error {
			return checkBroadcast(w, p, promise)
		},
	}
}

// Promise is what a broadcast guarantees.
type Promise struct {
	// Crashes is how many processes may crash during the run. If Together, those dead from the start
	// count among them.
	Crashes  int
	Together bool

	// Survivors: a delivery by a process that crashes later promises nothing. With LossyCrashes,
	// processes that do not wait for an answer can promise no more: everything a process sent may be lost
	// with it.
	Survivors bool

	// Gap is the largest number of neighbours on the ring, not correctors themselves, that correctors on
	// both sides reach; EndGap is the same for those behind the last corrector.
	Gap, EndGap int

	// Serves: a corrector rests Idle, ready to answer, instead of Done.
	Serves bool

	// Blocks: a process that waits for a dead process waits forever.
	Blocks bool
}

// PromiseOf returns what the broadcast that spec describes guarantees. For the paper's optimized correction
// that is what the paper claims.
func PromiseOf(spec broadcast.Spec) Promise {
	name, number, _ := strings.Cut(spec.Correction, ":")
	n := 0
	fmt.Sscan(number, &n)
	switch {
	case spec.Tree == "bfb":
		return Promise{Crashes: spec.P - 1}
	case spec.Tree == "big" && name == "none":
		f := max(topology.BinomialGraph(spec.P).Degree()-1, 0)
		return Promise{Crashes: f, Together: true, Survivors: true, Gap: spec.P, EndGap: spec.P}
	}
	switch name {
	case "opportunistic-sends":
		first, second := n-n/2, n/2
		if spec.Ring.OneSided {
			first, second = n, 0
		}
		p := Promise{Gap: first + second, EndGap: first + second}
		switch {
		case spec.Ring.Open && spec.Ring.First == broadcast.ToRight:
			p.EndGap = first
		case spec.Ring.Open:
			p.EndGap = second
		}
		return p
	case "opportunistic", "optimized", "optimized-paper":
		p := Promise{Gap: 2 * n, EndGap: 2 * n}
		if spec.Ring.OneSided {
			p = Promise{Gap: n, EndGap: n}
		}
		switch {
		case !spec.Ring.Open:
		case spec.Ring.OneSided && spec.Ring.First == broadcast.ToLeft:
			p.EndGap = 0
		default:
			p.EndGap = n
		}
		return p
	case "checked":
		return Promise{Gap: spec.P, EndGap: spec.P}
	case "delayed":
		return Promise{Gap: spec.P, EndGap: spec.P, Serves: true}
	case "failure-proof":
		return Promise{Gap: spec.P, EndGap: spec.P, Crashes: n}
	case "ack":
		return Promise{Blocks: true}
	default:
		return Promise{}
	}
}

// cumulative reports whether receiving is learning, see Config: not where acknowledgements are counted, nor
// in delayed correction, which answers a question each time.
func cumulative(spec broadcast.Spec) bool {
	name, _, _ := strings.Cut(spec.Correction, ":")
	return name != "ack" && name != "delayed" && spec.Tree != "bfb"
}

// checkBroadcast returns what is wrong with a finished run of p.
func checkBroadcast[C, E any](w *World[broadcast.State[C], broadcast.Message[E]], p *broadcast.Protocol[C, E], promise Promise) error {
	dead := w.Crashes()
	served := true // every live process
	has := func(r protocol.Rank) bool { return w.Reached(r) || r == p.Root }
	for r := range protocol.Rank(w.P()) {
		delivered := len(w.Delivered(r))
		switch {
		case delivered > 1:
			return fmt.Errorf("p%d delivered %d times", r, delivered)
		case delivered > 0 && !has(r):
			return fmt.Errorf("p%d delivered what nobody sent it", r)
		}
		if w.Failed(r) {
			dead++
		}
		if !w.Alive(r) {
			continue
		}
		served = served && delivered > 0
		if !has(r) && (w.Sent(r) || w.Rest(r) != Idle) {
			return fmt.Errorf("p%d was not reached, yet it sent or is not idle", r)
		}
	}
	for r := range protocol.Rank(w.P()) {
		if !w.Alive(r) || !has(r) || promise.Blocks && dead > 0 {
			continue
		}
		if len(w.Delivered(r)) == 0 {
			return fmt.Errorf("p%d has the message and did not deliver it", r)
		}
		rests := w.Rest(r) == Done || promise.Serves && w.Rest(r) == Idle
		if !rests {
			return fmt.Errorf("p%d has the message and does not come to an end", r)
		}
	}
	if served || w.Crashes() > promise.Crashes || promise.Together && dead > promise.Crashes {
		return nil
	}
	return cmp.Or(checkTree(w, p), checkReach(w, p, promise))
}

// checkTree demands that every process whose ancestors are all alive has the message.
func checkTree[C, E any](w *World[broadcast.State[C], broadcast.Message[E]], p *broadcast.Protocol[C, E]) error {
	parent := treeOf(p.Spread)
	if parent == nil {
		return nil
	}
	for r := range protocol.Rank(w.P()) {
		live := true
		for v := p.FromRoot(r); v >= 0; v = protocol.Rank(parent(int(v))) {
			live = live && w.Alive(p.ToGroup(v))
		}
		if live && len(w.Delivered(r)) == 0 {
			return fmt.Errorf("p%d and all its ancestors live, yet it was not reached", r)
		}
	}
	return nil
}

// treeOf returns the parent function of a dissemination along a tree, or nil.
func treeOf(d broadcast.Dissemination) func(int) int {
	switch d := d.(type) {
	case *broadcast.Tree:
		return d.Tree.Parent
	case *broadcast.AckTree:
		return d.Tree.Parent
	default:
		return nil
	}
}

// checkReach demands that every live process in a gap that is not too large has the message. After crashes it
// demands so only if some process delivered: all or none.
func checkReach[C, E any](w *World[broadcast.State[C], broadcast.Message[E]], p *broadcast.Protocol[C, E], promise Promise) error {
	if w.Crashes() > 0 {
		some := false
		for r := range protocol.Rank(w.P()) {
			counts := w.Alive(r) || !promise.Survivors
			some = some || counts && len(w.Delivered(r)) > 0 || w.Alive(r) && w.Reached(r)
		}
		if !some {
			return nil
		}
		for r := range protocol.Rank(w.P()) {
			if w.Alive(r) && len(w.Delivered(r)) == 0 {
				return fmt.Errorf("p%d was not reached, others were", r)
			}
		}
		return nil
	}
	gap, missed := 0, protocol.Rank(-1)
	for v := range protocol.Rank(w.P() + 1) { // once around, from the root to the root
		r := p.ToGroup(v % protocol.Rank(w.P()))
		if w.Alive(r) && p.Corrects(w.State(r)) {
			limit := promise.Gap
			if int(v) == w.P() {
				limit = promise.EndGap
			}
			if missed >= 0 && gap <= limit {
				return fmt.Errorf("p%d was not reached in a gap of %d; promised up to %d", missed, gap, limit)
			}
			gap, missed = 0, -1
			continue
		}
		gap++
		if w.Alive(r) && len(w.Delivered(r)) == 0 {
			missed = r
		}
	}
	return nil
}
