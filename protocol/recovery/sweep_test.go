package recovery

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-go/coppice/protocol"
)

// sweeps are processes that save epochs and whose views change.
type sweeps struct {
	seed  uint64
	rng   *rand.Rand
	all   []sweeper
	links map[[2]protocol.Rank][]SweepMessage
	views [][]protocol.Rank // by number; none at 0
	saves map[saving]int64  // what was reported: its balance
	last  uint64            // the greatest epoch that any process ever knew to be committed
	sums  map[uint64]int64  // by epoch that was committed, its balance
	sent  int               // messages
	moves int               // messages and saves
}

// saving is that a process has saved an epoch in a view.
type saving struct {
	view, epoch uint64
	who         protocol.Rank
}

type sweeper struct {
	Sweep
	dead    bool
	idle    bool   // has no task
	fresh   bool   // has to know what is committed before it goes on
	epoch   uint64 // that its tasks are in
	pending uint64 // that they have saved, and wait for
}

func newSweeps(p int, seed uint64) *sweeps {
	w := &sweeps{
		seed: seed, rng: rand.New(rand.NewPCG(seed, 1)), all: make([]sweeper, p), views: [][]protocol.Rank{nil, nil},
		links: map[[2]protocol.Rank][]SweepMessage{}, saves: map[saving]int64{}, sums: map[uint64]int64{},
	}
	for r := range protocol.Rank(p) {
		w.views[1] = append(w.views[1], r)
	}
	for r := range w.all {
		w.all[r].Init(protocol.Rank(r), 1, w.views[1])
	}
	return w
}

// save lets a process report what its tasks have saved.
func (w *sweeps) save(r protocol.Rank, epoch uint64, balance int64) {
	s := &w.all[r]
	w.saves[saving{s.view, epoch, r}] = balance
	w.moves++
	s.Save(epoch, balance)
}

// open opens the latest view at a process. Some of the processes that were in the view before have to run tasks again,
// and report nothing before they know where from.
func (w *sweeps) open(r protocol.Rank) {
	s := &w.all[r]
	number := uint64(len(w.views) - 1)
	if s.view == number {
		return
	}
	s.NewView(number, w.views[number])
	switch {
	case s.idle:
		w.save(r, Idle, 0)
	case w.rng.IntN(3) == 0:
		s.fresh, s.pending = true, 0
	case s.pending > 0:
		w.save(r, s.pending, w.balance(r, s.pending))
	}
}

// act sends what a process has to send, and lets its tasks go on.
func (w *sweeps) act(r protocol.Rank) error {
	s := &w.all[r]
	for {
		to, m, ok := s.Next()
		if !ok {
			break
		}
		w.sent++
		w.moves++
		w.links[[2]protocol.Rank{r, to}] = append(w.links[[2]protocol.Rank{r, to}], m)
	}
	return w.check(r)
}

// goOn lets the tasks of a process save their next epoch, if they may.
func (w *sweeps) goOn(r protocol.Rank, most uint64) {
	s := &w.all[r]
	epoch, balance := s.Committed()
	if s.fresh && s.Known() {
		s.fresh, s.epoch = false, epoch
	}
	if s.fresh || s.idle || balance != 0 {
		return
	}
	if s.pending > 0 && s.pending <= epoch {
		s.pending = 0
	}
	if s.pending == 0 && epoch < most {
		s.epoch, s.pending = epoch, epoch+1
		w.save(r, s.pending, w.balance(r, s.pending))
	}
}

// balance is that of a process in its view. The sum of all in a view is that of the epoch, in whatever view: a process
// that runs a task again sends and receives the same.
func (w *sweeps) balance(r protocol.Rank, epoch uint64) int64 {
	members := slices.DeleteFunc(slices.Clone(w.all[r].members), func(m protocol.Rank) bool { return w.all[m].idle })
	if r != members[0] {
		return int64(r)
	}
	sum := int64(0)
	if x := protocol.Mix(w.seed, epoch); x%8 == 0 {
		sum = int64(x%7) - 3
	}
	for _, m := range members[1:] {
		sum -= int64(m)
	}
	return sum
}

