package collective

import (
	"bytes"
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/coppice-go/coppice/protocol"
)

// carrier is a schedule with its data as one machine, so that chaos can run both:
// it does with the steps and the Store what a runtime does, and checks at every
// Deliver what the user gets.
type carrier struct {
	*Schedule
	spec     Spec
	bytes    int
	programs []Program
	want     [][][]byte // results, by task

	byRef   bool   // messages carry the sender's memory, not a copy, until they are received
	late    bool   // folds happen when their Work ends, not when it begins
	rooms   bool   // the users give memory for results
	keeps   bool   // what is sent is kept: where it is, if the store says that it stays as it is
	truants uint64 // tasks that never begin, as bits
	mistake mistake
}

// mistake is what a planted carrier does wrong.
type mistake struct {
	program   func(p int, self Rank, g *Program)
	unlends   bool // memory that was sent counts as free to write
	owns      bool // memory that came by reference counts as free to write
	hasty     bool // goes on while Work is under way
	forgets   bool // drops what comes before its step
	uninvited bool // does not wait for its user
	quits     bool // does nothing after its last receive but deliver
	mislays   bool // takes the first step of the sender, whatever the lane
	reuses    bool // forgets what it sent when it gives memory back
	misleads  bool // Awaits: the task itself
}

// carried is the state of a task.
type carried struct {
	steps  StepState
	store  Store
	self   Rank
	work   int32 // the step of a Fold under way
	begun  bool
	done   bool
	early  []posted // what came before the task
	lent   [][]byte // by the user
	loans  [][]byte // memory of messages, for other uses when the task is done
	result [][]byte // that others may not write any more, and what it was
	was    [][]byte
	kept   []letter
	err    error
}

// letter is a message with what it carries. In a Deliver the value says what is
// wrong.
type letter struct {
	StepMessage
	value []byte
	sum   uint64 // of the value when it was sent
}

type posted struct {
	letter
	from Rank
}

var hashSeed = maphash.MakeSeed()

func sum(b []byte) uint64 { return maphash.Bytes(hashSeed, b) }

func newCarrier(spec Spec, n int) (*carrier, error) {
	c, err := New(spec)
	if err != nil {
		return nil, err
	}
	k := &carrier{Schedule: c, spec: spec, bytes: n}
	for r := range Rank(spec.P) {
		k.programs = append(k.programs, c.Program(r))
		k.want = append(k.want, expected(spec, n, r))
	}
	return k, nil
}

func (c *carrier) kind() Kind {
	if c.spec.AnyOrder {
		return Kind{Elem: 8, Fold: added}
	}
	return Kind{Elem: 8, Fold: mixed}
}

func (c *carrier) Init(s *carried, self Rank, _ uint64) {
	*s = carried{self: self}
	s.steps.Reset(c.programs[self].Steps)
	s.store.Reset(&c.programs[self], c.kind())
	if c.keeps {
		s.store.SetMemory(c)
	}
}

// Lasting is memory for what is sent.
func (c *carrier) Lasting(_ Rank, n int) []byte { return make([]byte, n) }

// keep keeps what is sent, if the store says that it stays as it is.
func (s *carried) keep(st *Step, v []byte) {
	if len(v) > 0 && s.store.Bundle(st) == 0 && (s.store.Owns(st, v) || s.store.Loan(st) < 0 || s.store.Final(st)) {
		s.kept = append(s.kept, letter{StepMessage{Lane: st.Lane}, v, sum(v)})
	}
}

// stays checks that it did.
func (s *carried) stays() {
	for _, k := range s.kept {
		if sum(k.value) != k.sum {
			s.fail(fmt.Errorf("p%d: what it sent on lane %d changed where it was kept", s.self, k.Lane))
		}
	}
}

// mustBegin reports whether a task does nothing before its user has come.
func (c *carrier) mustBegin(r Rank) bool {
	return !c.mistake.uninvited && (!c.Unasked || c.spec.Root == r)
}

func (c *carrier) Receive(s *carried, _ Time, from Rank, m letter) {
	if sum(m.value) != m.sum {
		s.fail(fmt.Errorf("p%d: lane %d of p%d changed on its way", s.self, m.Lane, from))
	}
	if !s.begun && c.mustBegin(s.self) {
		s.early = append(s.early, posted{m, from})
		return
	}
	c.accept(s, from, m)
}

func (s *carried) fail(err error) {
	if s.err == nil {
		s.err = err
	}
}

func (s *carried) failed() error { return s.err }

