package experiment

import (
	"maps"
	"math"
	"slices"
)

// Histogram counts how often each value occurred. It is exact: percentiles are
// values that occurred.
type Histogram map[int64]int64

// Add counts a value.
func (h Histogram) Add(v int64) { h[v]++ }

// Merge counts everything that other counted.
func (h Histogram) Merge(other Histogram) {
	for v, n := range other {
		h[v] += n
	}
}

// N is how many values were counted.
func (h Histogram) N() int64 {
	n := int64(0)
	for _, k := range h {
		n += k
	}
	return n
}

// Mean is the average; 0 if nothing was counted.
func (h Histogram) Mean() float64 {
	sum, n := 0.0, 0.0
	for _, v := range h.values() {
		sum += float64(v) * float64(h[v])
		n += float64(h[v])
	}
	return sum / max(n, 1)
}

// Deviation is the standard deviation.
func (h Histogram) Deviation() float64 {
	mean, sum, n := h.Mean(), 0.0, 0.0
	for _, v := range h.values() {
		d := float64(v) - mean
		sum += d * d * float64(h[v])
		n += float64(h[v])
	}
	return math.Sqrt(sum / max(n, 1))
}

// Quantile is the smallest value that a share q of all do not exceed.
func (h Histogram) Quantile(q float64) int64 {
	values := h.values()
	if len(values) == 0 {
		return 0
	}
	rank := max(int64(math.Ceil(q*float64(h.N())-1e-9)), 1)
	for _, v := range values {
		if rank -= h[v]; rank <= 0 {
			return v
		}
	}
	return values[len(values)-1]
}

// Max is the largest value.
func (h Histogram) Max() int64 { return h.Quantile(1) }

// Above is how many values are larger than v.
func (h Histogram) Above(v int64) int64 {
	n := int64(0)
	for value, k := range h {
		if value > v {
			n += k
		}
	}
	return n
}

// values lists what occurred, in order.
func (h Histogram) values() []int64 { return slices.Sorted(maps.Keys(h)) }
