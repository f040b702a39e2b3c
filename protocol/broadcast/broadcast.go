// Package broadcast holds the broadcasts of Corrected Trees (Küttler et al.,
// PPoPP 2019) and Corrected Gossip (Hoefler et al., IPDPS 2017) as pure
// machines. Its API may change.
//
// A broadcast has two parts that combine freely. Dissemination spreads the
// message fast and may miss processes behind a dead one: Tree, AckTree,
// Gossip. Correction puts all processes on a ring, where those that have the
// message (are colored) send it to their neighbours until the gaps are closed:
// Uncorrected, Opportunistic, Optimized, Checked, Delayed, FailureProof. Each
// part is one file; a new one needs only its own.
//
//	p, err := broadcast.New(broadcast.Config{P: 8, Spread: &broadcast.Tree{Tree: tree}},
//		&broadcast.Checked{})
//
// The parts work in ranks counted from the root: rank 0 is the root, whichever
// process that is. Protocol translates.
//
// Many carries any number of broadcasts from any number of roots, none of them
// delivered twice.
package broadcast

import (
	"fmt"
	"math"

	"github.com/coppice-go/coppice/protocol"
)

type (
	// Rank is protocol.Rank.
	Rank = protocol.Rank
	// Time is protocol.Time.
	Time = protocol.Time
)

// Dissemination is the first part of a broadcast. Ranks count from the root.
type Dissemination interface {
	// Fit sets the part up for a group of p processes, or says what is wrong.
	Fit(p int) error
	// Color begins the part of a process that has just got the message. round
	// is that of the message; OverRound if correction brought it.
	Color(s *Spreading, self Rank, round uint16)
	// Acknowledge hands over an acknowledgement.
	Acknowledge(s *Spreading, self, from Rank)
	// Next returns a Send, Wait or Idle, or Done when this process has
	// nothing more to disseminate.
	Next(s *Spreading, self Rank, now Time) protocol.Action[Message[None]]
}

// OverRound is a gossip round after all others.
const OverRound = math.MaxUint16

// Spreading is one process's progress in dissemination. It is small on purpose:
// two states then share a cache line, and none straddles two.
type Spreading struct {
	Next int32 // the next child, or the present round
	// Keep is the dissemination's own, and at first the seed of the broadcast's
	// random numbers, to which the rank is to be added.
	Keep uint32
}

// Correction is the second part of a broadcast. C is its state, E what it adds
// to messages. Ranks count from the root.
type Correction[C, E any] interface {
	// Fit sets the part up for a group of p processes, or says what is wrong.
	Fit(p int) error
	// Init makes *c, which is zero, the initial state of process self.
	Init(c *C, self Rank)
	// Receive hands over a correction message (Left, Right or SOS), also
	// before this process has the message or has begun to correct.
	Receive(c *C, self Rank, now Time, from Rank, m Message[E])
	// Next says what to do, once dissemination is over here: Correct, Wait,
	// Idle or Done. A corrected
	// process is one that got the message from correction and does not take
	// part in it; every other one is a corrector.
	Next(c *C, self Rank, now Time, corrected bool) protocol.Action[Message[E]]
}

// LateDelivery is implemented by corrections that deliver only when they are done: having the message is no promise that
// all processes get it.
type LateDelivery interface{ DeliversLast() }

// OnlyColors is implemented by parts whose messages do nothing but color: they
// change nothing at a process that has the message.
type OnlyColors interface{ OnlyColors() }

// Early says what a process does that overlapped correction reaches before
// dissemination does.
type Early uint8

const (
	// Join: it serves its children and takes part in correction.
	Join Early = iota
	// Serve: it only serves its children.
	Serve
)

// Config is what all broadcasts have in common.
type Config struct {
	P      int  // number of processes
	Root   Rank // the process that has the message
	Spread Dissemination

	// Synchronized: correction begins at Start everywhere (at the fault-free end of dissemination), and a process that
	// correction reaches does nothing but take the message. It needs a common clock. Otherwise correction is overlapped:
	// it begins at each process right after its part in dissemination.
	Synchronized bool
	Start        Time
	Early        Early // overlapped only
}

// Protocol is a broadcast: a dissemination and a correction.
type Protocol[C, E any] struct {
	Config
	correction   Correction[C, E]
	passive      bool // a process that correction reaches takes no part in it
	deliversLast bool
}

var _ protocol.Protocol[State[Walk], Message[None]] = (*Protocol[Walk, None])(nil)

// New combines a dissemination and a correction, or says what does not fit.
func New[C, E any](cfg Config, correction Correction[C, E]) (*Protocol[C, E], error) {
	if cfg.P < 1 || cfg.P > 1<<31 {
		return nil, fmt.Errorf("broadcast among %d processes; allowed: 1 to 2^31", cfg.P)
	}
	if cfg.Root < 0 || int(cfg.Root) >= cfg.P {
		return nil, fmt.Errorf("root %d; allowed: 0 to %d", cfg.Root, cfg.P-1)
	}
	if !cfg.Synchronized && cfg.Start != 0 {
		return nil, fmt.Errorf("start %d given, but correction is overlapped", cfg.Start)
	}
	if err := cfg.Spread.Fit(cfg.P); err != nil {
		return nil, err
	}
	if err := correction.Fit(cfg.P); err != nil {
		return nil, err
	}
	_, last := correction.(LateDelivery)
	return &Protocol[C, E]{
		Config: cfg, correction: correction, deliversLast: last,
		passive: cfg.Synchronized || cfg.Early == Serve,
	}, nil
}

