package collective

import (
	"errors"
	"fmt"
	"math"
	"math/bits"
	"regexp"
	"testing"

	"github.com/coppice-go/coppice/chaos"
	"github.com/coppice-go/coppice/internal/extent"
	"github.com/coppice-go/coppice/protocol"
)

var shapes = []Shape{Dissemination, UpDown, Star}

type machine = protocol.Protocol[BarrierState, BarrierMessage]

// watched is a machine that notes which processes enter: a mistaken one may believe that it has.
type watched struct {
	machine
	truants uint64 // processes that never enter, as bits
}

type watchedState struct {
	BarrierState
	entered bool
}

type (
	barrierConfig = chaos.Config[watchedState, BarrierMessage]
	barrierWorld  = chaos.World[watchedState, BarrierMessage]
)

func (w watched) Init(s *watchedState, self Rank, seed uint64) {
	s.entered = false
	w.machine.Init(&s.BarrierState, self, seed)
}

func (w watched) Receive(s *watchedState, now Time, from Rank, m BarrierMessage) {
	w.machine.Receive(&s.BarrierState, now, from, m)
}

func (w watched) Notify(s *watchedState, now Time, n protocol.Notice) {
	s.entered = true
	w.machine.Notify(&s.BarrierState, now, n)
}

func (w watched) Next(s *watchedState, now Time) protocol.Action[BarrierMessage] {
	return w.machine.Next(&s.BarrierState, now)
}

