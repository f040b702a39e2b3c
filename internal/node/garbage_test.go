package node

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/transport"
	"github.com/coppice-go/coppice/internal/wire"
	"github.com/coppice-go/coppice/protocol/collective"
)

// intruder is a process of the job that sends anything.
type intruder struct {
	to   *Process
	t    testing.TB
	end  *transport.Endpoint
	at   transport.Address
	conn *transport.Conn
	next uint64 // number of its next frame
}

// intrude makes a job of three processes on Unix sockets. The second is an intruder, connected to the
// first.
func intrude(t testing.TB) (*job, *intruder) {
	t.Helper()
	j := startWithout(t, transport.Unix, 3, 1, nil)
	end, err := transport.Listen(transport.Config{
		Key: testKey, Self: wire.Identity{Job: testJob, From: 1, Incarnation: 1},
		Decide:      func(wire.Identity) (wire.Identity, wire.Refusal) { return wire.Identity{}, wire.Closing },
		Established: func(c *transport.Conn) { c.Close() },
	})
	if err != nil {
		t.Fatal(err)
	}
	x := &intruder{t: t, end: end, to: j.ps[0], at: j.ps[0].Endpoint().Addresses()[0]}
	t.Cleanup(func() {
		x.leave()
		end.Close()
	})
	x.connect()
	return j, x
}

// TestRankBeyondTheJobIsTurnedAway: a process that has the key may not claim a rank beyond the job, nor
// make the other process allocate memory for it.
func TestRankBeyondTheJobIsTurnedAway(t *testing.T) {
	j := start(t, transport.Unix, 3, func(c *Config) { c.Grow = 2 })
	p := j.ps[0]
	for from, want := range map[uint32]error{4: nil, 5: wire.NotMe, 99_999: wire.NotMe, 1<<32 - 1: wire.NotMe} {
		end, err := transport.Listen(transport.Config{
			Key: testKey, Self: wire.Identity{Job: testJob, From: from, Incarnation: 1},
			Decide:      func(wire.Identity) (wire.Identity, wire.Refusal) { return wire.Identity{}, wire.Closing },
			Established: func(c *transport.Conn) { c.Close() },
		})
		if err != nil {
			t.Fatal(err)
		}
		c, err := end.Dial(t.Context(), p.Endpoint().Addresses()[0], wire.Identity{To: 0}, 0)
		if !errors.Is(err, want) {
			t.Errorf("rank %d of 3 + 2: %v, want %v", from, err, want)
		}
		if err == nil {
			c.Close()
		}
		end.Close()
	}
	p.engine.Lock()
	defer p.engine.Unlock()
	if len(p.mesh.peers) > 5 {
		t.Errorf("room for %d peers", len(p.mesh.peers))
	}
}

// connect connects, and retries while the process answers that connections crossed.
func (x *intruder) connect() {
	x.t.Helper()
	x.leave()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	for {
		c, err := x.end.Dial(ctx, x.at, wire.Identity{To: 0}, 0)
		if err == nil {
			x.conn, x.next = c, c.Peer().Received+1
			x.attached(ctx)
			return
		}
		if ctx.Err() != nil {
			x.t.Fatal(err)
		}
	}
}

// attached waits until the process has attached the connection, a moment after it accepted it.
func (x *intruder) attached(ctx context.Context) {
	x.t.Helper()
	for ; ctx.Err() == nil; time.Sleep(20 * time.Microsecond) {
		x.to.engine.Lock()
		up := x.to.mesh.peers[1].conn != nil
		x.to.engine.Unlock()
		if up {
			return
		}
	}
	x.t.Fatal("the connection is not made")
}

func (x *intruder) leave() {
	if x.conn != nil {
		x.conn.Close()
		x.conn = nil
	}
}

// say writes bytes until the other end stops reading.
func (x *intruder) say(b []byte) {
	var trash [4096]byte
	for end := time.Now().Add(10 * time.Second); len(b) > 0 && time.Now().Before(end); {
		n, err := x.conn.Write([][]byte{b})
		if err != nil && err != transport.ErrAgain {
			return
		}
		b = b[n:]
		_, _ = x.conn.Read(trash[:])
	}
}

