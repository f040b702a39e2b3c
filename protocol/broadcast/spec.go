package broadcast

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/coppice-go/coppice/topology"
)

// Spec describes a broadcast in words, as flags and files do.
type Spec struct {
	P    int
	Root Rank

	// Tree is binomial, kary:k, lame:k or optimal; gossip:T, which sends for
	// the time T; big; or bfb, a broadcast of its own: correction none.
	Tree  string
	Order topology.Order // of the ranks of a tree

	// Correction is none, ack, opportunistic:D, opportunistic-sends:N,
	// optimized:D, optimized-paper:D, checked, failure-proof:F or
	// delayed:STEPS.
	Correction string
	Ring       Ring

	// Synchronized correction begins at Start.
	Synchronized bool
	Start        Time
	Early        Early

	// Counted gossip counts rounds even where there is a common clock.
	Counted bool

	// L and O are the network's latency and overhead. They shape the optimal
	// tree, the rounds of gossip and the time-out of failure-proof correction.
	L, O Time
}

// The protocols that a Spec builds, by the state of their correction.
type (
	Plain   = Protocol[Walk, None]
	Delays  = Protocol[Delaying, None]
	Provers = Protocol[Proving, Known]
)

// Build returns the protocol: a *Plain, *Delays, *Provers or *BFB.
func (s Spec) Build() (any, error) {
	name, number, err := ParseCorrection(s.Correction)
	if err != nil {
		return nil, err
	}
	if s.Tree == "bfb" {
		return s.bfb()
	}
	spread, err := s.dissemination(name == "ack")
	if err != nil {
		return nil, err
	}
	cfg := Config{P: s.P, Root: s.Root, Spread: spread, Synchronized: s.Synchronized, Start: s.Start, Early: s.Early}
	switch name {
	case "none", "ack":
		return New(cfg, Uncorrected{})
	case "opportunistic":
		return New(cfg, &Opportunistic{Ring: s.Ring, D: number})
	case "opportunistic-sends":
		if number == 0 { // which would stand for a distance
			return nil, fmt.Errorf("correction %q; allowed: 1 or more messages", s.Correction)
		}
		return New(cfg, &Opportunistic{Ring: s.Ring, N: number})
	case "optimized":
		return New(cfg, &Optimized{Ring: s.Ring, D: number})
	case "optimized-paper":
		return New(cfg, &Optimized{Ring: s.Ring, D: number, Paper: true})
	case "checked":
		return New(cfg, &Checked{Ring: s.Ring})
	case "delayed":
		return New(cfg, &Delayed{Ring: s.Ring, Delay: Time(number)})
	case "failure-proof":
		if s.O > 1<<28 || s.L > 1<<28 {
			return nil, fmt.Errorf("failure-proof correction with L of %d and o of %d; allowed: up to 2^28", s.L, s.O)
		}
		// A corrector goes around once in each direction, twice with its
		// final round; after that nothing more is to be learnt.
		timeout := 4*Time(s.P)*s.O + 2*(2*s.O+s.L)
		return New(cfg, &FailureProof{Ring: s.Ring, F: int(number), Timeout: timeout})
	default:
		return nil, fmt.Errorf("correction %q has a name and no construction", s.Correction)
	}
}

// Gossips reports whether dissemination is gossip, and for how long.
func (s Spec) Gossips() (until Time, gossip bool, err error) {
	name, number, found := strings.Cut(s.Tree, ":")
	if name != "gossip" {
		return 0, false, nil
	}
	t, err := strconv.ParseUint(number, 10, 15)
	if !found || err != nil {
		return 0, true, fmt.Errorf("tree %q; allowed: gossip:T with T from 0 to %d", s.Tree, 1<<15-1)
	}
	return Time(t), true, nil
}

// GossipEnd reports whether dissemination is gossip, and when it is over: when
// a message sent at the last moment has been received. That is T+L+O for O=1,
// as in Corrected Gossip, §III.A.
func (s Spec) GossipEnd() (end Time, gossip bool, err error) {
	until, gossip, err := s.Gossips()
	if err != nil || !gossip {
		return 0, gossip, err
	}
	return max(until-1, 0) + 2*s.O + s.L, true, nil
}

func (s Spec) bfb() (*BFB, error) {
	switch {
	case s.Correction != "none":
		return nil, fmt.Errorf("tree bfb with correction %q; allowed: none", s.Correction)
	case s.Order == topology.InOrder:
		return nil, errors.New("order in-order; bfb makes its trees itself: allowed: interleaved")
	}
	return NewBFB(s.P, s.Root)
}

func (s Spec) dissemination(acknowledged bool) (Dissemination, error) {
	until, gossip, err := s.Gossips()
	name, _, _ := strings.Cut(s.Tree, ":")
	big := s.Tree == "big"
	switch {
	case err != nil:
		return nil, err
	case (gossip || big) && acknowledged:
		return nil, fmt.Errorf("acknowledged %s; allowed: acknowledgements of a tree", name)
	case (gossip || big) && s.Order == topology.InOrder:
		return nil, fmt.Errorf("order in-order; %s has no order: allowed: interleaved", name)
	case big:
		return &BIG{}, nil
	case gossip && !s.Counted && (s.Synchronized || s.Correction == "none"):
		return &Gossip{Until: until}, nil
	case gossip: // a round is one send
		return &Gossip{Rounds: uint16((until + s.O - 1) / s.O), Hop: uint16(min((s.L+s.O-1)/s.O+2, 1<<15))}, nil
	}
	shape, err := topology.ParseShape(s.Tree)
	if err != nil {
		return nil, fmt.Errorf("%w, gossip:T, big, bfb", err)
	}
	tree, err := shape.Tree(s.P, s.Order, int(s.L), int(s.O))
	if err != nil {
		return nil, err
	}
	if acknowledged {
		return &AckTree{Tree: tree}, nil
	}
	return &Tree{Tree: tree}, nil
}

// ParseCorrection reads the name of a correction and its number, if it has one.
func ParseCorrection(correction string) (name string, number int32, err error) {
	name, digits, found := strings.Cut(correction, ":")
	i := slices.IndexFunc(corrections, func(c correctionName) bool { return c.name == name })
	if i < 0 {
		var allowed []string
		for _, c := range corrections {
			allowed = append(allowed, c.String())
		}
		return "", 0, fmt.Errorf("correction %q; allowed: %s", correction, strings.Join(allowed, ", "))
	}
	want := corrections[i].number
	switch {
	case want == "" && found:
		return "", 0, fmt.Errorf("correction %q; allowed: %s, without a number", correction, name)
	case want == "":
		return name, 0, nil
	}
	n, err := strconv.ParseUint(digits, 10, 31)
	if err != nil {
		return "", 0, fmt.Errorf("correction %q; allowed: %s:%s with a whole number %s below 2^31", correction, name, want, want)
	}
	return name, int32(n), nil
}

// correctionName is a correction as a Spec names it.
type correctionName struct{ name, number string }

func (c correctionName) String() string {
	if c.number == "" {
		return c.name
	}
	return c.name + ":" + c.number
}

var corrections = []correctionName{
	{"none", ""},
	{"ack", ""},
	{"opportunistic", "D"},
	{"opportunistic-sends", "N"},
	{"optimized", "D"},
	{"optimized-paper", "D"},
	{"checked", ""},
	{"failure-proof", "F"},
	{"delayed", "STEPS"},
}
