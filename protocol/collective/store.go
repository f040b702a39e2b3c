package collective

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
)

// Store is what a task holds in an operation: the data in its program's slots. It
// moves bytes and knows no network. What is put in is kept, not copied.
//
// Memory that was lent, by the user or to a send that may not have left, is never
// written, with one exception: what the program receives in place of what it
// sent. Such a message exists only because what was sent had arrived. Where tasks are
// run again it may exist because another attempt has sent the same: there the driver
// sends a copy of what may be replaced (Final).
type Store struct {
	program *Program
	kind    Kind
	slots   [][]byte
	lent    []bool   // the slot's memory must not be written
	loans   []int32  // the slot's memory is on loan; 0: it is not
	sent    []int32  // loans that were sent and are no slot's any more
	rooms   [][]byte // blocks: where to receive them, in the order of Out
	own     []byte   // vector: the task's value
	value   []byte   // vector: memory for the result
	given   bool     // value was given by the task
	written bool     // value holds something
	size    int      // of the vector; −1: not known yet
	memory  Memory
}

// Memory is where combined values that are to be sent may go, so that they stay as they are: it is written once.
type Memory interface {
	// Lasting returns memory for n bytes that are sent to a rank; nil: any will do.
	Lasting(to Rank, n int) []byte
}

// outlives is the loan of what is in memory that stays as it is.
const outlives = -1

// Kind says what the data of an operation is.
type Kind struct {
	// Elem is the size of an element: segments of vectors begin at multiples of it.
	Elem int
	// Loose: values that are combined may differ in length.
	Loose bool
	// Fold combines two values. It returns the result, in dst if that has the
	// length, which may be one of the two.
	Fold func(dst, left, right []byte) ([]byte, error)
	// New returns memory for n bytes of a result, which need not be zero; nil: make does.
	New func(n int) []byte
}

// ErrSize is returned when what came does not have the size that it must have.
var ErrSize = errors.New("values differ in size")

// absent is the length that stands for a block that there is not.
const absent = ^uint64(0)

// Reset makes s the store of a program, without data.
func (s *Store) Reset(g *Program, kind Kind) {
	slots, lent, loans := zeros(s.slots, g.Slots), zeros(s.lent, g.Slots), zeros(s.loans, g.Slots)
	kind.Elem = max(kind.Elem, 1)
	*s = Store{program: g, kind: kind, slots: slots, lent: lent, loans: loans, sent: s.sent[:0], size: -1}
}

// zeros is a list of n zeros, in the memory of another if that is enough.
func zeros[T any](list []T, n int) []T {
	list = slices.Grow(list[:0], n)[:n]
	clear(list)
	return list
}

// Forget drops all data, and keeps the memory of the slots.
func (s *Store) Forget() {
	clear(s.slots)
	*s = Store{slots: s.slots, lent: s.lent, loans: s.loans, sent: s.sent[:0]}
}

// Lend says that what a Recv brought is in memory on loan, which has a number
// above 0.
func (s *Store) Lend(st *Step, loan int32) {
	if s.program.Segments > 1 && s.result(st.Slots[0]) {
		return // it was copied
	}
	for _, at := range st.Slots {
		s.loans[at] = loan
	}
}

// Refers reports whether others may still read memory on loan, because it was sent on, and whether the result is in it.
func (s *Store) Refers(loan int32) (sent, result bool) {
	sent = slices.Contains(s.sent, loan)
	for at, l := range s.loans {
		if l == loan {
			sent = sent || s.lent[at]
			result = result || s.out(int32(at))
		}
	}
	return sent, result
}

// Passing reports whether nothing that a Recv brings stays in the result as it is.
func (s *Store) Passing(st *Step) bool { return !slices.ContainsFunc(st.Slots, s.out) }

// out reports whether a slot is one of the result.
func (s *Store) out(slot int32) bool {
	if s.program.Segments > 0 {
		return s.program.Out != nil && s.result(slot)
	}
	return slices.Contains(s.program.Out, slot)
}

// SetVector sets the task's own value of a vector, which is not written.
func (s *Store) SetVector(v []byte) {
	s.own, s.size = v, len(v)
	for _, version := range s.program.In {
		for i := range s.program.Segments {
			lo, hi := s.segment(i)
			at := int(version)*s.program.Segments + i
			s.slots[at], s.lent[at] = v[lo:hi:hi], true
		}
	}
}

// SetSize sets the length of the vector, for a task that has no value.
func (s *Store) SetSize(n int) { s.size = n }