// hungUp waits until the other end has closed the connection.
func (x *intruder) hungUp() bool {
	var trash [4096]byte
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); {
		if _, err := x.conn.Read(trash[:]); err == transport.ErrAgain {
			time.Sleep(50 * time.Microsecond)
		} else if err != nil {
			return true
		}
	}
	return false
}

// frame returns the next frame of its link.
func (x *intruder) frame(kind wire.Kind, tag uint32, payload ...[]byte) []byte {
	b := bytes.Join(payload, nil)
	f := framed(wire.Header{Kind: kind, Number: x.next, Tag: tag, Length: uint64(len(b))}, b)
	x.next++
	return f
}

func framed(h wire.Header, payload []byte) []byte {
	b := make([]byte, wire.HeaderLen)
	h.Put(b)
	return append(b, payload...)
}

// letter returns a message from task 1 to task 0 in the group of all.
func letter(change func(*envelope)) []byte {
	e := envelope{scope: scope{group: world}, seq: 1, from: 1, to: 0}
	change(&e)
	b := make([]byte, envelopeLen)
	e.put(b)
	return b
}

// Frames and envelopes that no honest process sends end the connection and do nothing else.
func TestBadFramesEndTheConnection(t *testing.T) {
	leavesNothing(t)
	j, x := intrude(t)
	ctx := patience(t)
	good := letter(func(e *envelope) { e.plan.op = opSend })
	sized := func(size uint64) []byte {
		return letter(func(e *envelope) { e.plan.op, e.size, e.extra = opSend, size, 77 })
	}
	for _, c := range []struct {
		name string
		says func() []byte
	}{
		{"zeroes", func() []byte { return make([]byte, 1000) }},
		{"ones", func() []byte { return bytes.Repeat([]byte{0xff}, 1000) }},
		{"a kind that is none", func() []byte { return framed(wire.Header{Kind: 99, Number: x.next}, nil) }},
		{"data without envelope", func() []byte { return x.frame(wire.Data, 0) }},
		{"data with half an envelope", func() []byte { return x.frame(wire.Data, 0, good[:30]) }},
		{"data of 2^62 bytes", func() []byte { return framed(wire.Header{Kind: wire.Data, Number: x.next, Length: 1 << 62}, good) }},
		{"a credit of 2^62 bytes", func() []byte { return framed(wire.Header{Kind: wire.Credit, Number: x.next, Length: 1 << 62}, good) }},
		{"data without number", func() []byte { return framed(wire.Header{Kind: wire.Data, Length: envelopeLen}, good) }},
		{"a number left out", func() []byte {
			return framed(wire.Header{Kind: wire.Data, Number: x.next + 1, Length: envelopeLen}, good)
		}},
		{"an acknowledgement of what was not sent", func() []byte { return framed(wire.Header{Kind: wire.Alive, Ack: 1 << 40}, nil) }},
		{"a part without data", func() []byte { return x.frame(wire.Part, 5, []byte("more")) }},
		{"a part of nothing", func() []byte { return x.frame(wire.Part, 5) }},
		{"a part of 2^62 bytes", func() []byte {
			return framed(wire.Header{Kind: wire.Part, Number: x.next, Tag: 5, Length: 1 << 62}, nil)
		}},
		{"a part that was not granted", func() []byte {
			// The process accepts what is granted early, so this asks for more.
			return append(x.frame(wire.Data, 6, sized(earlyMax+1)), x.frame(wire.Part, 6, []byte("more"))...)
		}},
		{"a part that is too long", func() []byte {
			return append(x.frame(wire.Data, 7, sized(100)), x.frame(wire.Part, 7, make([]byte, 101))...)
		}},
		{"a value smaller than what is here", func() []byte { return x.frame(wire.Data, 0, sized(3), []byte("four")) }},
		{"a value larger than what is here, without tag", func() []byte { return x.frame(wire.Data, 0, sized(5), []byte("four")) }},
		{"a whole value, with a tag", func() []byte { return x.frame(wire.Data, 9, sized(4), []byte("four")) }},
		{"a value of 2^39 bytes", func() []byte { return x.frame(wire.Data, 9, sized(1<<39)) }},
		{"a value of 2^40−1 bytes", func() []byte { return x.frame(wire.Data, 9, sized(1<<40-1)) }},
		{"from somebody else", func() []byte {
			return x.frame(wire.Data, 0, letter(func(e *envelope) { e.plan.op, e.from = opSend, 2 }))
		}},
		{"from the receiver itself", func() []byte {
			return x.frame(wire.Data, 0, letter(func(e *envelope) { e.plan.op, e.from = opSend, 0 }))
		}},
		{"to somebody else", func() []byte {
			return x.frame(wire.Data, 0, letter(func(e *envelope) { e.plan.op, e.to = opSend, 2 }))
		}},
		{"from a task that is none", func() []byte {
			return x.frame(wire.Data, 0, letter(func(e *envelope) { e.plan.op, e.from = opSend, 1<<32-1 }))
		}},
		{"to a task that is none", func() []byte {
			return x.frame(wire.Data, 0, letter(func(e *envelope) { e.plan.op, e.to = opSend, 3 }))
		}},
	} {
		x.connect()
		x.say(c.says())
		if !x.hungUp() {
			t.Errorf("%s: the connection stays", c.name)
		}
	}
	err := each([]*Process{j.ps[0], j.ps[2]}, func(m *Member) error { return pingPong(ctx, m, 0, 2) })
	if err != nil {
		t.Error(err)
	}
}

