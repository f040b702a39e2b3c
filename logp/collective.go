package logp

import (
	"fmt"
	"slices"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/collective"
)

// CollectiveResult is the result of a simulated collective operation.
type CollectiveResult struct {
	// Time is when the last process has its result, if all begin at 0.
	Time protocol.Time
	// Messages and Bytes count everything sent. The table of lengths of blocks that travel together is
	// not counted.
	Messages, Bytes int64
	// MessagesMax and BytesMax are the most that any one process sends or
	// receives, whichever is more.
	MessagesMax, BytesMax int64
	// Crossing counts the bytes that go from host to host, if the network has hosts.
	Crossing int64
}

// Collective simulates a collective operation without failures; Outlived, one with them. Size is the length
// of the value, in operations on vectors (broadcast and reductions), or of each block; elem is the length of
// an element, at whose multiples vectors are cut. Combining values takes no time.
func Collective(spec collective.Spec, size int64, elem int, net Network) (CollectiveResult, error) {
	c, e, err := weighed(&spec, size, elem, net)
	if err != nil {
		return CollectiveResult{}, err
	}
	r, err := e.Run(0, Faults{})
	if err != nil {
		return CollectiveResult{}, fmt.Errorf("%v by %v: %w", spec.Op, spec.Algorithm, err)
	}
	if r.Undelivered > 0 || r.Sent() != c.total.Messages {
		return CollectiveResult{}, fmt.Errorf("%v by %v: %d processes without a result after %d of %d messages", spec.Op, spec.Algorithm, r.Undelivered, r.Sent(), c.total.Messages)
	}
	c.total.Time = r.Delivery
	return c.total, nil
}

// weighed returns the schedule of a spec, whose P it sets, with the sizes of its messages, and an engine that
// simulates it.
func weighed(spec *collective.Spec, size int64, elem int, net Network) (*costed, *Engine[collective.StepState, collective.StepMessage], error) {
	if spec.P != 0 && spec.P != net.P {
		return nil, nil, fmt.Errorf("%v among %d processes on a network of %d; allowed: the same", spec.Op, spec.P, net.P)
	}
	spec.P = net.P
	if size < 0 || size > sizeMax || elem < 1 {
		return nil, nil, fmt.Errorf("size %d of elements of %d bytes; allowed: 0 to 2^40, and 1 or more", size, elem)
	}
	if net.Hosts != nil {
		spec.Hosts = net.Hosts.First
	}
	c, err := newCosted(*spec, size, int64(elem), net)
	if err != nil {
		return nil, nil, err
	}
	e, err := NewEngine(c, net)
	return c, e, err
}

// sizeMax bounds sizes. stepsMax bounds the steps of all processes together: each takes some 70 bytes of
// memory.
const (
	sizeMax  = 1 << 40
	stepsMax = 1 << 26
)

// costed is a schedule whose users all call it at once and whose messages have sizes.
type costed struct {
	*collective.Schedule
	steps [][]collective.Step // by process; without their slots
	bytes [][]int64           // by process and step
	total CollectiveResult
}

func newCosted(spec collective.Spec, size, elem int64, net Network) (*costed, error) {
	schedule, err := collective.New(spec)
	if err != nil {
		return nil, err
	}
	// A root has more steps than others, and is one of these at most.
	if steps := min(len(schedule.Program(0).Steps), len(schedule.Program(protocol.Rank(spec.P-1)).Steps)); steps*spec.P > stepsMax {
		return nil, fmt.Errorf("%v by %v among %d processes has %d steps; allowed: up to %d", spec.Op, spec.Algorithm, spec.P, steps*spec.P, stepsMax)
	}
	c := &costed{Schedule: schedule}
	for r := range protocol.Rank(spec.P) {
		g := schedule.Program(r)
		for _, st := range g.Steps {
			if net.Hosts != nil && st.Kind == collective.SendStep && !net.near(r, st.Peer) {
				c.total.Crossing += weight(&g, st.Slots, size, elem)
			}
		}
		c.add(&g, size, elem)
	}
	return c, nil
}

// add computes the message sizes of the next process's program.
func (c *costed) add(g *collective.Program, size, elem int64) {
	weights := make([]int64, len(g.Steps))
	var messages, bytes [2]int64 // sent, received
	for i := range g.Steps {
		st := &g.Steps[i]
		if st.Kind == collective.SendStep || st.Kind == collective.RecvStep {
			weights[i] = weight(g, st.Slots, size, elem)
			way := st.Kind - collective.SendStep
			messages[way]++
			bytes[way] += weights[i]
		}
		st.Slots, st.With = nil, nil
	}
	c.steps, c.bytes = append(c.steps, slices.Clone(g.Steps)), append(c.bytes, weights) // without room to grow
	c.total.Messages += messages[0]
	c.total.Bytes += bytes[0]
	c.total.MessagesMax = max(c.total.MessagesMax, messages[0], messages[1])
	c.total.BytesMax = max(c.total.BytesMax, bytes[0], bytes[1])
}

// weight returns how many bytes slots hold: blocks, or segments of a vector, cut as collective.Store does.
func weight(g *collective.Program, slots []int32, size, elem int64) int64 {
	if g.Segments == 0 {
		return size * int64(len(slots))
	}
	k := int64(g.Segments)
	cut := func(i int64) int64 {
		if i == k {
			return size
		}
		return size / elem * i / k * elem
	}
	return cut(int64(slots[len(slots)-1])%k+1) - cut(int64(slots[0])%k) // they follow each other
}

// Init implements protocol.Protocol.
func (c *costed) Init(s *collective.StepState, self protocol.Rank, _ uint64) {
	s.Reset(c.steps[self])
	c.Notify(s, 0, protocol.Notice{Kind: protocol.Begin})
}

// Bytes implements Sized.
func (c *costed) Bytes(from protocol.Rank, m collective.StepMessage) int64 {
	return c.bytes[from][m.Step]
}