// check examines what a process knows to be committed. The first process that knows it is the root, and all of its view
// have saved it there.
func (w *sweeps) check(r protocol.Rank) error {
	s := &w.all[r]
	epoch, balance := s.Committed()
	if epoch <= w.last {
		if epoch > 0 && balance != w.sums[epoch] {
			return fmt.Errorf("p%d has epoch %d with the balance %d, want %d", r, epoch, balance, w.sums[epoch])
		}
		return nil
	}
	sum := int64(0)
	for _, m := range s.members {
		_, idle := w.saves[saving{s.view, Idle, m}]
		b, ok := w.saves[saving{s.view, epoch, m}]
		if !ok && !idle {
			return fmt.Errorf("p%d commits epoch %d in view %d, in which p%d has not saved it", r, epoch, s.view, m)
		}
		sum += b
	}
	if r != s.members[0] || sum != balance {
		return fmt.Errorf("p%d of %v commits epoch %d with the balance %d, want %d", r, s.members, epoch, balance, sum)
	}
	w.last, w.sums[epoch] = epoch, balance
	return nil
}

// deliver delivers a message of a link, if it has any.
func (w *sweeps) deliver(link [2]protocol.Rank) error {
	list := w.links[link]
	if len(list) == 0 || w.all[link[1]].dead {
		return nil
	}
	w.links[link] = list[1:]
	w.all[link[1]].Receive(link[0], list[0])
	return w.act(link[1])
}

// change lets a process die, and decides on a view without it. What it sent last may be
// lost.
func (w *sweeps) change() {
	latest := w.views[len(w.views)-1]
	if len(latest) == 1 {
		return
	}
	victim := latest[w.rng.IntN(len(latest))]
	w.all[victim].dead = true
	for to := range protocol.Rank(len(w.all)) {
		link := [2]protocol.Rank{victim, to}
		if n := len(w.links[link]); n > 0 {
			w.links[link] = w.links[link][:w.rng.IntN(n+1)]
		}
	}
	w.views = append(w.views, slices.DeleteFunc(slices.Clone(latest), func(r protocol.Rank) bool { return r == victim }))
}

// step lets something happen somewhere.
func (w *sweeps) step(most uint64) error {
	r := protocol.Rank(w.rng.IntN(len(w.all)))
	if w.all[r].dead {
		return nil
	}
	switch k := w.rng.IntN(100); {
	case k < 70:
		return w.deliver([2]protocol.Rank{protocol.Rank(w.rng.IntN(len(w.all))), r})
	case k < 90:
		w.goOn(r, most)
	case k < 99:
		w.open(r)
	default:
		w.change()
	}
	return w.act(r)
}

// finish lets everything take its course until nothing happens any more.
func (w *sweeps) finish(most uint64) error {
	for before := -1; before != w.moves; {
		before = w.moves
		for r := range protocol.Rank(len(w.all)) {
			if w.all[r].dead {
				continue
			}
			w.open(r)
			w.goOn(r, most)
			if err := w.act(r); err != nil {
				return err
			}
			for from := range protocol.Rank(len(w.all)) {
				for link := [2]protocol.Rank{from, r}; len(w.links[link]) > 0; {
					if err := w.deliver(link); err != nil {
						return err
					}
				}
			}
			w.goOn(r, most)
		}
	}
	return nil
}

// done demands that every live process has come to the end, or to a mismatch.
func (w *sweeps) done(most uint64) error {
	latest := w.views[len(w.views)-1]
	tasks := slices.ContainsFunc(latest, func(r protocol.Rank) bool { return !w.all[r].idle })
	for _, r := range latest {
		epoch, balance := w.all[r].Committed()
		switch {
		case !w.all[r].Known():
			return fmt.Errorf("p%d does not know what is committed", r)
		case epoch != w.last && tasks:
			return fmt.Errorf("p%d knows of epoch %d, want %d", r, epoch, w.last)
		case tasks && balance == 0 && epoch < most:
			return fmt.Errorf("p%d is at epoch %d, want %d", r, epoch, most)
		}
	}
	return nil
}

