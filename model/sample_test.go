package model

import (
	"math"
	"testing"
)

func TestFitLineFindsTheLine(t *testing.T) {
	for _, c := range []struct {
		points []Point
		want   Line
	}{
		{[]Point{{1, 5}, {2, 7}, {3, 9}}, Line{Slope: 2, Intercept: 3, R2: 1}},
		{[]Point{{1, 4}, {2, 4}, {3, 4}}, Line{Slope: 0, Intercept: 4, R2: 1}},
		{[]Point{{0, 0}, {1, 3}, {2, 0}}, Line{Slope: 0, Intercept: 1, R2: 0}},
		{[]Point{{0, 1}, {1, 3}, {2, 2}, {3, 4}}, Line{Slope: 0.8, Intercept: 1.3, R2: 0.64}},
	} {
		got := FitLine(c.points)
		if math.Abs(got.Slope-c.want.Slope)+math.Abs(got.Intercept-c.want.Intercept)+math.Abs(got.R2-c.want.R2) > 1e-9 {
			t.Errorf("%v: %+v, want %+v", c.points, got, c.want)
		}
	}
}
