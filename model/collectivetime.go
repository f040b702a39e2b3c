// Sources and letters as in collective.go. The closed forms hold where a port is
// free again before a message is over, max(o, g) ≤ 2o + L, and for the numbers of
// processes that CollectiveTime names; for all else there is the simulator.

package model

// CollectiveTime is when the last of p processes has the result of an operation
// that all begin at 0. It returns false where there is no closed form: for some
// algorithms, unless p is a power of two; for direct exchanges, if p is odd; for
// scatter-all-gather, always.
func CollectiveTime(op, algorithm string, p int, size int64, net LogGP) (float64, bool) {
	c := collectiveNet{net, p, float64(size)}
	f, ok := collectiveTimes[[2]string{alike(op), algorithm}]
	power := p&(p-1) == 0
	if !ok || f.powers && !power || f.even && p%2 != 0 && p > 1 {
		return 0, false
	}
	if p == 1 {
		return 0, true
	}
	return f.time(c), true
}

// collectiveNet is where an operation runs, and among how many.
type collectiveNet struct {
	LogGP
	p    int
	size float64
}

func (c collectiveNet) extra(bytes float64) float64 { return c.PerByte * max(bytes-1, 0) }

// message is A(k).
func (c collectiveNet) message(bytes float64) float64 { return c.Delay() + c.extra(bytes) }

// port is S(k).
func (c collectiveNet) port(bytes float64) float64 { return c.Interval() + c.extra(bytes) }

// star is when p−1 messages have gone out of one port, or into it: (p−2)·S + A.
func (c collectiveNet) star(bytes float64) float64 {
	return float64(c.p-2)*c.port(bytes) + c.message(bytes)
}

// tree is when a binomial tree of p processes has what its root had; of returns the bytes for a subtree of a given size.
// The root sends to the upper part of its processes, then to those of the lower one:
// T(p) = max(A + T(p−h), S + T(h)), h the largest power of two below p.
func (c collectiveNet) tree(p int, of func(int) float64) float64 {
	if p == 1 {
		return 0
	}
	h := 1 << (logCeil(p) - 1)
	b := of(p - h)
	return max(c.message(b)+c.tree(p-h, of), c.port(b)+c.tree(h, of))
}

// rounds is the sum of A over ⌈log₂ p⌉ rounds.
func (c collectiveNet) rounds(bytes func(k int) float64) (t float64) {
	for k := range logCeil(c.p) {
		t += c.message(bytes(k))
	}
	return t
}

func (c collectiveNet) whole(int) float64          { return c.size }
func (c collectiveNet) blocks(n int) float64       { return float64(n) * c.size }
func (c collectiveNet) doubled(k int) float64      { return float64(int(1)<<k) * c.size }
func (c collectiveNet) halved(k int) float64       { return c.size / float64(int(2)<<k) }
func (c collectiveNet) segment() float64           { return c.size / float64(c.p) }
func (c collectiveNet) ring(bytes float64) float64 { return float64(c.p-1) * c.message(bytes) }

// bruckGathered is the bytes of round k: as many blocks as there are already, or
// as are missing.
func (c collectiveNet) bruckGathered(k int) float64 { return c.blocks(min(1<<k, c.p-1<<k)) }

// bruckPassed is the bytes of round k: the blocks whose distance has bit k set.
func (c collectiveNet) bruckPassed(k int) float64 {
	n := 0
	for i := range c.p {
		n += i >> k & 1
	}
	return c.blocks(n)
}

// direct: t(k) = max(t(k−1) + S, t(k−w) + A) is when the k-th send starts, for a
// window of w.
func (c collectiveNet) direct() float64 {
	k, a, s := c.p-2, c.message(c.size), c.port(c.size)
	return float64(k/directWindow)*max(a, directWindow*s) + float64(k%directWindow)*s + a
}

type collectiveForm struct {
	time         func(c collectiveNet) float64
	powers, even bool // p must be such
}

var collectiveTimes = map[[2]string]collectiveForm{
	{"broadcast", "binomial"}:     {time: func(c collectiveNet) float64 { return c.tree(c.p, c.whole) }},
	{"broadcast", "flat"}:         {time: func(c collectiveNet) float64 { return c.star(c.size) }},
	{"scatter", "binomial"}:       {time: func(c collectiveNet) float64 { return c.tree(c.p, c.blocks) }},
	{"scatter", "flat"}:           {time: func(c collectiveNet) float64 { return c.star(c.size) }},
	{"gather", "binomial"}:        {time: func(c collectiveNet) float64 { return c.rounds(c.doubled) }, powers: true},
	{"gather", "flat"}:            {time: func(c collectiveNet) float64 { return c.star(c.size) }},
	{"allgather", "ring"}:         {time: func(c collectiveNet) float64 { return c.ring(c.size) }},
	{"allgather", "hub"}:          {time: func(c collectiveNet) float64 { return c.star(c.size) + c.star(c.blocks(c.p)) }},
	{"allgather", "doubling"}:     {time: func(c collectiveNet) float64 { return c.rounds(c.doubled) }, powers: true},
	{"allgather", "bruck"}:        {time: func(c collectiveNet) float64 { return c.rounds(c.bruckGathered) }},
	{"allgather", "direct"}:       {time: collectiveNet.direct, even: true},
	{"alltoall", "direct"}:        {time: collectiveNet.direct, even: true},
	{"alltoall", "hub"}:           {time: func(c collectiveNet) float64 { return 2 * c.star(c.blocks(c.p)) }},
	{"alltoall", "bruck"}:         {time: func(c collectiveNet) float64 { return c.rounds(c.bruckPassed) }},
	{"reduce", "binomial"}:        {time: func(c collectiveNet) float64 { return c.rounds(c.whole) }, powers: true},
	{"reduce", "flat"}:            {time: func(c collectiveNet) float64 { return c.star(c.size) }},
	{"reduce", "rabenseifner"}:    {time: func(c collectiveNet) float64 { return c.rounds(c.halved) + c.star(c.segment()) }, powers: true},
	{"allreduce", "binomial"}:     {time: func(c collectiveNet) float64 { return 2 * c.rounds(c.whole) }, powers: true},
	{"allreduce", "hub"}:          {time: func(c collectiveNet) float64 { return 2 * c.star(c.size) }},
	{"allreduce", "doubling"}:     {time: func(c collectiveNet) float64 { return c.rounds(c.whole) }, powers: true},
	{"allreduce", "rabenseifner"}: {time: func(c collectiveNet) float64 { return 2 * c.rounds(c.halved) }, powers: true},
	{"allreduce", "ring"}:         {time: func(c collectiveNet) float64 { return 2 * c.ring(c.segment()) }},
	{"scan", "doubling"}:          {time: func(c collectiveNet) float64 { return c.rounds(c.whole) }, powers: true},
}
