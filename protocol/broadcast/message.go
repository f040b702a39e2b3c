package broadcast

import (
	"fmt"

	"github.com/coppice-go/coppice/protocol"
)

// MessageKind says what a message is for.
type MessageKind uint8

// The messages of a broadcast.
const (
	Spread MessageKind = iota // dissemination: along the tree, or gossip
	Ack                       // dissemination: my subtree has it
	Left                      // correction, travelling to lower ranks
	Right                     // correction, travelling to higher ranks
	SOS                       // failure-proof correction's last resort
)

var messageNames = [...]string{"spread", "ack", "left", "right", "sos"}

func (k MessageKind) String() string { return protocol.Name(k, "MessageKind", messageNames[:]) }

// Payload reports whether messages of this kind carry the broadcast's payload.
func (k MessageKind) Payload() bool { return k != Ack }

// Message is a message between the machines of one broadcast. Extra is what the correction adds: None for most.
//
// The direction is part of a correction message because on a closed ring the sender's rank alone does not show from which
// side it came.
type Message[E any] struct {
	Extra E
	Kind  MessageKind
	Round uint16 // gossip: the round it was sent in
}

// None is the Extra of corrections that add nothing to a message.
type None = struct{}

func (m Message[E]) String() string {
	switch e := any(m.Extra).(type) {
	case None:
		return m.Kind.String()
	default:
		return fmt.Sprintf("%v%v", m.Kind, e)
	}
}
