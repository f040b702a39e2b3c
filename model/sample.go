package model

import (
	"cmp"
	"math"
	"slices"
)

// Point is a measurement at x.
type Point struct{ X, Y float64 }

// Slope is that of the line through points, some of which may be far off: the median slope of all pairs, each weighted
// with its distance in x (Sievers 1978), since noise bends the slope of close points most. It is 0 if all have one x.
func Slope(points []Point) float64 {
	type pair struct{ slope, weight float64 }
	var pairs []pair
	total := 0.0
	for i, a := range points {
		for _, b := range points[:i] {
			if dx := math.Abs(b.X - a.X); dx > 0 {
				pairs = append(pairs, pair{(b.Y - a.Y) / (b.X - a.X), dx})
				total += dx
			}
		}
	}
	slices.SortFunc(pairs, func(a, b pair) int { return cmp.Compare(a.slope, b.slope) })
	below := 0.0
	for _, p := range pairs {
		if below += p.weight; below >= total/2 {
			return p.slope
		}
	}
	return 0
}

// Line is the straight line that fits points best, by least squares.
type Line struct {
	Slope, Intercept float64
	R2               float64 // the part of the variance that it explains
}

// FitLine returns the line of two or more points. A level line explains all of nothing.
func FitLine(points []Point) Line {
	var x, y, xx, xy, yy float64
	for _, p := range points {
		x, y = x+p.X/float64(len(points)), y+p.Y/float64(len(points))
	}
	for _, p := range points {
		dx, dy := p.X-x, p.Y-y
		xx, xy, yy = xx+dx*dx, xy+dx*dy, yy+dy*dy
	}
	line := Line{Slope: xy / xx, Intercept: y - xy/xx*x, R2: 1}
	if yy > 0 {
		line.R2 = xy * xy / (xx * yy)
	}
	return line
}

// Spread is a sample's median and quartiles.
type Spread struct{ Low, Median, High float64 }

// SpreadOf returns the spread of a sample, which is not changed; it is zero if
// there is none.
func SpreadOf(sample []float64) Spread {
	if len(sample) == 0 {
		return Spread{}
	}
	sorted := slices.Sorted(slices.Values(sample))
	return Spread{quantile(sorted, 0.25), quantile(sorted, 0.5), quantile(sorted, 0.75)}
}

// Median is the median of a sample, which is not changed; 0 if there is none.
func Median(sample []float64) float64 { return SpreadOf(sample).Median }

// quantile interpolates between the two closest of a sorted sample.
func quantile(sorted []float64, q float64) float64 {
	at := q * float64(len(sorted)-1)
	i := int(at)
	j := min(i+1, len(sorted)-1)
	return sorted[i] + (at-float64(i))*(sorted[j]-sorted[i])
}

// GeometricMean is that of positive values.
func GeometricMean(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		sum += math.Log(v)
	}
	return math.Exp(sum / float64(len(values)))
}