func TestSweepsCommitWhatAllHaveSaved(t *testing.T) {
	const most = 6
	lives, commits := 0, uint64(0)
	for seed := range uint64(6000) {
		p := 1 + int(seed%9)
		w := newSweeps(p, seed)
		for r := range w.all {
			if w.all[r].idle = w.rng.IntN(5) == 0; w.all[r].idle {
				w.save(protocol.Rank(r), Idle, 0)
			}
		}
		var err error
		for i := 0; i < 60*p && err == nil; i++ {
			err = w.step(most)
		}
		if err == nil {
			err = w.finish(most)
		}
		if err == nil {
			err = w.done(most)
		}
		if err != nil {
			t.Fatalf("seed %d, %d processes: %v", seed, p, err)
		}
		lives += len(w.views) - 1
		commits += w.last
	}
	t.Logf("%d views, %d epochs", lives, commits)
}

// trace runs commands, and returns what was sent and what each process then knows. A command is: save p epoch balance,
// view number, pass (all that is on its way), open p number, hold p, release p, commit p epoch.
func trace(t *testing.T, p int, members map[uint64][]protocol.Rank, commands string) string {
	t.Helper()
	w := newSweeps(p, 1)
	var out []string
	pass := func() {
		for busy := true; busy; {
			busy = false
			for r := range w.all {
				for {
					to, m, ok := w.all[r].Next()
					if !ok {
						break
					}
					busy = true
					way := "down"
					if m.Up {
						way = "up"
					}
					out = append(out, fmt.Sprintf("%d %s %d", r, way, to))
					w.all[to].Receive(protocol.Rank(r), m)
				}
			}
		}
	}
	for _, c := range strings.Split(commands, ";") {
		var verb string
		var a, b, d int
		if _, err := fmt.Sscan(c, &verb); err != nil {
			t.Fatal(err)
		}
		_, _ = fmt.Sscan(c, &verb, &a, &b, &d) // some have fewer numbers
		switch verb {
		case "save":
			w.all[a].Save(uint64(b), int64(d))
		case "idle":
			w.all[a].Save(Idle, 0)
		case "open":
			w.all[a].NewView(uint64(b), members[uint64(b)])
		case "hold", "release":
			w.all[a].Hold(verb == "hold")
		case "commit":
			w.all[a].Commit(uint64(b))
		case "pass":
			pass()
		default:
			t.Fatalf("command %q", c)
		}
	}
	for r := range w.all {
		epoch, balance := w.all[r].Committed()
		line := fmt.Sprintf("%d: %d", r, epoch)
		if balance != 0 {
			line += fmt.Sprintf(" balance %d", balance)
		}
		if !w.all[r].Known() {
			line += "?"
		}
		if e, ok := w.all[r].Complete(); ok {
			line += fmt.Sprintf(" complete %d", e)
		}
		out = append(out, line)
	}
	return strings.Join(out, "; ")
}

