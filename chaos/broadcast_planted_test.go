package chaos

import (
	"errors"
	"testing"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
	"github.com/coppice-go/coppice/topology"
)

type (
	walk   = broadcast.Walk
	frame  = broadcast.Message[broadcast.None]
	action = protocol.Action[frame]
	rank   = protocol.Rank
	now    = protocol.Time
)

// planted lists broadcasts with a mistake each. A test that does not find them cannot be trusted when it
// finds nothing.
//
// Two mistakes in failure-proof correction are not here: leaving out the final round, and stopping at the
// F-th corrector instead of the (F+1)-th. Neither broke a promise in 2.3 million schedules each (F 1 and 2, P
// 4 to 12): the process that learns of too few correctors sends an SOS, which no promise forbids.
var planted = []struct {
	name       string
	mistake    string
	random     func() (Report, error) // must find it
	exhaustive func() (Report, error) // must find it, unless nil
}{
	{
		"confused sides", "stops both sides as far as it heard from one",
		attackPlain(6, 5, bothStop{new(broadcast.Checked)}, Promise{Gap: 6, EndGap: 6}),
		nil, // five processes are too many
	},
	{
		"gap off by one", "sends one process less far than it owes",
		attackPlain(7, 6, shortWalk{&broadcast.Opportunistic{D: 2}}, Promise{Gap: 4, EndGap: 4}),
		explorePlain(4, 3, shortWalk{&broadcast.Opportunistic{D: 2}}, Promise{Gap: 4, EndGap: 4}),
	},
	{
		"one side is enough", "is done when one of its sides is",
		attackPlain(6, 5, oneSideDone{new(broadcast.Checked)}, Promise{Gap: 6, EndGap: 6}),
		nil, // five processes are too many
	},
	{
		"never ends", "waits for a message that nobody owes it",
		attackPlain(5, 4, neverEnds{new(broadcast.Checked)}, Promise{Gap: 5, EndGap: 5}),
		explorePlain(2, 0, neverEnds{new(broadcast.Checked)}, Promise{Gap: 2, EndGap: 2}),
	},
	{
		"the paper's optimization", "relies on a neighbour that relies on it (Corrected Trees, §3.3)",
		func() (Report, error) {
			return Broadcast{Spec: broadcast.Spec{P: 16, Tree: "binomial", Correction: "optimized-paper:2", O: 1}, Failed: 6}.Random(1, 100_000, 0)
		},
		nil,
	},
	{
		"forgotten child", "does not send to its last child",
		forgottenChild(8, func(cfg Config[broadcast.State[walk], frame]) (Report, error) { return Random(cfg, 1, 1000, 0) }),
		forgottenChild(4, Exhaustive[broadcast.State[walk], frame]),
	},
	{
		"delivers again", "delivers a message that comes a second time",
		func() (Report, error) { return Random(deliversAgain(5), 1, 1000, 0) },
		func() (Report, error) { return Exhaustive(deliversAgain(3)) },
	},
	{
		"no search", "trusts that somebody else covers its silent side",
		func() (Report, error) { return Random(noSearch(5), 1, 1000, 0) },
		func() (Report, error) { return Exhaustive(noSearch(4)) },
	},
	{
		"one failure too few", "knows F correctors where F+1 are needed",
		func() (Report, error) {
			return Random(provers(6, 2, &broadcast.FailureProof{F: 1, Timeout: 50}), 1, 300_000, 0)
		},
		nil,
	},
	{
		"no SOS", "rests where it should cry for help",
		func() (Report, error) {
			return Random(provers(5, 1, silent{&broadcast.FailureProof{F: 1, Timeout: 50}}), 1, 100_000, 0)
		},
		nil,
	},
	{
		"trusts too few", "a corrected process rests when it knows F correctors",
		func() (Report, error) {
			trusting := trusting{&broadcast.FailureProof{F: 1, Timeout: 50}, &broadcast.FailureProof{F: 0, Timeout: 50}}
			return Random(provers(5, 1, trusting), 1, 10_000, 0)
		},
		nil,
	},
	{
		"names a stranger", "its messages name its neighbour, whoever that is, where they should name correctors",
		func() (Report, error) {
			return Random(provers(5, 1, naming{&broadcast.FailureProof{F: 1, Timeout: 50}}), 1, 10_000, 0)
		},
		nil,
	},
	{
		"counter instead of watermark", "loses a broadcast that is overtaken (Corrected Gossip, Claim 1)",
		func() (Report, error) { return Random(counting(), 1, 10_000, 0) },
		nil,
	},
}

