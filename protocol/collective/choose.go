package collective

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// Rule says which algorithm carries out an operation from P tasks and Bytes bytes on.
type Rule struct {
	Op        Op
	P         int   // from this number of tasks on
	Bytes     int64 // and from this number of bytes on: a task's value, or one block
	Algorithm Algorithm
	Span      int64 // bytes of a piece, where a vector goes in several; 0: in one
}

// Network says what lies between the processes of a job, as far as all of them know.
type Network string

// The networks.
const (
	OverSockets Network = ""       // one host, or it is not known
	InMemory    Network = "memory" // all share the memory of one host
	AcrossHosts Network = "hosts"  // several hosts, each with tasks of consecutive ranks
)

// Table returns the default rules for a network.
func (n Network) Table() Table {
	if t := tables[n]; t != nil {
		return t
	}
	return Default
}

var tables = map[Network]Table{InMemory: slices.Concat(Default, inMemory), AcrossHosts: slices.Concat(Default, acrossHosts)}

// Table says which algorithm to use: of an operation's rules the last that fits.
type Table []Rule

// Choose is the rule for an operation, whose algorithm spec leaves open. A size below 0 is one that tasks do not
// know of each other: it counts as small.
func (t Table) Choose(spec Spec, bytes int64) (best Rule) {
	for _, r := range t {
		if r.Op == spec.Op && spec.P >= r.P && max(bytes, 0) >= r.Bytes {
			if w, ok := find(spec.Op, r.Algorithm); ok && w.fits(spec) {
				best = r
			}
		}
	}
	return best
}

// Whole is the table for values that cannot be cut.
func (t Table) Whole() Table {
	return slices.DeleteFunc(slices.Clone(t), func(r Rule) bool {
		w, _ := find(r.Op, r.Algorithm)
		return w.cuts
	})
}

// Small is for operations of which tasks do not know the size: it returns whether the way for small values or blocks
// differs from that for large ones, and up to which size it is the right one.
func (t Table) Small(spec Spec) (differ bool, limit int64) {
	first := t.Choose(spec, 0)
	for _, r := range t {
		if r.Op == spec.Op && spec.P >= r.P && r.Bytes > 0 && (!differ || r.Bytes <= limit) {
			if best := t.Choose(spec, r.Bytes); best.Algorithm != first.Algorithm || best.Span != first.Span {
				differ, limit = true, r.Bytes-1
			}
		}
	}
	return differ, limit
}

// ruleText is a rule in JSON.
type ruleText struct {
	Op        string `json:"op"`
	P         int    `json:"p,omitempty"`
	Bytes     int64  `json:"bytes,omitempty"`
	Algorithm string `json:"algorithm"`
	Span      int64  `json:"span,omitempty"`
}

// MarshalJSON writes the rule.
func (r Rule) MarshalJSON() ([]byte, error) {
	return json.Marshal(ruleText{r.Op.String(), r.P, r.Bytes, r.Algorithm.String(), r.Span})
}

// UnmarshalJSON reads a rule, and refuses one that makes no sense.
func (r *Rule) UnmarshalJSON(b []byte) error {
	var text ruleText
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&text); err != nil {
		return err
	}
	op, err := ParseOp(text.Op)
	if err != nil {
		return err
	}
	a, err := ParseAlgorithm(text.Algorithm)
	if err != nil {
		return err
	}
	w, ok := find(op, a)
	switch {
	case !ok:
		return fmt.Errorf("%v by %v; allowed: %s", op, a, algorithmsOf(op))
	case text.P < 0 || text.Bytes < 0 || text.Span < 0:
		return fmt.Errorf("%v by %v from %d tasks and %d bytes on, in pieces of %d; allowed: 0 or more", op, a, text.P, text.Bytes, text.Span)
	case text.Span > 0 && !w.spans:
		return fmt.Errorf("%v by %v in pieces; allowed: in one", op, a)
	}
	*r = Rule{op, text.P, text.Bytes, a, text.Span}
	return nil
}

func algorithmsOf(op Op) string {
	var names []string
	for _, w := range ways[op] {
		names = append(names, w.algorithm.String())
	}
	return strings.Join(names, ", ")
}

// ParseOp reads the name of an operation.
func ParseOp(name string) (Op, error) {
	i := slices.Index(opNames[:], name)
	if i <= 0 {
		return 0, fmt.Errorf("operation %q; allowed: %s", name, strings.Join(opNames[1:], ", "))
	}
	return Op(i), nil
}

// ParseTable reads rules, a JSON list of objects such as
//
//	{"op": "allreduce", "p": 4, "bytes": 16384, "algorithm": "binomial", "span": 262144}
//
// Added to a network's table they count before its rules, since they come later.
func ParseTable(text []byte) (t Table, err error) {
	if err = json.Unmarshal(text, &t); err != nil {
		return nil, fmt.Errorf("rules for collectives: %w", err)
	}
	return t, nil
}

