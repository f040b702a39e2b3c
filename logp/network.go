package logp

import (
	"fmt"

	"github.com/coppice-go/coppice/protocol"
)

// Network is the LogP model of a machine: integer time, P processes.
//
// A send occupies the sender's send port for O, travels for L and occupies the
// receiver's receive port for O; it takes effect at its start + 2·O + L.
// Sending and receiving overlap; each port handles one message at a time, and
// receives that compete are served by the time of their send, then by the
// sender's rank. A message to a dead process costs the sender the same.
type Network struct {
	P int
	L protocol.Time // latency, 0 or more
	O protocol.Time // overhead of a send and of a receive, 1 or more
	G protocol.Time // gap between starts on one port; less than O counts as O

	// PerByte is LogGP's G: the time of each byte of a message beyond the first,
	// for protocols that are Sized.
	PerByte float64

	// NoQueue lets receives overlap freely: the model of Corrected Gossip.
	NoQueue bool

	// Detect is the delay of a detector that notifies every live process of every death: that long after
	// the death or, for processes dead from the start, after time 0. 0: no detector.
	Detect protocol.Time

	// Until ends a run of machines that never rest, such as those that send heartbeats: nothing happens
	// at Until or later. 0: a run ends when nothing happens anymore.
	Until protocol.Time

	// Torus, Switch and Hosts make some messages take longer than others, or wait for each other on the way; see
	// there. Zero: all messages take L.
	Torus  Torus  `json:",omitzero"`
	Switch Switch `json:",omitzero"`
	Hosts  *Hosts `json:",omitempty"`
}

// Bounds of parameters and of simulated time, so that sums cannot overflow.
const (
	paramMax protocol.Time = 1 << 30
	timeMax  protocol.Time = 1 << 40
)

// Check returns what is wrong with the parameters.
func (n Network) Check() error {
	switch {
	case n.P < 1 || n.P > 1<<31-1:
		return fmt.Errorf("number of processes P is %d; allowed: 1 to 2^31−1", n.P)
	case n.L < 0 || n.L > paramMax:
		return fmt.Errorf("latency L is %d; allowed: 0 to 2^30", n.L)
	case n.O < 1 || n.O > paramMax:
		return fmt.Errorf("overhead o is %d; allowed: 1 to 2^30", n.O)
	case n.G < 0 || n.G > paramMax:
		return fmt.Errorf("gap g is %d; allowed: 0 to 2^30", n.G)
	case !(n.PerByte >= 0) || n.PerByte > float64(paramMax):
		return fmt.Errorf("time per byte G is %g; allowed: 0 to 2^30", n.PerByte)
	case n.Detect < 0 || n.Detect > paramMax:
		return fmt.Errorf("detection after %d; allowed: 1 to 2^30, or 0 for none", n.Detect)
	case n.Until < 0 || n.Until > timeMax:
		return fmt.Errorf("end of the run at %d; allowed: 0 to 2^40", n.Until)
	}
	return n.checkRoute()
}