// Size is the length of the vector; −1: not known yet.
func (s *Store) Size() int { return s.size }

// SetRoom gives memory for the result of a vector, used if it is enough and there
// is none yet.
func (s *Store) SetRoom(b []byte) {
	if !s.written && b != nil {
		s.value, s.given = b[:0], true
	}
}

// SetMemory gives memory for what is sent.
func (s *Store) SetMemory(m Memory) { s.memory = m }

// SetBlocks gives the task's own blocks, which are not written. A nil block is
// absent.
func (s *Store) SetBlocks(blocks ...[]byte) error {
	if len(blocks) != len(s.program.In) {
		return fmt.Errorf("%d values; allowed: %d", len(blocks), len(s.program.In))
	}
	for i, at := range s.program.In {
		s.slots[at], s.lent[at] = blocks[i], true
	}
	return nil
}

// SetRooms gives memory for resulting blocks, in their order, used where it is
// enough.
func (s *Store) SetRooms(rooms [][]byte) { s.rooms = rooms }

// Vector returns the result of an operation on vectors; lent reports whether its memory must not be written: it is the
// input's, or may still be on its way to others.
func (s *Store) Vector() (v []byte, lent bool) {
	switch {
	case s.program.Segments == 1:
		return s.slots[0], s.lent[0]
	case s.written:
		return s.value, slices.Contains(s.lent[:s.program.Segments], true)
	}
	return s.own, true
}

// Blocks adds the result of an operation on blocks; lent as with Vector.
func (s *Store) Blocks(to [][]byte, lent []bool) ([][]byte, []bool) {
	for _, at := range s.program.Out {
		to, lent = append(to, s.slots[at]), append(lent, s.lent[at])
	}
	return to, lent
}

// segment is where segment i of the vector is.
func (s *Store) segment(i int) (lo, hi int) {
	n, k := s.size/s.kind.Elem, s.program.Segments
	if hi = n * (i + 1) / k * s.kind.Elem; i+1 == k {
		hi = s.size
	}
	return n * i / k * s.kind.Elem, hi
}

// bounds is where the segments of slots that follow each other are.
func (s *Store) bounds(slots []int32) (lo, hi int) {
	k := s.program.Segments
	lo, _ = s.segment(int(slots[0]) % k)
	_, hi = s.segment(int(slots[len(slots)-1]) % k)
	return lo, hi
}

// result reports whether a slot is one of the result, version 0.
func (s *Store) result(slot int32) bool { return int(slot) < s.program.Segments }

// Bundle is how many bytes a Send copies together; 0: none.
func (s *Store) Bundle(st *Step) (n int) {
	if s.program.Segments > 0 || len(st.Slots) == 1 {
		return 0
	}
	for _, at := range st.Slots {
		n += 8 + len(s.slots[at])
	}
	return n
}

// Take returns what a Send carries: the slots' own memory where it can be, else
// it is copied, to scratch, which grows as needed.
func (s *Store) Take(st *Step, scratch []byte) (value []byte, copied bool) {
	if s.program.Segments > 0 || len(st.Slots) == 1 {
		for _, at := range st.Slots {
			s.lent[at] = true
		}
		return s.run(st.Slots), false
	}
	b := scratch[:0]
	for _, at := range st.Slots {
		n := uint64(len(s.slots[at]))
		if s.slots[at] == nil {
			n = absent
		}
		b = binary.LittleEndian.AppendUint64(b, n)
	}
	for _, at := range st.Slots {
		b = append(b, s.slots[at]...)
	}
	return b, true
}

// run is the memory of slots that follow each other in one version: they are cut
// from one piece, the input or the result.
func (s *Store) run(slots []int32) []byte {
	if len(slots) == 1 {
		return s.slots[slots[0]]
	}
	lo, hi := s.bounds(slots)
	if s.written {
		return s.value[lo:hi:hi]
	}
	return s.own[lo:hi:hi]
}

// Final reports whether what a Send carries will never be overwritten, as long as no caller reuses the memory of received
// values. It is overwritten if what comes in its place replaces it, in memory for the result; and a task without a result
// may use the memory that it gave for something else.
func (s *Store) Final(st *Step) bool {
	g := s.program
	return g.Segments == 0 || g.lastFold == 0 || !s.written && s.value == nil || st.lasts && (g.Out != nil || !s.given)
}

