package collective

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"
)

func TestTheLastRuleThatFitsCounts(t *testing.T) {
	table := Table{
		{Op: AllReduce, Algorithm: Binomial},
		{Op: AllReduce, P: 4, Algorithm: Hub},
		{Op: AllReduce, P: 4, Bytes: 1000, Algorithm: Rabenseifner},
		{Op: AllReduce, P: 8, Bytes: 5000, Algorithm: Ring},
		{Op: Reduce, Algorithm: Flat},
	}
	for _, c := range []struct {
		p        int
		bytes    int64
		anyOrder bool
		want     Algorithm
	}{
		{2, 1 << 20, true, Binomial},
		{4, 999, false, Hub},
		{4, -1, false, Hub},
		{4, 1000, false, Rabenseifner},
		{6, 1000, false, Hub}, // not a power of two
		{8, 5000, true, Ring},
		{8, 5000, false, Rabenseifner}, // in order
	} {
		if got := table.Choose(Spec{Op: AllReduce, P: c.p, AnyOrder: c.anyOrder}, c.bytes); got.Algorithm != c.want {
			t.Errorf("%+v: %v", c, got.Algorithm)
		}
	}
	if got := table.Whole().Choose(Spec{Op: AllReduce, P: 8, AnyOrder: true}, 5000); got.Algorithm != Hub {
		t.Errorf("a value that cannot be cut goes by %v", got.Algorithm)
	}
}

func TestSmallIsUpToTheFirstSwitch(t *testing.T) {
	table := Table{
		{Op: AllToAll, Algorithm: Direct},
		{Op: AllToAll, P: 5, Algorithm: Hub},
		{Op: AllToAll, P: 5, Bytes: 4096, Algorithm: Direct},
		{Op: AllToAll, P: 9, Bytes: 1024, Algorithm: Bruck},
		{Op: AllToAll, P: 9, Bytes: 2048, Algorithm: Hub},
	}
	if differ, _ := table.Small(Spec{Op: AllToAll, P: 4}); differ {
		t.Error("4 tasks: one algorithm for all sizes, yet they differ")
	}
	if differ, limit := table.Small(Spec{Op: AllToAll, P: 8}); !differ || limit != 4095 {
		t.Errorf("8 tasks: %t, up to %d", differ, limit)
	}
	if differ, limit := table.Small(Spec{Op: AllToAll, P: 9}); !differ || limit != 1023 {
		t.Errorf("9 tasks: %t, up to %d", differ, limit)
	}
	pieces := Table{{Op: Broadcast, Algorithm: Binomial}, {Op: Broadcast, Bytes: 64, Algorithm: Binomial, Span: 32}}
	if differ, limit := pieces.Small(Spec{Op: Broadcast, P: 9}); !differ || limit != 63 {
		t.Errorf("in pieces: %t, up to %d", differ, limit)
	}
}

// Every operation has a rule, and every rule an algorithm, for any number of tasks
// and any size.
func TestDefaultsAreComplete(t *testing.T) {
	for op := Broadcast; op <= ReduceScatter; op++ {
		for p := 1; p <= 70; p++ {
			for _, bytes := range []int64{-1, 0, 8, 1 << 10, 1 << 14, 1 << 16, 1 << 20, 1 << 30} {
				for _, table := range []Table{Default, Default.Whole()} {
					r := table.Choose(Spec{Op: op, P: p}, bytes)
					if _, err := New(Spec{Op: op, Algorithm: r.Algorithm, P: p}); r.Op != op || err != nil {
						t.Fatalf("%v of %d bytes among %d: %+v, %v", op, bytes, p, r, err)
					}
				}
			}
		}
	}
}

func TestTablesAreRead(t *testing.T) {
	text := `[{"op": "allreduce", "p": 4, "bytes": 16384, "algorithm": "binomial", "span": 262144}, {"op": "scan", "algorithm": "doubling"}]`
	table, err := ParseTable([]byte(text))
	want := []Rule{{AllReduce, 4, 16384, Binomial, 262144}, {Op: Scan, Algorithm: Doubling}}
	if err != nil || !reflect.DeepEqual([]Rule(table), want) {
		t.Errorf("%v, %v", table, err)
	}
	again, err := json.Marshal(want)
	if table2, err2 := ParseTable(again); err != nil || err2 != nil || !reflect.DeepEqual(table2, table) {
		t.Errorf("written and read again: %v, %v, %v", table2, err, err2)
	}
	for _, c := range [][2]string{
		{`{`, "unexpected end"},
		{`[{"op": "barrier", "algorithm": "hub"}]`, `operation "barrier"; allowed: broadcast`},
		{`[{"op": "scan", "algorithm": "ring"}]`, "scan by ring; allowed: doubling"},
		{`[{"op": "scan", "algorithm": "x"}]`, `algorithm "x"; allowed: binomial`},
		{`[{"op": "scan", "algorithm": "doubling", "p": -1}]`, "allowed: 0 or more"},
		{`[{"op": "scan", "algorithm": "doubling", "span": 8}]`, "in pieces; allowed: in one"},
		{`[{"op": "scan", "algorithm": "doubling", "size": 8}]`, "unknown field"},
	} {
		if _, err := ParseTable([]byte(c[0])); err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s: %v", c[0], err)
		}
	}
}