func TestPlantedMistakesInBroadcastsAreFound(t *testing.T) {
	for _, m := range planted {
		for way, find := range map[string]func() (Report, error){"random": m.random, "exhaustive": m.exhaustive} {
			if find == nil {
				continue
			}
			report, err := find()
			if v := new(Violation); !errors.As(err, &v) {
				t.Errorf("%s (%s) is not found by %s schedules: %d of them, %v", m.name, m.mistake, way, report.Schedules, err)
			} else {
				t.Logf("%s, %s: after %d schedules, told in %d steps: %v", m.name, way, v.Run+1, len(v.Steps), v.Err)
			}
		}
	}
}

// chain is the tree in which one crash leaves all later processes to correction.
func chain(p int) *broadcast.Tree {
	tree, err := topology.KAry(1, p, topology.Interleaved)
	if err != nil {
		panic(err)
	}
	return &broadcast.Tree{Tree: tree}
}

func plainConfig(p, failed int, c broadcast.Correction[walk, broadcast.None], promise Promise) Config[broadcast.State[walk], frame] {
	proto, err := broadcast.New(broadcast.Config{P: p, Spread: chain(p), Early: broadcast.Serve}, c)
	if err != nil {
		panic(err)
	}
	return BroadcastConfig(Broadcast{Failed: failed}, proto, promise)
}

func attackPlain(p, failed int, c broadcast.Correction[walk, broadcast.None], promise Promise) func() (Report, error) {
	return func() (Report, error) { return Random(plainConfig(p, failed, c, promise), 1, 100_000, 0) }
}

func explorePlain(p, failed int, c broadcast.Correction[walk, broadcast.None], promise Promise) func() (Report, error) {
	return func() (Report, error) { return Exhaustive(plainConfig(p, failed, c, promise)) }
}

type bothStop struct{ *broadcast.Checked }

func (c bothStop) Receive(w *walk, self rank, t now, from rank, m frame) {
	c.Checked.Receive(w, self, t, from, m)
	w.Owed[0] = min(w.Owed[0], w.Owed[1])
	w.Owed[1] = w.Owed[0]
}

type shortWalk struct{ *broadcast.Opportunistic }

func (c shortWalk) Init(w *walk, self rank) {
	c.Opportunistic.Init(w, self)
	w.Owed[0]--
	w.Owed[1]--
}

type oneSideDone struct{ *broadcast.Checked }

func (c oneSideDone) Next(w *walk, self rank, t now, corrected bool) action {
	if w.Sent[0] >= w.Owed[0] || w.Sent[1] >= w.Owed[1] {
		return action{Kind: protocol.Done}
	}
	return c.Checked.Next(w, self, t, corrected)
}

type neverEnds struct{ *broadcast.Checked }

func (c neverEnds) Next(w *walk, self rank, t now, corrected bool) action {
	if a := c.Checked.Next(w, self, t, corrected); a.Kind != protocol.Done {
		return a
	}
	return action{Kind: protocol.Idle}
}

type childless struct{ *broadcast.Tree }

func (d childless) Next(s *broadcast.Spreading, self rank, t now) action {
	if d.Tree.Tree.Child(int(self), int(s.Next)+1) < 0 {
		return action{Kind: protocol.Done}
	}
	return d.Tree.Next(s, self, t)
}

func forgottenChild(p int, run func(Config[broadcast.State[walk], frame]) (Report, error)) func() (Report, error) {
	return func() (Report, error) {
		proto, err := broadcast.New(broadcast.Config{P: p, Spread: childless{chain(p)}}, broadcast.Uncorrected{})
		if err != nil {
			return Report{}, err
		}
		promised, err := broadcast.New(broadcast.Config{P: p, Spread: chain(p)}, broadcast.Uncorrected{})
		if err != nil {
			return Report{}, err
		}
		cfg := BroadcastConfig(Broadcast{}, promised, Promise{})
		cfg.Protocol = proto
		return run(cfg)
	}
}

// again delivers once more when a message comes a second time.
type again struct{ *broadcast.Plain }

type againState struct {
	inner    broadcast.State[walk]
	received int
	owes     bool
}

func (p again) Init(s *againState, self rank, seed uint64) {
	*s = againState{}
	p.Plain.Init(&s.inner, self, seed)
}

func (p again) Receive(s *againState, t now, from rank, m frame) {
	if s.received++; s.received == 2 {
		s.owes = true
	}
	p.Plain.Receive(&s.inner, t, from, m)
}

func (p again) Notify(*againState, now, protocol.Notice) {}

func (p again) Next(s *againState, t now) action {
	if s.owes {
		s.owes = false
		return action{Kind: protocol.Deliver}
	}
	return p.Plain.Next(&s.inner, t)
}

func deliversAgain(p int) Config[againState, frame] {
	proto, err := broadcast.New(broadcast.Config{P: p, Spread: chain(p)}, new(broadcast.Checked))
	if err != nil {
		panic(err)
	}
	return Config[againState, frame]{Protocol: again{proto}, P: p, Check: func(w *World[againState, frame]) error {
		for r := range rank(w.P()) {
			if len(w.Delivered(r)) > 1 {
				return errors.New("delivered twice")
			}
		}
		return nil
	}}
}

