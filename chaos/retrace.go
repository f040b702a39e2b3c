package chaos

import (
	"github.com/coppice-go/coppice/protocol"
)

// A violation that Exhaustive found is walked again in the World that Random uses, where it becomes choices,
// and is shortened and reported like any other. So a violation is reported only if the two agree on what the
// protocol does.

// violated ends the exploration: the path violates something.
func (x *explorer[S, M]) violated(err error) {
	x.err = x.w.violation(x.retrace(), err, &x.report)
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
	t := retracing[S, M]{World: w}
	for _, l := range x.path {
		t.moves = append(t.moves, l.moves()...)
	}
	for i, m := range t.moves {
		t.retrace(i, m)
	}
	return choices
}

// retracing walks the moves of a path.
type retracing[S, M any] struct {
	*World[S, M]
	moves []step[S, M]
}

// step is a move, and the point where the explorer made it.
type step[S, M any] struct {
	move
	to *point[S, M]
}

// retrace makes a move of the path happen. The explorer may have dropped messages that change nothing; here
// they are received, before the messages behind them and before time passes.
func (t *retracing[S, M]) retrace(i int, m step[S, M]) {
	switch {
	case m.move == passing:
		for !t.eager && t.agenda.len() > t.whims {
			e := t.agenda.events[t.agenda.aged(0)]
			for k := 1; e.kind() == crash; k++ {
				e = t.agenda.events[t.agenda.aged(k)]
			}
			t.do(move{event: e.ageless()})
		}
		t.do(passing)
	case m.event.kind() == receive && t.cfg.Cumulative:
		t.receiveUntil(m)
	case m.event.kind() == crash:
		t.choices.script = append(t.choices.script, t.choiceOf(m.move)...)
		if t.cfg.LossyCrashes {
			t.choices.script = append(t.choices.script, t.lossesOf(i, m.event.at())...)
		}
		t.advance()
	default:
		t.do(m.move)
	}
}

// do appends the choices of a move and makes it.
func (t *retracing[S, M]) do(m move) {
	t.choices.script = append(t.choices.script, t.choiceOf(m)...)
	t.advance()
}

// receiveUntil receives until the process is in the state that m led to.
func (t *retracing[S, M]) receiveUntil(m step[S, M]) {
	at, from := m.event.at(), m.event.from()
	want := printOf(&m.to.p.state)
	ch := &t.channels[from*t.p+at]
	for ch.len() > 0 {
		k := 0
		if t.cfg.Reorder {
			k = t.find(ch, at, from, want)
		}
		rest := t.procs[at].rest
		t.do(move{m.event, k})
		if printOf(&t.procs[at].state) == want {
			return
		}
		if rest == Idle || rest == Waiting {
			t.do(move{event: happening(next, at, 0)}) // which changes nothing
		}
	}
}

// find returns the index of a message from from that leads at to the wanted state.
func (t *retracing[S, M]) find(ch *channel[M], at, from int, want fingerprint) int {
	for k, m := range ch.queue[ch.head:] {
		state := clone(&t.procs[at].state)
		t.protocol.Receive(&state, t.now, protocol.Rank(from), m)
		if printOf(&state) == want {
			return k
		}
	}
	return 0
}

// lossesOf returns the choices of the i-th move, a lossy crash of r: lost is what is not received later.
func (t *retracing[S, M]) lossesOf(i, r int) (choices []uint64) {
	for to := range t.procs {
		ch := &t.channels[r*t.p+to]
		if to == r || ch.len() == 0 {
			continue
		}
		kept := 0
		for _, m := range t.moves[i+1:] {
			if m.move != passing && m.event.ageless() == happening(receive, to, r) {
				kept++
			}
		}
		choices = append(choices, uint64(ch.len()-t.reach(ch, to, r, kept)))
	}
	return choices
}

// reach returns how many messages there are up to the n-th that the explorer knows.
func (t *retracing[S, M]) reach(ch *channel[M], at, from, n int) int {
	if !t.cfg.Cumulative || !t.procs[at].reached {
		return n
	}
	state := clone(&t.procs[at].state)
	before := printOf(&state)
	for k, m := range ch.queue[ch.head:] {
		if n == 0 {
			return k
		}
		t.protocol.Receive(&state, t.now, protocol.Rank(from), m)
		if after := printOf(&state); after != before {
			before = after
			n--
		}
	}
	return ch.len()
}

// moves lists what happens on a leg, in order.
func (l leg[S, M]) moves() []step[S, M] {
	if l.close == byTime {
		return []step[S, M]{{move: passing}}
	}
	var moves []step[S, M]
	if l.end.depth > 0 {
		moves = make([]step[S, M], l.end.depth)
		for at := l.end; at.parent != nil; at = at.parent {
			moves[at.depth-1] = step[S, M]{at.by, at}
		}
	}
	if l.close == byCrash {
		moves = append(moves, step[S, M]{move: move{event: happening(crash, l.end.r, 0)}})
	}
	return moves
}

// passing stands for the passing of time.
var passing = move{k: -1}

// choiceOf returns the choice, or the two, that make a move happen now.
func (w *World[S, M]) choiceOf(m move) []uint64 {
	n := w.agenda.len()
	canPass := n == w.whims || w.eager && w.waiting > 0
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

// crashChoices returns the answers that placeCrashes needs for the crashes of the path.
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
