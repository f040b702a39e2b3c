package credit

import (
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"testing"

	"github.com/coppice-go/coppice/internal/explore"
	"github.com/coppice-go/coppice/internal/extent"
)

// The tests take every schedule of a few operations. Values go down a tree from the root, or all tasks send to the root.
// A task's process forwards values before the task has reached the operation. Tasks abandon operations, return early,
// crash, and are run again; other tasks learn of that at any time.

// scene is what happens, as far as it does not depend on the schedule.
type scene struct {
	name       string
	ranks      int
	operations uint64
	limits     Limits
	bytes      int // of a message
	tree       func(seq uint64) tree
	gathers    func(seq uint64) bool // all tasks send to the root; nil: never
	replays    bool                  // tasks of crashed processes are run again
	overtakes  bool                  // reports overtake all other messages that wait
	deaths     int
	mortal     set // which may crash; 0: any
	leaves     int // operations that tasks abandon
	returns    int // tasks that return early
	backs      int // views that run tasks again in the process where they were
	back       set // which tasks; 0: any
	large      bool
}

// tree is, by rank, the rank that sends to it; the root has parent −1.
type tree [ranksMax]int

func (t tree) root() int { return slices.Index(t[:], -1) }

// above reports whether a rank is above another one.
func (t tree) above(a, b int) bool {
	for b = t[b]; b >= 0; b = t[b] {
		if a == b {
			return true
		}
	}
	return false
}

// message is a message on a link.
type message struct {
	told  bool
	again bool   // the attempt runs where another one was, which may have dropped what was sent to this one
	seq   uint64 // of the operation, or how many are completed
	loose bool
	lent  bool // the value is in memory that will be reused
}

const (
	ranksMax      = 4
	attemptsMax   = 4
	operationsMax = 12
)

// set is a set of operations, or of ranks.
type set uint16

func (s set) has(n uint64) bool { return s>>n&1 == 1 }
func (s *set) add(n uint64)     { *s |= 1 << n }
func (s *set) remove(n uint64)  { *s &^= 1 << n }
func (s set) first() uint64     { return uint64(bits.TrailingZeros16(uint16(s))) }

// op is a message of a log: the number of its operation.
type op uint64

func (o op) Sequence() uint64 { return uint64(o) }

// attempt is one attempt of a task, in a process of its own.
type attempt struct {
	account  Account
	number   int
	seq      uint64 // the operation that the task has come to
	inside   bool   // and has not left
	returned bool
	dead     bool
	knows    [ranksMax]uint8          // by rank: the attempt
	gone     set                      // ranks that are known to have crashed or returned
	got      [operationsMax + 1]uint8 // by operation: the ranks from which something came
	failed   set                      // operations
	lent     set                      // operations whose value was forwarded from memory that will be reused
	log      [ranksMax]set            // by rank: operations in which it was sent something
	again    [ranksMax]Anew[op]       // by rank: what is still to be sent to it again
	news     [ranksMax]message        // by rank: a report of a later attempt in the same process, of which no view is known yet
	free     [ranksMax]uint8          // by rank: bytes that went without a grant since its last report
}

func (s *scene) attempt(number int) *attempt {
	return &attempt{account: Account{Limits: s.limits, ranks: make([]rank, s.ranks)}, number: number}
}

// link is the messages from an attempt of one rank to the present attempt of another.
type link struct {
	from, to    int
	fromAttempt int
	waits       []message
}

// world is a group of tasks, each in its latest attempt.
type world struct {
	*scene
	tasks                          []*attempt
	latest                         [ranksMax]uint8              // by rank: the attempt that the latest view has
	process                        [ranksMax][attemptsMax]uint8 // by rank and attempt
	links                          []link
	deaths, leaves, returns, backs int
	wrong                          string
}

func (s *scene) world() *world {
	w := &world{scene: s, deaths: s.deaths, leaves: s.leaves, returns: s.returns, backs: s.backs}
	for range s.ranks {
		w.tasks = append(w.tasks, s.attempt(0))
	}
	return w
}

