package main

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/coppice-go/coppice/protocol/collective"
	"pgregory.net/rapid"
)

// cellsOf reads measurements: OP P SIZE, then ALGORITHM=µs or ALGORITHM/SPAN=µs.
func cellsOf(t *testing.T, text string) (cells []tuneCell) {
	t.Helper()
	number := func(text string, err error) float64 {
		f, wrong := strconv.ParseFloat(text, 64)
		if err != nil || wrong != nil {
			t.Fatal(text, err, wrong)
		}
		return f
	}
	size := func(text string) int64 {
		n, err := parseSize(text)
		return int64(number("0", err)) + int64(n)
	}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) == 0 {
			continue
		}
		op, err := collective.ParseOp(words[0])
		c := tuneCell{table: collective.Default, op: op, p: int(number(words[1], err)), bytes: size(words[2])}
		for _, word := range words[3:] {
			name, us, _ := strings.Cut(word, "=")
			name, span, pieces := strings.Cut(name, "/")
			a, err := collective.ParseAlgorithm(name)
			one := candidate{choice: choice{Algorithm: a}, rounds: []float64{number(us, err)}}
			if pieces {
				one.Span = size(span)
			}
			c.candidates = append(c.candidates, one)
		}
		cells = append(cells, c)
	}
	return cells
}

func TestRulesFollowFromMeasurements(t *testing.T) {
	someDefaults(t)
	for _, c := range []struct{ name, measured, want string }{
		{"nothing measured", ``, ``},
		{"the default is best", `
			allreduce 2 8B doubling=5 hub=6 binomial=7
			allreduce 4 8B doubling=9 hub=6 binomial=7`, ``},
		{"the default is beaten within noise", `
			allreduce 2 8B doubling=10.9 hub=10 binomial=12`, ``},
		{"the default is beaten", `
			allreduce 2 8B doubling=11.1 hub=10 binomial=12`, `
			{"op":"allreduce","p":2,"algorithm":"hub"}`},
		{"neighbours in both directions are merged, however they are ordered", `
			broadcast 4 1KiB binomial=10 flat=5
			broadcast 2 1KiB binomial=10 flat=5
			broadcast 4 8B binomial=10 flat=5
			broadcast 2 8B binomial=10 flat=5`, `
			{"op":"broadcast","p":2,"algorithm":"flat"}`},
		{"what is nearly best and chosen for a smaller size stays", `
			broadcast 2 8B binomial=10 flat=5 scatter-all-gather=9
			broadcast 2 1KiB binomial=20 flat=10.5 scatter-all-gather=10
			broadcast 2 64KiB binomial=30 flat=20 scatter-all-gather=10`, `
			{"op":"broadcast","p":2,"algorithm":"flat"}
			{"op":"broadcast","p":2,"bytes":65536,"algorithm":"scatter-all-gather"}`},
		{"what is nearly best and chosen for fewer processes stays", `
			broadcast 2 8B binomial=10 flat=5 scatter-all-gather=9
			broadcast 4 8B binomial=20 flat=10.5 scatter-all-gather=10`, `
			{"op":"broadcast","p":2,"algorithm":"flat"}`},
		{"what another operation has does not count", `
			reduce 2 8B binomial=5 flat=10
			allreduce 2 8B doubling=20 hub=10 binomial=10.5`, `
			{"op":"reduce","p":2,"algorithm":"binomial"}
			{"op":"allreduce","p":2,"algorithm":"hub"}`},
		{"the default comes back for more processes, with its own switch", `
			reduce 2 8B binomial=5 flat=10
			reduce 2 1MiB binomial=5 flat=10
			reduce 4 8B binomial=10 flat=5
			reduce 4 1MiB binomial=5 flat=10`, `
			{"op":"reduce","p":2,"algorithm":"binomial"}
			{"op":"reduce","p":4,"algorithm":"flat"}
			{"op":"reduce","p":4,"bytes":16384,"algorithm":"binomial"}`},
		{"the default comes back for larger sizes", `
			broadcast 2 8B binomial=10 flat=5
			broadcast 2 1KiB binomial=10 flat=9.5
			broadcast 2 64KiB binomial=10 flat=5`, `
			{"op":"broadcast","p":2,"algorithm":"flat"}
			{"op":"broadcast","p":2,"bytes":1024,"algorithm":"binomial"}
			{"op":"broadcast","p":2,"bytes":65536,"algorithm":"flat"}`},
		{"only what differs from the default is said", `
			allreduce 4 8B hub=5 binomial=10
			allreduce 4 1MiB hub=50 binomial=40 binomial/256KiB=20`, `
			{"op":"allreduce","p":4,"bytes":1048576,"algorithm":"binomial","span":262144}`},
		{"numbers between powers of two get the best that is possible there", `
			allreduce 4 8B hub=5 binomial=10 doubling=9 rabenseifner=20
			allreduce 4 64KiB hub=50 binomial=80 doubling=30 rabenseifner=20`, `
			{"op":"allreduce","p":4,"bytes":65536,"algorithm":"doubling"}
			{"op":"allreduce","p":4,"bytes":65536,"algorithm":"rabenseifner"}`},
		{"blocks of unknown sizes: a switch costs an attempt, which is worth it", `
			allgather 2 8B direct=20 hub=5 ring=20
			allgather 2 64KiB direct=100 hub=300 ring=101`, `
			{"op":"allgather","p":2,"algorithm":"hub"}
			{"op":"allgather","p":2,"bytes":65536,"algorithm":"direct"}`},
		{"blocks of unknown sizes: an attempt that is not worth it", `
			allgather 2 8B direct=20 hub=15 ring=20
			allgather 2 1KiB direct=22 hub=30 ring=22`, ``},
		{"blocks of unknown sizes: never more than one switch", `
			alltoall 2 8B direct=20 hub=5 bruck=10
			alltoall 2 1KiB direct=40 hub=30 bruck=10
			alltoall 2 64KiB direct=100 hub=300 bruck=200`, `
			{"op":"alltoall","p":2,"algorithm":"bruck"}
			{"op":"alltoall","p":2,"bytes":65536,"algorithm":"direct"}`},
		{"blocks of unknown sizes: the default's switch is dropped with its attempt", `
			allgather 8 8B direct=20 hub=19 ring=18
			allgather 8 16KiB direct=90 hub=80 ring=22`, `
			{"op":"allgather","p":8,"algorithm":"ring"}`},
		{"blocks of unknown sizes: the default is beaten within noise", `
			allgather 2 8B direct=10.5 hub=20 ring=10
			allgather 2 64KiB direct=100 hub=300 ring=99`, ``},
		{"blocks of unknown sizes: no switch for a gain within noise", `
			alltoall 2 8B direct=20 hub=5 bruck=5.4
			alltoall 2 64KiB direct=1000 hub=1000 bruck=500`, `
			{"op":"alltoall","p":2,"algorithm":"bruck"}`},
		{"blocks of unknown sizes: what fewer processes have is nearly best", `
			alltoall 2 8B direct=20 hub=5 bruck=10
			alltoall 4 8B direct=20 hub=5.2 bruck=5`, `
			{"op":"alltoall","p":2,"algorithm":"hub"}`},
		{"gather does not know sizes at all: one for all", `
			gather 2 8B flat=10 binomial=5
			gather 2 64KiB flat=10 binomial=15
			scatter 2 8B flat=10 binomial=5
			scatter 2 64KiB flat=10 binomial=15`, `
			{"op":"scatter","p":2,"algorithm":"binomial"}
			{"op":"scatter","p":2,"bytes":65536,"algorithm":"flat"}
			{"op":"gather","p":2,"algorithm":"binomial"}`},
	} {
		got := strings.FieldsFunc(string(rulesText(deriveRules(cellsOf(t, c.measured)))), func(r rune) bool { return r == '\n' })
		for i := range got {
			got[i] = strings.Trim(got[i], " ,[]")
		}
		got = slices.DeleteFunc(got, func(s string) bool { return s == "" })
		if want := strings.Fields(c.want); !slices.Equal(got, want) {
			t.Errorf("%s:\n got %s\nwant %s", c.name, strings.Join(got, "\n     "), strings.Join(want, "\n     "))
		}
	}
}

