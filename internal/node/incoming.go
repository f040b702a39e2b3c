package node

import (
	"time"

	"github.com/coppice-go/coppice/internal/large"
	"github.com/coppice-go/coppice/internal/node/engine"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/grant"
)

// incoming is a message of which at least the beginning has come: package grant says when the rest does.
type incoming struct {
	envelope
	grant.In
	value   []byte
	filled  int
	id      uint32 // that its parts are tagged with
	source  *peer
	origin  *outgoing // where processes are goroutines
	arrived func()    // the rest has come
	room    []byte    // where the value is to be; nil: in new memory
	shared  bool      // others read the value's memory, too
	pooled  bool      // the value is in memory of the process's buffers
	brief   bool      // the value is in memory that is used for the next one: who keeps it copies it
	passes  bool      // it is Process.one: who keeps it lets it stay
}

// passing is memory for a message that is most likely handled at once.
func (p *Process) passing() *incoming {
	p.mesh.one = incoming{passes: true}
	return &p.mesh.one
}

// stay returns the message in memory of its own, to be kept.
func (in *incoming) stay() *incoming {
	if !in.passes {
		return in
	}
	p := in.source.p
	var c *incoming
	if n := len(p.mesh.freeIn); n > 0 {
		c = p.mesh.freeIn[n-1]
		p.mesh.freeIn = p.mesh.freeIn[:n-1]
	} else {
		c = &incoming{}
	}
	*c = *in
	c.passes = false
	if c.Complete() {
		c.settle()
	}
	return c
}

// settle moves the value to memory of its own.
func (in *incoming) settle() {
	if !in.brief {
		return
	}
	in.brief = false
	p := in.source.p
	if in.plan.op == opSend || len(in.value) <= inlineMax {
		in.value = p.keep(in.value)
		return
	}
	m := p.engine.Buffers.Get(len(in.value))
	p.copy(m, in.value)
	in.value, in.pooled = m, true
}

// moveTo moves the value of a message that is complete to room.
func (in *incoming) moveTo(room []byte) {
	in.source.p.copy(room, in.value)
	in.discard()
	in.value, in.brief, in.shared = room, false, false
}

// discard gives up the memory of a value that nobody keeps.
func (in *incoming) discard() {
	if in.pooled {
		in.pooled = false
		in.source.p.engine.Buffers.Put(in.value)
	}
}

// freeInMax is how many messages' memory is kept.
const freeInMax = 4 * aheadMax

// reuse takes back the memory of a message that came in one piece.
func (p *Process) reuse(in *incoming) {
	if in.id == 0 && len(p.mesh.freeIn) < freeInMax {
		*in = incoming{}
		p.mesh.freeIn = append(p.mesh.freeIn, in)
	}
}

// want asks for the rest of a large message, if that was not done.
func (in *incoming) want() {
	if in.Want() {
		in.granted()
	}
}

// granted has the rest come.
func (in *incoming) granted() {
	if in.origin != nil { // a process of this program: it is all there
		in.value, in.filled = in.origin.value, len(in.origin.value)
		in.Came()
		if in.room != nil {
			in.source.p.copy(in.room, in.value)
			in.value, in.shared = in.room, false
		}
		in.answer(0)
		if in.arrived != nil {
			in.arrived()
		}
		return
	}
	in.makeRoom(0)
	in.answer(0)
}

// roomMax is the size up to which what is said of a message is believed, and room made for all
// of it before it has come: as much as the machine has. Beyond that room is made as it comes.
var roomMax = large.MachineMemory()

// roomFirst is how much of such a one comes first.
const roomFirst = 1 << 30

// makeRoom makes room for n more bytes of the value, and for more in advance.
func (in *incoming) makeRoom(n int) {
	if len(in.value) >= in.filled+n && n > 0 {
		return
	}
	value, pooled := in.room, false
	switch {
	case value != nil:
	case in.plan.op != opSend && in.size <= engine.BufferMax:
		value, pooled = in.source.p.engine.Buffers.Get(int(in.size)), true
	case in.size <= roomMax:
		value = large.New(int(in.size))
	default:
		value = large.New(int(max(roomFirst, 2*uint64(in.filled+n))))
	}
	in.source.p.copy(value, in.value[:in.filled])
	in.discard() // what had come of it
	in.value, in.brief, in.pooled = value, false, pooled
}

// drop does without a message: the memory that it was to be in is not its any more.
func (in *incoming) drop() {
	if in.Drop(&in.source.p.mesh.early) {
		delete(in.source.parts, in.id)
		in.answer(1)
	}
	in.discard()
	in.arrived, in.room, in.value = nil, nil, nil
}

func (in *incoming) answer(verdict uint8) {
	in.source.tell(envelope{
		scope: in.scope, from: in.to, to: in.from, extra: uint64(in.id), kind: verdict,
		plan: Plan{op: opGrant},
	})
}

// taskTime is how long the rest of a large value waits for its task, which may have
// memory for it, before it is asked for anyway, for others to have it.
const taskTime = protocol.Time(500 * time.Microsecond)

// wantSoon asks for the rest of a message if nobody here has asked for it in time.
func (in *incoming) wantSoon() {
	if p := in.source.p; !in.Answered() {
		p.engine.At(p.engine.Now()+taskTime, in.wantEarly)
	}
}

// wantEarly asks for the rest although nobody here has asked for the message,
// as long as there is memory for such.
func (in *incoming) wantEarly() {
	if in.WantEarly(&in.source.p.mesh.early, int64(in.size)) {
		in.granted()
	}
}

// taken takes note that somebody has the message.
func (in *incoming) taken() { in.Free(&in.source.p.mesh.early) }