func (w *world) clone() *world {
	c := *w
	c.tasks = make([]*attempt, len(w.tasks))
	for i, t := range w.tasks {
		n := *t
		n.account.ranks, n.account.dues = slices.Clone(t.account.ranks), slices.Clone(t.account.dues)
		c.tasks[i] = &n
	}
	c.links = slices.Clone(w.links)
	for i := range c.links {
		c.links[i].waits = slices.Clone(c.links[i].waits)
	}
	return &c
}

// key stands for the world.
func (w *world) key() [sha256.Size]byte {
	b := make([]byte, 0, 300)
	b = append(b, byte(w.deaths), byte(w.leaves), byte(w.returns), byte(w.backs))
	for rank, t := range w.tasks {
		b = append(append(b, w.latest[rank]), w.process[rank][:]...)
		a := &t.account
		b = append(b, byte(a.completed), byte(len(a.dues)), byte(t.number), byte(t.seq), byte(t.gone), flags(a.loose, t.inside, t.returned, t.dead))
		for _, d := range a.dues {
			b = append(b, byte(d))
		}
		for i, r := range a.ranks {
			b = append(b, byte(r.sent), byte(min(r.done, 255)), byte(r.told), byte(r.heard), byte(r.sentBytes), byte(r.heardBytes))
			b = append(b, t.knows[i], byte(t.again[i].sent), t.free[i], flags(r.loose, r.gone, r.due))
			b = append(b, byte(t.news[i].seq), flags(t.news[i].told, t.news[i].loose))
			b = binary.LittleEndian.AppendUint16(b, uint16(t.log[i]))
			for _, o := range t.again[i].messages {
				b = append(b, byte(o))
			}
		}
		b = append(b, t.got[1:w.operations+1]...)
		b = binary.LittleEndian.AppendUint16(b, uint16(t.failed))
		b = binary.LittleEndian.AppendUint16(b, uint16(t.lent))
	}
	for _, l := range w.links {
		if len(l.waits) > 0 {
			b = append(b, byte(l.from), byte(l.fromAttempt), byte(l.to), byte(len(l.waits)))
			for _, m := range l.waits {
				b = append(b, byte(m.seq), flags(m.told, m.again, m.loose, m.lent))
			}
		}
	}
	return sha256.Sum256(b)
}

func flags(all ...bool) (b byte) {
	for _, on := range all {
		b <<= 1
		if on {
			b |= 1
		}
	}
	return b
}

func (w *world) all(seq uint64) bool { return w.gathers != nil && w.gathers(seq) }

// put puts a message on the link to a rank.
func (w *world) put(from, to int, m message) {
	t := w.tasks[from]
	if o := w.tasks[to]; o.dead || w.process[to][o.number] != w.process[to][t.knows[to]] {
		return // no process receives it
	}
	key := link{from: from, to: to, fromAttempt: t.number}
	compare := func(a, b link) int {
		return slices.Compare([]int{a.from, a.to, a.fromAttempt}, []int{b.from, b.to, b.fromAttempt})
	}
	i, ok := slices.BinarySearchFunc(w.links, key, compare)
	if !ok {
		w.links = slices.Insert(w.links, i, key)
	}
	l := &w.links[i]
	at := len(l.waits)
	if m.told && w.overtakes {
		if at = slices.IndexFunc(l.waits, func(o message) bool { return !o.told }); at < 0 {
			at = len(l.waits)
		}
	}
	l.waits = slices.Insert(l.waits, at, m)
}

func (w *world) tell(from, to int) {
	a := &w.tasks[from].account
	w.put(from, to, message{told: true, seq: a.Count(), loose: a.Loose()})
}

func (w *world) tellDue(from int) {
	for {
		to, ok := w.tasks[from].account.Tell()
		if !ok {
			return
		}
		w.tell(from, to)
	}
}

// send sends a value of an operation.
func (w *world) send(from, to int, m message) {
	t := w.tasks[from]
	if w.replays {
		t.log[to].add(m.seq)
		if t.number > 0 && t.account.Has(to, m.seq) {
			return // an earlier attempt has sent it
		}
	}
	if t.account.Send(to, m.seq, w.bytes) && !t.gone.has(uint64(to)) {
		if t.free[to] += uint8(w.bytes); int(t.free[to]) > w.limits.Bytes {
			w.wrong = fmt.Sprintf("%d bytes go without a grant", t.free[to])
		}
	}
	w.put(from, to, m)
	w.bounded(from, to)
}