// drawCells draws times of all candidates of an operation.
func drawCells(t *rapid.T, op collective.Op) (cells []tuneCell) {
	for _, p := range rapid.SliceOfNDistinct(rapid.IntRange(2, 17), 1, 4, rapid.ID).Draw(t, "p") {
		for _, bytes := range []int64{8, 1 << 10, 64 << 10, 1 << 20} {
			c := newTuneCell(collective.Default, op, p, bytes)
			for i := range c.candidates {
				c.candidates[i].rounds = []float64{rapid.Float64Range(1, 2).Draw(t, "µs")}
			}
			cells = append(cells, c)
		}
	}
	return cells
}

var tunedOps = rapid.SampledFrom([]collective.Op{
	collective.Broadcast, collective.Scatter, collective.Gather, collective.AllGather,
	collective.AllToAll, collective.Reduce, collective.AllReduce, collective.ReduceScatter,
})

func TestRulesChooseWhatIsNotBeaten(t *testing.T) {
	someDefaults(t)
	rapid.Check(t, func(t *rapid.T) {
		op := tunedOps.Draw(t, "op")
		cells := drawCells(t, op)
		table, err := collective.ParseTable(rulesText(deriveRules(cells)))
		table = slices.Concat(collective.Default, table)
		if err != nil {
			t.Fatal(err)
		}
		switches := map[collective.Op]int{collective.Gather: 0, collective.AllGather: 1, collective.AllToAll: 1}
		most, blocks := switches[op]
		for p := range 40 {
			if n := len(stretchesOf(table, op, p+1)) - 1; blocks && n > most {
				t.Fatalf("%v among %d has %d switches; allowed: %d\n%s", op, p+1, n, most, rulesText(table))
			}
		}
		for i := range cells {
			c := &cells[i]
			chosen := c.find(choiceOf(table.Choose(collective.Spec{Op: op, P: c.p}, c.bytes)))
			best, usual := c.best(nil).us(), c.find(c.usual()).us()
			switch {
			case chosen == nil:
				t.Fatalf("%v among %d, %d bytes: no candidate", op, c.p, c.bytes)
			case !blocks && chosen.us() > noise*best:
				t.Fatalf("%v among %d, %d bytes: %v takes %v, the best %v", op, c.p, c.bytes, chosen.choice, chosen.us(), best)
			case !blocks && chosen.choice != c.usual() && usual <= noise*best:
				t.Fatalf("%v among %d, %d bytes: %v replaces the default, %v, without need", op, c.p, c.bytes, chosen.choice, usual)
			}
		}
	})
}

