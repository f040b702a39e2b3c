package logp_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/protocol"
)

// letters is a protocol in which each process sends given messages, one after the other. A message is its
// length.
type letters [][]struct {
	to    protocol.Rank
	bytes int
}

func (l letters) Init(s *int, self protocol.Rank, _ uint64) { *s = int(self) << 8 }

func (letters) Receive(*int, protocol.Time, protocol.Rank, int) {}

func (letters) Notify(*int, protocol.Time, protocol.Notice) {}

func (l letters) Next(s *int, _ protocol.Time) protocol.Action[int] {
	mine, sent := l[*s>>8], *s&0xff
	if sent == len(mine) {
		return protocol.Action[int]{Kind: protocol.Idle}
	}
	*s++
	return protocol.Action[int]{Kind: protocol.Send, To: mine[sent].to, Msg: mine[sent].bytes}
}

func (letters) Bytes(_ protocol.Rank, m int) int64 { return int64(m) }

// received records when receives end.
type received []string

func (r *received) note(at protocol.Time, to, from protocol.Rank, _ protocol.Kind, m int) {
	*r = append(*r, fmt.Sprintf("%d: %d bytes from %d to %d", at, m, from, to))
}

func TestLongMessagesKeepBothPortsOccupied(t *testing.T) {
	l := letters{
		0: {},
		1: {{0, 10}, {2, 1}}, // the second leaves at 10
		2: {{0, 1}, {3, 4}},  // the first waits for process 0 until 13
		3: {{2, 0}},
	}
	for _, c := range []struct {
		net  logp.Network
		want []string
	}{
		{
			logp.Network{P: 4, L: 2, O: 1, PerByte: 1},
			[]string{
				"4: 0 bytes from 3 to 2", "8: 4 bytes from 2 to 3", "13: 10 bytes from 1 to 0",
				"14: 1 bytes from 1 to 2", "14: 1 bytes from 2 to 0",
			},
		},
		{
			logp.Network{P: 4, L: 2, O: 1, G: 3, PerByte: 1}, // g keeps ports for two more
			[]string{
				"4: 0 bytes from 3 to 2", "10: 4 bytes from 2 to 3", "13: 10 bytes from 1 to 0",
				"16: 1 bytes from 1 to 2", "16: 1 bytes from 2 to 0",
			},
		},
		{
			logp.Network{P: 4, L: 2, O: 1}, // all are short
			[]string{
				"4: 0 bytes from 3 to 2", "4: 10 bytes from 1 to 0", "5: 1 bytes from 1 to 2",
				"5: 1 bytes from 2 to 0", "5: 4 bytes from 2 to 3",
			},
		},
	} {
		e, err := logp.NewEngine(l, c.net)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 { // the engine forgets the first run
			var got received
			e.Observe(logp.Observer[int]{Received: got.note})
			r, err := e.Run(1, logp.Faults{})
			if err != nil {
				t.Fatal(err)
			}
			slices.SortStableFunc(got, func(a, b string) int {
				var x, y int
				fmt.Sscan(a, &x)
				fmt.Sscan(b, &y)
				if x != y {
					return x - y
				}
				return slices.Compare([]byte(a), []byte(b))
			})
			if !slices.Equal(got, c.want) {
				t.Errorf("%+v:\n%q, want\n%q", c.net, got, c.want)
			}
			var end int
			if fmt.Sscan(c.want[len(c.want)-1], &end); r.Quiescence != protocol.Time(end) {
				t.Errorf("%+v: quiet at %d, want %d", c.net, r.Quiescence, end)
			}
		}
	}
}

func TestExtraTimeOfLongMessages(t *testing.T) {
	for _, c := range []struct {
		perByte float64
		bytes   int64
		want    protocol.Time
	}{
		{0, 1 << 40, 0},
		{1, 0, 0},
		{1, 1, 0},
		{1, 2, 1},
		{1, 1 << 30, 1<<30 - 1},
		{0.25, 8, 2},
		{0.25, 7, 2},
		{0.25, 6, 1}, // 1.75, 1.5, 1.25
		{1 << 30, math.MaxInt64, 1 << 40},
	} {
		if got := (logp.Network{PerByte: c.perByte}).Extra(c.bytes); got != c.want {
			t.Errorf("%d bytes at %g: %d, want %d", c.bytes, c.perByte, got, c.want)
		}
	}
	for _, wrong := range []float64{-1, math.NaN(), math.Inf(1)} {
		if err := (logp.Network{P: 1, O: 1, PerByte: wrong}).Check(); err == nil {
			t.Errorf("%g was accepted as a time per byte", wrong)
		}
	}
}
