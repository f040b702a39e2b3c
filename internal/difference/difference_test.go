package difference

import (
	"math"
	"strings"
	"testing"
)

func TestDifference(t *testing.T) {
	type node struct {
		Next *node
		Text any
		X    []float64
		hid  int
	}
	ring := func(n int) *node {
		a := &node{hid: n}
		a.Next = &node{Next: a}
		return a
	}
	for _, c := range []struct {
		want, got any
		text      string
	}{
		{1, 1, ""},
		{1, 2, "2; before 1"},
		{1, "1", `"1"; before 1`},
		{nil, nil, ""},
		{math.NaN(), math.NaN(), ""},
		{[]float64{math.NaN()}, []float64{1}, "[0] is 1; before NaN"},
		{[]int{1}, []int{1, 2}, "[1 2]; before [1]"},
		{[]int{}, []int(nil), "[]; before []"},
		{map[string]int{"a": 1}, map[string]int{"a": 1, "b": 2}, `["b"] is 2; before nothing`},
		{node{Text: "x"}, node{Text: 3}, `.Text is 3; before "x"`},
		{node{X: []float64{1, 2}}, node{X: []float64{1, 3}}, ".X[1] is 3; before 2"},
		{&node{}, (*node)(nil), "<nil>; before &{"},
		{ring(1), ring(2), ".hid is 2; before 1"},
		{ring(1), ring(1), ""},
		{strings.Repeat("x", 500), "y", `"y"; before "` + strings.Repeat("x", showMax-1) + "…"},
	} {
		if got := Of(c.want, c.got, "before"); !strings.HasPrefix(got, c.text) || (c.text == "") != (got == "") {
			t.Errorf("%v, %v: %s", c.want, c.got, got)
		}
	}
}
