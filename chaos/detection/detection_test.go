package detection

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"github.com/coppice-go/coppice/internal/extent"
	"github.com/coppice-go/coppice/internal/plant"
	"github.com/coppice-go/coppice/protocol"
)

// scenario draws a world, and says what must hold in it.
type scenario struct {
	name  string
	world func(d dice) Config
	check func(w *World) error
	to    protocol.Time
}

// dice draws what a scenario leaves open.
type dice struct{ *rand.Rand }

func (d dice) between(low, high protocol.Time) protocol.Time {
	return low + protocol.Time(d.Int64N(int64(high-low)+1))
}

// fourByTwo is four hosts with two processes each.
func (d dice) fourByTwo() Config {
	return Config{Hosts: []int{1, 1, 2, 2, 3, 3, 4, 4}, Delay: d.between(0, 20*Millisecond), Late: d.between(0, 40*Millisecond)}
}

// off cuts a host off from all others.
func off(host int, s Span) []Cut { return []Cut{{host, anywhere, s}, {anywhere, host, s}} }

const begin = 4 * Second

// lasting returns a span that starts soon after the beginning.
func (d dice) lasting(low, high protocol.Time) Span {
	from := begin + d.between(0, Second)
	return Span{from, from + d.between(low, high)}
}

var (
	nobody = func(w *World) error { return w.Nobody() }
	// cutHost is the host that scenarios cut off; cutRanks are its processes.
	cutHost  = 3
	cutRanks = []int{4, 5}
)

