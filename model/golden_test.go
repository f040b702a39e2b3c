package model

import (
	"encoding/csv"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/coppice-go/coppice/topology"
)

// row is what the authors' simulator says about one broadcast. testdata/golden.csv
// holds the rows of the shared golden data that a closed form speaks about.
type row struct {
	p, l, o                       int
	shape                         string
	protocol                      string
	failed                        []int
	coloring, quiescence, message int
}

func (r row) tree(t *testing.T) topology.Tree {
	t.Helper()
	shape, err := topology.ParseShape(r.shape)
	if err != nil {
		t.Fatal(err)
	}
	tree, err := shape.Tree(r.p, topology.Interleaved, r.l, r.o)
	if err != nil {
		t.Fatal(err)
	}
	return tree
}

func golden(t *testing.T, protocol string) []row {
	t.Helper()
	file, err := os.Open("testdata/golden.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	records, err := csv.NewReader(file).ReadAll()
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
	var rows []row
	for _, f := range records[1:] {
		if f[4] != protocol {
			continue
		}
		r := row{
			p: number(f[0]), l: number(f[1]), o: number(f[2]),
			shape: f[3], protocol: f[4],
			coloring: number(f[6]), quiescence: number(f[7]), message: number(f[8]),
		}
		for _, dead := range strings.Fields(f[5]) {
			r.failed = append(r.failed, number(dead))
		}
		rows = append(rows, r)
	}
	if len(rows) < 50 {
		t.Fatalf("only %d rows of %s", len(rows), protocol)
	}
	return rows
}

func TestTreeLatencyIsWhatTheSimulatorSays(t *testing.T) {
	for _, r := range golden(t, "none") {
		if got := TreeLatency(r.tree(t), r.l, r.o); got != r.coloring {
			t.Errorf("%+v: %d", r, got)
		}
	}
}

func TestAckLatencyIsWhatTheSimulatorSays(t *testing.T) {
	for _, r := range golden(t, "ack") {
		if got := AckLatency(r.tree(t), r.l, r.o); got != r.quiescence {
			t.Errorf("%+v: %d", r, got)
		}
		if got := TreeLatency(r.tree(t), r.l, r.o); got != r.coloring {
			t.Errorf("%+v: colored at %d", r, got)
		}
	}
}

// gapMax is the longest run of processes on the ring that the tree leaves
// uncolored.
func gapMax(t topology.Tree, failed []int) int {
	p := t.Size()
	gap, best := 0, 0
	for r := range 2 * p { // twice around, for the run over the end
		gap++
		for a := r % p; !slices.Contains(failed, a); a = t.Parent(a) {
			if a == t.Root() {
				gap = 0
				break
			}
		}
		best = max(best, gap)
	}
	return best
}

func TestSyncCheckedCorrectionIsWhatTheSimulatorSays(t *testing.T) {
	exact, bounded := 0, 0
	for _, r := range golden(t, "sync-checked") {
		tree := r.tree(t)
		took := r.quiescence - TreeLatency(tree, r.l, r.o)
		gap := gapMax(tree, r.failed)
		if !SyncCheckedApplies(r.p, r.l, r.o, gap) {
			continue
		}
		if gap == 0 {
			exact++
			if want := SyncCheckedLatency(r.l, r.o); took != want {
				t.Errorf("Lemma 2: %+v: %d, want %d", r, took, want)
			}
			sent := r.message - (r.p - 1)
			if want := r.p * SyncCheckedMessages(r.l, r.o); sent != want {
				t.Errorf("Corollary 1: %+v: %d, want %d", r, sent, want)
			}
			continue
		}
		bounded++
		if low, high := SyncCheckedBounds(r.l, r.o, gap); took < low || took > high {
			t.Errorf("Lemma 3: %+v, gap %d: %d, want %d … %d", r, gap, took, low, high)
		}
	}
	if exact < 30 || bounded < 50 {
		t.Errorf("only %d rows without and %d with gaps", exact, bounded)
	}
}
