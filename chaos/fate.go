package chaos

import (
	"fmt"

	"github.com/coppice-go/coppice/protocol"
)

// The faults of processes beyond messages and crashes: the records that crashed processes leave, lives after
// the first, fencing, suspicion. Cuts: cut.go. When faults come: whim.go.

// fate is the part of a world that keeps track of faults.
type fate[M any] struct {
	deaths []uint32    // of each rank, so far
	told   []uint32    // [to·P + of]: crashes of a process that to was notified of
	left   [][]left[M] // by rank, one per life
	side   []bool      // of the cut, by rank
	frozen []bool      // by rank
	late   []bool      // by rank: it has not begun
	placed []placement // events that become possible later
	menu   []event     // scratch memory for lists of events
	claims []claim

	p         int
	effects   int // of all
	crashes   int // placed or, when free, come; without those by fencing
	restarts  int // likewise
	suspected int // wrongly
	cuts      int
	blows     int  // all faults that have come
	doubts    int  // suspicions notified, for whatever reason
	parted    int  // cuts that have come
	awaited   int  // processes that have not begun
	belated   int  // processes that had not begun at first
	waits     int  // times that time has passed while any is awaited
	ticks     int  // times that time has passed since the cut
	isCut     bool // now
	oneWay    bool // the cut: the second side hears the first
	free      bool // whims may come at any moment; see whim.go
	settled   bool // there are no more faults; see freeze.go
	sure      bool // when faults ended, no process had been suspected, cut off or late
	found     bool // frozen processes are found dead
	loud      bool // the last transition was one that other processes may notice
}

// left is the record that one life of a process left.
type left[M any] struct {
	msg   M
	ok    bool
	print fingerprint
}

// claim is a claim that a key has a value.
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

// resize makes it the fate of p processes, at most as many as there were first.
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

// bury records a crash of r.
func (f *fate[M]) bury(r int, testament left[M]) {
	f.deaths[r]++
	if f.left != nil {
		f.left[r] = append(f.left[r], testament)
	}
}

// untold is the number of crashes of a process that to has not been notified of.
func (f *fate[M]) untold(to, of int) uint32 { return f.deaths[of] - f.told[to*f.p+of] }

// testament is the record that p leaves if it crashes now.
func (w *World[S, M]) testament(p *proc[S, M]) (l left[M]) {
	if w.cfg.Testament != nil {
		l.msg, l.ok = w.cfg.Testament(&p.state)
	}
	return l
}

// tell notifies a process of the oldest crash of another that it does not know of, after handing it the
// record that the crashed life left.
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

// doubt is the notice to suspect a process: in its latest life or, late, in an earlier one.
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
	if !w.Frozen(protocol.Rank(e.from())) { // a frozen process is suspected in its latest life
		life -= w.choices.Choose(last)
	}
	return protocol.Notice{Kind: protocol.Suspect, Rank: protocol.Rank(e.from()), Value: uint64(life)}
}

// fence lets the agent of the process that at asks to kill kill it.
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

// unfence drops the pending fencing of r.
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

// restart starts r's next life. The inputs that r was not handed are lost.
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

// tellAnew lets a new life of r be notified of all crashes of others.
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

// hear records what a message claims.
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

// witness checks what at has just delivered.
func (w *World[S, M]) witness(at int) {
	if w.cfg.Witness == nil {
		return
	}
	w.fate.loud = true
	if err := w.cfg.Witness(w, protocol.Rank(at)); err != nil && w.verdict == nil {
		w.verdict = err
	}
}

// Life returns the number of rank's life, from 1.
func (w *World[S, M]) Life(rank protocol.Rank) uint32 { return w.procs[rank].number }

// Told reports whether to knows from the detector that rank crashed in the given life.
func (w *World[S, M]) Told(to, rank protocol.Rank, life uint32) bool {
	return w.fate.told != nil && w.fate.told[int(to)*w.p+int(rank)] >= life
}

// Doubts returns how many suspicions were notified, because of a cut or for no reason. Exhaustive treats runs
// that differ only in this number, or in Cuts, as the same, unless one of the numbers is 0.
func (w *World[S, M]) Doubts() int { return w.fate.doubts }

// Cuts returns how many cuts there were.
func (w *World[S, M]) Cuts() int { return w.fate.parted }
