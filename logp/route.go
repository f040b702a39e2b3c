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
	"slices"

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

// Hosts are machines of several processes each, with memory between these: a network of two levels. A message from host to host waits
// for the link of the sender's host, and then for that of the receiver's: each is busy with it for G and the time of its bytes.
type Hosts struct {
	First   []protocol.Rank // the first process of each host
	L       protocol.Time   // latency within a host
	PerByte float64         // the time of each byte of a message within a host
}

// of returns the number of a process's host.
func (h *Hosts) of(r protocol.Rank) int {
	i, found := slices.BinarySearch(h.First, r)
	if !found {
		i--
	}
	return i
}

// near reports whether a message stays on its host.
func (n *Network) near(from, to protocol.Rank) bool {
	return n.Hosts != nil && n.Hosts.of(from) == n.Hosts.of(to)
}

// checkHosts returns what is wrong with the Hosts.
func (n Network) checkHosts() error {
	h := n.Hosts
	if h == nil {
		return nil
	}
	for i, first := range h.First {
		if i == 0 && first != 0 || i > 0 && first <= h.First[i-1] || int(first) >= n.P {
			return fmt.Errorf("hosts that begin with processes %v of %d; allowed: 0, then ever higher ones", h.First, n.P)
		}
	}
	switch {
	case len(h.First) == 0:
		return errors.New("no host; allowed: 1 or more")
	case h.L < 0 || h.L > paramMax:
		return fmt.Errorf("latency within a host is %d; allowed: 0 to 2^30", h.L)
	case !(h.PerByte >= 0) || h.PerByte > float64(paramMax):
		return fmt.Errorf("time per byte within a host is %g; allowed: 0 to 2^30", h.PerByte)
	case n.Torus != Torus{} || n.Switch != Switch{}:
		return errors.New("hosts and a torus or a switch; allowed: one of them")
	}
	return nil
}

// checkRoute returns what is wrong with the Torus, the Switch or the Hosts.
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
	return n.checkHosts()
}

// routed reports whether messages differ in how long they travel.
func (n Network) routed() bool { return n.Torus != Torus{} || n.Switch != Switch{} || n.Hosts != nil }

// router carries messages from their send ports to their receive ports.
type router[M any] struct {
	net    Network
	free   protocol.Time   // when the switch can begin the next message
	links  []protocol.Time // by host, when its link can begin the next message, to and then from others
	flying planned[M]      // messages in flight to a station
	sent   uint64          // numbers messages
}

// station is a place where a message has to wait for others.
type station uint8

const (
	port     station = iota // of the receiver
	atSwitch                // through which all messages pass
	atExit                  // the link of the sender's host
	atEntry                 // the link of the receiver's host
)

func (r *router[M]) reset() {
	clear(r.flying) // they may hold memory
	r.flying, r.sent, r.free = r.flying[:0], 0, 0
	clear(r.links)
}

// send takes over a message whose send begins now, and whose bytes take extra on the way.
func (r *router[M]) send(now protocol.Time, ev event[M], extra protocol.Time) {
	r.sent++
	f := farEvent[M]{order: r.sent, event: ev, extra: extra}
	from, _ := ev.sender()
	switch {
	case r.net.Switch.Packet > 0:
		f.at, f.station = now+r.net.O, atSwitch
	case r.net.near(from, ev.to):
		f.at, f.station = now+r.net.O+r.net.Hosts.L, port
	case r.net.Hosts != nil:
		f.at, f.station = now+r.net.O, atExit
	default:
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

// pass lets the switch, or a link, serve a message and sends it on.
func (r *router[M]) pass(f farEvent[M]) {
	from, _ := f.event.sender()
	free, busy := &r.free, r.net.Switch.Packet
	at, next := r.net.L, port
	if h := r.net.Hosts; h != nil {
		if r.links == nil {
			r.links = make([]protocol.Time, 2*len(h.First))
		}
		busy = r.net.G + f.extra
		if free, next = &r.links[h.of(from)], atEntry; f.station == atEntry {
			free, at, next = &r.links[len(h.First)+h.of(f.event.to)], 0, port
		}
	}
	begun := max(f.at, *free)
	*free = begun + busy
	f.at, f.station = begun+at, next
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