// pingPong lets two tasks exchange a few messages.
func pingPong(ctx context.Context, m *Member, a, b int) error {
	other := a + b - m.Rank()
	for i, size := range []int{0, 10, 100_000} {
		if err := m.Send(ctx, other, 5, 1, message(size, uint64(i))); err != nil {
			return err
		}
		got, err := m.Recv(ctx, other, 5, 1, "bytes")
		if err != nil {
			return err
		}
		if err := checkMessage(got.Value, size, uint64(i)); err != nil {
			return err
		}
	}
	return nil
}

// Well-formed envelopes that make no sense cause no panic, and nothing hangs. An intruder may still
// spoil the group's operations for all.
func TestNonsenseDoesNoHarm(t *testing.T) {
	leavesNothing(t)
	var cases []envelope
	for op := range uint8(20) {
		for _, seq := range []uint64{0, 1, 2, 1 << 62, 1<<64 - 1} {
			for _, kind := range []uint8{0, 1, 2, 3, 4, 7, 0x40, 0x41, 255} {
				e := envelope{seq: seq, kind: kind, round: uint16(kind) << 8, extra: seq ^ uint64(kind)}
				if op == opGone { // a process is believed when it reports returns; let it report only its own
					e.extra = 0
				}
				e.plan = Plan{op: op, root: uint32(kind % 4)}
				cases = append(cases, e)
				e.plan = Plan{op: op, tree: kind, correction: kind >> 1, root: 1<<32 - 1, treeArg: 1<<16 - 1, fixArg: 1<<16 - 1}
				if op != opGone {
					e.extra = 1<<64 - 1
				}
				cases = append(cases, e)
			}
		}
	}
	for tree := range uint8(8) {
		for correction := range uint8(11) {
			for _, arg := range []uint16{0, 1, 3, 1<<15 - 1, 1<<16 - 1} {
				plan := Plan{op: opBroadcast, tree: tree, correction: correction, treeArg: arg, fixArg: arg, root: 1}
				for kind := range uint8(6) {
					cases = append(cases, envelope{seq: 1, kind: kind, round: arg, extra: uint64(arg) << 40, plan: plan, sign: 5})
				}
			}
		}
	}
	t.Logf("%d envelopes", len(cases))
	nonsense(t, cases, false)
	dice(t).Shuffle(len(cases), func(a, b int) { cases[a], cases[b] = cases[b], cases[a] })
	nonsense(t, cases[:600], true)
}