// accept puts what came into the store.
func (c *carrier) accept(s *carried, from Rank, m letter) {
	i := s.steps.Match(from, m.Lane)
	if c.mistake.mislays {
		i = slices.IndexFunc(s.steps.steps, func(st Step) bool { return st.Kind == RecvStep && st.Peer == from })
	}
	switch {
	case i < 0 && corrects(c.spec.Algorithm): // it came earlier from another task
		return
	case i < 0:
		s.fail(fmt.Errorf("p%d does not wait for lane %d of p%d", s.self, m.Lane, from))
		return
	case c.mistake.forgets && i > int(s.steps.at):
		return
	}
	st := &s.steps.steps[i]
	if s.store.Size() < 0 && c.spec.Op == Broadcast {
		s.store.SetSize(c.bytes)
	}
	v, lent, loan := m.value, c.byRef && (i+int(s.self))%3 == 0, 0 // some stay where they are
	if room := s.store.Room(st, len(v)); room != nil && !lent && len(v) > 0 {
		copy(room, v)
		v = room
	} else if !lent {
		v = bytes.Clone(v)
		s.loans = append(s.loans, v)
		loan = len(s.loans)
	}
	if err := s.store.Put(st, v, lent && !c.mistake.owns); err != nil {
		s.fail(fmt.Errorf("p%d, lane %d of p%d: %w", s.self, m.Lane, from, err))
	}
	if loan > 0 {
		s.store.Lend(st, int32(loan))
	}
	c.Schedule.Receive(&s.steps, 0, from, m.StepMessage)
}

func (c *carrier) Notify(s *carried, _ Time, n protocol.Notice) {
	switch n.Kind {
	case protocol.Begin:
		s.begun = true
		c.supply(s)
		c.Schedule.Notify(&s.steps, 0, n)
		came := s.early
		s.early = nil
		for _, m := range came {
			c.accept(s, m.from, m.letter)
		}
	case protocol.WorkDone:
		if c.late {
			c.fold(s)
		}
		if !c.mistake.hasty {
			c.Schedule.Notify(&s.steps, 0, n)
		}
	}
}

// supply puts into the store what the user comes with.
func (c *carrier) supply(s *carried) {
	g := &c.programs[s.self]
	if c.rooms && s.store.Size() < 0 {
		s.store.SetRoom(make([]byte, 0, c.bytes))
	}
	if c.rooms && g.Segments == 0 {
		var rooms [][]byte
		for range g.Out {
			rooms = append(rooms, make([]byte, c.bytes))
		}
		s.store.SetRooms(rooms)
	}
	switch {
	case len(g.In) == 0:
	case g.Segments > 0:
		s.lent = append(s.lent, input(s.self, 0, c.bytes))
		s.store.SetVector(s.lent[0])
	default:
		for d := range g.In {
			s.lent = append(s.lent, c.given(s.self, d))
		}
		if err := s.store.SetBlocks(s.lent...); err != nil {
			s.fail(err)
		}
	}
}

// given is the i-th value of a user.
func (c *carrier) given(r Rank, i int) []byte {
	switch {
	case c.programs[r].Segments > 0 || corrects(c.spec.Algorithm):
		return input(r, 0, c.bytes)
	case c.spec.Op == ReduceScatter:
		return input(r, Rank(i), c.bytes)
	}
	return block(r, Rank(i), c.bytes)
}

func (c *carrier) fold(s *carried) {
	if err := s.store.Fold(&s.steps.steps[s.work]); err != nil {
		s.fail(fmt.Errorf("p%d: %w", s.self, err))
	}
}

func (c *carrier) Next(s *carried, _ Time) protocol.Action[letter] {
	if c.mistake.uninvited {
		s.steps.begun = true
	}
	a := c.Schedule.Next(&s.steps, 0)
	to := protocol.Action[letter]{At: a.At, To: a.To, Kind: a.Kind, Msg: letter{StepMessage: a.Msg}}
	switch a.Kind {
	case protocol.Send, protocol.Correct:
		c.send(s, &to)
	case protocol.Work:
		s.work = a.Msg.Step
		if !c.late {
			c.fold(s)
		}
		if c.mistake.hasty {
			c.Schedule.Notify(&s.steps, 0, protocol.Notice{Kind: protocol.WorkDone})
		}
	case protocol.Deliver:
		s.done = true
		if err := c.deliver(s); err != nil {
			to.Msg.value = []byte(err.Error())
		}
	case protocol.Done:
		if c.mistake.reuses {
			s.store.sent = nil
		}
		s.stays()
		s.giveBack()
	}
	return to
}

// giveBack ends all loans: memory without references is used again, by others.
func (s *carried) giveBack() {
	for i, b := range s.loans {
		if sent, result := s.store.Refers(int32(i + 1)); !sent && !result {
			for j := range b {
				b[j] = 0xDD
			}
		}
	}
}

