package main

import (
	"fmt"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
	"github.com/coppice-go/coppice/topology"
)

// ringFlags are the details of correction. When it begins by default is said by
// the command, in ${sync}.
type ringFlags struct {
	Sync  string `enum:"synchronized,overlapped" default:"${sync}" placeholder:"S" help:"When correction begins: synchronized, at the fault-free end of dissemination, or overlapped, at each process after its part in it (default ${default})."`
	Early string `enum:",join,serve" default:"" placeholder:"E" help:"What a process does that overlapped correction reaches early: join (default) takes part in correction, serve only serves its children."`
	First string `group:"ring" enum:"left,right" default:"left" placeholder:"SIDE" help:"Side that correction sends to first: left or right (default ${default})."`
	Wrap  bool   `group:"ring" default:"true" negatable:"" help:"Correction goes around past the root; --wrap=false keeps the ring open there."`
	Sides int    `group:"ring" enum:"1,2" default:"2" placeholder:"N" help:"Sides that correction sends to, 1 or 2 (default ${default})."`
}

// spec describes the broadcast that the flags ask for.
func (g groupFlags) spec(p int, correction string, ring ringFlags) (broadcast.Spec, error) {
	spec := broadcast.Spec{
		P: p, Root: protocol.Rank(g.Root), Tree: g.Tree, Correction: correction,
		L: protocol.Time(g.L), O: protocol.Time(g.O),
		Ring:         broadcast.Ring{Open: !ring.Wrap, OneSided: ring.Sides == 1},
		Synchronized: ring.Sync == "synchronized",
	}
	if g.Root < 0 || g.Root >= p { // before it is cut to 32 bits
		return spec, fmt.Errorf("root %d; allowed: 0 to %d", g.Root, p-1)
	}
	if ring.First == "right" {
		spec.Ring.First = broadcast.ToRight
	}
	if ring.Early == "serve" {
		spec.Early = broadcast.Serve
	}
	if ring.Early != "" && spec.Synchronized {
		return spec, fmt.Errorf("--early %s with synchronized correction, where nobody is early; allowed with: --sync overlapped", ring.Early)
	}
	var err error
	spec.Order, err = topology.ParseOrder(g.Order)
	return spec, err
}