// bounded checks how much of what one rank has sent to another waits there or is on its way.
func (w *world) bounded(from, to int) {
	r := w.tasks[to]
	if r.dead || r.returned {
		return
	}
	outstanding := 0
	for seq := r.account.Count() + 1; seq <= w.operations; seq++ {
		found := r.got[seq]&(1<<from) != 0
		for _, l := range w.links {
			if l.from == from && l.to == to && !w.old(l) {
				found = found || slices.ContainsFunc(l.waits, func(m message) bool { return !m.told && m.seq == seq })
			}
		}
		if found {
			outstanding++
		}
	}
	allowed := (w.ranks - 1) * (int(w.limits.Operations) + 1)
	if w.replays {
		allowed += int(w.limits.Operations) + 2 // from the log
	}
	if outstanding > allowed {
		w.wrong = fmt.Sprintf("%d messages wait at the receiver; allowed: %d", outstanding, allowed)
	}
}

// old reports whether a link comes from an attempt that is over.
func (w *world) old(l link) bool {
	return l.fromAttempt != w.tasks[l.from].number || w.tasks[l.from].dead
}

// repeat sends a rank again what was sent to it before, as far as credit allows.
func (w *world) repeat(from, to int) {
	t := w.tasks[from]
	for o, ok := t.again[to].Next(&t.account, to); ok; o, ok = t.again[to].Next(&t.account, to) {
		t.account.Send(to, o.Sequence(), w.bytes)
		w.put(from, to, message{seq: o.Sequence()})
		w.bounded(from, to)
	}
}

// complete reports whether a task has what it needs in its operation.
func (w *world) complete(rank int) bool {
	t := w.tasks[rank]
	root := w.tree(t.seq).root() == rank
	if w.all(t.seq) {
		return !root || t.got[t.seq]|1<<rank == 1<<w.ranks-1
	}
	return root || t.got[t.seq] != 0
}

// fails reports whether something that a task needs in its operation will not come.
func (w *world) fails(rank int) bool {
	t := w.tasks[rank]
	needs := func(r int) bool { // its task takes part no more, and nothing from it is on its way
		if !t.gone.has(uint64(r)) {
			return false
		}
		return !slices.ContainsFunc(w.links, func(l link) bool { return l.from == r && l.to == rank && len(l.waits) > 0 })
	}
	tree := w.tree(t.seq)
	for r, o := range w.tasks {
		above := !w.all(t.seq) && tree.above(r, rank)
		switch {
		case r == rank:
		case above && o.failed.has(t.seq): // it forwards nothing
			return true
		case !needs(r):
		case w.all(t.seq) && t.got[t.seq]&(1<<r) == 0, above && (o.dead || r == tree.root() && o.seq < t.seq):
			return true
		}
	}
	return false
}

func (w *world) leave(rank int) {
	t := w.tasks[rank]
	t.inside = false
	t.account.Completed()
	w.tellDue(rank)
}

// leaveLoose leaves an operation without its result.
func (w *world) leaveLoose(rank int) {
	if w.tasks[rank].account.Leave() {
		for r := range w.ranks {
			if r != rank {
				w.tell(rank, r)
			}
		}
	}
	w.leave(rank)
}

// enter moves a task into its next operation. First it reuses memory of values that the task forwarded. A task that has
// the value from an earlier attempt ignores other copies of it.
func (w *world) enter(rank int) {
	t := w.tasks[rank]
	for t.lent != 0 && t.account.Passed(t.lent.first()) {
		seq := t.lent.first()
		t.lent.remove(seq)
		for _, l := range w.links {
			if l.from == rank && l.fromAttempt == t.number && w.tasks[l.to].got[seq] == 0 &&
				slices.ContainsFunc(l.waits, func(m message) bool { return m.lent && m.seq == seq }) {
				w.wrong = fmt.Sprintf("task %d uses memory of operation %d again, which is still to be sent", rank, seq)
			}
		}
	}
	t.seq++
	t.inside = true
	switch tree := w.tree(t.seq); {
	case w.all(t.seq) && rank != tree.root():
		w.send(rank, tree.root(), message{seq: t.seq})
	case !w.all(t.seq) && rank == tree.root():
		w.sendDown(rank, message{seq: t.seq})
	}
}

