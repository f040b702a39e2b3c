package model

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// networks are those whose samples are made up, in microseconds.
var networks = map[string]LogGP{
	"one host":            {L: 5, O: 1.7, Gap: 2, PerByte: 0.0012},
	"spinning":            {L: 0.5, O: 1.5, Gap: 1.6, PerByte: 0.0005},
	"cluster":             {L: 25, O: 3, Gap: 4.5, PerByte: 0.0008},
	"far away":            {L: 12_000, O: 4, Gap: 9, PerByte: 0.08},
	"sends cost the time": {L: 0, O: 3, Gap: 3, PerByte: 0.002},
}

// A sampler makes up measured times: it disturbs true ones.
type sampler func(time float64) float64

// sampled returns the probe in which everything is measured the given number of times and the medians are kept.
func (n LogGP) sampled(times int, disturb sampler) (p Probe) {
	median := func(time float64) float64 {
		var all []float64
		for range times {
			all = append(all, disturb(time))
		}
		return Median(all)
	}
	for bytes := 8; bytes <= 1<<20; bytes *= 8 {
		p.RoundTrips = append(p.RoundTrips, RoundTrip{bytes, median(2 * (n.Delay() + float64(bytes-8)*n.PerByte))})
	}
	for messages := 16; messages <= 512; messages *= 2 {
		p.Bursts = append(p.Bursts, Burst{
			messages,
			median(float64(messages) * n.O),
			median(2*n.Delay() + float64(messages-1)*n.Gap),
		})
	}
	return p
}

func exact(time float64) float64 { return time }

// noisy adds up to 10% to every time, and to one in five up to ten times as much
// again: a process that lost its processor.
func noisy(seed uint64) sampler {
	r := rand.New(rand.NewPCG(seed, 0))
	return func(time float64) float64 {
		time *= 1 + r.Float64()/10
		if r.IntN(5) == 0 {
			time *= 1 + 10*r.Float64()
		}
		return time
	}
}

func TestFitReturnsWhatTheSamplesWereMadeOf(t *testing.T) {
	for name, want := range networks {
		got, err := want.sampled(1, exact).Fit()
		if err != nil {
			t.Fatal(err)
		}
		if bad := want.differs(got, 1e-6); bad != "" {
			t.Errorf("%s: %s", name, bad)
		}
	}
}

// L is a difference: noise in o counts twice there, so it is measured against the
// delay.
func TestFitStandsNoise(t *testing.T) {
	for name, want := range networks {
		for seed := range uint64(50) {
			disturb := noisy(seed)
			var probes []Probe
			for range 9 {
				probes = append(probes, want.sampled(50, disturb))
			}
			p, err := Combine(probes)
			if err != nil {
				t.Fatal(err)
			}
			got, err := p.Fit()
			if err != nil {
				t.Fatal(err)
			}
			if bad := want.differs(got, 0.15); bad != "" {
				t.Errorf("%s, seed %d: %s", name, seed, bad)
			}
		}
	}
}

// differs names the parameters that are not within a part of the wanted; "": none.
func (n LogGP) differs(got LogGP, part float64) string {
	var bad []string
	for _, p := range []struct {
		name             string
		want, got, scale float64
	}{
		{"L", n.L, got.L, n.Delay()},
		{"o", n.O, got.O, n.O},
		{"g", n.Gap, got.Gap, n.Gap},
		{"G", n.PerByte, got.PerByte, n.PerByte},
	} {
		if !(math.Abs(p.got-p.want) <= part*p.scale) {
			bad = append(bad, fmt.Sprintf("%s is %g, want %g", p.name, p.got, p.want))
		}
	}
	return strings.Join(bad, ", ")
}

// A length measured in a bad moment in every repeat hardly changes o and g: that is
// what Slope is for, and least squares would not do. The longest has most of the
// weight.
func TestFitStandsABadLength(t *testing.T) {
	want := networks["one host"]
	p := want.sampled(1, exact)
	for i := range len(p.Bursts) - 1 {
		q := Probe{p.RoundTrips, slices.Clone(p.Bursts)}
		q.Bursts[i].Answered *= 3
		q.Bursts[i].Sent *= 3
		got, err := q.Fit()
		if err != nil {
			t.Fatal(err)
		}
		if bad := want.differs(got, 0.1); bad != "" {
			t.Errorf("burst of %d took long: %s", q.Bursts[i].Messages, bad)
		}
	}
}

func TestFitKeepsTheRoundTrip(t *testing.T) {
	for _, c := range []struct {
		trip, sent float64 // of 8 bytes; of a message of a burst
		l, o       float64
	}{
		{10, 1, 3, 1},
		{10, 2.5, 0, 2.5},
		{10, 4, 0, 2.5}, // sends of a burst take longer than those of a round trip
	} {
		got, err := Probe{
			RoundTrips: []RoundTrip{{1024, 3}, {8, c.trip}},
			Bursts:     []Burst{{16, 16 * c.sent, 50}, {32, 32 * c.sent, 40}},
		}.Fit()
		want := LogGP{L: c.l, O: c.o} // both slopes are negative
		if err != nil || got != want {
			t.Errorf("%+v: got %+v (%v), want %+v", c, got, err, want)
		}
	}
}

