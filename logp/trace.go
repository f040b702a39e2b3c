package logp

import (
	"fmt"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
)

// RecordKind is the kind of a Record.
type RecordKind uint8

// What happens in a run.
const (
	Sent      RecordKind = iota // a send starts
	Received                    // a receive ends, at a process that is alive and not Done
	Delivered                   // a process hands the message to its user
	Died                        // a process dies; at 0 also those dead from the start
)

var recordNames = [...]string{"sent", "received", "delivered", "died"}

func (k RecordKind) String() string { return protocol.Name(k, "RecordKind", recordNames[:]) }

// Record is one event in a run of a broadcast.
type Record struct {
	At       protocol.Time
	Kind     RecordKind
	From, To protocol.Rank // of a message; Delivered and Died: the process, twice

	// Of messages, the same for Sent and Received. Until is when the message is over: the end of its
	// receive, or its arrival at a process that is dead when it is sent. A process that dies later, or is
	// Done, does not take it.
	Until      protocol.Time
	Correction bool // counted as correction
	Message    broadcast.MessageKind
	Names      []protocol.Rank // correctors that failure-proof correction names besides the sender, nearest to it first
	Detail     string          // the rest of the message, for people
}

// TraceBroadcast repeats run i of Broadcast(spec, net, runs) and returns all its events, in the order of
// time.
func TraceBroadcast(spec broadcast.Spec, net Network, runs Runs, i int) ([]Record, Result, error) {
	built, runs, err := prepare(spec, net, runs)
	if err != nil {
		return nil, Result{}, err
	}
	if i < 0 || i >= runs.Runs {
		return nil, Result{}, fmt.Errorf("trace of run %d; allowed: 0 to %d", i, runs.Runs-1)
	}
	seed, faults := runs.Nth(net.P, i)
	switch p := built.(type) {
	case *broadcast.Plain:
		return Trace(p, net, seed, faults)
	case *broadcast.Delays:
		return Trace(p, net, seed, faults)
	case *broadcast.Provers:
		return Trace(p, net, seed, faults)
	case *broadcast.BFB:
		return Trace(p, net, seed, faults)
	default:
		return nil, Result{}, fmt.Errorf("no trace of %T", p)
	}
}

// Trace runs a broadcast once and returns all its events, in the order of time.
func Trace[S, M any](p protocol.Protocol[S, M], net Network, seed uint64, faults Faults) ([]Record, Result, error) {
	e, err := NewEngine(p, net)
	if err != nil {
		return nil, Result{}, err
	}
	t := &tracer[M]{net: net, gap: max(net.O, net.G), free: make([]protocol.Time, net.P), dead: newSet(net.P)}
	e.Observe(Observer[M]{t.sent, t.received, t.delivered, t.died})
	result, err := e.Run(seed, faults)
	return t.records, result, err
}

// tracer records everything that it observes. It plans receives as the engine does, which does not report
// receives that no process looks at.
type tracer[M any] struct {
	net     Network
	gap     protocol.Time
	free    []protocol.Time // when the receive port is free
	dead    set
	records []Record
}

func (t *tracer[M]) sent(at protocol.Time, from, to protocol.Rank, kind protocol.Kind, m M) {
	until := at + t.net.O + t.net.L
	if !t.dead.has(int(to)) {
		if !t.net.NoQueue {
			until = max(until, t.free[to])
			t.free[to] = until + t.gap
		}
		until += t.net.O
	}
	r := Record{At: at, Kind: Sent, From: from, To: to, Until: until, Correction: kind == protocol.Correct}
	r.read(m, t.net.P)
	t.records = append(t.records, r)
}

func (t *tracer[M]) received(at protocol.Time, to, from protocol.Rank, kind protocol.Kind, m M) {
	r := Record{At: at, Kind: Received, From: from, To: to, Until: at, Correction: kind == protocol.Correct}
	r.read(m, t.net.P)
	t.records = append(t.records, r)
}

func (t *tracer[M]) delivered(at protocol.Time, r protocol.Rank, _ M) {
	t.records = append(t.records, Record{At: at, Kind: Delivered, From: r, To: r})
}

func (t *tracer[M]) died(at protocol.Time, r protocol.Rank) {
	t.dead.set(int(r))
	t.records = append(t.records, Record{At: at, Kind: Died, From: r, To: r})
}

// read records what a message says.
func (r *Record) read(message any, p int) {
	switch m := message.(type) {
	case broadcast.Message[broadcast.None]:
		r.Message = m.Kind
	case broadcast.Message[broadcast.Known]:
		r.Message = m.Kind
		r.Names = named(m.Extra, m.Kind, r.From, p)
	case broadcast.BFBMessage:
		r.Message = m.Kind
		r.Detail = m.String()
	default:
		r.Detail = fmt.Sprint(m)
	}
}

// named lists the correctors in a message of failure-proof correction. They lie
// behind the sender, seen in the direction in which the message travels.
func named(known broadcast.Known, kind broadcast.MessageKind, from protocol.Rank, p int) (names []protocol.Rank) {
	for _, distance := range known {
		if distance == 0 {
			break
		}
		behind := int(from) + int(distance)
		if kind == broadcast.Right {
			behind = int(from) - int(distance) + p
		}
		names = append(names, protocol.Rank(behind%p))
	}
	return names
}
