package dbgen

// The generator draws each column from a stream of random numbers of its own, x → 16807·x mod 2³¹−1 (Park and
// Miller, 1988). Each row of a table (for columns of lines, each order) begins a fixed number of draws after
// the one before, however many draws that uses. So the stream of a row is known without the rows before.

const (
	multiplier = 16807
	modulus    = 1<<31 - 1
)

// stream is the stream of a column, at the beginning of a row.
type stream struct {
	x    uint64
	step uint64 // x changes by this factor from row to row
}

// at returns the stream that begins with a seed, at a row. Each row may use the given number of draws.
func at(seed uint64, draws int, row int64) stream {
	step := power(multiplier, uint64(draws))
	return stream{times(seed, power(step, uint64(row))), step}
}

// next goes to the next row and returns the number before the first draw of this one.
func (s *stream) next() uint64 {
	x := s.x
	s.x = times(x, s.step)
	return x
}

// draw returns the number after x.
func draw(x uint64) uint64 { return times(x, multiplier) }

// below maps a draw to 0 … n−1. It divides first, as the official generator does.
func below(x uint64, n int) int { return int(float64(x) / modulus * float64(n)) }

// times returns a·b mod 2³¹−1, of numbers below that.
func times(a, b uint64) uint64 {
	p := a * b
	p = p&modulus + p>>31
	if p >= modulus {
		p -= modulus
	}
	return p
}

// power returns a to the power of n.
func power(a, n uint64) uint64 {
	p := uint64(1)
	for ; n > 0; n >>= 1 {
		if n&1 == 1 {
			p = times(p, a)
		}
		a = times(a, a)
	}
	return p
}