var scenarios = []scenario{
	{"the launcher cut off for less than the silence", func(d dice) Config {
		c := d.fourByTwo()
		c.Cuts = off(0, d.lasting(500*Millisecond, 2900*Millisecond))
		return c
	}, nobody, 15 * Second},
	{"the launcher cut off for long", func(d dice) Config {
		c := d.fourByTwo()
		c.Cuts = off(0, d.lasting(3*Second, 20*Second))
		return c
	}, nobody, 30 * Second},
	{"a host cut off for less than the silence", func(d dice) Config {
		c := d.fourByTwo()
		c.Cuts = off(1+d.IntN(4), d.lasting(500*Millisecond, 2900*Millisecond))
		return c
	}, nobody, 15 * Second},
	{"a host cut off for less than the silence, again and again", func(d dice) Config {
		c := d.fourByTwo()
		for at := begin; at < 40*Second; at += 5 * Second {
			c.Cuts = append(c.Cuts, off(1+d.IntN(4), Span{at, at + d.between(500*Millisecond, 2900*Millisecond)})...)
		}
		return c
	}, nobody, 45 * Second},
	{"a host cut off for long", func(d dice) Config {
		c := d.fourByTwo()
		c.Cuts = off(cutHost, Span{begin, begin + d.between(5*Second, 20*Second)})
		return c
	}, func(w *World) error { return w.Exactly(cutRanks, begin+4*Second) }, 40 * Second},
	{"the launcher cut off, and then a host", func(d dice) Config { // the coordinator heard the host once, and cannot say so anymore
		c := d.fourByTwo()
		at := d.between(1600*Millisecond, 1900*Millisecond)
		c.Cuts = append(off(cutHost, Span{begin, begin + 20*Second}), off(0, Span{begin + at, begin + 20*Second})...)
		return c
	}, func(w *World) error { return w.Exactly(cutRanks, begin+4*Second) }, 40 * Second},
	{"the first host cut off for long", func(d dice) Config {
		c := d.fourByTwo()
		c.Cuts = off(1, Span{begin, begin + d.between(5*Second, 20*Second)})
		return c
	}, func(w *World) error { return w.Exactly([]int{0, 1}, begin+4*Second) }, 40 * Second},
	{"the first host of three with five each cut off for long", func(d dice) Config {
		return Config{
			Hosts: []int{1, 1, 1, 1, 1, 2, 2, 2, 2, 2, 3, 3, 3, 3, 3}, Delay: 5 * Millisecond, Late: 20 * Millisecond,
			Cuts: off(1, Span{begin, begin + 20*Second}),
		}
	}, func(w *World) error { return w.Exactly([]int{0, 1, 2, 3, 4}, begin+4*Second) }, 40 * Second},
	{"the first host loses power", func(d dice) Config {
		c := d.fourByTwo()
		c.Deaths = map[int]protocol.Time{0: begin, 1: begin}
		return c
	}, func(w *World) error { return w.Exactly([]int{0, 1}, begin+4*Second) }, 40 * Second},
	{"a host that is heard, but hears nobody", func(d dice) Config {
		c := d.fourByTwo()
		c.Cuts = []Cut{{anywhere, cutHost, Span{begin, begin + 20*Second}}}
		return c
	}, func(w *World) error { return w.Exactly(cutRanks, begin+8*Second) }, 40 * Second},
	{"the first host is heard, but hears nobody", func(d dice) Config {
		c := d.fourByTwo()
		c.Cuts = []Cut{{anywhere, 1, Span{begin, begin + 20*Second}}}
		return c
	}, func(w *World) error { return w.Exactly([]int{0, 1}, begin+8*Second) }, 40 * Second},
	{"a host cut off for about the silence", func(d dice) Config {
		c := d.fourByTwo()
		c.Cuts = off(cutHost, d.lasting(2900*Millisecond, 5*Second))
		return c
	}, func(w *World) error { return w.Only(cutRanks) }, 30 * Second},
	{"a host cut off for less than the silence, and watchers that pause", func(d dice) Config {
		c := d.fourByTwo()
		s := d.lasting(2500*Millisecond, 2900*Millisecond)
		c.Cuts = off(cutHost, s)
		for _, r := range []int{0, 1, 2, 3, 6, 7} {
			from := s.To - d.between(0, 300*Millisecond)
			c.Pauses = append(c.Pauses, Pause{Rank: r, Span: Span{from, s.To + d.between(400*Millisecond, 800*Millisecond)}})
		}
		return c
	}, nobody, 15 * Second},
	{"a host that hears, but is not heard", func(d dice) Config {
		c := d.fourByTwo()
		c.Cuts = []Cut{{cutHost, anywhere, Span{begin, begin + 20*Second}}}
		return c
	}, func(w *World) error { return w.Exactly(cutRanks, begin+4*Second) }, 40 * Second},
	{"two hosts cut from each other", func(d dice) Config {
		c := d.fourByTwo()
		s := Span{begin, begin + 20*Second}
		c.Cuts = [][]Cut{{{2, 3, s}, {3, 2, s}}, {{2, 3, s}}, {{3, 2, s}}}[d.IntN(3)]
		return c
	}, func(w *World) error { return w.OneHost([2]int{2, 3}, begin+5*Second) }, 40 * Second},
	{"two hosts cut from each other for less than the silence", func(d dice) Config {
		c := d.fourByTwo()
		s := d.lasting(500*Millisecond, 2900*Millisecond)
		c.Cuts = [][]Cut{{{2, 3, s}, {3, 2, s}}, {{2, 3, s}}, {{3, 2, s}}}[d.IntN(3)]
		return c
	}, nobody, 15 * Second},
	{"a link that flaps", func(d dice) Config {
		c := d.fourByTwo()
		for at := begin; at < begin+12*Second; at += Second {
			c.Cuts = append(c.Cuts, off(cutHost, Span{at, at + 500*Millisecond})...)
		}
		return c
	}, nobody, 30 * Second},
	{"a slow host", func(d dice) Config {
		c := d.fourByTwo()
		for at := begin; at < begin+20*Second; at += Second {
			for _, r := range cutRanks {
				c.Pauses = append(c.Pauses, Pause{Rank: r, Span: Span{at, at + 900*Millisecond}})
			}
		}
		return c
	}, nobody, 30 * Second},
	{"pauses shorter than the silence", func(d dice) Config {
		c := d.fourByTwo()
		for at := begin; at < 40*Second; at += 4 * Second {
			for range d.IntN(8) {
				from := at + d.between(0, Second/2)
				c.Pauses = append(c.Pauses, Pause{Rank: d.IntN(8), Span: Span{from, from + d.between(0, 2500*Millisecond)}})
			}
		}
		return c
	}, nobody, 45 * Second},
	{"all pause for long", func(d dice) Config {
		c := d.fourByTwo()
		for r := range 8 {
			from := begin + d.between(0, 20*Millisecond)
			c.Pauses = append(c.Pauses, Pause{Rank: r, Span: Span{from, begin + 10*Second + d.between(0, 20*Millisecond)}})
		}
		return c
	}, nobody, 30 * Second},
	{"long work that the kernel sees", func(d dice) Config {
		c := d.fourByTwo()
		c.Pauses = []Pause{{Rank: d.IntN(8), Span: d.lasting(3*Second, 15*Second), Working: true}}
		return c
	}, nobody, 30 * Second},
	{"long work that the kernel sees, again and again", func(d dice) Config {
		c := d.fourByTwo()
		for at := begin; at < 90*Second; at += 9 * Second {
			c.Pauses = append(c.Pauses, Pause{Rank: d.IntN(8), Span: Span{at, at + d.between(5*Second, 7*Second)}, Working: true})
		}
		return c
	}, nobody, 100 * Second},
	{"one stopped for long", func(d dice) Config {
		c := d.fourByTwo()
		c.Pauses = []Pause{{Rank: 4, Span: Span{begin, begin + 15*Second}}}
		return c
	}, func(w *World) error { return w.Exactly([]int{4}, begin+6*Second) }, 40 * Second},
	{"a host that nobody can connect to for long", func(d dice) Config {
		c := d.fourByTwo()
		c.Broken = off(cutHost, Span{begin, begin + d.between(20*Second, 30*Second)})
		return c
	}, func(w *World) error { return w.Exactly(cutRanks, begin+14*Second) }, 50 * Second},
	{"a host that can connect to one other only", func(d dice) Config {
		c := d.fourByTwo()
		span := Span{begin, begin + 20*Second}
		for _, other := range []int{2, 4} {
			c.Broken = append(c.Broken, Cut{cutHost, other, span})
		}
		return c
	}, func(w *World) error { return w.Exactly(cutRanks, begin+14*Second) }, 50 * Second},
	{"a host loses power", func(d dice) Config {
		c := d.fourByTwo()
		c.Deaths = map[int]protocol.Time{4: begin, 5: begin}
		return c
	}, func(w *World) error { return w.Exactly(cutRanks, begin+4*Second) }, 40 * Second},
	{"two processes on two hosts, and a blip", func(d dice) Config {
		return Config{Hosts: []int{1, 2}, Delay: 5 * Millisecond, Cuts: off(1+d.IntN(2), d.lasting(500*Millisecond, 2900*Millisecond))}
	}, nobody, 15 * Second},
	{"five hosts of one, and one is cut off", func(d dice) Config {
		return Config{Hosts: []int{1, 2, 3, 4, 5}, Delay: 5 * Millisecond, Cuts: off(4, Span{begin, begin + 20*Second})}
	}, func(w *World) error { return w.Exactly([]int{3}, begin+4*Second) }, 40 * Second},
}

// runs returns how many worlds of a scenario to try: few where no mistake is planted, unless COPPICE_WORLDS
// says otherwise.
func runs(t *testing.T) int {
	t.Helper()
	if os.Getenv(plant.Variable) != "" {
		return 200
	}
	if n, err := strconv.Atoi(os.Getenv("COPPICE_WORLDS")); err == nil {
		return n
	}
	return extent.Of(t, 1, 5)
}

func TestNobodyHealthyIsEvicted(t *testing.T) {
	for _, s := range scenarios {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			for i := range runs(t) {
				seed := uint64(i + 1)
				if err := s.run(seed); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
		})
	}
}

func (s scenario) run(seed uint64) error {
	w, err := New(s.world(dice{rand.New(rand.NewPCG(seed, 3))}), seed)
	if err != nil {
		return err
	}
	w.Run(s.to)
	if err := s.check(w); err != nil {
		return fmt.Errorf("%w\n%v", err, w.history())
	}
	return nil
}
