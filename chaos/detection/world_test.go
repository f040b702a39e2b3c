// Package detection attacks the machines that decide which processes have failed: the observers of all
// processes (package suspicion), the guard of a host, and the membership that evicts suspected processes.
// Unlike package chaos, whose schedules have no clock, it simulates time: what matters here is how long
// something lasts.
//
// Processes are stopped, are kept from beating by their own work, or die; hosts are slow; the network between
// hosts loses everything for a while, one way or both. Datagrams are delayed or lost. Letters of the
// membership wait for a network that works both ways, as on TCP. The same seed gives the same run.
package detection

import (
	"container/heap"
	"math/rand/v2"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
	"github.com/coppice-go/coppice/protocol/suspicion"
)

// Units of time.
const (
	Millisecond protocol.Time = 1_000_000
	Second                    = 1000 * Millisecond
)

// Span is the time from From until before To.
type Span struct{ From, To protocol.Time }

func (s Span) has(t protocol.Time) bool { return t >= s.From && t < s.To }

// Cut is a network that loses everything from one host to another.
type Cut struct {
	Source, Target int
	Span
}

// Pause is a time in which a process does not beat: it is stopped or, if Working, kept by work of its own,
// which the kernel sees.
type Pause struct {
	Rank int
	Span
	Working bool
	Blinks  protocol.Time // on one host: it is continued once in this time, each time too short to beat; 0: never
}

// Config configures a world.
type Config struct {
	Hosts   []int         // of each process, from 1; the coordinator is on host 0
	Silence protocol.Time // default 3 s
	Delay   protocol.Time // of a message, at most
	Late    protocol.Time // of a timer, at most

	Cuts   []Cut
	Broken []Cut // connections cannot be made; datagrams pass
	Pauses []Pause
	Deaths map[int]protocol.Time // by rank: when the host's power fails, of which no process is notified
}

// World is a run of the simulation.
type World struct {
	cfg    Config
	rng    *rand.Rand
	now    protocol.Time
	events events
	procs  []*process
	heard  []protocol.Time // by rank: when the coordinator heard it last
}

// process is a process of the job.
type process struct {
	w         *World
	rank      int
	host      int
	observer  *suspicion.Observer
	protocol  *membership.Protocol
	views     membership.State
	wake      protocol.Time
	beats     int         // in the page of its host
	seen      map[int]int // beats of others that it has seen there
	suspected map[int]bool
	view      *membership.View // the open view
	opened    []protocol.Time  // when it opened each view
	out       membership.Kind  // Excluded or NoQuorum: it no longer takes part
	said      []string         // the processes that it suspected, and why
	last      []protocol.Time  // by rank: when what it sent last arrives
}

