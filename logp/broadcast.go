package logp

import (
	"fmt"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
)

// Broadcast simulates many runs of the broadcast that spec describes. Size, L
// and O are those of net, synchronized correction starts at the fault-free end
// of dissemination, and the root is never drawn to be dead.
func Broadcast(spec broadcast.Spec, net Network, runs Runs) ([]Result, error) {
	if err := net.Check(); err != nil {
		return nil, err
	}
	if spec.P != 0 && spec.P != net.P {
		return nil, fmt.Errorf("broadcast among %d processes on a network of %d; allowed: the same", spec.P, net.P)
	}
	spec.P, spec.L, spec.O = net.P, net.L, net.O
	runs.Faults.Spare = spec.Root
	if err := runs.Check(net.P); err != nil {
		return nil, err
	}
	if corrected := spec.Correction != "none" && spec.Correction != "ack"; spec.Synchronized && corrected {
		start, err := disseminationEnd(spec, net)
		if err != nil {
			return nil, err
		}
		spec.Start = start
	}
	built, err := spec.Build()
	if err != nil {
		return nil, err
	}
	switch p := built.(type) {
	case *broadcast.Plain:
		return MonteCarlo(p, net, runs)
	case *broadcast.Delays:
		return MonteCarlo(p, net, runs)
	case *broadcast.Provers:
		return MonteCarlo(p, net, runs)
	default:
		return nil, fmt.Errorf("no simulation of %T", p)
	}
}

// disseminationEnd is when dissemination is over if nobody fails. Gossip is
// over when a message sent at the last moment has been received: T+L+O for O=1,
// as in Corrected Gossip, §III.A. A tree is simulated once.
func disseminationEnd(spec broadcast.Spec, net Network) (protocol.Time, error) {
	until, gossip, err := spec.Gossips()
	if err != nil {
		return 0, err
	}
	if gossip {
		return max(until-1, 0) + 2*net.O + net.L, nil
	}
	spec.Synchronized, spec.Correction = false, "none"
	results, err := Broadcast(spec, net, Runs{Runs: 1})
	if err != nil {
		return 0, err
	}
	return results[0].Coloring, nil
}