func TestPrunedRulesChooseTheSame(t *testing.T) {
	someDefaults(t)
	rapid.Check(t, func(t *rapid.T) {
		op := tunedOps.Draw(t, "op")
		var rules collective.Table
		for range rapid.IntRange(0, 6).Draw(t, "rules") {
			rules = append(rules, collective.Rule{
				Op: op, P: rapid.IntRange(0, 9).Draw(t, "P"), Bytes: rapid.SampledFrom([]int64{0, 8, 16 << 10, 1 << 20}).Draw(t, "bytes"),
				Algorithm: rapid.SampledFrom(collective.Algorithms(collective.Spec{Op: op, P: 2})).Draw(t, "algorithm"),
			})
		}
		pruned := prune(collective.Default, rules)
		whole, part := slices.Concat(collective.Default, rules), slices.Concat(collective.Default, pruned)
		for p := 1; p < 40; p++ {
			for _, bytes := range []int64{0, 1, 8, 9, 4 << 10, 8 << 10, 16 << 10, 1 << 20, math.MaxInt64} {
				if a, b := whole.Choose(collective.Spec{Op: op, P: p}, bytes), part.Choose(collective.Spec{Op: op, P: p}, bytes); choiceOf(a) != choiceOf(b) {
					t.Fatalf("%v among %d, %d bytes: %v, pruned %v\n%s", op, p, bytes, a.Algorithm, b.Algorithm, rulesText(rules))
				}
			}
		}
		if len(prune(collective.Default, append(slices.Clone(pruned), pruned...))) > len(pruned) {
			t.Fatalf("twice the same rules stay:\n%s", rulesText(pruned))
		}
	})
}

func TestTimeIsTheMedianOfRounds(t *testing.T) {
	someDefaults(t)
	for _, c := range []struct {
		rounds []float64
		want   float64
	}{
		{[]float64{3}, 3},
		{[]float64{9, 1}, 5},
		{[]float64{9, 1, 2}, 2},
		{[]float64{9, 1, 2, 4}, 3},
		{nil, math.Inf(1)},
	} {
		if got := (&candidate{rounds: c.rounds}).us(); got != c.want {
			t.Errorf("%v: %v, want %v", c.rounds, got, c.want)
		}
	}
}

// someDefaults makes a table the default one for a test: what is expected must not
// change with the table that is shipped.
func someDefaults(t *testing.T) {
	t.Helper()
	shipped := collective.Default
	t.Cleanup(func() { collective.Default = shipped })
	collective.Default = collective.Table{
		{Op: collective.Broadcast, Algorithm: collective.Binomial},
		{Op: collective.Scatter, Algorithm: collective.Flat},
		{Op: collective.Gather, Algorithm: collective.Flat},
		{Op: collective.AllGather, Algorithm: collective.Direct},
		{Op: collective.AllGather, P: 5, Algorithm: collective.Hub},
		{Op: collective.AllGather, P: 5, Bytes: 8 << 10, Algorithm: collective.Ring},
		{Op: collective.AllToAll, Algorithm: collective.Direct},
		{Op: collective.AllToAll, P: 5, Algorithm: collective.Hub},
		{Op: collective.AllToAll, P: 5, Bytes: 4 << 10, Algorithm: collective.Direct},
		{Op: collective.Reduce, Algorithm: collective.Flat},
		{Op: collective.Reduce, P: 4, Bytes: 16 << 10, Algorithm: collective.Binomial},
		{Op: collective.AllReduce, Algorithm: collective.Doubling},
		{Op: collective.AllReduce, P: 4, Algorithm: collective.Hub},
		{Op: collective.AllReduce, P: 4, Bytes: 16 << 10, Algorithm: collective.Binomial},
		{Op: collective.Scan, Algorithm: collective.Doubling},
		{Op: collective.ReduceScatter, Algorithm: collective.Direct},
		{Op: collective.ReduceScatter, P: 5, Algorithm: collective.Hub},
		{Op: collective.ReduceScatter, P: 5, Bytes: 4 << 10, Algorithm: collective.Direct},
	}
}