func TestSweepStepByStep(t *testing.T) {
	members := map[uint64][]protocol.Rank{2: {0, 1, 2}, 3: {1, 2}, 4: {2, 1}, 5: {0, 1, 2}}
	for _, d := range []struct {
		name, commands, want string
	}{
		{"the first view needs no message", "pass", "0: 0; 1: 0; 2: 0"},
		{"not all have saved", "save 1 1 0; save 2 1 0; pass", "1 up 0; 2 up 0; 0: 0; 1: 0; 2: 0"},
		{
			"all have saved", "save 0 1 0; save 1 1 0; save 2 1 0; pass",
			"1 up 0; 2 up 0; 0 down 2; 0 down 1; 0: 1; 1: 1; 2: 1",
		},
		{
			"balances add up", "save 0 1 3; save 1 1 -1; save 2 1 -1; pass",
			"1 up 0; 2 up 0; 0 down 2; 0 down 1; 0: 1 balance 1; 1: 1 balance 1; 2: 1 balance 1",
		},
		{
			"who is idle holds nobody back", "idle 0; save 1 1 0; idle 2; pass",
			"1 up 0; 2 up 0; 0 down 2; 0 down 1; 0: 1; 1: 1; 2: 1",
		},
		{"nobody has tasks", "idle 0; idle 1; idle 2; pass", "1 up 0; 2 up 0; 0: 0; 1: 0; 2: 0"},
		{
			"a later view is told what is committed", "save 0 1 0; save 1 1 0; save 2 1 0; pass; open 0 2; open 1 2; open 2 2; pass",
			"1 up 0; 2 up 0; 0 down 2; 0 down 1; 1 up 0; 2 up 0; 0 down 2; 0 down 1; 0: 1; 1: 1; 2: 1",
		},
		{
			"what was saved before a view does not count", "save 0 1 0; save 1 1 0; open 0 2; open 1 2; open 2 2; save 2 1 0; pass",
			"1 up 0; 2 up 0; 0 down 2; 0 down 1; 0: 0; 1: 0; 2: 0",
		},
		{
			"messages of an old view do not count", "save 1 1 0; save 2 1 0; open 0 2; pass; save 0 1 0; pass; open 1 2; pass",
			"1 up 0; 2 up 0; 1 up 0; 0: 0?; 1: 0?; 2: 0",
		},
		{
			"messages of a view to come are kept", "open 2 4; pass; open 1 3; pass; open 1 4; pass",
			"2 up 1; 1 down 2; 0: 0; 1: 0; 2: 0",
		},
		{
			"one survivor knows", "save 0 1 5; save 1 1 0; save 2 1 0; hold 0; pass; commit 2 1; open 1 3; open 2 3; pass",
			"1 up 0; 2 up 0; 0 down 2; 0 down 1; 2 up 1; 1 down 2; 0: 1 balance 5; 1: 1 balance 5; 2: 1 balance 5",
		},
		{
			"who holds waits", "hold 0; save 0 1 0; save 1 1 0; save 2 1 0; pass",
			"1 up 0; 2 up 0; 0: 0 complete 1; 1: 0; 2: 0",
		},
		{
			"who holds no more commits", "hold 0; save 0 1 0; save 1 1 0; save 2 1 0; pass; release 0; pass",
			"1 up 0; 2 up 0; 0 down 2; 0 down 1; 0: 1; 1: 1; 2: 1",
		},
		{
			"a view commits", "hold 0; save 0 1 0; save 1 1 0; save 2 1 0; pass; open 0 2; open 1 2; commit 0 1; commit 1 1; pass",
			"1 up 0; 2 up 0; 1 up 0; 0: 1?; 1: 1?; 2: 0",
		},
		{
			"what one view commits the next knows", "commit 1 1; open 0 2; open 1 2; open 2 2; pass",
			"1 up 0; 2 up 0; 0 down 2; 0 down 1; 0: 1; 1: 1; 2: 1",
		},
		{
			"an epoch that is committed may be saved again", "commit 1 2; open 0 2; open 1 2; open 2 2; pass; save 0 2 7; save 1 2 7; save 2 1 7; pass",
			"1 up 0; 2 up 0; 0 down 2; 0 down 1; 0: 2; 1: 2; 2: 2",
		},
	} {
		if got := trace(t, 3, members, d.commands); got != d.want {
			t.Errorf("%s:\n got %s\nwant %s", d.name, got, d.want)
		}
	}
}

func TestSweepCostsTwoMessagesAProcessAnEpoch(t *testing.T) {
	for _, p := range []int{1, 2, 3, 8, 13, 64} {
		w := newSweeps(p, 1)
		for epoch := uint64(1); epoch <= 5; epoch++ {
			for r := range protocol.Rank(p) {
				w.save(r, epoch, 0)
			}
			if err := w.finish(0); err != nil {
				t.Fatal(err)
			}
			if want := 2 * (p - 1) * int(epoch); w.last != epoch || w.sent != want {
				t.Errorf("%d processes: %d messages for %d epochs, want %d for %d", p, w.sent, w.last, want, epoch)
			}
		}
	}
}

func TestSweepDoesNotAllocate(t *testing.T) {
	var root, leaf Sweep
	members := []protocol.Rank{0, 1}
	root.Init(0, 1, members)
	leaf.Init(1, 1, members)
	epoch := uint64(0)
	allocations := testing.AllocsPerRun(100, func() {
		epoch++
		root.Save(epoch, 1)
		leaf.Save(epoch, -1)
		_, up, _ := leaf.Next()
		root.Receive(1, up)
		_, down, _ := root.Next()
		leaf.Receive(0, down)
	})
	if got, _ := leaf.Committed(); got != epoch || allocations > 0 {
		t.Errorf("epoch %d of %d, %v allocations", got, epoch, allocations)
	}
}
