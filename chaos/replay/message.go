package replay

import (
	"encoding/binary"
	"fmt"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
	"github.com/coppice-go/coppice/protocol/recovery"
)

// Name names a message between two tasks. The message's bits are a function of its name: it does not matter
// which attempt of a task sends it, when, or how often.
type Name struct {
	Op       int32 // the number of the operation in its epoch, or streamed, begun, or credited
	From, To protocol.Rank
	Lane     uint16
	Epoch    uint16
}

func (n Name) String() string {
	if n.Epoch > 0 {
		return fmt.Sprintf("%d.%d:%d→%d/%d", n.Epoch, n.Op, n.From, n.To, n.Lane)
	}
	return fmt.Sprintf("%d:%d→%d/%d", n.Op, n.From, n.To, n.Lane)
}

// Key returns a hash of the name.
func (n Name) Key() uint64 {
	return protocol.Mix(uint64(n.Epoch)<<48|uint64(uint32(n.Op))<<16|uint64(n.Lane), uint64(n.From)<<32|uint64(uint32(n.To)))
}

// headLen is the length in the log of a name, a flag for the value, and a past.
const headLen = 25

func (f *Frame) head() (b [headLen]byte) {
	binary.LittleEndian.PutUint32(b[:], uint32(f.Op))
	binary.LittleEndian.PutUint32(b[4:], uint32(f.From))
	binary.LittleEndian.PutUint32(b[8:], uint32(f.To))
	binary.LittleEndian.PutUint16(b[12:], f.Lane)
	if f.Value == nil {
		b[14] = 1
	}
	binary.LittleEndian.PutUint64(b[15:], f.Past)
	binary.LittleEndian.PutUint16(b[23:], f.Epoch)
	return b
}

// logged returns the message of an entry of a log.
func logged(head, value []byte) Frame {
	n := Name{
		Op: int32(binary.LittleEndian.Uint32(head)), Lane: binary.LittleEndian.Uint16(head[12:]), Epoch: binary.LittleEndian.Uint16(head[23:]),
		From: protocol.Rank(binary.LittleEndian.Uint32(head[4:])), To: protocol.Rank(binary.LittleEndian.Uint32(head[8:])),
	}
	if head[14] == 1 {
		value = nil
	} else if value == nil {
		value = []byte{}
	}
	return Frame{Name: n, Value: value, Past: binary.LittleEndian.Uint64(head[15:])}
}

// Frame is a message between two tasks. It is immutable and shared.
type Frame struct {
	Name
	Value []byte // nil: an absent block
	asks  bool   // it is sent in parts, of which the second has to be granted
	Past  uint64 // identifies what was aborted before, as its sender knows it; of credit: the view in which its attempt began
}

// Sum returns a hash of the frame's value.
func (f *Frame) Sum() uint64 { return hash(absentOr(f.Value), f.Value) }

// Kind is the kind of a Message.
type Kind uint8

// The kinds of messages.
const (
	View      Kind = iota // of the membership
	Data                  // between two tasks
	Credit                // between two tasks, of a stream: what its receiver has taken
	Returned              // to the coordinator: all tasks that this process owns in a view have returned
	Over                  // from the coordinator, if it is part of a process: the job is over; or: all processes know it
	Knows                 // to the coordinator: this process knows that the job is over; or: it knows that all do
	End                   // from the coordinator: the process may leave
	Ended                 // Deliver: the process leaves successfully
	Result                // Deliver: a task has returned
	Rule                  // of package recovery
	Begins                // of package recovery, with only the beginning of the copy
	Wants                 // the receiver asks for the rest of the copy
	Beginning             // of a message between two tasks
	Grant                 // the receiver wants the rest of it
	Refusal               // the receiver does not want the rest
	Rest                  // the rest of it
	Loss                  // Deliver: a task is lost, since no process has a copy of its state
	Complete              // Deliver: there are as many copies as required
	Resumed               // Deliver: a task that is run again goes on from a copy
)

// Message is what processes send each other, and what they deliver: one word, since every step of a run
// copies it several times.
type Message struct{ *Content }

// Content is the content of a message. It is immutable once the message is sent, and shared.
type Content struct {
	Letter  membership.Message  // View; Returned, Knows, Ended: the view is its Base; in all: the lives of sender and receiver
	Frame   *Frame              // Data, Credit, Beginning, Rest
	Result  *Attempt            // Result
	Rule    *recovery.Message   // Rule, Begins, Wants
	Drawn   []recovery.Key      // Data, Rule, Begins, Wants: values of Once on which it may depend and that the receiver does not know yet
	Copy    *Copy               // Rule, Begins, Wants: the copy to keep; Complete, Resumed, Loss: the copy concerned
	Holders []membership.Member // Complete: processes that have the copy; Wants: the process that has begun to send it
	View    uint64              // Complete, Resumed, Loss: the view; Over, Knows, End, Ended: the view in which the job was over
	Size    int64               // Beginning: of the whole value
	Number  uint32              // Beginning, Grant, Refusal, Rest: of the copy; Over, Knows: allKnow if all processes know it
	Kind    Kind
}