// nonsense sends the envelopes, each in a group of its own that the task has joined; calls says whether
// the task calls operations there meanwhile.
func nonsense(t *testing.T, cases []envelope, calls bool) {
	j, x := intrude(t)
	ctx := patience(t)
	p := j.ps[0]
	m := p.World(0)
	plan := mustPlan(t, "binomial", "checked").WithRoot(1)
	for i, e := range cases {
		fork := m.Fork()
		short, cancel := context.WithCancel(ctx)
		var wg sync.WaitGroup
		if calls {
			wg.Go(func() { _, _ = fork.Do(short, &Call{Plan: plan, Sign: 5}) })
			wg.Go(func() { _, _ = fork.Recv(short, 1, int(e.extra), 1, "bytes") })
		}
		e.group, e.from, e.to, e.size = fork.Name(), 1, 0, 3
		b := make([]byte, envelopeLen)
		e.put(b)
		x.say(x.frame(wire.Data, 0, b, []byte("abc")))
		x.say(x.frame(wire.Data, 0, b, []byte("abc")))
		if calls || i%50 == 0 {
			heardAll(t, p, x)
		}
		cancel()
		wg.Wait()
		if t.Failed() {
			t.Fatalf("case %d: %+v", i, e)
		}
		fork.Release()
	}
	heardAll(t, p, x)
	err := each([]*Process{j.ps[0], j.ps[2]}, func(m *Member) error { return pingPong(ctx, m, 0, 2) })
	if err != nil && !errors.Is(err, ErrMismatch) {
		t.Error(err)
	}
}

// heardAll waits until the process has handled everything that the intruder sent.
func heardAll(t *testing.T, p *Process, x *intruder) {
	t.Helper()
	for end := time.Now().Add(hangTime); time.Now().Before(end); time.Sleep(20 * time.Microsecond) {
		p.engine.Lock()
		q := p.mesh.peers[1]
		done := q.conn == nil || q.link.Arrived()+1 >= x.next
		up := q.conn != nil
		p.engine.Unlock()
		if done {
			if !up {
				t.Error("the connection has ended")
			}
			return
		}
		var trash [4096]byte
		_, _ = x.conn.Read(trash[:])
	}
	t.Error("what was said is not handled")
}

// A wanted value claims many gigabytes: the process has no memory of that size, and needs none before
// the value arrives.
func TestImmenseValueIsNotBelieved(t *testing.T) {
	leavesNothing(t)
	j, x := intrude(t)
	ctx, cancel := context.WithCancel(patience(t))
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = j.ps[0].World(0).Recv(ctx, 1, 77, 1, "bytes") })
	x.say(x.frame(wire.Data, 1, letter(func(e *envelope) { e.plan.op, e.size, e.extra = opSend, 1<<38, 77 })))
	heardAll(t, j.ps[0], x)
	granted(t, j.ps[0], 1)
	x.say(x.frame(wire.Part, 1, make([]byte, 1<<20)))
	heardAll(t, j.ps[0], x)
	cancel()
	wg.Wait()
}

// granted waits until the process wants the rest of a message of process 1.
func granted(t *testing.T, p *Process, id uint32) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(20 * time.Microsecond) {
		p.engine.Lock()
		in := p.mesh.peers[1].parts[id]
		ok := in != nil && in.Answered()
		p.engine.Unlock()
		if ok {
			return
		}
	}
	t.Error("nobody wants it")
}

// A split fails if a process sends nonsense to it.
func TestSplitWithNonsense(t *testing.T) {
	j, x := intrude(t)
	ctx, cancel := context.WithCancel(patience(t))
	var wg sync.WaitGroup
	var err error
	wg.Go(func() {
		_, err = j.ps[0].World(0).Split(ctx, 1, 1)
		cancel()
	})
	wg.Go(func() { _, _ = j.ps[2].World(2).Split(ctx, 1, 1) }) // waits for the intruder
	e := letter(func(e *envelope) {
		e.size, e.plan = 3, j.ps[0].World(0).Choose(collective.AllGather, Choice{Bytes: 16})
		e.plan.op = opSplit
	})
	x.say(x.frame(wire.Data, 0, e, []byte("abc")))
	wg.Wait()
	if !errors.Is(err, ErrMismatch) {
		t.Errorf("split: %v", err)
	}
}