// Correction is the second part of the broadcast.
func (p *Protocol[C, E]) Correction() Correction[C, E] { return p.correction }

// OnlyColors reports whether the messages of dissemination, and those of correction, do nothing but color.
func (p *Protocol[C, E]) OnlyColors() (spread, correction bool) {
	_, spread = p.Spread.(OnlyColors)
	_, correction = p.correction.(OnlyColors)
	return spread, correction
}

// stage is how far a process has come.
type stage uint8

const (
	uncolored  stage = iota
	colored          // has the message; not yet delivered
	spreading        // in dissemination
	correcting       // in correction
	closing          // everything sent, to be delivered
	done
)

// State is one process's state in one broadcast.
type State[C any] struct {
	correction   C
	spread       Spreading
	self         Rank // counted from the root
	stage        stage
	byCorrection bool // correction brought the message
}

// Corrects reports whether a process takes part in correction: it has the
// message, and not from a correction that leaves it no part.
func (p *Protocol[C, E]) Corrects(s *State[C]) bool {
	return s.stage != uncolored && !(s.byCorrection && p.passive)
}

// Init implements protocol.Protocol.
func (p *Protocol[C, E]) Init(s *State[C], self Rank, seed uint64) {
	*s = State[C]{self: p.FromRoot(self)}
	s.spread.Keep = uint32(seed)
	p.correction.Init(&s.correction, s.self)
	if s.self == 0 {
		s.stage = colored
		p.Spread.Color(&s.spread, 0, 0)
	}
}

// Receive implements protocol.Protocol.
func (p *Protocol[C, E]) Receive(s *State[C], now Time, from Rank, m Message[E]) {
	if s.stage == done {
		return
	}
	switch m.Kind {
	case Spread:
		if s.stage == uncolored {
			s.stage = colored
			p.Spread.Color(&s.spread, s.self, m.Round)
		}
	case Ack:
		p.Spread.Acknowledge(&s.spread, s.self, p.FromRoot(from))
	case Left, Right, SOS:
		if s.stage == uncolored {
			s.stage = colored
			s.byCorrection = true
			p.Spread.Color(&s.spread, s.self, OverRound)
		}
		p.correction.Receive(&s.correction, s.self, now, p.FromRoot(from), m)
	}
}

// Notify implements protocol.Protocol. A corrected broadcast needs no
// detector.
func (p *Protocol[C, E]) Notify(*State[C], Time, protocol.Notice) {}

// Next implements protocol.Protocol. Correction comes first because most calls
// are its.
func (p *Protocol[C, E]) Next(s *State[C], now Time) protocol.Action[Message[E]] {
	for {
		if s.stage == correcting {
			if now < p.Start {
				return protocol.Action[Message[E]]{Kind: protocol.Wait, At: p.Start}
			}
			a := p.correction.Next(&s.correction, s.self, now, s.byCorrection && p.passive)
			if a.Kind != protocol.Done {
				a.To = p.ToGroup(a.To)
				return a
			}
			s.stage = closing
		}
		switch s.stage {
		case uncolored:
			return protocol.Action[Message[E]]{Kind: protocol.Idle}
		case colored:
			s.stage = spreading
			if s.byCorrection && p.Synchronized {
				s.stage = correcting
			}
			if !p.deliversLast {
				return protocol.Action[Message[E]]{Kind: protocol.Deliver}
			}
		case spreading:
			a := p.Spread.Next(&s.spread, s.self, now)
			if a.Kind != protocol.Done {
				return protocol.Action[Message[E]]{
					Kind: a.Kind, At: a.At, To: p.ToGroup(a.To),
					Msg: Message[E]{Kind: a.Msg.Kind, Round: a.Msg.Round},
				}
			}
			s.stage = correcting
		case closing:
			// Forget what no longer matters: equal ends are equal states, which
			// spares a model checker most of its work.
			*s = State[C]{self: s.self, stage: done, byCorrection: s.byCorrection}
			if p.deliversLast {
				return protocol.Action[Message[E]]{Kind: protocol.Deliver}
			}
		default: // done
			return protocol.Action[Message[E]]{Kind: protocol.Done}
		}
	}
}

// FromRoot translates a rank of the group to one counted from the root.
func (p *Protocol[C, E]) FromRoot(r Rank) Rank {
	if r < p.Root {
		return Rank(int(r-p.Root) + p.P)
	}
	return r - p.Root
}

// ToGroup is the reverse of FromRoot.
func (p *Protocol[C, E]) ToGroup(r Rank) Rank {
	if p.Root == 0 {
		return r
	}
	if left := p.P - int(p.Root); int(r) >= left {
		return Rank(int(r) - left)
	}
	return r + p.Root
}