// Default is the table for OverSockets: for processes that share a host, more of them than it has processors: there the work of all
// together counts, and a process that need not wake costs nothing. It was filled from measurements; docs/collectives.md
// has them. Beyond 64 tasks there are no measurements, and no task is to handle all messages.
var Default = Table{
	{Op: Broadcast, Algorithm: Binomial},
	{Op: Scatter, Algorithm: Flat},
	{Op: Scatter, P: 65, Algorithm: Binomial},
	{Op: Scatter, P: 65, Bytes: 64 << 10, Algorithm: Flat}, // as fast, and nobody keeps blocks of others
	{Op: Gather, Algorithm: Flat},
	{Op: Gather, P: 65, Algorithm: Binomial},
	{Op: Gather, P: 65, Bytes: 64 << 10, Algorithm: Flat},
	{Op: AllGather, Algorithm: Direct},
	{Op: AllGather, P: 4, Algorithm: Hub},
	{Op: AllGather, P: 65, Algorithm: Bruck},
	{Op: AllGather, P: 4, Bytes: 8 << 10, Algorithm: Ring},
	{Op: AllToAll, Algorithm: Direct},
	{Op: AllToAll, P: 4, Algorithm: Hub},
	{Op: AllToAll, P: 65, Algorithm: Bruck},
	{Op: AllToAll, P: 4, Bytes: 8 << 10, Algorithm: Direct},
	{Op: Reduce, Algorithm: Flat},
	{Op: Reduce, P: 65, Algorithm: Binomial},
	{Op: Reduce, P: 2, Bytes: 128 << 10, Algorithm: Binomial, Span: 64 << 10},
	{Op: Reduce, P: 9, Bytes: 128 << 10, Algorithm: Binomial},
	{Op: AllReduce, Algorithm: Doubling},
	{Op: AllReduce, P: 2, Bytes: 512 << 10, Algorithm: Rabenseifner},
	{Op: AllReduce, P: 3, Bytes: 128 << 10, Algorithm: Binomial},
	{Op: AllReduce, P: 4, Algorithm: Hub},
	{Op: AllReduce, P: 65, Algorithm: Binomial},
	{Op: AllReduce, P: 4, Bytes: 128 << 10, Algorithm: Binomial},
	{Op: Scan, Algorithm: Doubling},
	{Op: ExScan, Algorithm: Doubling},
	{Op: ReduceScatter, Algorithm: Direct},
	{Op: ReduceScatter, P: 4, Algorithm: Hub},
	{Op: ReduceScatter, P: 65, Algorithm: Bruck},
	{Op: ReduceScatter, P: 4, Bytes: 8 << 10, Algorithm: Direct},
}

// inMemory was filled from measurements, too. In memory a message costs little; a process that waits for its turn on a processor, much.
var inMemory = Table{
	{Op: Broadcast, P: 4, Algorithm: Flat},
	{Op: Broadcast, P: 65, Algorithm: Binomial},
	{Op: Reduce, P: 2, Bytes: 128 << 10, Algorithm: Flat},
	{Op: Reduce, P: 4, Bytes: 128 << 10, Algorithm: Binomial},
	{Op: Reduce, P: 8, Bytes: 128 << 10, Algorithm: Binomial, Span: 64 << 10},
	{Op: Reduce, P: 9, Bytes: 128 << 10, Algorithm: Binomial},
	{Op: AllGather, P: 4, Bytes: 8 << 10, Algorithm: Direct},
	{Op: AllGather, P: 65, Bytes: 8 << 10, Algorithm: Ring},
}

// acrossHosts has each byte cross the network once, in an all-reduce twice. In order, reductions do so along a binomial tree if each host
// has as many tasks, a power of two; otherwise somewhat more often. Where the rules switch follows the model: coppice sim --collective
// --hosts.
var acrossHosts = Table{
	{Op: Broadcast, Algorithm: TwoLevel},
	{Op: Scatter, Algorithm: TwoLevel},
	{Op: Scatter, Bytes: 64 << 10, Algorithm: Flat},
	{Op: Gather, Algorithm: TwoLevel},
	{Op: Gather, Bytes: 64 << 10, Algorithm: Flat},
	{Op: AllGather, Algorithm: TwoLevel},
	{Op: AllGather, Bytes: 8 << 10, Algorithm: Ring},
	{Op: AllToAll, Algorithm: TwoLevel},
	{Op: AllToAll, Bytes: 1 << 10, Algorithm: Direct},
	{Op: ReduceScatter, Algorithm: TwoLevel},
	{Op: ReduceScatter, Bytes: 1 << 10, Algorithm: Direct},
	{Op: Reduce, Algorithm: Binomial},
	{Op: Reduce, Bytes: 128 << 10, Algorithm: Binomial, Span: 64 << 10},
	{Op: Reduce, Algorithm: TwoLevel},
	{Op: Reduce, Bytes: 128 << 10, Algorithm: TwoLevel, Span: 64 << 10},
	{Op: AllReduce, P: 3, Algorithm: Binomial},
	{Op: AllReduce, P: 3, Algorithm: TwoLevel},
	{Op: AllReduce, P: 3, Bytes: 256 << 10, Algorithm: Ring}, // in any order only: no host alone sends all
	{Op: AllReduce, P: 65, Bytes: 256 << 10, Algorithm: Binomial},
	{Op: AllReduce, P: 65, Bytes: 256 << 10, Algorithm: TwoLevel},
	{Op: AllReduce, P: 4, Bytes: 512 << 10, Algorithm: Rabenseifner}, // the same in order, among a power of two
}
