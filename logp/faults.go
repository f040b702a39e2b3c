package logp

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/coppice-go/coppice/protocol"
)

// Faults are the failures of one run.
type Faults struct {
	Failed []protocol.Rank // dead from the start
	Deaths []Death         // during the run
}

// Death is a failure during a run: at the time At, before anything else happens then; or, if AfterSends is
// not 0, right after that many sends.
type Death struct {
	Rank       protocol.Rank
	At         protocol.Time
	AfterSends int
}

// deaths are the deaths to come in the present run.
type deaths struct {
	byTime  []Death // in falling order of time
	bySends map[protocol.Rank]int
}

// next is when the next death by time happens.
func (d *deaths) next() protocol.Time {
	if n := len(d.byTime); n > 0 {
		return d.byTime[n-1].At
	}
	return protocol.Never
}

// until kills the processes whose time has come.
func (d *deaths) until(now protocol.Time, kill func(protocol.Rank)) {
	for n := len(d.byTime); n > 0 && d.byTime[n-1].At <= now; n-- {
		kill(d.byTime[n-1].Rank)
		d.byTime = d.byTime[:n-1]
	}
}

// sent counts a send and reports whether the sender dies of it.
func (d *deaths) sent(r protocol.Rank) bool {
	left, doomed := d.bySends[r]
	if doomed {
		d.bySends[r] = left - 1
	}
	return doomed && left == 1
}

// Check returns what is wrong with the faults for p processes.
func (f Faults) Check(p int) error {
	for _, r := range f.Failed {
		if r < 0 || int(r) >= p {
			return fmt.Errorf("failed rank %d; allowed: 0 to %d", r, p-1)
		}
	}
	for _, d := range f.Deaths {
		if d.Rank < 0 || int(d.Rank) >= p {
			return fmt.Errorf("death of rank %d; allowed: 0 to %d", d.Rank, p-1)
		}
		if d.At < 0 || d.At > timeMax || d.AfterSends < 0 || d.At > 0 && d.AfterSends > 0 {
			return fmt.Errorf("death of rank %d at %d after %d sends; allowed: one of the two, from 0 to 2^40", d.Rank, d.At, d.AfterSends)
		}
	}
	return nil
}

// plan sorts the deaths of a run by what causes them.
func (f Faults) plan() deaths {
	var d deaths
	for _, death := range f.Deaths {
		if death.AfterSends == 0 {
			d.byTime = append(d.byTime, death)
			continue
		}
		if d.bySends == nil {
			d.bySends = make(map[protocol.Rank]int)
		}
		if sends, twice := d.bySends[death.Rank]; !twice || death.AfterSends < sends {
			d.bySends[death.Rank] = death.AfterSends
		}
	}
	slices.SortStableFunc(d.byTime, func(a, b Death) int { return cmp.Compare(b.At, a.At) })
	return d
}
