package agreement

import (
	"encoding/binary"

	"github.com/coppice-go/coppice/protocol"
)

// Tape is a Series that notes its calls. Instances are named by their numbers; in one that is over nothing happens.
type Tape[T any] struct {
	Series[T]
	Note protocol.Note
}

func (t *Tape[T]) NewView(number uint64, members []Rank) {
	protocol.Do2(t.Note, "NewView", t.Series.NewView, number, members)
}

func (t *Tape[T]) Call() (i *Instance[T]) {
	protocol.Do0(t.Note, "Call", func() { i = t.Series.Call() })
	return i
}

func (t *Tape[T]) Hear(number uint64) (i *Instance[T]) {
	protocol.Do1(t.Note, "Hear", func(number uint64) { i = t.Series.Hear(number) }, number)
	return i
}

// Begin is State.Begin of an instance, and so on for the others.
func (t *Tape[T]) Begin(number uint64, value []byte) {
	if t.instance(number).Begin(value); t.Note != nil {
		t.Note("Begin", number, brief(value))
	}
}

func (t *Tape[T]) Cancel(number uint64) {
	if t.instance(number).Cancel(); t.Note != nil {
		t.Note("Cancel", number)
	}
}

func (t *Tape[T]) Receive(number uint64, from Rank, m Message) {
	if t.instance(number).Receive(from, m); t.Note != nil {
		m.Value = brief(m.Value)
		t.Note("Receive", number, from, m)
	}
}

func (t *Tape[T]) Folded(number uint64, value []byte) {
	if t.instance(number).Folded(value); t.Note != nil {
		t.Note("Folded", number, brief(value))
	}
}

func (t *Tape[T]) Next(number uint64) Action {
	a := t.Series.Next(t.instance(number))
	if t.Note != nil {
		noted := a
		noted.Msg.Value = brief(a.Msg.Value)
		t.Note("Next", number, noted)
	}
	return a
}

func (t *Tape[T]) instance(number uint64) *Instance[T] {
	if i := t.Find(number); i != nil {
		return i
	}
	return &Instance[T]{State: State{at: -1}}
}

// brief returns what stands for a value that is long: the machine does not look into values.
func brief(value []byte) []byte {
	if len(value) <= briefMax {
		return value
	}
	f := fingerprint{}.bytes(value)
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, f[0]), f[1])
}

const briefMax = 32
