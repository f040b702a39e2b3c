package logp

import (
	"fmt"

	"github.com/coppice-go/coppice/protocol"
)

// Input is a notice from outside that a process gets during the run, for
// instance Begin. It comes after what is received at that time.
type Input struct {
	At     protocol.Time
	Rank   protocol.Rank
	Notice protocol.Notice
}

func checkInputs(inputs []Input, p int) error {
	for _, in := range inputs {
		if in.Rank < 0 || int(in.Rank) >= p {
			return fmt.Errorf("input for rank %d; allowed: 0 to %d", in.Rank, p-1)
		}
		if in.At < 1 || in.At > timeMax {
			return fmt.Errorf("input at %d; allowed: 1 to 2^40", in.At)
		}
	}
	return nil
}

// nextInput returns when the next input comes, or the detector's next report.
func (e *Engine[S, M]) nextInput() protocol.Time {
	if len(e.inputs) == 0 {
		return e.nextFinding()
	}
	return min(e.inputs[0].At, e.nextFinding())
}

// tell hands over the deaths and the inputs whose time has come.
func (e *Engine[S, M]) tell(now protocol.Time, ready *readySet) {
	e.report(now, ready)
	for len(e.inputs) > 0 && e.inputs[0].At <= now {
		in := e.inputs[0]
		e.inputs = e.inputs[1:]
		r := int(in.Rank)
		if e.deaf.has(r) {
			continue
		}
		e.protocol.Notify(&e.state[r], now, in.Notice)
		if e.sends == nil || e.sends[r] <= now {
			ready.set(r)
		}
	}
}
