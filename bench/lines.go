package main

import (
	"fmt"

	"github.com/coppice-go/coppice/bench/loop"
)

// A side is one way to run a loop.
type side string

const (
	coppiceUnix      side = "Coppice, Unix sockets"
	coppiceReplay    side = "Coppice, replay, Unix sockets"
	coppiceShared    side = "Coppice, replay, shared memory"
	coppiceOther     side = "Coppice, the other commit, Unix sockets"
	coppiceTCP       side = "Coppice, TCP"
	coppiceCorrected side = "Coppice, checked, Unix sockets"
	coppiceCopied    side = "Coppice, copied, Unix sockets" // values, as in corrected broadcasts
	coppiceLocal     side = "Coppice, goroutines"
	rawUnix          side = "raw system calls, Unix socket"
	openMPITCP       side = "Open MPI, TCP"
	openMPIShared    side = "Open MPI, shared memory"
)

// A line is one comparison.
type line struct {
	what         string
	op           string
	p, bytes     int
	ours, theirs side
	target       target

	beside side // measured in the same rounds, with no target; "": nothing
	hogs   int  // how many processors are kept busy meanwhile
	cell   bool // one of the table of all collectives
}

func (l line) String() string { return fmt.Sprintf("%s, p = %d", l.what, l.p) }

// A target bounds the ratio ours / theirs; the zero target asks for nothing.
type target struct {
	ratio float64
	below bool // less than ratio, not just at most
}

func (t target) String() string {
	switch {
	case t.ratio == 0:
		return ""
	case t.below:
		return fmt.Sprintf("< %.1f", t.ratio)
	default:
		return fmt.Sprintf("≤ %.1f", t.ratio)
	}
}

// verdict returns whether a ratio meets the target, or "" if there is none.
func (t target) verdict(ratio float64) string {
	switch {
	case t.ratio == 0:
		return ""
	case ratio < t.ratio, ratio == t.ratio && !t.below:
		return "ok"
	default:
		return "short"
	}
}

// lines returns all comparisons: first those with a target, then those that only inform.
func lines() (all []line) {
	add := func(what, op string, bytes int, ours, theirs side, t func(p int) target, sizes ...int) {
		for _, p := range sizes {
			all = append(all, line{what: what, op: op, p: p, bytes: bytes, ours: ours, theirs: theirs, target: t(p)})
		}
	}
	atMost := func(ratio float64) func(int) target {
		return func(int) target { return target{ratio: ratio} }
	}
	broadcast := func(p int) target {
		if p <= 4 {
			return target{ratio: 1.3}
		}
		return target{ratio: 1.0}
	}
	below1 := func(int) target { return target{ratio: 1.0, below: true} }
	none := func(int) target { return target{} }

	add("ping-pong 8 B", loop.PingPong, 8, coppiceUnix, rawUnix, atMost(1.2), 2)
	add("broadcast 8 B", loop.Broadcast, 8, coppiceUnix, openMPITCP, broadcast, 2, 4, 8, 16, 32)
	add("start-up", loop.Start, 1, coppiceUnix, openMPIShared, atMost(0.5), 32)
	add("barrier in memory", loop.Barrier, 1, coppiceLocal, openMPIShared, below1, 8, 16, 32)

	add("ping-pong 8 B", loop.PingPong, 8, coppiceUnix, openMPITCP, none, 2)
	add("barrier", loop.Barrier, 1, coppiceUnix, openMPITCP, none, 2, 4, 8, 16, 32)
	add("broadcast 64 KiB", loop.Broadcast, 64<<10, coppiceUnix, openMPITCP, none, 2, 8, 32)
	add("broadcast 1 MiB", loop.Broadcast, 1<<20, coppiceUnix, openMPITCP, none, 2, 8, 32)
	add("corrected broadcast 8 B", loop.Broadcast, 8, coppiceCorrected, openMPITCP, none, 2, 8, 32)
	return all
}

// job returns the line's loop, with iterations for about a second of the slower side, or a quarter of
// that if quick.
func (l line) job(quick bool) loop.Job {
	seconds := 1.0
	if l.hogs > 0 {
		seconds = 0.1 // a peer that polls takes ten times as long and more
	}
	if quick {
		seconds /= 4
	}
	n := loop.Iterations(l.op, l.bytes, l.p, seconds)
	return loop.Job{Op: l.op, Bytes: l.bytes, Warmup: loop.Warmup(n), Iterations: n}
}