// sendDown sends a value to those below in the tree.
func (w *world) sendDown(rank int, m message) {
	for r, parent := range w.tree(m.seq) {
		if r < w.ranks && parent == rank {
			w.send(rank, r, m)
		}
	}
}

// deliver hands over the first message of a link.
func (w *world) deliver(i int) {
	l := &w.links[i]
	m := l.waits[0]
	l.waits = l.waits[1:]
	t := w.tasks[l.to]
	knows := int(t.knows[l.from])
	known := w.process[l.from][knows] == w.process[l.from][l.fromAttempt]
	switch {
	case l.fromAttempt < knows && !known: // a view has removed that process
	case m.again && l.fromAttempt == knows:
		w.restart(l.to, l.from, true)
	case m.again: // the view will say so
	case m.told && l.fromAttempt == knows:
		w.credited(l.to, l.from, m)
	case m.told && known && l.fromAttempt > knows:
		t.news[l.from] = m
	case m.told: // of an attempt that is over, or of another process
	default:
		w.arrive(l.from, l.to, m, known)
	}
}

func (w *world) credited(rank, from int, m message) {
	t := w.tasks[rank]
	t.account.Credited(from, m.seq, m.loose)
	t.free[from] = 0
	w.repeat(rank, from)
}

func (w *world) arrive(from, rank int, m message, known bool) {
	t := w.tasks[rank]
	if known {
		t.account.Hear(from, m.seq, w.bytes)
		w.tellDue(rank)
		if w.all(m.seq) && t.knows[from] == 0 && t.account.Entered(from, m.seq, t.seq) {
			t.free[from] = 0
			w.repeat(rank, from)
		}
	}
	first := t.got[m.seq] == 0
	t.got[m.seq] |= 1 << from
	if first && !w.all(m.seq) && !t.failed.has(m.seq) {
		t.lent.add(m.seq)
		w.sendDown(rank, message{seq: m.seq, lent: true})
	}
}

// learn lets a task learn what happened to another.
func (w *world) learn(rank, of int) {
	t, o := w.tasks[rank], w.tasks[of]
	switch {
	case t.knows[of] < w.latest[of]:
		t.knows[of] = w.latest[of]
		t.gone.remove(uint64(of))
		w.restart(rank, of, false)
		if m := t.news[of]; m.told {
			t.news[of] = message{}
			w.credited(rank, of, m)
		}
	case o.dead:
		t.gone.add(uint64(of))
		t.account.Died(of)
	default:
		t.gone.add(uint64(of))
		t.account.Returned(of)
	}
}

// restart restarts a task's link to one that is run again, or resends everything to it.
func (w *world) restart(rank, of int, again bool) {
	t := w.tasks[rank]
	t.free[of] = 0
	if t.account.Restart(of, again) {
		w.tell(rank, of)
	}
	t.again[of] = Anew[op]{}
	for seq := w.operations; seq > 0; seq-- { // a log whose order is not that of operations
		if t.log[of].has(seq) {
			t.again[of].Add(op(seq))
		}
	}
	w.repeat(rank, of)
}

func (w *world) die(rank int) {
	w.deaths--
	w.links = slices.DeleteFunc(w.links, func(l link) bool { return l.to == rank })
	if !w.replays {
		w.tasks[rank].dead = true
		return
	}
	w.give(rank, w.process[rank][w.latest[rank]]+1)
	w.begin(rank)
}

// give assigns a task to a process in the next view.
func (w *world) give(rank int, process uint8) {
	w.latest[rank]++
	w.process[rank][w.latest[rank]] = process
}

// begin runs a task again.
func (w *world) begin(rank int) {
	w.tasks[rank] = w.attempt(int(w.latest[rank]))
	w.tasks[rank].knows = w.latest
}

// open lets a process open the view that gives back to it a task that it still runs. Tasks that opened that view earlier
// have already resent their messages to the task, and they are dropped here.
func (w *world) open(rank int) {
	w.begin(rank)
	for r := range w.ranks {
		if r != rank {
			w.put(rank, r, message{again: true})
		}
	}
}

