package main

import (
	"bufio"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/model"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/collective"
)

// collectiveFlags make sim simulate a collective operation.
type collectiveFlags struct {
	Collective string  `group:"Collective operations:" placeholder:"OP" help:"Simulate this instead of a corrected broadcast: broadcast, scatter, gather, allgather, alltoall, reduce, allreduce, scan, exscan or reducescatter. Nobody fails, unless it is corrected."`
	Algorithm  string  `group:"Collective operations:" placeholder:"A" help:"binomial, flat, hub, doubling, rabenseifner, ring, bruck, direct, scatter-all-gather or, with --hosts, two-level; for reduce and allreduce also corrected:F or corrected-flat:F, which outlive F deaths (default 1) and take --failed, --die and --detect. Without it all others that there are for OP, and the fastest is the result."`
	Size       string  `group:"Collective operations:" placeholder:"SIZE" help:"Bytes of the value in broadcast and reductions, of each block in all else, such as 8B, 64KiB or 1MiB (default 8B)."`
	Pieces     int     `group:"Collective operations:" placeholder:"K" help:"Pieces in which a value goes along a tree (default 1)."`
	PerByte    float64 `name:"per-byte" short:"G" group:"Collective operations:" placeholder:"G" help:"LogGP time of each byte of a message beyond the first (default 0)."`

	Hosts       int      `group:"Collective operations:" placeholder:"H" help:"The processes are on H hosts, as many on each or one more, by rank. -L, -g and -G are those of the network between them, to which each host has one link."`
	HostLatency *int64   `group:"Collective operations:" placeholder:"l" help:"With --hosts: latency within a host (default: a tenth of -L)."`
	HostPerByte *float64 `group:"Collective operations:" placeholder:"G" help:"With --hosts: time of each byte within a host (default: -G)."`
}

// corrects tells whether the operation is to outlive deaths.
func (s *simCmd) corrects() bool {
	return strings.HasPrefix(s.Algorithm, collective.Corrected.String())
}

// algorithm reads --algorithm, with the deaths that it outlives.
func (s *simCmd) algorithm() (a collective.Algorithm, failures int, err error) {
	name, digits, found := strings.Cut(s.Algorithm, ":")
	if !s.corrects() {
		name, found = s.Algorithm, false
	}
	a, err = collective.ParseAlgorithm(name)
	if err != nil || !s.corrects() {
		return a, 0, err
	}
	failures = 1
	if found {
		if failures, err = strconv.Atoi(digits); err != nil {
			return a, 0, fmt.Errorf("algorithm %q; allowed: %s:F with F from 0 to %d", s.Algorithm, name, collective.FailuresMax)
		}
	}
	return a, failures, nil
}

// collectiveReport is what an operation came to by the fastest algorithm, or the
// one that was asked for.
type collectiveReport struct {
	Op      string  `json:"collective"`
	P       int     `json:"P"`
	Root    int     `json:"root"`
	Size    int     `json:"size"`
	Pieces  int     `json:"pieces"`
	L       int64   `json:"L"`
	O       int64   `json:"o"`
	Gap     int64   `json:"g"`
	PerByte float64 `json:"G"`
	*hostsReport
	collectiveTime
	All     []collectiveTime `json:"all"`
	LeftOut []string         `json:"left_out,omitempty"`
}

// hostsReport says on what hosts the processes are.
type hostsReport struct {
	Hosts       int     `json:"hosts"`
	HostLatency int64   `json:"host_latency"`
	HostPerByte float64 `json:"host_per_byte"`
}

type collectiveTime struct {
	Algorithm   string        `json:"algorithm"`
	Time        protocol.Time `json:"time"`
	Messages    int64         `json:"messages"`
	Bytes       int64         `json:"bytes"`
	MessagesMax int64         `json:"messages_max"`
	BytesMax    int64         `json:"bytes_max"`
	Crossing    *int64        `json:"bytes_between_hosts,omitempty"`
	*collectiveDeaths
}

