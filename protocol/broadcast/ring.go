package broadcast

import (
	"errors"
	"fmt"

	"github.com/coppice-go/coppice/protocol"
)

// Side is a direction on the ring of ranks.
type Side uint8

// The sides of a process: Lower ranks are to the left.
const (
	ToLeft Side = iota
	ToRight
)

// Other is the opposite side.
func (d Side) Other() Side { return 1 - d }

// kind is that of a correction message sent to side d.
func (d Side) kind() MessageKind { return Left + MessageKind(d) }

// Ring is the ring on which correction runs: all ranks in order, closed over
// the root unless Open. A corrector sends to distance 1, 2, … on both sides,
// the side less far along first and First on a tie.
type Ring struct {
	Open     bool // no process sends across rank 0
	First    Side
	OneSided bool // only to First

	p int // number of processes
}

// fitDistance sets the ring up for a correction that goes as far as d.
func (r *Ring) fitDistance(p int, d int32) error {
	if d < 1 || int(d) > max(p-1, 1) {
		return fmt.Errorf("correction distance %d among %d processes; allowed: 1 to %d", d, p, max(p-1, 1))
	}
	return r.fit(p)
}

// fit sets the size of the ring.
func (r *Ring) fit(p int) error { return fitOnce("correction", &r.p, p) }

// fitOnce sets the size of the group that a part is for, and refuses to change it: a protocol may use the part already.
func fitOnce(part string, size *int, p int) error {
	if *size != p && *size != 0 {
		return fmt.Errorf("%s used for %d processes and again for %d; allowed: one group size, or another value", part, *size, p)
	}
	if *size == 0 {
		*size = p
	}
	return nil
}

// fitTwoSided sets the ring up for a correction that must hear from both sides
// to end.
func (r *Ring) fitTwoSided(p int) error {
	if r.OneSided {
		return errors.New("one-sided correction hears from one side only; allowed with: opportunistic, optimized, optimized-paper")
	}
	return r.fit(p)
}

// Walk is how far one process has come on the ring: distances by Side.
type Walk struct {
	Sent [2]int32 // the farthest process sent to
	Owed [2]int32 // the farthest process to send to; hearing lowers it
}

// start makes w the walk of a corrector that owes each side the distance d.
func (r *Ring) start(w *Walk, self Rank, d int32) {
	w.Owed = [2]int32{min(d, r.limit(self, ToLeft)), min(d, r.limit(self, ToRight))}
	if r.OneSided {
		w.Owed[r.First.Other()] = 0
	}
}

// heard returns from which side a Left or Right came, and from how far: one that travels left comes from the right. Other
// messages are not for a walk.
func (r *Ring) heard(self, from Rank, kind MessageKind) (side Side, distance int32, ok bool) {
	side = Side(Right - kind)
	if side > ToRight {
		return 0, 0, false
	}
	return side, r.distance(self, from, side), true
}

// distance from one rank to another, going to side d.
func (r *Ring) distance(from, to Rank, d Side) int32 {
	n := int(to) - int(from)
	if d == ToLeft {
		n = -n
	}
	if n < 0 {
		n += r.p
	}
	return int32(n)
}

// at is the rank at the given distance from self on side d.
func (r *Ring) at(self Rank, d Side, distance int32) Rank {
	to := int(self) + int(distance)
	if d == ToLeft {
		to = int(self) - int(distance) + r.p
	}
	if to >= r.p {
		to -= r.p
	}
	return Rank(to)
}

// correct sends a correction message to the process at the given distance on side d.
func (r *Ring) correct(self Rank, d Side, distance int32) protocol.Action[Message[None]] {
	return protocol.Action[Message[None]]{Kind: protocol.Correct, To: r.at(self, d, distance), Msg: Message[None]{Kind: d.kind()}}
}

// limit is the largest distance there is on side d.
func (r *Ring) limit(self Rank, d Side) int32 {
	switch {
	case !r.Open:
		return int32(r.p - 1)
	case d == ToLeft:
		return int32(self)
	default:
		return int32(r.p - 1 - int(self))
	}
}

// Next implements Correction for those that differ only in how far a corrector
// owes: it sends to the next process, or is done when it has sent that far, or
// once around with both sides together.
func (r *Ring) Next(w *Walk, self Rank, _ Time, corrected bool) protocol.Action[Message[None]] {
	left, right := w.Sent[ToLeft], w.Sent[ToRight]
	goLeft, goRight := left < w.Owed[ToLeft], right < w.Owed[ToRight]
	switch {
	case !goLeft && !goRight, int(left)+int(right) >= r.p, corrected:
		return protocol.Action[Message[None]]{Kind: protocol.Done}
	case goLeft && (!goRight || left+int32(r.First) <= right): // First decides a tie
		w.Sent[ToLeft] = left + 1
		return r.correct(self, ToLeft, left+1)
	default:
		w.Sent[ToRight] = right + 1
		return r.correct(self, ToRight, right+1)
	}
}