func (c *carrier) send(s *carried, a *protocol.Action[letter]) {
	st := &s.steps.steps[a.Msg.Step]
	lent := slices.Clone(s.store.lent)
	v, _ := s.store.Take(st, nil)
	if c.mistake.unlends {
		s.store.lent = lent
	}
	if c.keeps {
		s.keep(st, v)
	}
	if !c.byRef {
		v = bytes.Clone(v)
	}
	a.Msg.value, a.Msg.sum = v, sum(v)
	if c.mistake.quits && !slices.ContainsFunc(s.steps.steps[s.steps.at:], func(st Step) bool { return st.Kind == RecvStep }) {
		s.steps.at = int32(len(s.steps.steps) - 1)
		a.Kind = protocol.Idle
	}
}

// deliver checks the result. It overwrites at once what is the user's alone, which no other task may notice.
func (c *carrier) deliver(s *carried) error {
	var got [][]byte
	var lent []bool
	if g := &c.programs[s.self]; g.Segments == 0 {
		got, lent = s.store.Blocks(nil, nil)
	} else if g.Out != nil {
		v, shared := s.store.Vector()
		got, lent = [][]byte{v}, []bool{shared}
	}
	want := c.want[s.self]
	if len(got) != len(want) {
		return fmt.Errorf("p%d: %d values, want %d", s.self, len(got), len(want))
	}
	for i := range want {
		if !bytes.Equal(got[i], want[i]) || c.spec.Op < Reduce && c.programs[s.self].Segments == 0 && (got[i] == nil) != (want[i] == nil) {
			return fmt.Errorf("p%d: value %d is %x (absent: %t), want %x (%t)", s.self, i, got[i], got[i] == nil, want[i], want[i] == nil)
		}
		if lent[i] {
			s.result, s.was = append(s.result, got[i]), append(s.was, bytes.Clone(got[i]))
			continue
		}
		for j := range got[i] {
			got[i][j] = 0xEE
		}
	}
	return nil
}

func (c *carrier) awaits(s *carried) []Rank {
	if c.mistake.misleads {
		return []Rank{s.self}
	}
	return c.Awaits(&s.steps)
}

// Clone copies the state with all memory that may be written. Slices that share
// memory do so in the copy.
func (s *carried) Clone() carried {
	c := *s
	c.steps = s.steps.Clone()
	c.early, c.lent = slices.Clone(s.early), slices.Clone(s.lent)
	c.store.lent, c.store.loans, c.store.sent = slices.Clone(s.store.lent), slices.Clone(s.store.loans), slices.Clone(s.store.sent)
	copies := map[*byte][]byte{}
	value := bytes.Clone(s.store.value[:cap(s.store.value)])
	again := func(b []byte) []byte {
		if len(b) == 0 {
			return b
		}
		if at := offset(s.store.value, b); at >= 0 {
			return value[at : at+len(b) : at+len(b)]
		}
		if copies[&b[0]] == nil {
			copies[&b[0]] = bytes.Clone(b)
		}
		return copies[&b[0]][:len(b)]
	}
	if s.store.value != nil {
		c.store.value = value[:len(s.store.value)]
	}
	c.store.slots, c.store.rooms, c.loans, c.result = nil, nil, nil, nil
	for _, b := range s.store.rooms { // first: what is in them may be shorter
		c.store.rooms = append(c.store.rooms, again(b))
	}
	for _, b := range s.store.slots {
		c.store.slots = append(c.store.slots, again(b))
	}
	for _, b := range s.loans {
		c.loans = append(c.loans, again(b))
	}
	for _, b := range s.result {
		c.result = append(c.result, again(b))
	}
	return c
}

// offset is where b begins in the memory of a; −1: elsewhere.
func offset(a, b []byte) int {
	a = a[:cap(a)]
	for i := range a {
		if &a[i] == &b[0] {
			return i
		}
	}
	return -1
}

// Fingerprint tells states of one task apart.
func (s *carried) Fingerprint() [2]uint64 {
	f := s.steps.Fingerprint()
	with := func(x uint64) { f = [2]uint64{protocol.Mix(f[0], x), protocol.Mix(f[1], ^x)} }
	flag := func(b bool) {
		if b {
			with(1)
		} else {
			with(2)
		}
	}
	for i, b := range s.store.slots {
		with(sum(b))
		flag(b == nil)
		flag(s.store.lent[i])
		with(uint64(s.store.loans[i]))
	}
	for _, l := range s.store.sent {
		with(uint64(l))
	}
	with(uint64(s.store.size))
	with(uint64(s.work))
	flag(s.store.written)
	flag(s.begun)
	flag(s.done)
	flag(s.err != nil)
	for i := range s.early {
		with(uint64(s.early[i].from))
		with(s.early[i].Fingerprint()[0])
	}
	return f
}

// Fingerprint tells messages apart.
func (m *letter) Fingerprint() [2]uint64 {
	return [2]uint64{protocol.Mix(m.sum, uint64(m.Lane)<<32|uint64(m.Step)), sum(m.value)}
}
