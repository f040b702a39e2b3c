package logp

import (
	"fmt"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
)

// Broadcast simulates many runs of the broadcast that spec describes. It sets
// the size and network of spec to those of net, and the start of synchronized
// correction to the fault-free end of dissemination.
func Broadcast(spec broadcast.Spec, net Network, runs Runs) ([]Result, error) {
	if err := net.Check(); err != nil {
		return nil, err
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
// over when its last messages have arrived (Corrected Gossip, §III.A); a tree
// is simulated once.
func disseminationEnd(spec broadcast.Spec, net Network) (protocol.Time, error) {
	until, gossip, err := spec.Gossips()
	if err != nil {
		return 0, err
	}
	if gossip {
		return until + net.L + net.O, nil
	}
	spec.Synchronized, spec.Correction = false, "none"
	results, err := Broadcast(spec, net, Runs{Runs: 1})
	if err != nil {
		return 0, err
	}
	return results[0].Coloring, nil
}
