package chaos

import (
	"fmt"

	"github.com/coppice-go/coppice/protocol"
)

// What befalls processes beyond messages and crashes: what the dead leave,
// lives after the first, fencing, suspicion. Cuts: cut.go. When it comes:
// whim.go.

// fate is the part of a world that keeps it.
type fate[M any] struct {
	deaths []uint32    // of each rank, so far
	told   []uint32    // [to·P + of]: those that to has been told
	left   [][]left[M] // by each rank, a life each
	side   []bool      // of the cut, by rank
	frozen []bool      // by rank
	late   []bool      // by rank: it has not begun
	placed []placement // what will be something that can happen
	menu   []event     // for advanceFreely
	claims []claim

	p         int
	effects   int // of all
	crashes   int // that were placed or, when free, have come; none by fencing
	restarts  int // likewise
	suspected int // wrongly
	cuts      int
	blows     int  // all of these that have come
	doubts    int  // suspicions that were told, for whatever reason
	parted    int  // cuts that have come
	awaited   int  // processes that have not begun
	belated   int  // and those that had not at first
	waits     int  // times that time has passed while there are such
	ticks     int  // times that time has passed since the cut
	isCut     bool // now
	oneWay    bool // the cut: the second side hears the first
	free      bool // whims may come at any moment; see whim.go
	settled   bool // there are no more faults; see freeze.go
	sure      bool // there was no doubt before
	found     bool // who stands still is found dead
	loud      bool // the last transition was one that others may notice
}

// left is what one life of a process left.
type left[M any] struct {
	msg   M
	ok    bool
	print fingerprint
}

// claim is what somebody said a key's value is.
type claim struct{ key, value uint64 }

func newFate[S, M any](cfg *Config[S, M]) (f fate[M]) {
	f.p = cfg.P
	f.deaths = make([]uint32, cfg.P)
	if cfg.Detect {
		f.told = make([]uint32, cfg.P*cfg.P)
	}
	if cfg.Testament != nil {
		f.left = make([][]left[M], cfg.P)
	}
	if cfg.Cuts > 0 {
		f.side = make([]bool, cfg.P)
	}
	if cfg.Frozen > 0 {
		f.frozen = make([]bool, cfg.P)
	}
	if cfg.Late > 0 {
		f.late = make([]bool, cfg.P)
	}
	return f
}

func (f *fate[M]) reset() {
	f.resize(cap(f.deaths))
	clear(f.deaths)
	clear(f.told)
	clear(f.frozen)
	clear(f.late)
	for r := range f.left {
		f.left[r] = f.left[r][:0]
	}
	*f = fate[M]{deaths: f.deaths, told: f.told, left: f.left, side: f.side, frozen: f.frozen, late: f.late, placed: f.placed[:0], menu: f.menu, claims: f.claims[:0], p: f.p}
}

// resize makes it that of p processes, at most as many as there were first.
func (f *fate[M]) resize(p int) {
	f.p, f.deaths = p, f.deaths[:p]
	if f.told != nil {
		f.told = f.told[:p*p]
	}
	if f.left != nil {
		f.left = f.left[:p]
	}
	if f.side != nil {
		f.side = f.side[:p]
	}
	if f.frozen != nil {
		f.frozen = f.frozen[:p]
	}
	if f.late != nil {
		f.late = f.late[:p]
	}
}

// bury notes a death of r.
func (f *fate[M]) bury(r int, testament left[M]) {
	f.deaths[r]++
	if f.left != nil {
		f.left[r] = append(f.left[r], testament)
	}
}

// untold is how many deaths of a rank to has not been told.
func (f *fate[M]) untold(to, of int) uint32 { return f.deaths[of] - f.told[to*f.p+of] }

// testament is what p leaves if it dies now.
func (w *World[S, M]) testament(p *proc[S, M]) (l left[M]) {
	if w.cfg.Testament != nil {
		l.msg, l.ok = w.cfg.Testament(&p.state)
	}
	return l
}

// tell tells a process of the oldest death of another that it has not been told
// of, and first what that one left.
func (w *World[S, M]) tell(p *proc[S, M], e event) protocol.Notice {
	at, from := e.at(), e.from()
	told := &w.fate.told[at*w.p+from]
	*told++
	if w.fate.untold(at, from) > 0 {
		w.enable(e.ageless())
	}
	if w.fate.left != nil {
		if testament := &w.fate.left[from][*told-1]; testament.ok {
			w.protocol.Receive(&p.state, w.now, protocol.Rank(from), testament.msg)
			w.note("p%d reads what p%d left: %v", at, from, testament.msg)
		}
	}
	return protocol.Notice{Kind: protocol.Death, Rank: protocol.Rank(from), Value: uint64(*told)}
}

