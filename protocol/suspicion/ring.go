package suspicion

import "github.com/coppice-go/coppice/topology"

// ring is the order in which the processes of a job watch each other. All that know of the same deaths see the same ring.
//
// Neighbours on the ring are not neighbours in rank: these often share a host, and fail with it. The ring goes from rank
// to rank by a stride of about 0.382·n, the golden section. Of any n/2 successive ranks that fall silent, each then has
// one of its two watchers among the others (but for n = 6, where no stride achieves that).
type ring struct {
	gone   []bool
	stride int // has no divisor in common with n, so it reaches all ranks
}

func newRing(n int) ring {
	return ring{gone: make([]bool, n), stride: strideFor(n)}
}

func strideFor(n int) int {
	section := n * 382 / 1000
	for d := range n {
		for _, s := range []int{section + d, section - d} {
			if s >= 1 && s < n && topology.GCD(s, n) == 1 {
				return s
			}
		}
	}
	return 1
}

// along lists the first live processes, at most count, that come after self in steps of the stride; before self, if step
// is minus the stride.
func (r ring) along(self, step, count int) []int {
	var found []int
	n := len(r.gone)
	for at := (self + step + n) % n; at != self && len(found) < count; at = (at + step + n) % n {
		if !r.gone[at] {
			found = append(found, at)
		}
	}
	return found
}

// set notes that rank is gone, or not, and reports whether that is new.
func (r ring) set(rank int, gone bool) bool {
	if rank < 0 || rank >= len(r.gone) || r.gone[rank] == gone {
		return false
	}
	r.gone[rank] = gone
	return true
}