// Loan is the number of the loan that what a Send carries is in, if it is not copied;
// 0: in none. What is in one of −1 was not received, and will never be overwritten.
func (s *Store) Loan(st *Step) int32 { return s.loans[st.Slots[0]] }

// Owns reports whether what a Send carries is the task's own input, where it gave it: that is never written.
func (s *Store) Owns(st *Step, value []byte) bool {
	switch {
	case len(value) == 0:
		return false
	case s.program.Segments == 0:
		// What came in its place is no input.
		return len(st.Slots) == 1 && s.loans[st.Slots[0]] == 0 && slices.Contains(s.program.In, st.Slots[0])
	case s.size < 0 || s.kind.Loose || len(s.own) == 0:
		return false
	}
	lo, _ := s.bounds(st.Slots)
	return lo < len(s.own) && &value[0] == &s.own[lo]
}

// Consumes reports whether a task that receives step i now combines what it brings at once, and has other memory for the
// result: then it need not be kept.
func (s *Store) Consumes(i int) bool {
	g := s.program
	if g.Segments == 0 || s.kind.Loose || i+1 >= len(g.Steps) {
		return false
	}
	st, next := &g.Steps[i], &g.Steps[i+1]
	if next.Kind != FoldStep || next.Keep || !slices.Equal(next.With, st.Slots) {
		return false
	}
	for _, at := range next.Slots {
		if s.lent[at] && !(s.result(at) && (g.Segments > 1 || s.roomFor(next))) && (s.memory == nil || !next.goes) {
			return false
		}
	}
	return true
}

// Room returns memory for the n bytes that a Recv brings; nil: any will do.
func (s *Store) Room(st *Step, n int) []byte {
	if s.program.Segments == 0 {
		if len(st.Slots) == 1 && s.rooms != nil {
			for i, at := range s.program.Out {
				if at == st.Slots[0] && i < len(s.rooms) && cap(s.rooms[i]) >= n {
					return s.rooms[i][:n]
				}
			}
		}
		return nil
	}
	if s.kind.Loose || s.size < 0 || !s.result(st.Slots[0]) || s.program.Segments == 1 && cap(s.value) < s.size {
		return nil
	}
	lo, hi := s.bounds(st.Slots)
	if n != hi-lo {
		return nil
	}
	s.ours()
	return s.value[lo:hi:hi]
}

// ours makes memory for version 0.
func (s *Store) ours() {
	switch {
	case cap(s.value) >= s.size:
	case s.kind.New != nil:
		s.value = s.kind.New(s.size)
	default:
		s.value = make([]byte, s.size)
	}
	s.value, s.written = s.value[:s.size], true
}

// Put takes what a Recv brought: in the memory that Room gave or in any other,
// which is kept; lent: it must not be written. Where it brings one block, nil is
// one that is absent, as Take returned it.
func (s *Store) Put(st *Step, b []byte, lent bool) error {
	switch {
	case s.program.Segments == 0:
		return s.putBlocks(st, b, lent)
	case s.kind.Loose:
		s.slots[st.Slots[0]], s.lent[st.Slots[0]] = b, lent
		return nil
	case s.size < 0:
		return fmt.Errorf("%w: it is not known yet", ErrSize)
	}
	lo, hi := s.bounds(st.Slots)
	if len(b) != hi-lo {
		return fmt.Errorf("%w: %d bytes came where %d were expected", ErrSize, len(b), hi-lo)
	}
	if s.result(st.Slots[0]) && s.program.Segments > 1 { // to one piece with the others
		s.ours()
		if len(b) > 0 && &b[0] != &s.value[lo] {
			copy(s.value[lo:], b)
		}
		b, lent = s.value[lo:hi:hi], false
	}
	for _, at := range st.Slots {
		from, to := s.segment(int(at) % s.program.Segments)
		s.slots[at], s.lent[at] = b[from-lo:to-lo:to-lo], lent
		s.loans[at] = max(s.loans[at], 0)
	}
	return nil
}

func (s *Store) putBlocks(st *Step, b []byte, lent bool) error {
	if len(st.Slots) == 1 {
		s.slots[st.Slots[0]], s.lent[st.Slots[0]] = b, lent
		return nil
	}
	n := 8 * len(st.Slots)
	if len(b) < n {
		return fmt.Errorf("%w: a table of %d bytes came where %d were expected", ErrSize, len(b), n)
	}
	rest := b[n:]
	for i, at := range st.Slots {
		size := binary.LittleEndian.Uint64(b[8*i:])
		switch {
		case size == absent:
			s.slots[at] = nil
			continue
		case size > uint64(len(rest)):
			return fmt.Errorf("%w: a block of %d bytes of which %d came", ErrSize, size, len(rest))
		}
		s.slots[at], s.lent[at] = rest[:size:size], lent
		rest = rest[size:]
	}
	if len(rest) > 0 {
		return fmt.Errorf("%w: %d bytes too many came", ErrSize, len(rest))
	}
	return nil
}

