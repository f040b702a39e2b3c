package logp_test

import (
	"fmt"
	"testing"

	"github.com/coppice-go/coppice/internal/extent"
	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/model"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/collective"
)

// everyWay calls f for every operation and algorithm among p processes.
func everyWay(p int, f func(spec collective.Spec)) {
	for op := collective.Broadcast; op <= collective.ReduceScatter; op++ {
		for _, a := range collective.Algorithms(collective.Spec{Op: op, P: p, AnyOrder: true}) {
			f(collective.Spec{Op: op, Algorithm: a, P: p, AnyOrder: true})
		}
	}
}

func simulated(t testing.TB, spec collective.Spec, size int64, net logp.Network) logp.CollectiveResult {
	t.Helper()
	net.P = spec.P
	r, err := logp.Collective(spec, size, 1, net)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// Messages, bytes and steps, for any number of processes. Where a message takes
// nearly forever, time counts steps.
func TestCollectivesCostWhatTheirFormulasSay(t *testing.T) {
	const forever = 1 << 20
	for _, p := range []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 15, 16, 17, 31, 32, 33, 64, 100} {
		size := int64(3 * p)
		everyWay(p, func(spec collective.Spec) {
			got := simulated(t, spec, size, logp.Network{L: forever, O: 1})
			want, ok := model.Collective(spec.Op.String(), spec.Algorithm.String(), p, size)
			if spec.Algorithm == collective.Direct && p == 31 {
				want.Steps++ // p is odd: model.Collective allows for it
			}
			if !ok || want != (model.CollectiveCost{Steps: int(got.Time / forever), Messages: got.Messages, Bytes: got.Bytes}) {
				t.Errorf("%v by %v, P=%d: %+v, the formulas say %+v, %t", spec.Op, spec.Algorithm, p, got, want, ok)
			}
		})
	}
}

func TestCollectivesTakeTheTimeThatTheirFormulasSay(t *testing.T) {
	compared := map[string]int{}
	for _, net := range []logp.Network{
		{L: 2, O: 1, PerByte: 1},
		{L: 30, O: 2, PerByte: 2}, // a direct exchange waits for its window
		{L: 0, O: 4, PerByte: 1},
		{L: 3, O: 2, G: 5, PerByte: 3},
		{L: 2, O: 1}, // only the number of messages matters
	} {
		loggp := model.LogGP{L: float64(net.L), O: float64(net.O), Gap: float64(net.G), PerByte: net.PerByte}
		for _, p := range []int{1, 2, 3, 4, 6, 7, 8, 13, 16, 32, 60, 64} {
			for _, size := range []int64{int64(p), int64(40 * p)} {
				everyWay(p, func(spec collective.Spec) {
					name := fmt.Sprint(spec.Op, " by ", spec.Algorithm)
					want, ok := model.CollectiveTime(spec.Op.String(), spec.Algorithm.String(), p, size, loggp)
					if !ok {
						return
					}
					compared[name]++
					if got := simulated(t, spec, size, net); float64(got.Time) != want {
						t.Errorf("%s, P=%d, %d bytes, %+v: %d, the formula says %g", name, p, size, net, got.Time, want)
					}
				})
			}
		}
	}
	everyWay(64, func(spec collective.Spec) {
		name := fmt.Sprint(spec.Op, " by ", spec.Algorithm)
		if n := compared[name]; n < 50 && spec.Algorithm != collective.ScatterAllGather {
			t.Errorf("%s: only %d comparisons", name, n)
		}
	})
}

// Pieces let processes pass on what they have while the rest is on its way, but
// a root that sends, or receives, the value log₂ P times is occupied as long.
func TestPiecesDoNotShortenABinomialTree(t *testing.T) {
	net := logp.Network{L: 2, O: 1, PerByte: 1}
	const size, depth = 1 << 16, 6
	for _, op := range []collective.Op{collective.Broadcast, collective.Reduce, collective.AllReduce} {
		spec := collective.Spec{Op: op, Algorithm: collective.Binomial, P: 1 << depth}
		whole := simulated(t, spec, size, net)
		spec.Spans = 64
		pieces := simulated(t, spec, size, net)
		if pieces.Messages != 64*whole.Messages || pieces.Bytes != whole.Bytes {
			t.Errorf("%v: %+v in pieces, %+v whole", op, pieces, whole)
		}
		if off := float64(pieces.Time) / float64(whole.Time); pieces.Time < depth*(size-64) || off < 0.99 || off > 1.01 {
			t.Errorf("%v: %d in pieces, %d whole", op, pieces.Time, whole.Time)
		}
	}
	spec := collective.Spec{Op: collective.Broadcast, Algorithm: collective.Binomial, P: 2, Spans: 4}
	if got, want := simulated(t, spec, 400, net).Time, protocol.Time(3*100+4+99); got != want {
		t.Errorf("four pieces to one process: %d, want %d", got, want)
	}
}

