package detection

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/coppice-go/coppice/protocol"
)

// stop stops some processes from the beginning on, for about the given time.
func (d dice) stop(length protocol.Time, ranks ...int) (all []Pause) {
	for _, r := range ranks {
		from := begin + d.between(0, 50*Millisecond)
		all = append(all, Pause{Rank: r, Span: Span{from, from + length + d.between(0, 100*Millisecond)}})
	}
	return all
}

// oneHost lists jobs on one host, and the processes that must be fenced.
var oneHost = []struct {
	name   string
	world  func(d dice) OneHost
	fenced []int
	most   int // any processes, at most this many, may be fenced; −1: exactly those in fenced
}{
	{"the only one stops", func(d dice) OneHost { return OneHost{N: 1, Pauses: d.stop(50*Second, 0)} }, nil, -1},
	{"all stop", func(d dice) OneHost { return OneHost{N: 3, Pauses: d.stop(10*Second, 0, 1, 2)} }, nil, -1},
	{"one is dead, the other stops", func(d dice) OneHost {
		return OneHost{N: 2, Deaths: map[int]protocol.Time{1: Second}, Pauses: d.stop(50*Second, 0)}
	}, nil, -1},
	{"one of three stops", func(d dice) OneHost { return OneHost{N: 3, Pauses: d.stop(10*Second, 1)} }, []int{1}, -1},
	{"two of three stop", func(d dice) OneHost { return OneHost{N: 3, Pauses: d.stop(10*Second, 1, 2)} }, nil, -1},
	{"two of five stop", func(d dice) OneHost { return OneHost{N: 5, Pauses: d.stop(10*Second, 1, 2)} }, []int{1, 2}, -1},
	{"all stop, and go on one after the other", func(d dice) OneHost {
		p := d.stop(10*Second, 0, 1, 2, 3, 4)
		for i := range p {
			p[i].To += protocol.Time(i) * 700 * Millisecond
		}
		return OneHost{N: 5, Pauses: p}
	}, nil, -1},
	{"short stops", func(d dice) OneHost { return OneHost{N: 4, Pauses: d.stop(2900*Millisecond, 0, 1, 2)} }, nil, -1},
	{"work that the kernel sees", func(d dice) OneHost {
		p := d.stop(20*Second, 1, 2)
		p[0].Working, p[1].Working = true, true
		return OneHost{N: 3, Pauses: p}
	}, nil, -1},
	{"one is stopped again and again", func(d dice) OneHost {
		p := d.stop(40*Second, 1)
		p[0].Blinks = d.between(200*Millisecond, 2900*Millisecond)
		return OneHost{N: 3, Pauses: p}
	}, nil, -1},
	{"a stop after work", func(d dice) OneHost {
		work, stop := d.stop(20*Second, 1), d.stop(2900*Millisecond, 1)
		work[0].Working = true
		stop[0].From, stop[0].To = work[0].To, work[0].To+2800*Millisecond
		return OneHost{N: 3, Pauses: append(work, stop...)}
	}, nil, -1},
	{"the coordinator stands still", func(d dice) OneHost {
		return OneHost{N: 3, Stalls: []Span{{begin, begin + 10*Second}, {begin + 11*Second, begin + 20*Second}}, Pauses: d.stop(2500*Millisecond, 1)}
	}, nil, -1},
	{"the coordinator and all others stand still", func(d dice) OneHost {
		return OneHost{N: 3, Stalls: []Span{{begin, begin + 10*Second + d.between(0, 150*Millisecond)}}, Pauses: d.stop(10*Second, 0, 1, 2)}
	}, nil, -1},
	{"a slow start", func(d dice) OneHost {
		return OneHost{N: 8, Starts: 30 * Second, Pauses: []Pause{{Rank: 0, Span: Span{5 * Second, 20 * Second}}}}
	}, nil, -1},
	{"work that keeps whoever does it from beating", func(d dice) OneHost {
		return OneHost{N: 4, Hard: 8 * Second, HardBegin: begin}
	}, nil, 1},
}

func TestTheGuardFencesOnlyWhomOthersCanReplace(t *testing.T) {
	for _, c := range oneHost {
		t.Run(c.name, func(t *testing.T) {
			for i := range 30 {
				seed := uint64(i + 1)
				fenced, err := c.world(dice{rand.New(rand.NewPCG(seed, 5))}).Run(seed, 60*Second)
				who := slices.Sorted(maps.Keys(fenced))
				if err == nil && (c.most >= 0 && len(who) > c.most || c.most < 0 && !slices.Equal(who, c.fenced)) {
					err = fmt.Errorf("%w: %v, allowed: %v", ErrFenced, fenced, c.fenced)
				}
				for _, at := range fenced {
					if c.most < 0 && at > begin+6*Second {
						err = fmt.Errorf("fenced late: %v", fenced)
					}
				}
				if err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
		})
	}
}