// Attempt is a task's run that came to its end. It is immutable.
type Attempt struct {
	Task    protocol.Rank
	View    uint64   // in which it began
	Digests []uint64 // after each operation
	Aborted []int    // operations that were aborted, in order
	Onces   []uint64 // values of Once, in order
}

// Fingerprint implements chaos.Fingerprinter.
func (m Message) Fingerprint() [2]uint64 {
	if m.Content == nil {
		return fingerprint{}
	}
	f := fingerprint{uint64(m.Kind), 0}
	switch {
	case m.Frame != nil:
		f = f.with(m.Frame.Key()).with(m.Frame.Sum()).with(m.Frame.Past).with(uint64(m.Letter.From)<<32 | uint64(m.Letter.To))
	case m.Result != nil:
		f = f.with(uint64(m.Result.Task)).with(m.Result.View)
		for _, d := range m.Result.Digests {
			f = f.with(d)
		}
		for _, op := range m.Result.Aborted {
			f = f.with(uint64(op))
		}
	case m.Kind == Rule || m.Copy != nil:
		var rule recovery.Message
		if m.Rule != nil {
			rule = *m.Rule
		}
		f = f.with(rule.Print()).with(m.View).with(uint64(m.Letter.From)<<32 | uint64(m.Letter.To))
		if m.Copy != nil {
			f = f.with(m.Copy.print())
		}
		for _, h := range m.Holders {
			f = f.with(uint64(h.ID)<<32 | uint64(h.Incarnation))
		}
	default:
		f = f.and(m.Letter.Fingerprint()).with(m.View)
	}
	f = f.with(uint64(m.Number))
	for _, k := range m.Drawn {
		f = f.with(uint64(k.Task)).with(k.Epoch).with(k.Name)
	}
	return f
}

func (m Message) String() string {
	switch m.Kind {
	case Data, Credit:
		return fmt.Sprintf("message %v", m.Frame.Name)
	case Beginning:
		return fmt.Sprintf("the beginning of message %v, copy %d", m.Frame.Name, m.Number)
	case Rest:
		return fmt.Sprintf("the rest of message %v, copy %d", m.Frame.Name, m.Number)
	case Grant:
		return fmt.Sprintf("go on with copy %d", m.Number)
	case Refusal:
		return fmt.Sprintf("do not go on with copy %d", m.Number)
	case Returned:
		return fmt.Sprintf("returned in %v", m.Letter.Base)
	case Over:
		if m.Number == allKnow {
			return fmt.Sprintf("all know that the job is over in view %d", m.View)
		}
		return fmt.Sprintf("the job is over in view %d", m.View)
	case Knows:
		if m.Number == allKnow {
			return fmt.Sprintf("knows that all know that the job is over in view %d", m.View)
		}
		return fmt.Sprintf("knows that the job is over in view %d", m.View)
	case End:
		return "the end"
	case Ended:
		return fmt.Sprintf("its end, the job being over in view %d", m.View)
	case Rule:
		return m.Rule.String()
	case Begins:
		return fmt.Sprintf("the beginning of: %v", m.Rule)
	case Wants:
		return fmt.Sprintf("go on with: %v", m.Rule)
	case Complete:
		return fmt.Sprintf("%v have the %v", m.Holders, m.Copy.Key)
	case Resumed:
		return fmt.Sprintf("view %d goes on from the %v", m.View, m.Copy.Key)
	case Loss:
		return fmt.Sprintf("nobody has the %v", m.Copy.Key)
	case Result:
		return fmt.Sprintf("the return of task %d, begun in view %d", m.Result.Task, m.Result.View)
	}
	return m.Letter.String()
}

// fingerprint stands for a value: different values have different fingerprints, but for a chance of about
// 2^−128.
type fingerprint [2]uint64

func (f fingerprint) with(x uint64) fingerprint {
	return fingerprint{protocol.Mix(f[0]^0x243f6a8885a308d3, x), protocol.Mix(f[1]+0x13198a2e03707344, x^f[0])}
}

func (f fingerprint) and(g [2]uint64) fingerprint { return f.with(g[0]).with(g[1]) }
