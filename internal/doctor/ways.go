package doctor

import (
	"cmp"
	"fmt"
	"net"
	"slices"
	"time"

	"github.com/coppice-go/coppice/internal/transport"
)

// judgeWays reports on the connections between hosts.
func (e *examination) judgeWays() {
	well, ways, slowest := 0, 0, time.Duration(0)
	for _, p := range e.all {
		for _, r := range p.reached {
			ways++
			if r.How == reachedWell {
				well++
				slowest = max(slowest, r.Took)
				continue
			}
			e.judgeWay(p, e.all[r.To], r)
		}
	}
	if well > 0 {
		e.find(OK, "connect", "all hosts", fmt.Sprintf("%d of %d ways, the slowest in %.1f ms", well, ways, 1e3*slowest.Seconds()), "")
	}
	e.judgeDatagrams()
}

// judgeWay reports what is wrong where there was no connection.
func (e *examination) judgeWay(from, to *patient, r reached) {
	way := from.name + " → " + to.name
	state, needed := Fail, ""
	if from.name == here { // it calls others through ssh only
		state, needed = Note, "; coppice run --hosts does not need this way, a job with a process on this host does"
	}
	open := fmt.Sprintf("let %s connect to TCP port %s in the firewall of %s, or on the way; %s=tls:LOW-HIGH confines the ports", from.name, portOf(r.Address), to.name, transport.ListenVariable)
	text := fmt.Sprintf("%s is %s", r.Address, r.How)
	switch r.How {
	case blocked:
		text += fmt.Sprintf(": no answer within %v", ConnectTime)
		switch there, back := to.hears(from), from.hears(to); {
		case back && !there:
			text += fmt.Sprintf("; what %s sends to %s is lost, datagrams too, the other way they arrive", from.name, to.name)
		case there && !back:
			text += fmt.Sprintf("; what %s sends to %s is lost, datagrams too, this way they arrive", to.name, from.name)
			open = fmt.Sprintf("see what is lost on the way from %s to %s, where this way's answers go", to.name, from.name)
		}
	case refused:
		text += ": somebody says no"
		open += "; or the address is another machine's: choose the network by --interface"
	case strange:
		text += ": " + r.Text
		open = "the address leads to another program or host: choose the network by --interface"
	case unfinished:
		text = fmt.Sprintf("%s connects, but the handshake does not end: %s", r.Address, r.Text)
		open = "look for a proxy on the way, or for large packets that are lost (MTU)"
	default:
		text = cmp.Or(r.Address, "no address") + ": " + r.Text
		open = "see that the hosts have a route to each other; choose the network by --interface or " + transport.ListenVariable
	}
	e.find(state, "connect", way, text, open+needed)
}

func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}

// hears reports whether datagrams of another host have arrived.
func (p *patient) hears(other *patient) bool { return slices.Contains(p.heard, other.orders.Number) }

// judgeDatagrams reports where connections work and datagrams do not. The launcher's host needs none.
func (e *examination) judgeDatagrams() {
	for _, p := range e.all {
		for _, r := range p.reached {
			to := e.all[r.To]
			if p.name == here || to.name == here || r.How != reachedWell || to.hears(p) {
				continue
			}
			e.find(Note, "datagrams", p.name+" → "+to.name, fmt.Sprintf("none of %d to UDP port %s has arrived", datagrams, portOf(r.Address)),
				"let them through: without them signs of life go over the connections, and a busy one may delay them")
		}
	}
}
