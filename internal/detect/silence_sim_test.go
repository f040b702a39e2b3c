package detect

import (
	"container/heap"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// A simulated job: what the caller of Silence does, in simulated time, with
// processes that pause, stop and die.

type simulation struct {
	nodes  []*node
	events events
	rng    *rand.Rand
	delay  time.Duration // of a frame, at most
	mend   time.Duration // after a pause, until what arrived can be read, at most: links may have to be made again
	late   time.Duration // of a tick, at most
	fence  time.Duration // from a suspicion until all know, at most; negative: nobody does anything about it
	fenced map[int]bool

	suspicions []suspicion
}

type node struct {
	silence *Silence
	pauses  []pause       // in the order of time
	ends    time.Duration // it stops or dies; negative: never
	beats   []time.Duration
	arrived map[int]time.Duration // last frame, by receiver: channels keep the order
}

type pause struct{ from, to time.Duration }

type suspicion struct {
	by, of int
	at     time.Duration
	why    string
}

type event struct {
	at    time.Duration
	order uint64 // among those of one moment
	node  int
	frame bool
	do    func(n *node, now time.Duration)
}

type events []event

func (e events) Len() int { return len(e) }
func (e events) Less(i, j int) bool {
	return e[i].at < e[j].at || e[i].at == e[j].at && e[i].order < e[j].order
}
func (e events) Swap(i, j int) { e[i], e[j] = e[j], e[i] }
func (e *events) Push(x any)   { *e = append(*e, x.(event)) }
func (e *events) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	*e = (*e)[:last]
	return x
}

func newSimulation(t *rapid.T, n int) *simulation {
	s := &simulation{
		rng:   rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)),
		delay: time.Duration(rapid.IntRange(0, 300).Draw(t, "delay, ms")) * ms,
		late:  time.Duration(rapid.IntRange(0, 46).Draw(t, "late, ms")) * ms,
		fence: 50 * ms, fenced: map[int]bool{},
	}
	for r := range n {
		silence, err := NewSilence(r, n, testSilence, start)
		if err != nil {
			t.Fatal(err)
		}
		s.nodes = append(s.nodes, &node{silence: silence, ends: -1, arrived: map[int]time.Duration{}})
		s.add(s.upTo(200*ms), r, false, s.tick(r))
	}
	return s
}

func (s *simulation) upTo(d time.Duration) time.Duration {
	return time.Duration(s.rng.Int64N(int64(d) + 1))
}

func (s *simulation) add(at time.Duration, node int, frame bool, do func(*node, time.Duration)) {
	heap.Push(&s.events, event{at, s.rng.Uint64(), node, frame, do})
}

// run handles the events up to a moment. Those of a paused process happen within
// a few milliseconds after its pause, in any order but for the frames of one
// channel, whose order does not matter here.
func (s *simulation) run(to time.Duration) {
	for len(s.events) > 0 && s.events[0].at <= to {
		e := heap.Pop(&s.events).(event)
		n := s.nodes[e.node]
		for len(n.pauses) > 0 && n.pauses[0].to <= e.at {
			n.pauses = n.pauses[1:]
		}
		switch {
		case n.ends >= 0 && e.at >= n.ends:
		case len(n.pauses) > 0 && e.at >= n.pauses[0].from:
			e.at = n.pauses[0].to + s.upTo(runMin)
			if e.frame {
				e.at += s.upTo(s.mend)
			}
			e.order = s.rng.Uint64()
			heap.Push(&s.events, e)
		default:
			e.do(n, e.at)
		}
	}
}

// runMin is the shortest time between two pauses of a process.
const runMin = 5 * ms

func (s *simulation) tick(self int) func(*node, time.Duration) {
	return func(n *node, now time.Duration) {
		todo := n.silence.Tick(at(now))
		for _, to := range todo.Beats {
			n.beats = append(n.beats, now)
			n.arrived[to] = max(n.arrived[to], now+s.upTo(s.delay))
			s.add(n.arrived[to], to, true, func(n *node, now time.Duration) { n.silence.Heard(self, at(now)) })
		}
		for _, suspect := range todo.Suspects {
			s.suspicions = append(s.suspicions, suspicion{self, suspect.Rank, now, suspect.Why})
			s.spread(suspect.Rank, now)
		}
		s.add(todo.At.Sub(start)+s.upTo(s.late), self, false, s.tick(self))
	}
}

// spread tells all that a process is gone.
func (s *simulation) spread(rank int, now time.Duration) {
	if s.fence < 0 || s.fenced[rank] {
		return
	}
	s.fenced[rank] = true
	for to := range s.nodes {
		s.add(now+s.upTo(s.fence), to, false, func(n *node, now time.Duration) { n.silence.Gone(rank, at(now)) })
	}
}

// die lets a process die for certain: all are told.
func (s *simulation) die(rank int, at time.Duration) {
	s.nodes[rank].ends = at
	s.spread(rank, at)
}

