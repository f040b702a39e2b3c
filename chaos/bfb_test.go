package chaos

import (
	"errors"
	"testing"

	"github.com/coppice-go/coppice/internal/extent"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
)

func bfbSpec(p int, root rank) broadcast.Spec {
	return broadcast.Spec{P: p, Root: root, Tree: "bfb", Correction: "none"}
}

func TestBFBKeepsItsPromise(t *testing.T) {
	runs := 10_000
	if !extent.Full() {
		runs = 3_000
	}
	for p := 1; p <= 9; p++ {
		for _, hostile := range []bool{false, true} {
			b := Broadcast{
				Spec: bfbSpec(p, rank(p/2)), Failed: p - 1, Crashes: 3,
				LossyCrashes: hostile, Reorder: hostile, ExtraNext: p == 4,
			}
			if _, err := b.Random(uint64(p), runs, 0); err != nil {
				t.Errorf("P=%d, lossy and reordered %v: %v", p, hostile, err)
			}
		}
	}
}

func TestBFBUnderEverySchedule(t *testing.T) {
	for p := 1; p <= 4; p++ {
		for _, lossy := range []bool{false, true} {
			b := Broadcast{Spec: bfbSpec(p, rank(p-1)), Failed: p - 1, Crashes: 2, LossyCrashes: lossy}
			report, err := b.Exhaustive()
			t.Logf("P=%d, lossy %v: %d schedules, %d states", p, lossy, report.Schedules, report.States)
			if err != nil {
				t.Errorf("P=%d, lossy %v: %v", p, lossy, err)
			}
		}
	}
}

// plantedBFB lists BFBs with a mistake each.
//
// One mistake is not here: counting an acknowledgement of an earlier attempt. It broke nothing in a million
// schedules of 9 processes with up to 3 crashes: the process that sent it has served a range, which is mostly
// still the range that it is asked for.
var plantedBFB = []struct {
	name, mistake      string
	random, exhaustive func() (Report, error)
}{
	{
		"forgotten NACK", "learns that a child is dead and keeps it for itself",
		attackBFB(5, 1, func(b *broadcast.BFB) protocol.Protocol[broadcast.BFBState, bfbFrame] { return silentBFB{b} }),
		exploreBFB(4, 1, func(b *broadcast.BFB) protocol.Protocol[broadcast.BFBState, bfbFrame] { return silentBFB{b} }),
	},
	{
		"ack before children", "acknowledges as soon as it has the message",
		attackBFB(5, 1, func(b *broadcast.BFB) protocol.Protocol[bfbMistaken, bfbFrame] { return hastyBFB{mistaken{b}} }),
		exploreBFB(4, 1, func(b *broadcast.BFB) protocol.Protocol[bfbMistaken, bfbFrame] { return hastyBFB{mistaken{b}} }),
	},
	{
		"restart under the same number", "does not raise the attempt",
		attackBFB(4, 1, func(b *broadcast.BFB) protocol.Protocol[bfbMistaken, bfbFrame] { return sameAttemptBFB{mistaken{b}} }),
		exploreBFB(3, 1, func(b *broadcast.BFB) protocol.Protocol[bfbMistaken, bfbFrame] { return sameAttemptBFB{mistaken{b}} }),
	},
	{
		"forgotten death", "does not remember who was dead before the message came",
		attackBFB(4, 0, func(b *broadcast.BFB) protocol.Protocol[bfbMistaken, bfbFrame] { return forgetfulBFB{mistaken{b}} }),
		exploreBFB(4, 0, func(b *broadcast.BFB) protocol.Protocol[bfbMistaken, bfbFrame] { return forgetfulBFB{mistaken{b}} }),
	},
}

func TestPlantedMistakesInBFBAreFound(t *testing.T) {
	for _, m := range plantedBFB {
		for way, find := range map[string]func() (Report, error){"random": m.random, "exhaustive": m.exhaustive} {
			report, err := find()
			if v := new(Violation); !errors.As(err, &v) {
				t.Errorf("%s (%s) is not found by %s schedules: %d of them, %v", m.name, m.mistake, way, report.Schedules, err)
			} else {
				t.Logf("%s, %s: after %d schedules, told in %d steps: %v", m.name, way, v.Run+1, len(v.Steps), v.Err)
			}
		}
	}
}

func mistakenBFB[S any](p, crashes int, plant func(*broadcast.BFB) protocol.Protocol[S, bfbFrame]) Config[S, bfbFrame] {
	b, err := broadcast.NewBFB(p, 0)
	if err != nil {
		panic(err)
	}
	return bfbConfig(Broadcast{Spec: bfbSpec(p, 0), Failed: p - 2, Crashes: crashes}, plant(b), 0)
}

