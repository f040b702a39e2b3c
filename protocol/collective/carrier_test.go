package collective

import (
	"bytes"
	"errors"
	"fmt"
	"hash/maphash"
	"slices"

	"github.com/coppice-go/coppice/chaos"
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

	byRef   bool   // messages carry the sender's memory, not a copy
	late    bool   // folds happen when their Work ends, not when it begins
	rooms   bool   // the users give memory for results
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
	result [][]byte // that others may not write any more, and what it was
	was    [][]byte
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
}

// mustBegin tells whether a task does nothing before its user has come.
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

// accept puts what came into the store.
func (c *carrier) accept(s *carried, from Rank, m letter) {
	i := s.steps.Match(from, m.Lane)
	if c.mistake.mislays {
		i = slices.IndexFunc(s.steps.steps, func(st Step) bool { return st.Kind == RecvStep && st.Peer == from })
	}
	switch {
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
	v, lent := m.value, c.byRef
	if room := s.store.Room(st, len(v)); room != nil && !(c.byRef && (i+int(s.self))%2 == 0) {
		copy(room, v)
		v, lent = room, false
	} else if !c.byRef {
		v = bytes.Clone(v)
	}
	if err := s.store.Put(st, v, lent && !c.mistake.owns); err != nil {
		s.fail(fmt.Errorf("p%d, lane %d of p%d: %w", s.self, m.Lane, from, err))
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

// supply gives the store what the user comes with.
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
			s.lent = append(s.lent, block(s.self, Rank(d), c.bytes))
		}
		if err := s.store.SetBlocks(s.lent...); err != nil {
			s.fail(err)
		}
	}
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
	case protocol.Send:
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
	}
	return to
}

func (c *carrier) send(s *carried, a *protocol.Action[letter]) {
	st := &s.steps.steps[a.Msg.Step]
	lent := slices.Clone(s.store.lent)
	v, _ := s.store.Take(st, nil)
	if c.mistake.unlends {
		s.store.lent = lent
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

// deliver checks the result. What is the user's alone is written at once, which
// nobody may notice.
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
		if !bytes.Equal(got[i], want[i]) {
			return fmt.Errorf("p%d: value %d is %x, want %x", s.self, i, got[i], want[i])
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
	c.store.lent = slices.Clone(s.store.lent)
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
		return copies[&b[0]]
	}
	if s.store.value != nil {
		c.store.value = value[:len(s.store.value)]
	}
	c.store.slots = nil
	for _, b := range s.store.slots {
		c.store.slots = append(c.store.slots, again(b))
	}
	c.result = nil
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

type (
	carriedSetup  = chaos.Setup[carried, letter]
	carriedConfig = chaos.Config[carried, letter]
	carriedWorld  = chaos.World[carried, letter]
)

// carriedBy is a world with one of the carriers in each run, up to so many
// truants among its tasks; the others begin at any moment.
func carriedBy(carriers []*carrier, truants int) carriedConfig {
	p := carriers[0].P
	return carriedConfig{
		P: p, Protocol: carriers[0],
		Vary: func(s *carriedSetup) {
			run := *carriers[s.Choose(len(carriers))]
			var inputs []chaos.Input
			want := s.Choose(min(truants, p) + 1)
			for r := range p {
				if s.Chance(want, p-r) {
					want--
					run.truants |= 1 << r
					continue
				}
				inputs = append(inputs, chaos.Input{Rank: Rank(r), Notice: protocol.Notice{Kind: protocol.Begin}})
			}
			s.Protocol, s.Inputs = &run, inputs
		},
		Check: checkCarried,
	}
}

// checkCarried says what a finished run got wrong.
func checkCarried(w *carriedWorld) error {
	c := w.Protocol().(*carrier)
	full := c.truants == 0
	for r := range Rank(c.P) {
		full = full && w.Alive(r)
	}
	for r := range Rank(c.P) {
		if s := w.State(r); s == nil {
			continue
		} else if err := c.checkState(s); err != nil {
			return err
		}
	}
	for r := range Rank(c.P) {
		if err := checkDelivered(w, r); err != nil {
			return err
		}
	}
	for r := range Rank(c.P) {
		n := len(w.Delivered(r))
		switch {
		case full && n == 0:
			return fmt.Errorf("p%d delivered 0 times", r)
		case !w.Alive(r):
		case (n == 1) != (w.Rest(r) == chaos.Done):
			return fmt.Errorf("p%d delivered %d times and its rest is %d", r, n, w.Rest(r))
		case n == 0 && w.State(r).begun:
			if err := c.checkAwaits(w, r); err != nil {
				return err
			}
		}
	}
	return nil
}

// checkDelivered says what is wrong with what a task's user got, dead or alive.
func checkDelivered(w *carriedWorld, r Rank) error {
	for i, d := range w.Delivered(r) {
		if d.Msg.value != nil {
			return errors.New(string(d.Msg.value))
		}
		if i > 0 {
			return fmt.Errorf("p%d delivered again", r)
		}
	}
	return nil
}

// checkState demands that nobody wrote what was not his.
func (c *carrier) checkState(s *carried) error {
	if s.err != nil {
		return s.err
	}
	for i, b := range s.lent {
		want := input(s.self, 0, c.bytes)
		if c.programs[s.self].Segments == 0 {
			want = block(s.self, Rank(i), c.bytes)
		}
		if !bytes.Equal(b, want) {
			return fmt.Errorf("p%d: value %d of the user was written", s.self, i)
		}
	}
	for i, b := range s.result {
		if !bytes.Equal(b, s.was[i]) {
			return fmt.Errorf("p%d: result %d was written", s.self, i)
		}
	}
	return nil
}

// checkAwaits follows Awaits from who is stuck to somebody who is the reason:
// dead, or expected and absent.
func (c *carrier) checkAwaits(w *carriedWorld, start Rank) error {
	r := start
	for range c.P + 1 {
		if !w.Alive(r) || c.truants>>r&1 == 1 && c.mustBegin(r) {
			return nil
		}
		waits := c.awaits(w.State(r))
		if len(waits) == 0 {
			break
		}
		r = waits[0]
	}
	return fmt.Errorf("p%d is stuck, and its Awaits lead to p%d, who is not the reason", start, r)
}
