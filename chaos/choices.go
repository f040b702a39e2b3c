package chaos

import "math/bits"

// A run is a sequence of choices. Everything that the configuration does not fix (initial failures, crashes,
// which transition is next) is asked of one source, which answers with a number in 0 … n−1, where 0 is the
// most ordinary answer. The source draws the answers from a seed, or reads them from a list; an exhausted
// list answers 0. So a failing run can be written down, replayed and shortened without knowing what the
// numbers mean.

// Choices answers the open questions of one run.
type Choices struct {
	rng       uint64   // state of the generator
	script    []uint64 // answers to give, when replaying
	made      []uint64 // answers given, when recording
	spans     []uint64 // how many answers each had, when enumerating
	at        int      // next of script
	replaying bool
	recording bool
	spanning  bool
}

// Choose answers with one of 0 … n−1. A question with a single answer leaves no trace.
func (c *Choices) Choose(n int) int {
	if n <= 1 {
		return 0
	}
	if c.replaying {
		return int(c.reread(uint64(n)))
	}
	return int(c.note(c.draw(uint64(n))))
}

// Chance answers true with probability num/den when drawing; when enumerating, it gives both answers. The
// ordinary answer is false.
func (c *Choices) Chance(num, den int) bool {
	if num <= 0 {
		return false
	}
	if num >= den {
		return true
	}
	if c.replaying {
		return c.reread(2) == 1
	}
	var yes uint64
	if c.draw(uint64(den)) < uint64(num) {
		yes = 1
	}
	return c.note(yes) == 1
}

// number answers with any number. Enumeration leaves it at 0: there are too many.
func (c *Choices) number() uint64 {
	if c.replaying {
		return c.reread(0)
	}
	return c.note(c.next())
}

// skewed answers with a number that is mostly at most usual and sometimes far beyond, since usual is only an
// estimate of how long something lasts.
func (c *Choices) skewed(usual int) int {
	if c.replaying {
		return int(min(c.reread(0), 1<<30))
	}
	n := uint64(usual) + 1
	if c.next()>>62 == 0 {
		n = 4*n + 4
	}
	return int(c.note(c.draw(n)))
}

// reread gives the next answer of the script, reduced to what is allowed now (n = 0: everything, which
// enumeration does not vary).
func (c *Choices) reread(n uint64) uint64 {
	var v uint64
	if c.at < len(c.script) {
		v = c.script[c.at]
	}
	c.at++
	if n > 0 && v >= n {
		v = n - 1
	}
	if c.spanning {
		c.spans = append(c.spans, n)
	}
	return c.note(v)
}

func (c *Choices) note(v uint64) uint64 {
	if c.recording {
		c.made = append(c.made, v)
	}
	return v
}

// draw is uniform in 0 … n−1 but for a bias of n/2⁶⁴.
func (c *Choices) draw(n uint64) uint64 {
	hi, _ := bits.Mul64(c.next(), n)
	return hi
}

// next is one step of wyrand (Wang Yi 2019): a single multiplication, since every transition calls it.
func (c *Choices) next() uint64 {
	c.rng += golden
	hi, lo := bits.Mul64(c.rng, c.rng^0xe7037ed1a0b428db)
	return hi ^ lo
}

const golden = 0x9e3779b97f4a7c15

// mix is a bijection that scatters its argument over all 64 bits: the finalizer
// of splitmix64 (Steele, Lea, Flood 2014).
func mix(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// runSeed is the seed of run i of seed: the seed itself for the first run, so that the seed of any run,
// passed in again, makes that run the first one.
func runSeed(seed uint64, i int) uint64 {
	if i == 0 {
		return seed
	}
	return mix(seed + uint64(i)*golden)
}

// fromSeed starts a run whose answers are drawn.
func (c *Choices) fromSeed(seed uint64, record bool) {
	*c = Choices{rng: mix(seed ^ golden), made: c.made[:0], recording: record}
}

// fromScript starts a run whose answers are given.
func (c *Choices) fromScript(script []uint64) {
	*c = Choices{script: script, made: c.made[:0], recording: true, replaying: true}
}

// enumerate starts a run whose answers are given, and records how many answers each question had, for
// following.
func (c *Choices) enumerate(script []uint64) {
	*c = Choices{
		script: script, made: c.made[:0], spans: c.spans[:0],
		recording: true, replaying: true, spanning: true,
	}
}

// following is the script after the one just enumerated, in the order of an
// odometer; nil when all have been seen.
func (c *Choices) following() []uint64 {
	for i := len(c.made) - 1; i >= 0; i-- {
		if c.made[i]+1 < c.spans[i] {
			next := append([]uint64(nil), c.made[:i+1]...)
			next[i]++
			return next
		}
	}
	return nil
}