// saved reports whether all tasks have completed all operations, in one view: only then do tasks of live processes move.
func (w *world) saved() bool {
	for rank, t := range w.tasks {
		if t.seq < w.operations || t.inside || t.number < int(w.latest[rank]) || t.knows != w.latest {
			return false
		}
	}
	return true
}

// giveBack lists which tasks views may take from their processes and give back before the processes know.
func (w *world) giveBack() (all []func(*world)) {
	for tasks := set(1); tasks < 1<<w.ranks; tasks++ {
		if w.back != 0 && tasks&^w.back != 0 {
			continue
		}
		all = append(all, func(w *world) {
			w.backs--
			for rank := range w.ranks {
				if tasks.has(uint64(rank)) {
					w.give(rank, w.process[rank][w.latest[rank]])
				}
			}
		})
	}
	return all
}

// news reports whether a task may now learn something about another one. It learns of a crash only after all that the
// crashed process sent.
func (w *world) news(rank, of int) bool {
	t, o := w.tasks[rank], w.tasks[of]
	gone := t.gone.has(uint64(of))
	if o.dead && !gone {
		return !slices.ContainsFunc(w.links, func(l link) bool { return l.from == of && l.to == rank && len(l.waits) > 0 })
	}
	return t.knows[of] < w.latest[of] || o.returned && !o.dead && !gone
}

// steps lists what may happen next.
func (w *world) steps() (all []func(*world)) {
	for i, l := range w.links {
		if len(l.waits) > 0 {
			all = append(all, func(w *world) { w.deliver(i) })
		}
	}
	for rank, t := range w.tasks {
		if t.dead {
			continue
		}
		for of := range w.tasks {
			if of != rank && w.news(rank, of) {
				all = append(all, func(w *world) { w.learn(rank, of) })
			}
		}
		if w.deaths > 0 && (w.mortal == 0 || w.mortal.has(uint64(rank))) {
			all = append(all, func(w *world) { w.die(rank) })
		}
		if t.number < int(w.latest[rank]) {
			all = append(all, func(w *world) { w.open(rank) })
		}
		if !t.returned {
			all = append(all, w.stepsOf(rank)...)
		}
	}
	if w.backs > 0 && w.saved() {
		all = append(all, w.giveBack()...)
	}
	if w.deaths+w.leaves+w.returns+w.backs > 0 { // no task may rely on a fault to happen
		all = append(all, func(w *world) { w.deaths, w.leaves, w.returns, w.backs = 0, 0, 0, 0 })
	}
	return all
}

// stepsOf lists what a task may do next.
func (w *world) stepsOf(rank int) (all []func(*world)) {
	t := w.tasks[rank]
	if t.inside {
		switch {
		case w.complete(rank):
			return append(all, func(w *world) { w.leave(rank) })
		case w.fails(rank):
			all = append(all, func(w *world) {
				t := w.tasks[rank]
				t.failed.add(t.seq)
				w.leaveLoose(rank)
			})
		}
		if w.leaves > 0 {
			all = append(all, func(w *world) {
				w.leaves--
				w.leaveLoose(rank)
			})
		}
		return all
	}
	if t.seq < w.operations && !t.account.Blocks(t.seq) {
		all = append(all, func(w *world) { w.enter(rank) })
	}
	if t.seq < w.operations && w.returns > 0 {
		all = append(all, func(w *world) {
			w.returns--
			w.tasks[rank].returned = true
		})
	}
	return all
}

// ended checks a world in which nothing more happens.
func (w *world) ended() string {
	for rank, t := range w.tasks {
		if !t.dead && !t.returned && (t.seq < w.operations || t.inside) {
			return fmt.Sprintf("task %d waits for ever, at operation %d", rank, t.seq)
		}
	}
	return ""
}

// chain is the tree in which each rank sends to the next one.
func chain(n, root int) (t tree) {
	for r := range t {
		t[r] = (r + n - 1) % n
	}
	t[root] = -1
	return t
}

