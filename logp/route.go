// Source: Varma, Scalable, Fault-Tolerant Membership for Group Communication on HPC Systems (NCSU 2006),
// section 6.1: machines on which a message takes longer to a process that is farther away, and on which
// switches handle one message after the other.
//
// On such networks a message may overtake one that another process sent before it. So, unlike on plain LogP
// networks, the start of its receive is not known when it is sent: it goes from station to station, and each
// serves messages in the order of arrival, and those that arrive together in the order of their sends. The
// last station is the receive port. Between two processes messages stay in order.
//
// Cost: a heap of messages in flight; nothing where networks are plain.

package logp

import (
	"container/heap"
	"errors"
	"fmt"

	"github.com/coppice-go/coppice/protocol"
)

// Torus is a network of X × Y × Z nodes, each connected to its neighbours in both directions of three rings.
// A message takes L for each hop. Rank r is at x = r mod X, y = r/X mod Y and z = r/(X·Y): x grows fastest,
// which is Blue Gene/L's default placement of processes. Links are never occupied.
type Torus struct{ X, Y, Z int }

// Hops returns the number of hops on the shortest path from one rank to another.
func (t Torus) Hops(from, to protocol.Rank) int {
	a, b := int(from), int(to)
	return ringHops(a%t.X, b%t.X, t.X) + ringHops(a/t.X%t.Y, b/t.X%t.Y, t.Y) + ringHops(a/t.X/t.Y, b/t.X/t.Y, t.Z)
}

func ringHops(a, b, n int) int {
	d := max(a-b, b-a)
	return min(d, n-d)
}

// Switch is a network with a switch that handles one message at a time. A message reaches it after O, waits
// until the switch has begun all messages that came before it, Packet for each, and goes on; L is its latency
// when it need not wait.
//
// The gap G describes a link that passes one message at a time.
type Switch struct {
	Packet protocol.Time // from one message to the next; 0: there is no switch
}

// checkRoute returns what is wrong with the Torus or the Switch.
func (n Network) checkRoute() error {
	t, s := n.Torus, n.Switch
	switch {
	case t != Torus{} && (t.X < 1 || t.Y < 1 || t.Z < 1):
		return fmt.Errorf("torus of %d×%d×%d; allowed: 1 or more each way", t.X, t.Y, t.Z)
	case t != Torus{} && (t.X > 1<<20 || t.Y > 1<<20 || t.Z > 1<<20 || t.X*t.Y*t.Z < n.P):
		return fmt.Errorf("torus of %d×%d×%d for %d processes; allowed: a node for each, up to 2^20 each way", t.X, t.Y, t.Z, n.P)
	case t != Torus{} && s != Switch{}:
		return errors.New("a torus and a switch; allowed: one of them")
	case s.Packet < 0 || s.Packet > paramMax:
		return fmt.Errorf("a switch is busy for %d with a message; allowed: 1 to 2^30, or 0 for no switch", s.Packet)
	}
	return nil
}

// routed reports whether messages differ in how long they travel.
func (n Network) routed() bool { return n.Torus != Torus{} || n.Switch != Switch{} }

// router carries messages from their send ports to their receive ports.
type router[M any] struct {
	net    Network
	free   protocol.Time // when the switch can begin the next message
	flying planned[M]    // messages in flight to a station
	sent   uint64        // numbers messages
}

// station is a place where a message has to wait for others.
type station uint8

const (
	port     station = iota // of the receiver
	atSwitch                // through which all messages pass
)

func (r *router[M]) reset() {
	clear(r.flying) // they may hold memory
	r.flying, r.sent, r.free = r.flying[:0], 0, 0
}

// send takes over a message whose send begins now.
func (r *router[M]) send(now protocol.Time, ev event[M]) {
	r.sent++
	f := farEvent[M]{order: r.sent, event: ev}
	if r.net.Switch.Packet > 0 {
		f.at, f.station = now+r.net.O, atSwitch
	} else {
		from, _ := ev.sender()
		f.at, f.station = now+r.net.O+protocol.Time(r.net.Torus.Hops(from, ev.to))*r.net.L, port
	}
	heap.Push(&r.flying, f)
}

// next returns when a message next arrives at a station.
func (r *router[M]) next() protocol.Time {
	if r == nil {
		return protocol.Never
	}
	return r.flying.next()
}

// bytes returns how much memory the messages in flight take.
func (r *router[M]) bytes() int {
	if r == nil {
		return 0
	}
	return r.flying.bytes()
}

// pass lets the switch serve a message and sends it on.
func (r *router[M]) pass(f farEvent[M]) {
	begun := max(f.at, r.free)
	r.free = begun + r.net.Switch.Packet
	f.at, f.station = begun+r.net.L, port
	heap.Push(&r.flying, f)
}

// arrive moves messages on from the stations that they have reached. Nothing that follows happens before the
// next moment, since a receive takes O.
func (e *Engine[S, M]) arrive(now protocol.Time) {
	for e.router.next() <= now {
		f := heap.Pop(&e.router.flying).(farEvent[M])
		if f.station != port {
			e.router.pass(f)
			continue
		}
		e.land(now, []event[M]{f.event})
	}
}
