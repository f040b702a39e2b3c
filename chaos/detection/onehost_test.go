package detection

import (
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/suspicion"
)

// OneHost is a job on one host, whose coordinator can kill every process.
type OneHost struct {
	N       int
	Silence protocol.Time // default 3 s
	Starts  protocol.Time // when the last process joins and the guard begins
	Pauses  []Pause
	Stalls  []Span // of the coordinator
	Deaths  map[int]protocol.Time

	// Hard is how long the work of a task keeps its owner from beating, in a way that the kernel does not
	// see. The work begins at HardBegin, and again at every process that takes the task over.
	Hard      protocol.Time
	HardBegin protocol.Time
}

// What must hold on one host.
var (
	ErrFenced = errors.New("a process was fenced that should not be")
	ErrAll    = errors.New("nobody is left")
)

// Run simulates until a moment, and returns which processes were fenced, and when.
func (h OneHost) Run(seed uint64, to protocol.Time) (fenced map[int]protocol.Time, err error) {
	if h.Silence == 0 {
		h.Silence = 3 * Second
	}
	rng := rand.New(rand.NewPCG(seed, 9))
	g := suspicion.NewGuard(h.Silence, 0)
	fenced = map[int]protocol.Time{}
	owner, since := 0, h.HardBegin // of the hard task
	beats := make([]protocol.Time, h.N)
	joined := make([]bool, h.N)
	begun := false
	alive := func(r int, now protocol.Time) bool {
		at, dies := h.Deaths[r]
		_, gone := fenced[r]
		return !gone && (!dies || now < at)
	}
	looked := make([]protocol.Time, h.N)
	paused := func(r int, now protocol.Time) (is, works bool) {
		for _, p := range h.Pauses {
			if p.Rank == r && p.has(now) {
				blinked := p.Blinks > 0 && (now-p.From)/p.Blinks != (looked[r]-p.From)/p.Blinks
				return true, p.Working || blinked
			}
		}
		return h.Hard > 0 && r == owner && now >= since && now < since+h.Hard, false
	}
	inspect := func(now protocol.Time) func(protocol.Rank) suspicion.Evidence {
		return func(rank protocol.Rank) suspicion.Evidence {
			is, works := paused(int(rank), now)
			looked[rank] = now
			switch {
			case works:
				return suspicion.Working
			case is && !(h.Hard > 0 && int(rank) == owner):
				return suspicion.Stopped
			}
			return suspicion.Resting
		}
	}
	next := protocol.Time(0)
	for now := protocol.Time(0); now < to; now += 10 * Millisecond {
		for r := range h.N {
			is, _ := paused(r, now)
			switch {
			case !alive(r, now):
				if joined[r] {
					g.Leave(protocol.Rank(r))
				}
			case is || now < h.Starts*protocol.Time(r)/protocol.Time(h.N):
			case now >= beats[r]:
				if !joined[r] {
					joined[r] = true
					g.Join(protocol.Rank(r), true)
				}
				g.Beat(protocol.Rank(r))
				beats[r] = now + h.Silence/2 + protocol.Time(rng.Int64N(int64(20*Millisecond)))
			}
		}
		if now >= h.Starts && !begun {
			begun = true
			g.Begin()
		}
		if now < next || within(h.Stalls, now) {
			continue
		}
		next = now + g.Every()
		for _, v := range g.Tick(now, inspect(now)) {
			r := int(v.Rank)
			fenced[r] = now
			g.Leave(v.Rank)
			if r == owner { // another process takes over the hard task
				owner = (owner + 1) % h.N
				for i := 0; i < h.N && !alive(owner, now); i++ {
					owner = (owner + 1) % h.N
				}
				since = now
				g.Inherit(protocol.Rank(owner))
			}
		}
	}
	left := 0
	for r := range h.N {
		if alive(r, to) {
			left++
		}
	}
	if left == 0 {
		return fenced, fmt.Errorf("%w: fenced %v", ErrAll, fenced)
	}
	return fenced, nil
}

func within(spans []Span, now protocol.Time) bool {
	for _, s := range spans {
		if s.has(now) {
			return true
		}
	}
	return false
}