// What the busiest process sends or receives, as docs/collectives.md says: P = 16, so that log₂ P = 4, with a
// size of 160.
func TestCollectiveCountsTheBusiestProcess(t *testing.T) {
	const whole, lg, segment = 160, 4, 160 / 16
	for _, c := range []struct {
		op              collective.Op
		a               collective.Algorithm
		messages, bytes int64
	}{
		{collective.Broadcast, collective.Binomial, lg, lg * whole},
		{collective.Broadcast, collective.Flat, 15, 15 * whole},
		{collective.Broadcast, collective.ScatterAllGather, 15 + lg, 2 * 15 * segment},
		{collective.Scatter, collective.Binomial, lg, 15 * whole},
		{collective.Scatter, collective.Flat, 15, 15 * whole},
		{collective.Gather, collective.Binomial, lg, 15 * whole},
		{collective.Gather, collective.Flat, 15, 15 * whole},
		{collective.AllGather, collective.Ring, 15, 15 * whole},
		{collective.AllGather, collective.Hub, 15, 15 * 16 * whole},
		{collective.AllGather, collective.Doubling, lg, 15 * whole},
		{collective.AllGather, collective.Bruck, lg, 15 * whole},
		{collective.AllGather, collective.Direct, 15, 15 * whole},
		{collective.AllToAll, collective.Direct, 15, 15 * whole},
		{collective.AllToAll, collective.Hub, 15, 15 * 16 * whole},
		{collective.AllToAll, collective.Bruck, lg, lg * 8 * whole},
		{collective.Reduce, collective.Binomial, lg, lg * whole},
		{collective.Reduce, collective.Flat, 15, 15 * whole},
		{collective.Reduce, collective.Rabenseifner, 15 + lg, 2 * 15 * segment},
		{collective.AllReduce, collective.Binomial, lg, lg * whole},
		{collective.AllReduce, collective.Hub, 15, 15 * whole},
		{collective.AllReduce, collective.Doubling, lg, lg * whole},
		{collective.AllReduce, collective.Rabenseifner, 2 * lg, 2 * 15 * segment},
		{collective.AllReduce, collective.Ring, 2 * 15, 2 * 15 * segment},
		{collective.Scan, collective.Doubling, lg, lg * whole},
		{collective.ExScan, collective.Doubling, lg, lg * whole},
		{collective.ReduceScatter, collective.Direct, 15, 15 * whole},
		{collective.ReduceScatter, collective.Hub, 15, 15 * 16 * whole},
		{collective.ReduceScatter, collective.Bruck, lg, lg * 8 * whole},
	} {
		spec := collective.Spec{Op: c.op, Algorithm: c.a, P: 16, AnyOrder: true}
		got := simulated(t, spec, whole, logp.Network{L: 2, O: 1})
		if got.MessagesMax != c.messages || got.BytesMax != c.bytes {
			t.Errorf("%v by %v: %d messages, %d bytes, want %d, %d", c.op, c.a, got.MessagesMax, got.BytesMax, c.messages, c.bytes)
		}
	}
}

func TestCollectivesAmongThousands(t *testing.T) {
	net := logp.Network{L: 2, O: 1, PerByte: 0.25}
	for _, c := range []struct {
		op   collective.Op
		a    collective.Algorithm
		p    int
		size int64
		want protocol.Time
	}{
		{collective.Broadcast, collective.Binomial, 4096, 8, 12 * (4 + 2)}, // 7·0.25 is about 2
		{collective.Scatter, collective.Flat, 4096, 1, 4094 + 4},
		{collective.AllReduce, collective.Doubling, 4096, 1, 12 * 4},
		{collective.Scan, collective.Doubling, 4096, 5, 12 * (4 + 1)},
		{collective.AllGather, collective.Ring, 512, 401, 511 * (4 + 100)},
		{collective.AllToAll, collective.Direct, 512, 401, 510*(1+100) + 4 + 100},
		{collective.AllGather, collective.Bruck, 4096, 4, 12*4 + 4095}, // Σ (2^k·4−1)/4, each rounded
	}[:extent.Of(t, 6, 7)] {
		got := simulated(t, collective.Spec{Op: c.op, Algorithm: c.a, P: c.p}, c.size, net)
		if got.Time != c.want {
			t.Errorf("%v by %v, P=%d: %d, want %d", c.op, c.a, c.p, got.Time, c.want)
		}
	}
}

func TestCollectiveRefusesWhatItCannotBe(t *testing.T) {
	net := logp.Network{P: 6, L: 2, O: 1}
	spec := collective.Spec{Op: collective.AllReduce, Algorithm: collective.Doubling}
	for _, c := range []struct {
		change func()
		size   int64
		want   string
	}{
		{func() { spec.P = 7 }, 8, "allreduce among 7 processes on a network of 6; allowed: the same"},
		{func() { spec.P = 0 }, -1, "size -1 of elements of 1 bytes; allowed: 0 to 2^40, and 1 or more"},
		{func() { spec.Algorithm = collective.Rabenseifner }, 8, "allreduce by rabenseifner among 6 tasks; allowed: [binomial hub doubling]"},
		{func() { spec.Algorithm, net.PerByte = collective.Doubling, -1 }, 8, "time per byte G is -1; allowed: 0 to 2^30"},
		{func() { spec.Op, spec.Algorithm, net.P = collective.AllToAll, collective.Direct, 8192 }, 8, "alltoall by direct among 8192 processes has 134209536 steps; allowed: up to 67108864"},
	} {
		c.change()
		if _, err := logp.Collective(spec, c.size, 1, net); err == nil || err.Error() != c.want {
			t.Errorf("%v, want %s", err, c.want)
		}
	}
}