func attackBFB[S any](p, crashes int, plant func(*broadcast.BFB) protocol.Protocol[S, bfbFrame]) func() (Report, error) {
	return func() (Report, error) { return Random(mistakenBFB(p, crashes, plant), 1, 10_000, 0) }
}

func exploreBFB[S any](p, crashes int, plant func(*broadcast.BFB) protocol.Protocol[S, bfbFrame]) func() (Report, error) {
	return func() (Report, error) { return Exhaustive(mistakenBFB(p, crashes, plant)) }
}

type (
	bfbFrame  = broadcast.BFBMessage
	bfbAction = protocol.Action[bfbFrame]
)

// silentBFB sends no NACK.
type silentBFB struct{ *broadcast.BFB }

func (b silentBFB) Next(s *broadcast.BFBState, t now) bfbAction {
	a := b.BFB.Next(s, t)
	if a.Kind == protocol.Send && a.Msg.Failed {
		return b.BFB.Next(s, t)
	}
	return a
}

// bfbMistaken is the state of a BFB with a mistake.
type bfbMistaken struct {
	right   broadcast.BFBState
	self    rank
	attempt uint32 // the latest seen; 0: none
	owes    bool   // hastyBFB: it owes its parent an acknowledgement
	parent  rank
}

func (s *bfbMistaken) Clone() bfbMistaken {
	c := *s
	c.right = s.right.Clone()
	return c
}

func (s *bfbMistaken) Fingerprint() [2]uint64 {
	print := s.right.Fingerprint()
	rest := uint64(s.attempt)<<32 | uint64(s.self)<<16 | uint64(s.parent)<<1
	if s.owes {
		rest |= 1
	}
	return [2]uint64{protocol.Mix(print[0], rest), protocol.Mix(print[1], ^rest)}
}

// mistaken is a BFB whose state has room for a mistake.
type mistaken struct{ *broadcast.BFB }

func (b mistaken) Init(s *bfbMistaken, self rank, seed uint64) {
	*s = bfbMistaken{self: self}
	b.BFB.Init(&s.right, self, seed)
	if self == b.Root() {
		s.attempt = 1
	}
}

func (b mistaken) Receive(s *bfbMistaken, t now, from rank, m bfbFrame) {
	if m.Kind == broadcast.Spread {
		s.attempt = max(s.attempt, m.Attempt)
	}
	b.BFB.Receive(&s.right, t, from, m)
}

func (b mistaken) Notify(s *bfbMistaken, t now, n protocol.Notice) { b.BFB.Notify(&s.right, t, n) }

func (b mistaken) Next(s *bfbMistaken, t now) bfbAction {
	a := b.BFB.Next(&s.right, t)
	if a.Kind == protocol.Send && a.Msg.Kind == broadcast.Spread {
		s.attempt = a.Msg.Attempt
	}
	return a
}

// hastyBFB acknowledges before it does anything else.
type hastyBFB struct{ mistaken }

func (b hastyBFB) Receive(s *bfbMistaken, t now, from rank, m bfbFrame) {
	if m.Kind == broadcast.Spread && m.Attempt > s.attempt {
		s.owes, s.parent = true, from
	}
	b.mistaken.Receive(s, t, from, m)
}

func (b hastyBFB) Next(s *bfbMistaken, t now) bfbAction {
	if s.owes {
		s.owes = false
		return bfbAction{Kind: protocol.Send, To: s.parent, Msg: bfbFrame{Kind: broadcast.Ack, Attempt: s.attempt}}
	}
	return b.mistaken.Next(s, t)
}

// sameAttemptBFB numbers every attempt 1.
type sameAttemptBFB struct{ mistaken }

func (b sameAttemptBFB) Receive(s *bfbMistaken, t now, from rank, m bfbFrame) {
	if m.Kind == broadcast.Ack {
		m.Attempt = s.attempt
	}
	b.mistaken.Receive(s, t, from, m)
}

func (b sameAttemptBFB) Next(s *bfbMistaken, t now) bfbAction {
	a := b.mistaken.Next(s, t)
	a.Msg.Attempt = min(a.Msg.Attempt, 1)
	return a
}

// forgetfulBFB ignores the detector until the first message.
type forgetfulBFB struct{ mistaken }

func (b forgetfulBFB) Notify(s *bfbMistaken, t now, n protocol.Notice) {
	if s.attempt > 0 {
		b.mistaken.Notify(s, t, n)
	}
}
