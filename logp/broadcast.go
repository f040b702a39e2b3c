package logp

import (
	"errors"
	"fmt"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
)

// Broadcast simulates many runs of the broadcast that spec describes. Size, L and O are those of net,
// synchronized correction starts at the fault-free end of dissemination, and the root is never drawn to be
// dead.
func Broadcast(spec broadcast.Spec, net Network, runs Runs) ([]Result, error) {
	built, runs, err := prepare(spec, net, runs)
	if err != nil {
		return nil, err
	}
	switch p := built.(type) {
	case *broadcast.Plain:
		return MonteCarlo(p, net, runs)
	case *broadcast.Delays:
		return MonteCarlo(p, net, runs)
	case *broadcast.Provers:
		if b, ok := broadcast.Brief(p); ok {
			return MonteCarlo(b, net, runs)
		}
		return MonteCarlo(p, net, runs)
	case *broadcast.BFB:
		return MonteCarlo(p, net, runs)
	default:
		return nil, fmt.Errorf("no simulation of %T", p)
	}
}

// prepare builds the protocol and completes the runs' parameters.
func prepare(spec broadcast.Spec, net Network, runs Runs) (any, Runs, error) {
	if err := net.Check(); err != nil {
		return nil, runs, err
	}
	if spec.P != 0 && spec.P != net.P {
		return nil, runs, fmt.Errorf("broadcast among %d processes on a network of %d; allowed: the same", spec.P, net.P)
	}
	spec.P, spec.L, spec.O = net.P, net.L, net.O
	runs.Faults.Spare = spec.Root
	if err := runs.Check(net.P); err != nil {
		return nil, runs, err
	}
	if corrected := spec.Correction != "none" && spec.Correction != "ack"; spec.Synchronized && corrected {
		start, err := disseminationEnd(spec, net)
		if err != nil {
			return nil, runs, err
		}
		spec.Start = start
	}
	built, err := spec.Build()
	if _, detects := built.(*broadcast.BFB); err == nil && detects && net.Detect == 0 {
		return nil, runs, errors.New("bfb on a network without a detector; allowed: detection after 1 or more")
	}
	return built, runs, err
}

// disseminationEnd returns when dissemination is over if no process fails. For everything but gossip it
// simulates one run.
func disseminationEnd(spec broadcast.Spec, net Network) (protocol.Time, error) {
	if end, gossip, err := spec.GossipEnd(); gossip || err != nil {
		return end, err
	}
	spec.Synchronized, spec.Correction = false, "none"
	results, err := Broadcast(spec, net, Runs{Runs: 1})
	if err != nil {
		return 0, err
	}
	return results[0].Coloring, nil
}