func scenes() []*scene {
	one := Limits{Operations: 1}
	from := func(n, root int) func(uint64) tree { return func(uint64) tree { return chain(n, root) } }
	turns := func(n int) func(uint64) tree { return func(seq uint64) tree { return chain(n, int(seq)%n) } }
	parity := func(n uint64) func(uint64) bool { return func(seq uint64) bool { return seq%2 == n } }
	always := func(uint64) bool { return true }
	// Tasks 0 and 1 forward to each other values of roots that are far ahead of both.
	crossed := func(seq uint64) tree {
		return []tree{{2, 2, -1, 2}, {2, 0, -1, 2}, {1, 3, 3, -1}, {2, 2, -1, 2}}[seq-1]
	}
	return []*scene{
		{name: "one sends", ranks: 2, operations: 12, limits: Limits{Operations: 8}, tree: from(2, 0)},
		{name: "much is sent", ranks: 2, operations: 6, limits: Limits{Operations: 16, Bytes: 12}, bytes: 3, tree: from(2, 0)},
		{name: "both send", ranks: 2, operations: 8, limits: Limits{Operations: 4}, tree: turns(2)},
		{name: "all send to one", ranks: 3, operations: 4, limits: one, tree: from(3, 0), gathers: always},
		{name: "chain", ranks: 3, operations: 5, limits: one, tree: from(3, 0)},
		{name: "chain that turns", ranks: 3, operations: 4, limits: one, tree: turns(3), overtakes: true},
		{name: "crossed", ranks: 4, operations: 3, limits: one, tree: crossed, large: true},
		{name: "run again, one sends", ranks: 2, operations: 4, limits: one, tree: from(2, 0), replays: true, deaths: 1},
		{name: "run again, a long log", ranks: 2, operations: 8, limits: one, tree: from(2, 0), replays: true, deaths: 1, mortal: 1 << 1},
		{name: "run again, both send", ranks: 2, operations: 4, limits: one, tree: turns(2), gathers: parity(1), replays: true, deaths: 1, overtakes: true},
		{name: "run again, after giving up", ranks: 3, operations: 2, limits: one, tree: from(3, 0), replays: true, deaths: 1, mortal: 1 << 1, leaves: 1, overtakes: true, large: true},
		{name: "run again where it was, one sends", ranks: 2, operations: 4, limits: one, tree: from(2, 0), replays: true, backs: 1, back: 1 << 1, overtakes: true},
		{name: "run again where it was, both send", ranks: 2, operations: 3, limits: one, tree: from(2, 0), gathers: parity(0), replays: true, backs: 1, overtakes: true, large: true},
		{name: "run again where it was, another elsewhere", ranks: 2, operations: 3, limits: one, tree: from(2, 0), replays: true, backs: 1, back: 1 << 1, deaths: 1, mortal: 1 << 0, overtakes: true},
		{name: "deaths", ranks: 3, operations: 3, limits: one, tree: from(3, 0), deaths: 1},
		{name: "giving up", ranks: 3, operations: 3, limits: one, tree: func(seq uint64) tree { return chain(3, int(seq+1)%2) }, gathers: parity(0), leaves: 1, overtakes: true},
		{name: "returns", ranks: 3, operations: 3, limits: one, tree: from(3, 0), returns: 1},
		{name: "run again, after returns", ranks: 3, operations: 2, limits: one, tree: from(3, 0), returns: 1, deaths: 1, mortal: 1 << 0, replays: true, large: true},
	}
}

var every = explore.World[*world, [sha256.Size]byte]{
	Steps: (*world).steps, Clone: (*world).clone, Key: (*world).key, Wrong: func(w *world, end bool) string {
		if w.wrong == "" && end {
			return w.ended()
		}
		return w.wrong
	},
	Text: func(w *world) string { return w.String() },
}

// TestEverySchedule checks that no task waits forever, that what waits at a task is bounded, and that no memory is
// reused whose content is still to be sent.
func TestEverySchedule(t *testing.T) {
	for _, s := range scenes() {
		t.Run(s.name, func(t *testing.T) {
			if s.large && extent.Few(t, "millions of schedules") {
				t.SkipNow()
			}
			every.Every(t, s.world())
		})
	}
}

func (w *world) String() string {
	text := ""
	for rank, t := range w.tasks {
		text += fmt.Sprintf("task %d, attempt %d: %+v\n", rank, t.number, *t)
	}
	return text + fmt.Sprintf("%+v", w.links)
}
