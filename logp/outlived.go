package logp

import (
	"fmt"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/collective"
)

// OutlivedResult is the result of a simulated corrected reduction.
type OutlivedResult struct {
	CollectiveResult // sent: also to dead processes; received: by processes that still listened
	// Corrections is how many of the messages repair what the trees may have missed.
	Corrections int64
	// Unreached is how many live processes are without a result that they wait for.
	Unreached int
}

// Outlived simulates a corrected reduction with failures. Network.Detect is how long after a death the others
// know it: a reduction that has lost an input before it was sent waits that long. Sizes are as in Collective.
func Outlived(spec collective.Spec, size int64, elem int, net Network, faults Faults) (OutlivedResult, error) {
	if spec.Algorithm != collective.Corrected && spec.Algorithm != collective.CorrectedFlat {
		return OutlivedResult{}, fmt.Errorf("%v by %v with failures; allowed: %v, %v", spec.Op, spec.Algorithm, collective.Corrected, collective.CorrectedFlat)
	}
	c, e, err := weighed(&spec, size, elem, net)
	if err != nil {
		return OutlivedResult{}, err
	}
	t := &tally{make([][2]int64, net.P), make([][2]int64, net.P)}
	unreached := 0
	e.Observe(Observer[collective.StepMessage]{
		Sent: func(_ protocol.Time, from, _ protocol.Rank, _ protocol.Kind, m collective.StepMessage) {
			t.count(from, 0, c.Bytes(from, m))
		},
		Received: func(_ protocol.Time, to, from protocol.Rank, _ protocol.Kind, m collective.StepMessage) {
			t.count(to, 1, c.Bytes(from, m))
		},
		Delivered: func(_ protocol.Time, r protocol.Rank, m collective.StepMessage) {
			if c.steps[r][m.Step].Kind == collective.UnreachedStep {
				unreached++
			}
		},
	})
	r, err := e.Run(0, faults)
	if err != nil {
		return OutlivedResult{}, fmt.Errorf("%v by %v: %w", spec.Op, spec.Algorithm, err)
	}
	return OutlivedResult{t.total(r.Delivery), r.Corrections, r.Undelivered + unreached}, nil
}

// tally counts what is sent and received: a corrected reduction does not perform every step.
type tally struct {
	messages, bytes [][2]int64 // by process: sent, received
}

func (t *tally) count(r protocol.Rank, way int, bytes int64) {
	t.messages[r][way]++
	t.bytes[r][way] += bytes
}

func (t *tally) total(end protocol.Time) CollectiveResult {
	sum := CollectiveResult{Time: end}
	for r := range t.messages {
		sum.Messages += t.messages[r][0]
		sum.Bytes += t.bytes[r][0]
		sum.MessagesMax = max(sum.MessagesMax, t.messages[r][0], t.messages[r][1])
		sum.BytesMax = max(sum.BytesMax, t.bytes[r][0], t.bytes[r][1])
	}
	return sum
}
