// Source: Culler et al., Assessing Fast Network Interfaces (IEEE Micro 1996), for
// L, o and g from round trips and bursts; Alexandrov et al., LogGP (SPAA 1995),
// for G from long messages.
//
// A round trip of a short message takes 2(L+2o). The sender of a burst is busy for o with each message, as long as the
// receiver keeps up. From the beginning of a burst to its answer every further message takes g, and every further byte of
// a round trip 2G. Each of the four comes from one of these and not from a fit of all, so that noise in one stays there.
//
// It assumes that a send and a receive cost the same o, and that what a process
// sends to one other costs it as much as if it went to many.

package model

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
)

// LogGP are the parameters of a network, in one unit of time.
type LogGP struct {
	L       float64 // latency
	O       float64 // overhead of a send and of a receive
	Gap     float64 // g, the time between two messages of a long burst
	PerByte float64 // G, the time of each further byte
}

// Interval is the time between two sends of one process: g, or o if that is more.
func (n LogGP) Interval() float64 { return max(n.Gap, n.O) }

// Delay is the time from the beginning of a send to the end of its receive.
func (n LogGP) Delay() float64 { return n.L + 2*n.O }

// Probe is what was measured between two processes. Its times are medians, in
// any unit.
type Probe struct {
	RoundTrips []RoundTrip // of two sizes or more
	Bursts     []Burst     // of two lengths or more
}

// RoundTrip is a message there and back.
type RoundTrip struct {
	Bytes int
	Time  float64
}

// Burst is many short messages to one process, which answers the last.
type Burst struct {
	Messages int
	Sent     float64 // until the sender could have done something else
	Answered float64 // until it had the answer; since the first send began, too
}

// shortBurst is the longest burst during which a receiver keeps up, by the
// buffers between the two.
const shortBurst = 64

// Fit returns the parameters behind a measurement. Where a send of a burst takes
// longer than a quarter of the round trip, because the two processes are in each
// other's way or the sender's system does the receiver's work, L would be negative:
// then o is that quarter and L is 0, so that the round trip is always 2(L+2o), and
// what a burst costs is in g. g and G are 0 where noise makes them negative.
func (p Probe) Fit() (LogGP, error) {
	if err := p.check(); err != nil {
		return LogGP{}, err
	}
	var sends []float64
	var gaps, bytes []Point
	for _, b := range p.Bursts {
		if b.Messages <= shortBurst {
			sends = append(sends, b.Sent/float64(b.Messages))
		}
		gaps = append(gaps, Point{float64(b.Messages), b.Answered})
	}
	for _, r := range p.RoundTrips {
		bytes = append(bytes, Point{float64(r.Bytes), r.Time})
	}
	short := slices.MinFunc(p.RoundTrips, func(a, b RoundTrip) int { return cmp.Compare(a.Bytes, b.Bytes) })
	n := LogGP{O: min(Median(sends), short.Time/4)}
	n.L = max(0, short.Time/2-2*n.O)
	n.Gap = max(0, Slope(gaps))
	n.PerByte = max(0, Slope(bytes)/2)
	return n, nil
}

// Combine returns the medians of several probes of the same sizes and lengths, in the same order. To fit them is better
// than to take the medians of what fits each: the round trip of the fit is 2(L+2o), too.
func Combine(probes []Probe) (Probe, error) {
	if len(probes) == 0 {
		return Probe{}, errors.New("no probes; allowed: 1 or more")
	}
	median := func(time func(Probe) float64) float64 {
		var all []float64
		for _, p := range probes {
			all = append(all, time(p))
		}
		return Median(all)
	}
	first := probes[0]
	for _, p := range probes[1:] {
		if !p.like(first) {
			return Probe{}, errors.New("probes of different sizes and lengths; allowed: the same")
		}
	}
	var c Probe
	for i, r := range first.RoundTrips {
		r.Time = median(func(p Probe) float64 { return p.RoundTrips[i].Time })
		c.RoundTrips = append(c.RoundTrips, r)
	}
	for i, b := range first.Bursts {
		b.Sent = median(func(p Probe) float64 { return p.Bursts[i].Sent })
		b.Answered = median(func(p Probe) float64 { return p.Bursts[i].Answered })
		c.Bursts = append(c.Bursts, b)
	}
	return c, nil
}

// like reports whether two probes measured the same.
func (p Probe) like(q Probe) bool {
	return slices.EqualFunc(p.RoundTrips, q.RoundTrips, func(a, b RoundTrip) bool { return a.Bytes == b.Bytes }) &&
		slices.EqualFunc(p.Bursts, q.Bursts, func(a, b Burst) bool { return a.Messages == b.Messages })
}

func (p Probe) check() error {
	short := false
	lengths, sizes := map[int]bool{}, map[int]bool{}
	for _, b := range p.Bursts {
		if b.Messages < 1 || !isTime(b.Sent) || !isTime(b.Answered) {
			return fmt.Errorf("burst of %d messages, sent in %g, answered in %g; allowed: 1 message or more, times above 0", b.Messages, b.Sent, b.Answered)
		}
		lengths[b.Messages] = true
		short = short || b.Messages <= shortBurst
	}
	for _, r := range p.RoundTrips {
		if r.Bytes < 0 || !isTime(r.Time) {
			return fmt.Errorf("round trip of %d bytes in %g; allowed: 0 bytes or more, times above 0", r.Bytes, r.Time)
		}
		sizes[r.Bytes] = true
	}
	switch {
	case len(lengths) < 2 || !short:
		return fmt.Errorf("bursts of %d lengths; allowed: 2 or more, one of them up to %d messages", len(lengths), shortBurst)
	case len(sizes) < 2:
		return fmt.Errorf("round trips of %d sizes; allowed: 2 or more", len(sizes))
	}
	return nil
}

func isTime(t float64) bool { return t > 0 && !math.IsInf(t, 1) }