// collectiveDeaths is what a corrected operation came to besides.
type collectiveDeaths struct {
	Corrections int64 `json:"corrections"` // of the messages
	Unreached   int   `json:"unreached"`   // live processes without a result that they wait for
}

// simulateCollective simulates an operation. All errors are about its input.
func (s *simCmd) simulateCollective() (*collectiveReport, error) {
	unfit := []string{
		"tree", "order", "correction", "sync", "early", "first", "wrap", "sides", "runs", "faults", "fault-count", "failed", "block", "die", "detect", "queue", "trace",
	}
	if s.corrects() {
		unfit = slices.DeleteFunc(unfit, func(flag string) bool { return flag == "failed" || flag == "die" || flag == "detect" })
	}
	if flag := changed(s, unfit...); flag != "" {
		return nil, fmt.Errorf("%s with --collective; allowed: -P, -L, -o, -g, -G, --root, --algorithm, --size, --pieces, --hosts, --json", flag)
	}
	op, err := collective.ParseOp(s.Collective)
	if err != nil {
		return nil, err
	}
	if s.Pieces < 0 {
		return nil, fmt.Errorf("%d pieces; allowed: 1 to %d", s.Pieces, collective.SpansMax)
	}
	r := &collectiveReport{
		Op: s.Collective, P: s.P, Root: s.Root, Size: 8, Pieces: max(s.Pieces, 1),
		L: s.L, O: s.O, Gap: s.G, PerByte: s.PerByte,
	}
	if s.Size != "" {
		if r.Size, err = parseSize(s.Size); err != nil {
			return nil, err
		}
	}
	net := logp.Network{P: s.P, L: protocol.Time(s.L), O: protocol.Time(s.O), G: protocol.Time(s.G), PerByte: s.PerByte}
	if err := s.placed(&net, r); err != nil {
		return nil, err
	}
	if err := net.Check(); err != nil {
		return nil, err
	}
	specs, err := s.specs(op, r, net)
	if err != nil {
		return nil, err
	}
	for _, spec := range specs {
		one, err := s.simulateOne(spec, int64(r.Size), net)
		if err != nil {
			return nil, err
		}
		r.All = append(r.All, one)
	}
	r.collectiveTime = r.All[0]
	for _, c := range r.All {
		if c.Time < r.Time {
			r.collectiveTime = c
		}
	}
	return r, nil
}

// placed puts the processes on hosts.
func (s *simCmd) placed(net *logp.Network, r *collectiveReport) error {
	switch {
	case s.Hosts == 0 && (s.HostLatency != nil || s.HostPerByte != nil):
		return errors.New("--host-latency or --host-per-byte without --hosts; allowed with it")
	case s.Hosts == 0:
		return nil
	case s.Hosts < 1 || s.Hosts > s.P:
		return fmt.Errorf("%d processes on %d hosts; allowed: 1 to %d hosts", s.P, s.Hosts, s.P)
	case s.corrects():
		return errors.New("--hosts with a corrected operation; allowed with the others")
	}
	h := &hostsReport{Hosts: s.Hosts, HostLatency: s.L / 10, HostPerByte: s.PerByte}
	if s.HostLatency != nil {
		h.HostLatency = *s.HostLatency
	}
	if s.HostPerByte != nil {
		h.HostPerByte = *s.HostPerByte
	}
	r.hostsReport = h
	net.Hosts = &logp.Hosts{L: protocol.Time(h.HostLatency), PerByte: h.HostPerByte}
	for i := range s.Hosts {
		net.Hosts.First = append(net.Hosts.First, protocol.Rank(i*s.P/s.Hosts))
	}
	return nil
}

