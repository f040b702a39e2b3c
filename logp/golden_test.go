package logp_test

import (
	"encoding/csv"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
	"github.com/coppice-go/coppice/topology"
)

// otherReceiveOrder counts the golden rows whose number of messages differs
// because the authors' simulator serves competing receives in the order their
// sends were posted; ours serves them by send time and rank. All are
// overlapped, with P ≥ 256 and many failures.
const otherReceiveOrder = 9

// TestGoldenFlogsim compares every row of testdata/golden.csv, results of the simulator of Corrected Trees
// for small cases, with ours.
func TestGoldenFlogsim(t *testing.T) {
	differ := 0
	for _, row := range readGolden(t) {
		got := row.run(t)
		want := logp.Result{Coloring: row.coloring, Quiescence: row.quiescence, Uncolored: row.unreached}
		if got.Coloring != want.Coloring || got.Quiescence != want.Quiescence || got.Uncolored != want.Uncolored {
			t.Errorf("%v: coloring %d, quiescence %d, uncolored %d; want %d, %d, %d", row.name,
				got.Coloring, got.Quiescence, got.Uncolored, want.Coloring, want.Quiescence, want.Uncolored)
		}
		if got.Sent() == row.messages {
			continue
		}
		differ++
		off := float64(got.Sent()-row.messages) / float64(row.messages)
		if row.protocol != "overlapped-checked" || row.p < 256 || off < -0.005 || off > 0.005 {
			t.Errorf("%v: %d messages, want %d", row.name, got.Sent(), row.messages)
		}
	}
	if differ > otherReceiveOrder {
		t.Errorf("messages differ in %d rows, expected in %d at most", differ, otherReceiveOrder)
	}
	t.Logf("messages differ in %d rows", differ)
}

type goldenRow struct {
	name                 string
	p, l, o              int
	tree                 topology.Tree
	protocol             string
	failed               []protocol.Rank
	coloring, quiescence protocol.Time
	messages             int64
	unreached            int
}

func readGolden(t *testing.T) []goldenRow {
	t.Helper()
	f, err := os.Open("testdata/golden.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	records, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	number := func(s string) int {
		n, err := strconv.Atoi(s)
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	var rows []goldenRow
	for _, r := range records[1:] {
		row := goldenRow{
			name: strings.Join(r, ","), p: number(r[0]), l: number(r[1]), o: number(r[2]), protocol: r[4],
			coloring: protocol.Time(number(r[6])), quiescence: protocol.Time(number(r[7])),
			messages: int64(number(r[8])), unreached: number(r[9]),
		}
		shape, err := topology.ParseShape(r[3])
		if err != nil {
			t.Fatal(err)
		}
		if row.tree, err = shape.Tree(row.p, topology.Interleaved, row.l, row.o); err != nil {
			t.Fatal(err)
		}
		for _, f := range strings.Fields(r[5]) {
			row.failed = append(row.failed, protocol.Rank(number(f)))
		}
		rows = append(rows, row)
	}
	return rows
}

func (row goldenRow) run(t *testing.T) logp.Result {
	t.Helper()
	cfg := broadcast.Config{P: row.p, Spread: &broadcast.Tree{Tree: row.tree}}
	var correction broadcast.Correction[broadcast.Walk, broadcast.None] = broadcast.Uncorrected{}
	switch row.protocol {
	case "ack":
		cfg.Spread = &broadcast.AckTree{Tree: row.tree}
	case "sync-checked":
		plain := goldenRow{p: row.p, l: row.l, o: row.o, tree: row.tree, protocol: "none"}
		cfg.Synchronized, cfg.Start = true, plain.run(t).Coloring
		correction = &broadcast.Checked{}
	case "overlapped-checked":
		correction = &broadcast.Checked{Ring: broadcast.Ring{Open: true}}
	}
	p, err := broadcast.New(cfg, correction)
	if err != nil {
		t.Fatal(err)
	}
	e, err := logp.NewEngine(p, logp.Network{P: row.p, L: protocol.Time(row.l), O: protocol.Time(row.o)})
	if err != nil {
		t.Fatal(err)
	}
	result, err := e.Run(1, logp.Faults{Failed: row.failed})
	if err != nil {
		t.Fatal(err)
	}
	return result
}
