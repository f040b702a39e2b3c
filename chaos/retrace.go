package chaos

import (
	"fmt"

	"github.com/coppice-go/coppice/protocol"
)

// A violation that Exhaustive found is walked again in the World that Random
// uses, where it becomes choices, and is shortened and told like any other. So
// the two agree on what a protocol does, or it does not come out.

// violated ends the exploration: the path violates something.
func (x *explorer[S, M]) violated(err error) {
	choices := x.retrace()
	v := x.w.shrink(choices)
	if v == nil {
		x.err = fmt.Errorf("chaos: a violation does not replay: the protocol or a check is not deterministic: %w", err)
		return
	}
	x.report.First, x.err = v, v
}

// retrace turns the path into choices.
func (x *explorer[S, M]) retrace() (choices []uint64) {
	w := x.w
	defer func() {
		_ = recover() // the violation may be a panic at the end of the path
		choices = w.choices.script
	}()
	script := append(append([]uint64(nil), x.prelude...), x.crashChoices()...)
	w.choices.fromScript(script)
	if w.reset() != nil {
		return nil
	}
	for _, l := range x.path {
		for _, m := range l.moves() {
			w.choices.script = append(w.choices.script, w.choiceOf(m)...)
			w.advance()
		}
	}
	return choices
}

// moves lists what happens on a leg, in order.
func (l leg[S, M]) moves() []move {
	if l.close == byTime {
		return []move{passing}
	}
	var moves []move
	if l.end.depth > 0 {
		moves = make([]move, l.end.depth)
		for at := l.end; at.parent != nil; at = at.parent {
			moves[at.depth-1] = at.by
		}
	}
	if l.close == byCrash {
		moves = append(moves, move{event: happening(crash, l.end.r, 0)})
	}
	return moves
}

// passing stands for the passing of time.
var passing = move{k: -1}

// choiceOf is the choice, or the two, that make a move happen now.
func (w *World[S, M]) choiceOf(m move) []uint64 {
	n := w.agenda.len()
	canPass := n == w.crashing || w.eager && w.waiting > 0
	var choices []uint64
	if m == passing {
		if n > 0 {
			choices = append(choices, uint64(n))
		}
		return choices
	}
	if n > 1 || canPass {
		i := w.agenda.index(m.event)
		if i < 0 {
			return nil
		}
		choices = append(choices, uint64(w.agenda.older(i)))
	}
	if w.cfg.Reorder && m.event.kind() == receive {
		if ch := &w.channels[m.event.from()*w.p+m.event.at()]; ch.len() > 1 {
			choices = append(choices, uint64(m.k))
		}
	}
	return choices
}

// crashChoices are the answers placeCrashes needs for the crashes of the path.
func (x *explorer[S, M]) crashChoices() []uint64 {
	if x.cfg.Crashes == 0 {
		return nil
	}
	choices := []uint64{0}
	victim := make([]bool, x.cfg.P)
	for i, l := range x.path {
		if l.close != byCrash {
			continue
		}
		choices[0]++
		before, candidates := 0, 0
		for r := range x.cfg.P {
			may := !x.w.setup.failed[r] && !victim[r] &&
				(x.cfg.MayCrash == nil || x.cfg.MayCrash(protocol.Rank(r)))
			if may {
				candidates++
				if r < l.end.r {
					before++
				}
			}
		}
		if candidates > 1 {
			choices = append(choices, uint64(before))
		}
		choices = append(choices, uint64(x.sendsOf(l.end.r, i)+len(l.end.p.delivered)))
		victim[l.end.r] = true
	}
	return choices
}

// sendsOf counts the sends of r on the path, up to its i-th leg.
func (x *explorer[S, M]) sendsOf(r, i int) (n int) {
	for _, l := range x.path[:i] {
		if l.close == bySend && l.end.r == r {
			n++
		}
	}
	return n
}