func TestFitRefusesWhatIsNoMeasurement(t *testing.T) {
	trips, bursts := []RoundTrip{{8, 4}, {64, 5}}, []Burst{{16, 20, 30}, {32, 40, 60}}
	for name, c := range map[string]struct {
		p    Probe
		want string
	}{
		"nothing":         {Probe{}, "bursts of 0 lengths; allowed: 2 or more, one of them up to 64 messages"},
		"one length":      {Probe{trips, []Burst{{16, 20, 30}, {16, 20, 30}}}, "bursts of 1 lengths; allowed: *"},
		"long ones only":  {Probe{trips, []Burst{{65, 20, 30}, {66, 20, 30}}}, "bursts of 2 lengths; allowed: *"},
		"one size":        {Probe{[]RoundTrip{{8, 4}, {8, 5}}, bursts}, "round trips of 1 sizes; allowed: 2 or more"},
		"no time":         {Probe{[]RoundTrip{{8, 0}, {64, 5}}, bursts}, "round trip of 8 bytes in 0; allowed: *"},
		"endless":         {Probe{[]RoundTrip{{8, math.Inf(1)}, {64, 5}}, bursts}, "round trip of 8 bytes in +Inf; allowed: *"},
		"not a number":    {Probe{trips, []Burst{{16, math.NaN(), 30}, {32, 40, 60}}}, "burst of 16 messages, sent in NaN, answered in 30; allowed: *"},
		"no messages":     {Probe{trips, []Burst{{0, 20, 30}, {32, 40, 60}}}, "burst of 0 messages, *"},
		"bytes below 0":   {Probe{[]RoundTrip{{-8, 1}, {64, 5}}, bursts}, "round trip of -8 bytes *"},
		"answer before 0": {Probe{trips, []Burst{{16, 20, -30}, {32, 40, 60}}}, "burst of 16 messages, *"},
	} {
		_, err := c.p.Fit()
		begin, _, _ := strings.Cut(c.want, "*")
		if err == nil || !strings.HasPrefix(err.Error(), begin) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
	if _, err := (Probe{trips, bursts}).Fit(); err != nil {
		t.Errorf("a sound one: %v", err)
	}
}

func TestCombineTakesMedians(t *testing.T) {
	probe := func(a, b, c float64) Probe { return Probe{[]RoundTrip{{8, a}}, []Burst{{16, b, c}}} }
	got, err := Combine([]Probe{probe(1, 20, 300), probe(9, 30, 100), probe(2, 10, 200)})
	want := probe(2, 20, 200)
	if err != nil || !slices.Equal(got.RoundTrips, want.RoundTrips) || !slices.Equal(got.Bursts, want.Bursts) {
		t.Errorf("got %+v (%v), want %+v", got, err, want)
	}
	if _, err := Combine(nil); err == nil {
		t.Error("none at all: not refused")
	}
	if _, err := Combine([]Probe{probe(1, 2, 3), {RoundTrips: []RoundTrip{{9, 1}}, Bursts: []Burst{{16, 2, 3}}}}); err == nil {
		t.Error("other sizes: not refused")
	}
	if _, err := Combine([]Probe{probe(1, 2, 3), {RoundTrips: []RoundTrip{{8, 1}}}}); err == nil {
		t.Error("no bursts: not refused")
	}
}

func TestSpreadOfIsMedianAndQuartiles(t *testing.T) {
	for _, c := range []struct {
		sample []float64
		want   Spread
	}{
		{nil, Spread{}},
		{[]float64{3}, Spread{3, 3, 3}},
		{[]float64{5, 1}, Spread{2, 3, 4}},
		{[]float64{4, 1, 5, 2, 3}, Spread{2, 3, 4}},
		{[]float64{1e9, 1, 2, 3, 4, 5, 6}, Spread{2.5, 4, 5.5}},
	} {
		before := slices.Clone(c.sample)
		if got := SpreadOf(c.sample); got != c.want {
			t.Errorf("%v: got %+v, want %+v", c.sample, got, c.want)
		}
		if !slices.Equal(c.sample, before) {
			t.Errorf("the sample %v became %v", before, c.sample)
		}
	}
}

func TestSlope(t *testing.T) {
	for _, c := range []struct {
		points []Point
		want   float64
	}{
		{nil, 0},
		{[]Point{{1, 5}}, 0},
		{[]Point{{1, 5}, {1, 9}}, 0},
		{[]Point{{1, 5}, {3, 9}}, 2},
		{[]Point{{3, 9}, {1, 5}}, 2},
		{[]Point{{0, 0}, {1, 5}, {2, 0}, {3, 5}, {100, 100}}, 1}, // close points count little
		{[]Point{{0, 0}, {1, 2}, {2, 40}, {3, 6}, {4, 8}}, 2},    // one is far off
	} {
		if got := Slope(c.points); got != c.want {
			t.Errorf("%v: got %g, want %g", c.points, got, c.want)
		}
	}
}
