// Sources: Thakur, Rabenseifner, Gropp, Optimization of Collective Communication
// Operations in MPICH (2005), for the algorithms and how their costs are counted;
// Alexandrov et al., LogGP (SPAA 1995), for the times of long messages; the
// algorithms as package protocol/collective has them, with root 0, values in one
// piece, and sizes that the number of processes divides.
//
// A message of k bytes takes A(k) = 2o + L + (k−1)·G from the start of its send to
// the end of its receive, and keeps either port for S(k) = max(o, g) + (k−1)·G.
// n is the length of a vector (broadcast, reductions), m that of a block. To
// combine values takes no time.

package model

import "math/bits"

// CollectiveCost is what an operation costs, wherever it runs.
type CollectiveCost struct {
	Steps    int   // the longest chain of messages, each of which waits for the one before
	Messages int64 // of all processes
	Bytes    int64 // of all processes
}

// Collective returns what an operation by an algorithm costs among p processes, for vectors or blocks of size bytes. It
// returns false if there is no such algorithm, or none for p processes.
func Collective(op, algorithm string, p int, size int64) (CollectiveCost, bool) {
	f, ok := collectiveCosts[[2]string{alike(op), algorithm}]
	if !ok || algorithm == "rabenseifner" && p&(p-1) != 0 {
		return CollectiveCost{}, false
	}
	if p == 1 {
		return CollectiveCost{}, true
	}
	steps, messages, sizes := f(int64(p))
	c := CollectiveCost{int(steps), messages, sizes * size}
	if op == "reduce" && algorithm == "rabenseifner" {
		c.Bytes -= size / int64(p) // the root has its own segment
	}
	return c, true
}

// alike is the operation that sends the same messages as another, whose tasks combine in another way what they get:
// combining takes no time.
func alike(op string) string {
	switch op {
	case "exscan":
		return "scan"
	case "reducescatter":
		return "alltoall"
	}
	return op
}

// collectiveCosts are, by operation and algorithm, the steps, the messages, and
// how many times the size is sent, among p ≥ 2.
var collectiveCosts = map[[2]string]func(p int64) (steps, messages, sizes int64){
	// Every process but the root gets the vector once.
	{"broadcast", "binomial"}: func(p int64) (int64, int64, int64) { return depth(p), p - 1, p - 1 },
	{"broadcast", "flat"}:     func(p int64) (int64, int64, int64) { return 1, p - 1, p - 1 },
	// After the scatter the processes besides the root hold ones(p) segments in
	// all, of p(p−1) that they must get.
	{"broadcast", "scatter-all-gather"}: func(p int64) (int64, int64, int64) {
		return p - 1, p - 1 + p*(p-1) - ones(p), p - 1
	},
	// A block crosses one link for every bit set in its process's rank.
	{"scatter", "binomial"}: func(p int64) (int64, int64, int64) { return depth(p), p - 1, ones(p) },
	{"scatter", "flat"}:     func(p int64) (int64, int64, int64) { return 1, p - 1, p - 1 },
	{"gather", "binomial"}:  func(p int64) (int64, int64, int64) { return depth(p), p - 1, ones(p) },
	{"gather", "flat"}:      func(p int64) (int64, int64, int64) { return 1, p - 1, p - 1 },
	// Every process gets p−1 blocks; by the hub, its own again with them.
	{"allgather", "ring"}:     func(p int64) (int64, int64, int64) { return p - 1, p * (p - 1), p * (p - 1) },
	{"allgather", "hub"}:      func(p int64) (int64, int64, int64) { return 2, 2 * (p - 1), (p + 1) * (p - 1) },
	{"allgather", "doubling"}: func(p int64) (int64, int64, int64) { return lg(p), exchanges(p), p * (p - 1) },
	{"allgather", "bruck"}:    func(p int64) (int64, int64, int64) { return lg(p), p * lg(p), p * (p - 1) },
	{"allgather", "direct"}:   func(p int64) (int64, int64, int64) { return directSteps(p), p * (p - 1), p * (p - 1) },
	// By Bruck a block crosses one link for every bit set in its distance.
	{"alltoall", "direct"}: func(p int64) (int64, int64, int64) { return directSteps(p), p * (p - 1), p * (p - 1) },
	{"alltoall", "hub"}:    func(p int64) (int64, int64, int64) { return 2, 2 * (p - 1), 2 * p * (p - 1) },
	{"alltoall", "bruck"}:  func(p int64) (int64, int64, int64) { return lg(p), p * lg(p), p * ones(p) },
	// Every vector goes up once; by halves, p/2 + p/4 + … + 1 of them. The segments that are left, but for the root's,
	// go to the root.
	{"reduce", "binomial"}: func(p int64) (int64, int64, int64) { return depth(p), p - 1, p - 1 },
	{"reduce", "flat"}:     func(p int64) (int64, int64, int64) { return 1, p - 1, p - 1 },
	{"reduce", "rabenseifner"}: func(p int64) (int64, int64, int64) {
		return lg(p) + 1, p*lg(p) + p - 1, p // less the root's: see Collective
	},
	{"allreduce", "binomial"}: func(p int64) (int64, int64, int64) {
		return 2 * depth(p), 2 * (p - 1), 2 * (p - 1)
	},
	{"allreduce", "hub"}:      func(p int64) (int64, int64, int64) { return 2, 2 * (p - 1), 2 * (p - 1) },
	{"allreduce", "doubling"}: func(p int64) (int64, int64, int64) { return lg(p), exchanges(p), exchanges(p) },
	{"allreduce", "rabenseifner"}: func(p int64) (int64, int64, int64) {
		return 2 * lg(p), 2 * p * lg(p), 2 * (p - 1)
	},
	{"allreduce", "ring"}: func(p int64) (int64, int64, int64) {
		return 2 * (p - 1), 2 * p * (p - 1), 2 * (p - 1)
	},
	{"scan", "doubling"}: func(p int64) (int64, int64, int64) { return lg(p), exchanges(p), exchanges(p) },
}

// lg is ⌈log₂ p⌉.
func lg(p int64) int64 { return int64(logCeil(int(p))) }

// depth is that of a binomial tree, ⌊log₂ p⌋: a process is as deep as its rank has
// bits set.
func depth(p int64) int64 { return int64(bits.Len64(uint64(p)) - 1) }

// ones is how many bits are set in 0 … p−1 together.
func ones(p int64) (n int64) {
	for i := range p {
		n += int64(bits.OnesCount64(uint64(i)))
	}
	return n
}

// exchanges is how many messages doubling takes: one to every process in every
// round, but for those of the last block where it has no neighbour.
func exchanges(p int64) (n int64) {
	for k := range lg(p) {
		n += p
		if last := (p - 1) >> k; last&1 == 0 {
			n -= p - last<<k
		}
	}
	return n
}

// directWindow is how many messages a process has under way in a direct exchange.
const directWindow = 5

// directSteps: a send waits for the receive of directWindow rounds before. If p is odd one process sits out in every
// round, and it may take one step more.
func directSteps(p int64) int64 { return (p - 2 + directWindow) / directWindow }