// drawPauses gives a process pauses until a moment, of up to most each. In between
// it runs for least or longer.
func drawPauses(t *rapid.T, n *node, least, most, to time.Duration, name string) {
	for now := time.Duration(0); now < to; {
		run := least + time.Duration(rapid.IntRange(0, 2000).Draw(t, name+" runs, ms"))*ms
		length := time.Duration(rapid.Int64Range(0, int64(most/ms)).Draw(t, name+" pauses, ms")) * ms
		n.pauses = append(n.pauses, pause{now + run, now + run + length})
		now += run + length
	}
}

func TestPausesUpToASecondAreNeverBlamed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const end = 15 * time.Second
		s := newSimulation(t, rapid.IntRange(2, 9).Draw(t, "n"))
		for r, n := range s.nodes {
			if rapid.Bool().Draw(t, "pauses") {
				drawPauses(t, n, runMin, time.Second, end, fmt.Sprint("p", r))
			}
			if rapid.IntRange(0, 4).Draw(t, "dies") == 0 {
				s.die(r, time.Duration(rapid.Int64Range(0, int64(end)).Draw(t, "death")))
			}
		}
		s.run(end)
		if len(s.suspicions) > 0 {
			t.Fatalf("suspicions: %+v", s.suspicions)
		}
		checkBeats(t, s)
	})
}

// checkBeats demands at most two beats in any eighth of the silence.
func checkBeats(t *rapid.T, s *simulation) {
	for r, n := range s.nodes {
		for i := 2; i < len(n.beats); i++ {
			if n.beats[i]-n.beats[i-2] < testSilence/8 {
				t.Fatalf("p%d beats at %v", r, n.beats[i-2:i+1])
			}
		}
		if n.ends < 0 && len(n.pauses) == 0 && len(s.nodes) > 2 && len(s.fenced) == 0 && len(n.beats) < 2*35 {
			t.Fatalf("p%d beats only %d times", r, len(n.beats))
		}
	}
}

func TestAPausedWatcherNeverBlamesOthers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const end = 60 * time.Second
		s := newSimulation(t, rapid.IntRange(2, 6).Draw(t, "n"))
		s.fence = -1
		s.mend = time.Second
		drawPauses(t, s.nodes[0], s.mend+runMin, 20*time.Second, end, "p0")
		for r, n := range s.nodes[1:] {
			if rapid.Bool().Draw(t, "pauses") {
				drawPauses(t, n, s.mend+runMin, time.Second, end, fmt.Sprint("p", r+1))
			}
		}
		s.run(end)
		for _, x := range s.suspicions {
			if x.of != 0 {
				t.Fatalf("%+v", x)
			}
		}
	})
}

// Some processes stop, all at once, after pauses that made them look irregular;
// others die and are known to, up to 3 s later. Everybody else runs.
func TestEveryStoppedProcessIsSuspectedInTime(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(2, 12).Draw(t, "n")
		s := newSimulation(t, n)
		s.delay = min(s.delay, 30*ms)
		stop := time.Duration(rapid.IntRange(4000, 8000).Draw(t, "stop, ms")) * ms
		lost := make([]bool, n)
		stopped := []int{}
		died := time.Duration(0)
		survivor := rapid.IntRange(0, n-1).Draw(t, "survivor")
		for r, p := range s.nodes {
			if r == survivor {
				continue
			}
			switch rapid.IntRange(0, 3).Draw(t, "fate") {
			case 0:
				lost[r], stopped, p.ends = true, append(stopped, r), stop
				drawPauses(t, p, runMin, time.Second, stop-2*time.Second, fmt.Sprint("p", r))
			case 1:
				lost[r] = true
				after := time.Duration(rapid.IntRange(0, 3000).Draw(t, "death, ms")) * ms
				died = max(died, after)
				s.die(r, stop+after)
			}
		}
		s.run(stop + 40*time.Second)
		for _, r := range stopped {
			checkSuspected(t, s, r, lost, died)
		}
		for _, x := range s.suspicions {
			if !lost[x.of] {
				t.Fatalf("wrongly: %+v", x)
			}
		}
	})
}

// checkSuspected demands a suspicion of r: within 3.0 to 3.5 s of its last beat
// if a watcher lives, otherwise after as many rounds as it takes until one does.
func checkSuspected(t *rapid.T, s *simulation, r int, lost []bool, died time.Duration) {
	ring := newRing(len(lost))
	distance := 1
	for at := (r + ring.stride) % len(lost); lost[at]; at = (at + ring.stride) % len(lost) {
		distance++
	}
	last := s.nodes[r].beats[len(s.nodes[r].beats)-1]
	latest := last + s.delay + testSilence + 500*ms
	if rounds := (distance + watchers - 1) / watchers; rounds > 1 {
		latest += died + time.Duration(rounds-1)*(testSilence+600*ms+testSilence/8) // who watched it may have beaten a beat later
	}
	for _, x := range s.suspicions {
		if x.of != r {
			continue
		}
		if x.at < last+testSilence || x.at > latest {
			t.Fatalf("p%d beat last at %v, was suspected at %v, at the latest allowed %v: %s", r, last, x.at, latest, x.why)
		}
		return
	}
	t.Fatalf("p%d stopped after %v and was never suspected", r, last)
}