// FuzzParse passes bytes to a peer as if it had read them from its connection, in two pieces, while
// tasks wait for messages and operations of that peer.
func FuzzParse(f *testing.F) {
	x := &intruder{next: 1}
	value := []byte("a value")
	for _, op := range []uint8{opSend, opBarrier, opBroadcast, opSplit, opCredit, opGrant, opProbe, opGone, opAsk, opHaveNot, opMismatch, opBeat} {
		x.next = 1
		e := letter(func(e *envelope) { e.plan.op, e.size, e.plan.root, e.sign = op, uint64(len(value)), 1, 5 })
		f.Add(x.frame(wire.Data, 0, e, value), uint16(40))
		x.next = 1
		large := letter(func(e *envelope) { e.plan.op, e.size, e.plan.root, e.sign = op, 20, 1, 5 })
		f.Add(bytes.Join([][]byte{x.frame(wire.Data, 3, large, value), x.frame(wire.Part, 3, value), x.frame(wire.Part, 3, value[:6]), x.frame(wire.Bye, 0)}, nil), uint16(110))
	}
	f.Add(framed(wire.Header{Kind: wire.Alive}, nil), uint16(3))
	s := newSupply(f, transport.Unix)
	f.Fuzz(func(t *testing.T, b []byte, at uint16) {
		if immense(b) {
			t.Skip("it announces so much that memory for it would be found, and missed by others; no input of that size is tried")
		}
		parseAll(t, s, b, int(at))
	})
}

// immense reports whether a length in b costs memory.
func immense(b []byte) bool {
	for at := 0; at+wire.HeaderLen <= len(b); {
		h, err := wire.ParseHeader(b[at:])
		if err != nil {
			return false
		}
		at += wire.HeaderLen
		if h.Kind == wire.Data && at+envelopeLen <= len(b) {
			if size := binary.LittleEndian.Uint64(b[at+16:]); size > 1<<28 && size <= 1<<46 {
				return true
			}
		}
		if h.Length > uint64(len(b)-at) {
			return false
		}
		at += int(h.Length)
	}
	return false
}

// parseAll lets process 0 of 3, which nobody drives, read b from process 1.
func parseAll(t *testing.T, s *supply, b []byte, at int) {
	p := byHand(t)
	defer p.engine.Stop()
	p.engine.Lock()
	defer p.engine.Unlock()
	q, m := p.mesh.peers[1], p.groups.members[memberKey{scope{group: world}, 0}]
	q.attach(s.conn(t))
	// The task waits in a broadcast and for a message.
	if _, err := m.enter(&Call{Plan: mustPlan(t, "binomial", "checked").WithRoot(1), Sign: 5}); err != nil {
		t.Fatal(err)
	}
	m.streamIn(1, 0).wanted = true
	at = min(at, len(b))
	for _, piece := range [][]byte{b[:at], b[at:]} {
		if q.conn == nil {
			break
		}
		if err := feed(q, piece); err != nil {
			q.broken(err)
		}
	}
	p.engine.Fire()
	if q.conn == nil {
		s.b.Close()
		s.a, s.b = nil, nil
		return
	}
	p.engine.Unwatch(q.conn.Fd())
	s.drain()
}

// feed passes b to the peer as readOnce does with what it has read.
func feed(q *peer, b []byte) error {
	for len(b) > 0 && q.conn != nil {
		if q.toCome > 0 {
			n := copy(q.bodyRoom(), b)
			b = b[n:]
			if err := q.body(n); err != nil {
				return err
			}
			continue
		}
		all := append(append([]byte(nil), q.partial...), b...)
		q.partial = q.partial[:0]
		return q.parse(all)
	}
	return nil
}