type event struct {
	at    protocol.Time
	order uint64
	rank  int // of the process; −1: of the coordinator
	do    func()
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

// New returns a world at the start of its run.
func New(cfg Config, seed uint64) (*World, error) {
	if cfg.Silence == 0 {
		cfg.Silence = 3 * Second
	}
	w := &World{cfg: cfg, rng: rand.New(rand.NewPCG(seed, 7)), heard: make([]protocol.Time, len(cfg.Hosts))}
	retry := min(250*Millisecond, cfg.Silence/4)
	m, err := membership.New(membership.Config{
		First: membership.First(len(cfg.Hosts), nil), Fanout: 4, Adopt: true,
		Report: retry / 8, Retry: retry, Patience: max(2*cfg.Silence, 3*Second),
	})
	if err != nil {
		return nil, err
	}
	for r, host := range cfg.Hosts {
		p := &process{
			w: w, rank: r, host: host, protocol: m, seen: map[int]int{}, suspected: map[int]bool{}, last: make([]protocol.Time, len(cfg.Hosts)),
			observer: suspicion.NewObserver(protocol.Rank(r), len(cfg.Hosts), cfg.Silence, suspicion.Coordinator, 0),
		}
		m.Init(&p.views, protocol.Rank(r), seed)
		p.view = p.views.View()
		p.observer.Know(protocol.Rank(r), host, 0)
		w.procs = append(w.procs, p)
	}
	for _, p := range w.procs {
		for r, host := range cfg.Hosts {
			p.observer.Know(protocol.Rank(r), host, 0)
		}
		w.at(w.upTo(cfg.Silence/16), p.rank, p.tick)
	}
	w.at(0, -1, w.listen)
	return w, nil
}

func (w *World) upTo(d protocol.Time) protocol.Time {
	return protocol.Time(w.rng.Int64N(int64(d) + 1))
}

func (w *World) at(at protocol.Time, rank int, do func()) {
	heap.Push(&w.events, event{max(at, w.now), w.rng.Uint64(), rank, do})
}

// Run simulates until a moment. A paused process handles its events within a few milliseconds after the
// pause, a dead process never.
func (w *World) Run(to protocol.Time) {
	for len(w.events) > 0 && w.events[0].at <= to {
		e := heap.Pop(&w.events).(event)
		w.now = e.at
		if e.rank < 0 {
			e.do()
			continue
		}
		if !w.alive(e.rank) {
			continue
		}
		if until, paused := w.paused(e.rank); paused {
			w.at(until+w.upTo(5*Millisecond), e.rank, e.do)
			continue
		}
		e.do()
	}
	w.now = to
}

func (w *World) alive(rank int) bool {
	at, dies := w.cfg.Deaths[rank]
	return !dies || w.now < at
}

// paused reports whether a process is paused, and until when.
func (w *World) paused(rank int) (until protocol.Time, is bool) {
	for _, p := range w.cfg.Pauses {
		if p.Rank == rank && p.has(w.now) {
			return p.To, true
		}
	}
	return 0, false
}

// working reports whether the kernel says that a process works though it does not beat.
func (w *World) working(rank int) bool {
	for _, p := range w.cfg.Pauses {
		if p.Rank == rank && p.has(w.now) && p.Working {
			return w.alive(rank)
		}
	}
	return false
}

// passes reports whether the network takes something from one host to another.
func (w *World) passes(from, to int, at protocol.Time) bool {
	_, cut := parted(w.cfg.Cuts, from, to, at)
	return !cut
}

// connects reports whether two hosts have a connection; if not, since when.
func (w *World) connects(a, b int) (since protocol.Time, is bool) {
	for _, cuts := range [][]Cut{w.cfg.Cuts, w.cfg.Broken} {
		for _, way := range [][2]int{{a, b}, {b, a}} {
			if c, cut := parted(cuts, way[0], way[1], w.now); cut {
				return c.From, false
			}
		}
	}
	return 0, true
}

// parted returns the cut that is between two hosts at a moment.
func parted(cuts []Cut, from, to int, at protocol.Time) (c Cut, is bool) {
	for _, c := range cuts {
		if c.has(at) && c.parts(from, to) {
			return c, true
		}
	}
	return Cut{}, false
}

func (c *Cut) parts(from, to int) bool {
	return from != to && (c.Source == from || c.Source == anywhere) && (c.Target == to || c.Target == anywhere)
}

// anywhere stands for all hosts.
const anywhere = -1

// letter delivers a message that is resent until it has arrived: when the network works both ways, and in the
// order in which messages were sent.
func (w *World) letter(from, to int, last *protocol.Time, rank int, do func()) {
	var try func()
	try = func() {
		if _, ok := w.connects(from, to); ok {
			*last = max(*last, w.now+w.upTo(w.cfg.Delay))
			w.at(*last, rank, do)
			return
		}
		w.at(w.now+50*Millisecond, -1, try) // like attempts to reconnect
	}
	try()
}

// listen simulates the coordinator: it hears every process that can reach it, and runs.
func (w *World) listen() {
	for r, p := range w.procs {
		_, paused := w.paused(r)
		if _, ok := w.connects(p.host, 0); w.alive(r) && !paused && ok {
			w.heard[r] = w.now
		}
	}
	w.at(w.now+w.cfg.Silence/12, -1, w.listen)
}