// Long vectors that may be combined in any order go round the ring across hosts, where they would have to go along a tree.
func TestAnyOrderHasAnEffect(t *testing.T) {
	table := AcrossHosts.Table()
	for _, c := range []struct {
		p        int
		bytes    int64
		anyOrder bool
		want     Algorithm
	}{
		{6, 1 << 20, true, Ring},
		{6, 1 << 20, false, Binomial},
		{6, 1 << 10, true, Binomial},
		{8, 1 << 20, true, Rabenseifner},
		{66, 1 << 20, true, Binomial},
	} {
		if got := table.Choose(Spec{Op: AllReduce, P: c.p, AnyOrder: c.anyOrder}, c.bytes); got.Algorithm != c.want {
			t.Errorf("%+v: %v", c, got.Algorithm)
		}
	}
}

// Small blocks of many tasks go along a tree, large ones straight to the root.
func TestManySmallBlocksGoAlongATree(t *testing.T) {
	for _, op := range []Op{Scatter, Gather} {
		for bytes, want := range map[int64]Algorithm{8: Binomial, 1 << 20: Flat} {
			if got := Default.Choose(Spec{Op: op, P: 65}, bytes); got.Algorithm != want {
				t.Errorf("%v of %d bytes among 65 by %v", op, bytes, got.Algorithm)
			}
		}
		if got := Default.Choose(Spec{Op: op, P: 64}, 8); got.Algorithm != Flat {
			t.Errorf("%v among 64 by %v", op, got.Algorithm)
		}
	}
}

// TestAcrossHostsEachByteCrossesOnce counts what crosses from host to host: values, or blocks. In order a reduction needs hosts that have as
// many tasks, a power of two.
func TestAcrossHostsEachByteCrossesOnce(t *testing.T) {
	table := AcrossHosts.Table()
	for _, sizes := range [][]int{{2, 2}, {4, 4, 4, 4}, {8, 8, 8}, {3, 3, 3, 3}, {1, 5, 2}, {6, 1}} {
		var hosts []Rank
		p, aligned := 0, true
		for _, n := range sizes {
			aligned = aligned && n == sizes[0] && n&(n-1) == 0
			hosts = append(hosts, Rank(p))
			p += n
		}
		others := float64(len(sizes) - 1)
		pairs := 0.0 // of tasks on different hosts
		for _, n := range sizes {
			pairs += float64(n * (p - n))
		}
		for _, bytes := range []int64{8, 4 << 10, 64 << 10, 1 << 20} {
			for op, most := range map[Op]float64{Broadcast: others, Reduce: others, AllReduce: 2 * others, AllGather: others * float64(p), AllToAll: pairs, ReduceScatter: pairs} {
				for _, anyOrder := range []bool{false, true} {
					if combines := op == Reduce || op == AllReduce; combines && !anyOrder && !aligned {
						continue
					}
					open := Spec{Op: op, P: p, AnyOrder: anyOrder, Hosts: hosts}
					r := table.Choose(open, bytes)
					if r.Algorithm == Rabenseifner && !aligned {
						continue
					}
					if r.Algorithm == Ring { // spreads what crosses over all hosts: 1/P more
						most = max(2*float64(len(sizes))*(1-1/float64(p)), float64(len(sizes)*(p-1)))
					}
					for _, open.Root = range []Rank{0, Rank(p) / 2, Rank(p) - 1} {
						open.Algorithm, open.Spans = r.Algorithm, 1
						if got := crossing(t, open); got > most+1e-9 {
							t.Errorf("%v of %d bytes by %v from %d among hosts of %v tasks: %.2f cross, want %.2f", op, bytes, r.Algorithm, open.Root, sizes, got, most)
						}
					}
				}
			}
		}
	}
}

// crossing returns how many values, or parts of them, cross from host to host.
func crossing(t *testing.T, spec Spec) (values float64) {
	t.Helper()
	s, err := New(spec)
	if err != nil {
		t.Fatal(err)
	}
	h := hostsOf{spec.Hosts, spec.P}
	for r := range Rank(spec.P) {
		g := s.Program(r)
		for _, st := range g.Steps {
			if st.Kind == SendStep && h.of(st.Peer) != h.of(r) {
				values += float64(len(st.Slots)) / float64(max(g.Segments, 1))
			}
		}
	}
	return values
}

// TestTwoLevelsBundle: in an all-to-all of small blocks one message goes from each host to each other one.
func TestTwoLevelsBundle(t *testing.T) {
	spec := Spec{Op: AllToAll, P: 12, Hosts: []Rank{0, 3, 6, 9}}
	spec.Algorithm = AcrossHosts.Table().Choose(spec, 8).Algorithm
	s, err := New(spec)
	if err != nil {
		t.Fatal(err)
	}
	messages := 0
	for r := range Rank(12) {
		for _, st := range s.Program(r).Steps {
			if st.Kind == SendStep && st.Peer/3 != r/3 {
				messages++
			}
		}
	}
	if messages != 4*3 {
		t.Errorf("%d messages between 4 hosts, want 12", messages)
	}
}

// TestHostsAreChecked: what cannot be is refused, and without several hosts there are no two levels.
func TestHostsAreChecked(t *testing.T) {
	for _, hosts := range [][]Rank{{1, 2}, {0, 2, 2}, {0, 4}, {0, 3, 1}, {}, {0}, {0, 1, 2, 3}} {
		if _, err := New(Spec{Op: Broadcast, Algorithm: TwoLevel, P: 4, Hosts: hosts}); err == nil {
			t.Errorf("hosts that begin with tasks %v of 4", hosts)
		}
	}
}