// simulateOne simulates one algorithm.
func (s *simCmd) simulateOne(spec collective.Spec, size int64, net logp.Network) (collectiveTime, error) {
	timed := func(name string, got logp.CollectiveResult) collectiveTime {
		one := collectiveTime{name, got.Time, got.Messages, got.Bytes, got.MessagesMax, got.BytesMax, nil, nil}
		if net.Hosts != nil {
			one.Crossing = &got.Crossing
		}
		return one
	}
	if !s.corrects() {
		got, err := logp.Collective(spec, size, 1, net)
		return timed(spec.Algorithm.String(), got), err
	}
	f, err := s.sampling()
	if err != nil {
		return collectiveTime{}, err
	}
	if net.Detect, err = s.detection(); err != nil {
		return collectiveTime{}, err
	}
	got, err := logp.Outlived(spec, size, 1, net, f.Fixed)
	one := timed(fmt.Sprintf("%v:%d", spec.Algorithm, spec.Failures), got.CollectiveResult)
	one.collectiveDeaths = &collectiveDeaths{got.Corrections, got.Unreached}
	return one, err
}

// specs lists the schedules to simulate: that of the algorithm asked for, or all
// that do not take too long.
func (s *simCmd) specs(op collective.Op, r *collectiveReport, net logp.Network) (specs []collective.Spec, err error) {
	spec := collective.Spec{Op: op, P: s.P, Root: protocol.Rank(min(s.Root, 1<<31-1)), Spans: r.Pieces, AnyOrder: true}
	if net.Hosts != nil {
		spec.Hosts = net.Hosts.First
	}
	if s.Algorithm != "" {
		spec.Algorithm, spec.Failures, err = s.algorithm()
		return []collective.Spec{spec}, err
	}
	for _, a := range collective.Algorithms(spec) {
		if cost, _ := model.Collective(s.Collective, a.String(), s.P, 0); cost.Messages > messagesMany {
			r.LeftOut = append(r.LeftOut, a.String())
			continue
		}
		spec.Algorithm, spec.Spans = a, 1
		if collective.Spans(op, a) {
			spec.Spans = r.Pieces
		}
		specs = append(specs, spec)
	}
	return specs, nil
}

// messagesMany is what takes some seconds to simulate.
const messagesMany = 5_000_000

// write prints the report for people.
func (r *collectiveReport) write(w *bufio.Writer) {
	fmt.Fprintf(w, "%s of %d bytes; P=%d L=%d o=%d", r.Op, r.Size, r.P, r.L, r.O)
	if r.Gap > 0 {
		fmt.Fprintf(w, " g=%d", r.Gap)
	}
	fmt.Fprintf(w, " G=%g", r.PerByte)
	if h := r.hostsReport; h != nil {
		fmt.Fprintf(w, "; hosts: %d, within: L=%d G=%g", h.Hosts, h.HostLatency, h.HostPerByte)
	}
	if r.Root > 0 {
		fmt.Fprintf(w, "; root %d", r.Root)
	}
	if r.Pieces > 1 {
		fmt.Fprintf(w, "; %d pieces", r.Pieces)
	}
	fmt.Fprint(w, "\n\n")
	head := strings.Repeat(" ", 18) + "\ttime\tmessages\tbytes\tmessages max\tbytes max\t"
	if r.hostsReport != nil {
		head += "bytes between hosts\t"
	}
	tabulate(newTable(w), head, r.All, func(c collectiveTime) string {
		line := fmt.Sprintf("%-18s\t%s\t%s\t%s\t%s\t%s\t", c.Algorithm, thousands(int64(c.Time)), thousands(c.Messages), thousands(c.Bytes), thousands(c.MessagesMax), thousands(c.BytesMax))
		if c.Crossing != nil {
			line += thousands(*c.Crossing) + "\t"
		}
		return line
	})
	fmt.Fprint(w, "\nmax: what the busiest process sends or receives, whichever is more\n")
	if d := r.collectiveDeaths; d != nil {
		fmt.Fprintf(w, "corrections: %s of the messages; live processes without the result: %d\n", thousands(d.Corrections), d.Unreached)
	}
	if r.LeftOut != nil {
		fmt.Fprintf(w, "left out, with more than %s messages: %s; --algorithm simulates one\n", thousands(messagesMany), strings.Join(r.LeftOut, ", "))
	}
}