// unsearching is a correction that never sends to its second side.
type unsearching struct{ *broadcast.Delayed }

func (c unsearching) Next(s *broadcast.Delaying, self rank, t now, corrected bool) action {
	a := c.Delayed.Next(s, self, t, corrected)
	if a.Kind == protocol.Correct && a.Msg.Kind == broadcast.Right {
		return action{Kind: protocol.Idle}
	}
	return a
}

func noSearch(p int) Config[broadcast.State[broadcast.Delaying], frame] {
	proto, err := broadcast.New(broadcast.Config{P: p, Spread: chain(p), Early: broadcast.Serve}, unsearching{new(broadcast.Delayed)})
	if err != nil {
		panic(err)
	}
	return BroadcastConfig(Broadcast{Failed: p - 1}, proto, Promise{Gap: p, EndGap: p, Serves: true})
}

type silent struct{ *broadcast.FailureProof }

func (c silent) Next(s *broadcast.Proving, self rank, t now, corrected bool) protocol.Action[broadcast.Message[broadcast.Known]] {
	a := c.FailureProof.Next(s, self, t, corrected)
	if a.Kind == protocol.Correct && a.Msg.Kind == broadcast.SOS {
		return protocol.Action[broadcast.Message[broadcast.Known]]{Kind: protocol.Done}
	}
	return a
}

// provers returns a world that demands of a failure-proof correction to survive the given number of crashes.
func provers(p, crashes int, c broadcast.Correction[broadcast.Proving, broadcast.Known]) Config[broadcast.State[broadcast.Proving], broadcast.Message[broadcast.Known]] {
	proto, err := broadcast.New(broadcast.Config{P: p, Spread: chain(p), Early: broadcast.Serve}, c)
	if err != nil {
		panic(err)
	}
	b := Broadcast{Crashes: crashes, Failed: p - 2, EagerTimers: true}
	return BroadcastConfig(b, proto, Promise{Gap: p, EndGap: p, Crashes: crashes})
}

type proofAction = protocol.Action[broadcast.Message[broadcast.Known]]

// trusting is a correction that demands less of corrected processes than of correctors.
type trusting struct {
	*broadcast.FailureProof
	less *broadcast.FailureProof
}

func (c trusting) Fit(p int) error { return errors.Join(c.FailureProof.Fit(p), c.less.Fit(p)) }

func (c trusting) Next(s *broadcast.Proving, self rank, t now, corrected bool) proofAction {
	if corrected {
		return c.less.Next(s, self, t, corrected)
	}
	return c.FailureProof.Next(s, self, t, corrected)
}

// naming is a correction that names the neighbour behind it when it knows no process there.
type naming struct{ *broadcast.FailureProof }

func (c naming) Next(s *broadcast.Proving, self rank, t now, corrected bool) proofAction {
	a := c.FailureProof.Next(s, self, t, corrected)
	if a.Kind == protocol.Correct && a.Msg.Kind != broadcast.SOS && a.Msg.Extra[0] == 0 {
		a.Msg.Extra[0] = 1
	}
	return a
}

// counter discards every broadcast of a root up to the last one seen.
type counter struct {
	*broadcast.Many[walk, broadcast.None]
}

type counterState struct {
	inner manyState
	last  [4]broadcast.ID // by root
}

func (p counter) Init(s *counterState, self rank, seed uint64) {
	*s = counterState{}
	p.Many.Init(&s.inner, self, seed)
}

func (p counter) Receive(s *counterState, t now, from rank, m manyMessage) {
	last := &s.last[m.ID.Root]
	if m.ID.Seq < last.Seq {
		return
	}
	*last = m.ID
	p.Many.Receive(&s.inner, t, from, m)
}

func (p counter) Notify(s *counterState, t now, n protocol.Notice) { p.Many.Notify(&s.inner, t, n) }

func (p counter) Next(s *counterState, t now) protocol.Action[manyMessage] {
	return p.Many.Next(&s.inner, t)
}

func counting() Config[counterState, manyMessage] {
	built, err := broadcast.Spec{P: 4, Tree: "binomial", Correction: "checked", O: 1}.Build()
	if err != nil {
		panic(err)
	}
	many, err := broadcast.NewMany(built.(*broadcast.Plain), 0)
	if err != nil {
		panic(err)
	}
	begin := protocol.Notice{Kind: protocol.Begin}
	return Config[counterState, manyMessage]{
		Protocol: counter{many},
		P:        4, Inputs: []Input{{Notice: begin}, {Notice: begin}},
		Check: func(w *World[counterState, manyMessage]) error {
			for r := range rank(w.P()) {
				if len(w.Delivered(r)) != 2 {
					return errors.New("a broadcast was lost")
				}
			}
			return nil
		},
	}
}