// Fold carries out a Fold step.
func (s *Store) Fold(st *Step) error {
	for i := range st.Slots {
		f, err := s.Operands(st, i)
		if err == nil {
			err = f.Combine()
		}
		if err != nil {
			return err
		}
		s.Combined(st, i, f)
	}
	return nil
}

// Operands are what a Fold step combines in one of its slots, and the result.
type Operands struct {
	Left, Right []byte
	Result      []byte // before: memory for it
	loan        int32
	fold        func(dst, left, right []byte) ([]byte, error) // nil: there is nothing to combine
}

// Operands returns those in slot i of a step. The store may be used for other steps while they are
// combined.
func (s *Store) Operands(st *Step, i int) (f Operands, err error) {
	at, with := st.Slots[i], st.With[i]
	left, right := s.slots[at], s.slots[with]
	if s.program.Segments == 0 && (left == nil || right == nil) { // a dead task may have left nothing
		if left == nil {
			s.slots[at], s.lent[at], s.loans[at] = right, s.lent[with], s.loans[with]
		}
		return f, nil
	}
	if !s.kind.Loose && len(left) != len(right) {
		return f, fmt.Errorf("%w: %d and %d bytes are to be combined", ErrSize, len(left), len(right))
	}
	if st.Before {
		left, right = right, left
	}
	f = Operands{Left: left, Right: right, fold: s.kind.Fold}
	f.Result, f.loan = s.target(st, at, with)
	return f, nil
}

// Combine combines them.
func (f *Operands) Combine() error {
	if f.fold == nil {
		return nil
	}
	dst, err := f.fold(f.Result, f.Left, f.Right)
	if len(dst) == 0 || len(f.Result) == 0 || &dst[0] != &f.Result[0] {
		f.loan = 0
	}
	f.Result = dst
	return err
}

// Combined makes the result that of slot i of the step.
func (s *Store) Combined(st *Step, i int, f Operands) {
	if f.fold == nil {
		return
	}
	s.replace(st.Slots[i], f.Result, false, f.loan)
}

// replace puts the result of a Fold in the place of an operand.
func (s *Store) replace(at int32, value []byte, lent bool, loan int32) {
	if s.lent[at] && s.loans[at] > 0 {
		s.sent = append(s.sent, s.loans[at])
	}
	s.slots[at], s.lent[at], s.loans[at] = value, lent, loan
}

// Bytes is how many bytes a Fold step combines with as many others.
func (s *Store) Bytes(st *Step) (n int) {
	for _, at := range st.Slots {
		n += len(s.slots[at])
	}
	return n
}

// Length is how many bytes the one slot of a step has.
func (s *Store) Length(st *Step) int { return len(s.slots[st.Slots[0]]) }

// Restore carries out a Fold step on one slot whose result is known: it is in memory that must not
// be written.
func (s *Store) Restore(st *Step, value []byte) { s.replace(st.Slots[0], value, true, 0) }

// target is memory for the result of a fold; nil: there is none.
func (s *Store) target(st *Step, at, with int32) (b []byte, loan int32) {
	if s.memory != nil && st.goes && !s.kind.Loose {
		if b = s.memory.Lasting(st.to, len(s.slots[at])); b != nil {
			return b, outlives
		}
	}
	switch {
	case !s.lent[at]:
		return s.slots[at], s.loans[at]
	case s.result(at) && (s.program.Segments > 1 || s.roomFor(st)):
		s.ours()
		lo, hi := s.segment(int(at))
		return s.value[lo:hi:hi], 0
	case !s.lent[with] && !st.Keep:
		return s.slots[with], s.loans[with]
	}
	return nil, 0
}

// roomFor reports whether the memory for the result, which is in one segment, can take that of a fold. What is in it must
// not be sent and then replaced: it may not have left.
func (s *Store) roomFor(st *Step) bool {
	return !s.kind.Loose && !s.written && s.value != nil && cap(s.value) >= s.size &&
		(!s.program.exposed || st == &s.program.Steps[s.program.lastFold])
}