func mustBarrier(t testing.TB, p int, shape Shape) *Barrier {
	t.Helper()
	b, err := NewBarrier(p, shape)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// world is a barrier that all processes enter, at any moment, except up to truants of them, which never do. A run until
// the moment a process enters is also the beginning of a run in which it never does: if no process leaves where there are
// truants, no process leaves early.
func world(b *Barrier, m machine, truants int) barrierConfig {
	return barrierConfig{
		P: b.P, Protocol: watched{machine: m},
		Vary: func(s *chaos.Setup[watchedState, BarrierMessage]) {
			run := watched{machine: m}
			var inputs []chaos.Input
			want := s.Choose(min(truants, b.P) + 1)
			for r := range b.P {
				if s.Chance(want, b.P-r) {
					want--
					run.truants |= 1 << r
					continue
				}
				inputs = append(inputs, chaos.Input{Rank: Rank(r), Notice: protocol.Notice{Kind: protocol.Begin}})
			}
			s.Protocol, s.Inputs = run, inputs
		},
		Check: func(w *barrierWorld) error { return checkEnd(b, w) },
	}
}

// checkEnd returns what a finished run of b got wrong.
func checkEnd(b *Barrier, w *barrierWorld) error {
	if err := checkNoneEarly(w); err != nil {
		return err
	}
	full := true
	for r := range Rank(w.P()) {
		full = full && w.Alive(r) && w.State(r).entered
	}
	for r := range Rank(w.P()) {
		n := len(w.Delivered(r))
		switch {
		case n > 1:
			return fmt.Errorf("p%d left %d times", r, n)
		case full && n == 0:
			return fmt.Errorf("all entered and p%d did not leave", r)
		case w.Alive(r) && (n == 1) != (w.Rest(r) == chaos.Done):
			return fmt.Errorf("p%d left %d times and its rest is %d", r, n, w.Rest(r))
		}
	}
	return checkAwaits(b, w)
}

// checkNoneEarly demands that no process has left, dead or alive, unless all have entered.
func checkNoneEarly(w *barrierWorld) error {
	missing := bits.TrailingZeros64(w.Protocol().(watched).truants)
	for r := range w.P() {
		if s := w.State(Rank(r)); s != nil && !s.entered {
			missing = r
		}
	}
	for r := range w.P() {
		if missing < w.P() && len(w.Delivered(Rank(r))) > 0 {
			return fmt.Errorf("p%d left, and p%d has not entered", r, missing)
		}
	}
	return nil
}

// checkAwaits follows Awaits from every stuck process to one that is the reason: dead, or outside.
func checkAwaits(b *Barrier, w *barrierWorld) error {
	for start := range Rank(w.P()) {
		for r, hops := start, 0; w.Alive(r) && w.State(r).entered && len(w.Delivered(r)) == 0; hops++ {
			waits := b.Awaits(&w.State(r).BarrierState)
			if len(waits) == 0 || hops > w.P() {
				return fmt.Errorf("p%d is stuck, and after %d hops p%d awaits %v", start, hops, r, waits)
			}
			r = waits[hops%len(waits)]
		}
	}
	return nil
}

func explored(t *testing.T, cfg barrierConfig) {
	t.Helper()
	report, err := chaos.Exhaustive(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d states, %d ends", report.States, report.Terminals)
}

func TestBarrierNobodyLeavesBeforeAllEnterInAnySchedule(t *testing.T) {
	for _, shape := range shapes {
		for p := 1; p <= 6; p++ {
			t.Run(fmt.Sprint(shape, " ", p), func(t *testing.T) {
				b := mustBarrier(t, p, shape)
				cfg := world(b, b, p)
				cfg.Cumulative, cfg.ExtraNext, cfg.Reorder = true, true, true
				explored(t, cfg)
			})
		}
	}
}

func TestBarrierNobodyLeavesWronglyWhenProcessesCrashInAnySchedule(t *testing.T) {
	for _, shape := range shapes {
		for p := 2; p <= 5; p++ {
			t.Run(fmt.Sprint(shape, " ", p), func(t *testing.T) {
				b := mustBarrier(t, p, shape)
				cfg := world(b, b, 1)
				cfg.Crashes, cfg.LossyCrashes, cfg.Cumulative = 2, true, true
				explored(t, cfg)
			})
		}
	}
}

func TestBarrierHoldsAtEveryMomentOfRandomSchedules(t *testing.T) {
	runs := 8_000
	if !extent.Full() {
		runs = 2_000
	}
	for _, shape := range shapes {
		for _, p := range []int{2, 3, 6, 8, 9, 17} {
			for crashes := range 3 {
				t.Run(fmt.Sprint(shape, " ", p, " ", crashes), func(t *testing.T) {
					b := mustBarrier(t, p, shape)
					cfg := world(b, b, 1)
					cfg.Crashes, cfg.LossyCrashes, cfg.Reorder = crashes, crashes > 1, true
					cfg.Step = func(w *barrierWorld) error { return checkNoneEarly(w) }
					if _, err := chaos.Random(cfg, uint64(p), runs/p, 0); err != nil {
						t.Fatal(err)
					}
				})
			}
		}
	}
}

// mistaken is a barrier with a mistake: a change of the state before or after
// what the barrier does.
type mistaken struct {
	*Barrier
	init    func(s *BarrierState)
	receive func(s *BarrierState, m BarrierMessage) (ignore bool)
	next    func(s *BarrierState, a protocol.Action[BarrierMessage]) protocol.Action[BarrierMessage]
}

func (m mistaken) Init(s *BarrierState, self Rank, seed uint64) {
	m.Barrier.Init(s, self, seed)
	if m.init != nil {
		m.init(s)
	}
}

func (m mistaken) Receive(s *BarrierState, now Time, from Rank, msg BarrierMessage) {
	if m.receive == nil || !m.receive(s, msg) {
		m.Barrier.Receive(s, now, from, msg)
	}
}

func (m mistaken) Next(s *BarrierState, now Time) protocol.Action[BarrierMessage] {
	a := m.Barrier.Next(s, now)
	if m.next != nil {
		a = m.next(s, a)
	}
	return a
}

var mistakes = []struct {
	name  string
	shape Shape
	want  string
	plant mistaken
}{
	{"p2 skips the wait of round 1", Dissemination, "has not entered", mistaken{
		init: func(s *BarrierState) {
			if s.self == 2 {
				s.came = 1 << 1
			}
		},
	}},
	{"p3 never sends its last round", Dissemination, "did not leave", mistaken{
		next: func(s *BarrierState, a protocol.Action[BarrierMessage]) protocol.Action[BarrierMessage] {
			if s.self == 3 && a.Kind == protocol.Send && a.Msg == 1 {
				a.Kind = protocol.Idle
			}
			return a
		},
	}},
	{"a round passes a process that is outside", Dissemination, "has not entered", mistaken{
		receive: func(s *BarrierState, _ BarrierMessage) bool { s.stage = max(s.stage, inside); return false },
	}},
	{"a round that comes early is lost", Dissemination, "did not leave", mistaken{
		receive: func(s *BarrierState, m BarrierMessage) bool { return uint8(m) > s.sent },
	}},
	{"what comes before entering is lost", UpDown, "is stuck|did not leave", mistaken{
		receive: func(s *BarrierState, _ BarrierMessage) bool { return s.stage == outside },
	}},
	{"p1 does not wait for its children", UpDown, "has not entered", mistaken{
		init: func(s *BarrierState) {
			if s.self == 1 {
				s.came = downBit - 1
			}
		},
	}},
	{"Up passes a process that is outside", UpDown, "has not entered", mistaken{
		receive: func(s *BarrierState, _ BarrierMessage) bool { s.stage = max(s.stage, inside); return false },
	}},
	{"who has sent Up leaves", UpDown, "has not entered", mistaken{
		next: func(s *BarrierState, a protocol.Action[BarrierMessage]) protocol.Action[BarrierMessage] {
			if a.Msg == Up {
				s.came |= downBit
			}
			return a
		},
	}},
	{"p1 leaves before it tells its child", UpDown, "did not leave", mistaken{
		next: func(s *BarrierState, a protocol.Action[BarrierMessage]) protocol.Action[BarrierMessage] {
			if s.self == 1 && a.Msg == Down {
				return s.deliver()
			}
			return a
		},
	}},
	{"p0 leaves twice", UpDown, "left 2 times", mistaken{
		next: func(s *BarrierState, a protocol.Action[BarrierMessage]) protocol.Action[BarrierMessage] {
			if a.Kind == protocol.Deliver && s.self == 0 && s.sent < 10 {
				s.stage, s.sent = inside, s.sent+10
			}
			return a
		},
	}},
}

func TestChaosFindsMistakesPlantedInTheBarrier(t *testing.T) {
	for _, m := range mistakes {
		t.Run(m.name, func(t *testing.T) {
			b := mustBarrier(t, 4, m.shape)
			m.plant.Barrier = b
			cfg := world(b, m.plant, 1)
			_, err := chaos.Random(cfg, 1, 10_000, 0)
			found(t, "Random", err, m.want)
			_, err = chaos.Exhaustive(cfg)
			found(t, "Exhaustive", err, m.want)
		})
	}
}

func found(t *testing.T, driver string, err error, want string) {
	t.Helper()
	var v *chaos.Violation
	if !errors.As(err, &v) || !regexp.MustCompile(want).MatchString(v.Error()) {
		t.Errorf("%s: %v, want a violation that says %q", driver, err, want)
	}
}

func TestChaosFindsWrongAwaits(t *testing.T) {
	b := mustBarrier(t, 4, UpDown)
	cfg := world(b, b, 1)
	other := mustBarrier(t, 4, Dissemination)
	cfg.Check = func(w *barrierWorld) error { return checkAwaits(other, w) }
	if _, err := chaos.Random(cfg, 1, 1_000, 0); err == nil {
		t.Error("the Awaits of another shape were taken for right")
	}
}

func TestBarrierAwaitsWhoIsMissing(t *testing.T) {
	const begin = -1
	type step struct {
		from int // or begin
		msg  BarrierMessage
	}
	for _, c := range []struct {
		name  string
		shape Shape
		p     int
		self  Rank
		steps []step
		want  []Rank
	}{
		{"outside", Dissemination, 8, 3, nil, nil},
		{"first round", Dissemination, 8, 3, []step{{from: begin}}, []Rank{2}},
		{"second round", Dissemination, 8, 3, []step{{from: begin}, {2, 0}}, []Rank{1}},
		{"a later round is here", Dissemination, 8, 3, []step{{from: begin}, {1, 1}}, []Rank{2}},
		{"the last round", Dissemination, 8, 3, []step{{2, 0}, {1, 1}, {from: begin}}, []Rank{7}},
		{"a round of somebody else", Dissemination, 8, 3, []step{{from: begin}, {1, 0}, {2, 7}, {2, Up}}, []Rank{2}},
		{"left", Dissemination, 8, 3, []step{{2, 0}, {1, 1}, {7, 2}, {from: begin}}, nil},
		{"root", UpDown, 8, 0, []step{{from: begin}}, []Rank{1, 5, 7}},
		{"root, one is here", UpDown, 8, 0, []step{{from: begin}, {5, Up}, {2, Up}}, []Rank{1, 7}},
		{"inner, outside", UpDown, 8, 1, []step{{2, Up}}, nil},
		{"inner", UpDown, 8, 1, []step{{2, Up}, {from: begin}}, []Rank{4}},
		{"inner, up is sent", UpDown, 8, 1, []step{{2, Up}, {4, Up}, {from: begin}}, []Rank{0}},
		{"leaf", UpDown, 8, 6, []step{{from: begin}}, []Rank{5}},
		{"leaf, down from a stranger", UpDown, 8, 6, []step{{from: begin}, {0, Down}}, []Rank{5}},
		{"leaf, left", UpDown, 8, 6, []step{{from: begin}, {5, Down}}, nil},
		{"alone", UpDown, 1, 0, []step{{from: begin}}, nil},
	} {
		b := mustBarrier(t, c.p, c.shape)
		var s BarrierState
		b.Init(&s, c.self, 1)
		for _, step := range c.steps {
			if step.from == begin {
				b.Notify(&s, 0, protocol.Notice{Kind: protocol.Begin})
			} else {
				b.Receive(&s, 0, Rank(step.from), step.msg)
			}
		}
		for a := b.Next(&s, 0); a.Kind.Sends() || a.Kind == protocol.Deliver; {
			a = b.Next(&s, 0)
		}
		if got := b.Awaits(&s); fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%v, %s: p%d awaits %v, want %v", c.shape, c.name, c.self, got, c.want)
		}
	}
}

// A connection to another host costs a handshake with TLS, and is made for the first barrier.
func TestBarrierOfNeighboursCrossesFewHosts(t *testing.T) {
	const p, here = 256, 64
	b := mustBarrier(t, p, UpDown)
	crossing := 0
	for r := 1; r < p; r++ {
		if b.tree.Parent(r)/here != r/here {
			crossing++
		}
	}
	if crossing > 16 {
		t.Errorf("%d of %d processes, %d on a host, have their parent on another host; want at most 16", crossing, p, here)
	}
}

func TestNewBarrierRefusesWhatItCannotBe(t *testing.T) {
	for _, c := range []struct {
		p     int
		shape Shape
		want  string
	}{
		{0, Dissemination, "a barrier of 0 processes; allowed: 1 to 2147483647"},
		{-3, UpDown, "a barrier of -3 processes; allowed: 1 to 2147483647"},
		{math.MaxInt32 + 1, UpDown, "a barrier of 2147483648 processes; allowed: 1 to 2147483647"},
		{8, 3, "a barrier of shape 3; allowed: dissemination (0), up-down (1), star (2)"},
		{StarMax + 1, Star, "a star of 33 processes; allowed: 1 to 32"},
	} {
		if _, err := NewBarrier(c.p, c.shape); err == nil || err.Error() != c.want {
			t.Errorf("NewBarrier(%d, %d): %v, want %s", c.p, c.shape, err, c.want)
		}
	}
	for _, shape := range []Shape{Dissemination, UpDown} {
		b := mustBarrier(t, math.MaxInt32, shape)
		var s BarrierState
		b.Init(&s, math.MaxInt32-1, 1)
		b.Notify(&s, 0, protocol.Notice{Kind: protocol.Begin})
		if a := b.Next(&s, 0); a.Kind != protocol.Send || a.To < 0 {
			t.Errorf("%v: the last of the largest barrier begins with %+v", shape, a)
		}
	}
}