// doubt is the suspicion of a process: of its last life, or late, of one before.
func (w *World[S, M]) doubt(e event) protocol.Notice {
	w.fate.doubts++
	if e.kind() == suspicion {
		w.fate.blows++
		if w.fate.free {
			w.fate.suspected++
		}
	}
	last := int(w.procs[e.from()].number)
	life := last
	if !w.Frozen(protocol.Rank(e.from())) { // who stands still is, in this life
		life -= w.choices.Choose(last)
	}
	return protocol.Notice{Kind: protocol.Suspect, Rank: protocol.Rank(e.from()), Value: uint64(life)}
}

// fence lets the agent of a process that at wants dead kill it.
func (w *World[S, M]) fence(at int, m M) {
	if w.cfg.Fence == nil {
		return
	}
	victim, life, ok := w.cfg.Fence(m)
	if !ok {
		return
	}
	w.fate.loud = true
	if !w.knows(victim) {
		w.verdict = fmt.Errorf("%w: p%d fences rank %d", ErrContract, at, victim)
		return
	}
	p := &w.procs[victim]
	if p.life != alive || uint64(p.number) != life || w.isLate(int(victim)) {
		return // the victim is dead, and every process will learn of that, or it has not begun and has no agent
	}
	if e := happening(fenced, int(victim), at); !w.pending(e) {
		w.enable(e)
	}
}

// unfence drops what was to kill r.
func (w *World[S, M]) unfence(r int) {
	if w.cfg.Fence == nil {
		return
	}
	for from := range w.procs {
		if e := happening(fenced, r, from); w.pending(e) {
			w.drop(e)
		}
	}
}

// restart lets r live again. What it was to be handed before is lost.
func (w *World[S, M]) restart(p *proc[S, M], r int) {
	if w.fate.free {
		w.fate.restarts++
	}
	w.fate.loud = true
	w.fate.blows++
	p.number++
	p.life, p.rest, p.until, p.begins, p.crashAfter = alive, Unstarted, 0, true, -1
	p.input = int32(len(w.setup.Inputs))
	w.protocol.Init(&p.state, protocol.Rank(r), w.setup.Seed)
	w.note("p%d comes back, in its life %d", r, p.number)
	w.agenda.add(happening(next, r, 0))
	w.agenda.add(happening(input, r, 0))
	if w.cfg.Detect {
		w.tellAnew(r)
	}
	if w.fate.isCut {
		w.suspectAcross(r)
	}
	w.meet(r)
	w.placeNextCrash(p, r)
}

// tellAnew lets a new life of r be told of all deaths of others.
func (w *World[S, M]) tellAnew(r int) {
	for of := range w.procs {
		w.fate.told[r*w.p+of] = 0
		switch {
		case of == r:
			w.fate.told[r*w.p+r] = w.fate.deaths[r]
		case w.fate.deaths[of] > 0:
			w.enable(happening(death, r, of))
		}
	}
}

// hear notes what a message claims.
func (w *World[S, M]) hear(at int, m M) {
	key, value, ok := w.cfg.Claim(m)
	if !ok {
		return
	}
	for _, c := range w.fate.claims {
		if c.key == key {
			if c.value != value {
				w.verdict = fmt.Errorf("%w: p%d says %v, which is not what was said of %d before", ErrClaims, at, m, key)
			}
			return
		}
	}
	w.fate.claims = append(w.fate.claims, claim{key, value})
}

// witness asks what is wrong with what at has just delivered.
func (w *World[S, M]) witness(at int) {
	if w.cfg.Witness == nil {
		return
	}
	w.fate.loud = true
	if err := w.cfg.Witness(w, protocol.Rank(at)); err != nil && w.verdict == nil {
		w.verdict = err
	}
}

// Life is the number of rank's life, from 1.
func (w *World[S, M]) Life(rank protocol.Rank) uint32 { return w.procs[rank].number }

// Told tells whether to knows from the detector that rank died in its life so
// numbered.
func (w *World[S, M]) Told(to, rank protocol.Rank, life uint32) bool {
	return w.fate.told != nil && w.fate.told[int(to)*w.p+int(rank)] >= life
}

// Doubts is how many suspicions were told, because of a cut or for no reason,
// and Cuts how many cuts there were. Exhaustive takes runs that differ in
// nothing but such a number for the same, unless one of them is 0.
func (w *World[S, M]) Doubts() int { return w.fate.doubts }

// Cuts is how many cuts there were.
func (w *World[S, M]) Cuts() int { return w.fate.parted }
