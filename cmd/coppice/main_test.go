package main

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
	"github.com/coppice-go/coppice/topology"
	"pgregory.net/rapid"
)

func writeFile(name, text string) error { return os.WriteFile(name, []byte(text), 0o666) }

func TestValuesAreJoinedToTheirFlags(t *testing.T) {
	for _, c := range []struct{ args, want string }{
		{"sim -P=8 -L 2", "sim -P8 -L 2"},
		{"sim -P -8 --root -1", "sim -P-8 --root=-1"},
		{"sim -P=-8", "sim -P-8"},
		{"sim --wrap false --queue=false", "sim --wrap=false --queue=false"},
		{"sim --json -5", "sim --json=-5"}, // kong refuses it
		{"sim 3 -5 -6", "sim 3 -5 -6"},
		{"run -n=4 -- prog -x=5 -n -3", "run -n4 -- prog -x=5 -n -3"},
		{"-", "-"},
	} {
		if got := strings.Join(joinValues(strings.Fields(c.args)), " "); got != c.want {
			t.Errorf("%s: got %s, want %s", c.args, got, c.want)
		}
	}
}

func TestErrorsAreOneLine(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{errors.Join(errors.New("3 others failed"), errors.New("no such  file")), "3 others failed; no such file"},
		{errors.New("it says:\n\ta\n"), "it says: a;"},
		{errors.New("coppice: join as rank 0: interrupted"), "join as rank 0: interrupted"},
		{fmt.Errorf("mode %q; allowed: replay", strings.Repeat("é", 600)), `mode "` + strings.Repeat("é", 99) + "…" + ` allowed: replay`},
	} {
		if got := oneLine(c.err); got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
	}
}

func TestOutputThatIsLostFailsTheRun(t *testing.T) {
	file := filepath.Join(t.TempDir(), "read-only")
	if err := writeFile(file, ""); err != nil {
		t.Fatal(err)
	}
	stdout, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer stdout.Close()
	stderr, err := os.Create(filepath.Join(t.TempDir(), "stderr"))
	if err != nil {
		t.Fatal(err)
	}
	defer stderr.Close()
	for _, args := range []string{"tree -P 9", "tree -P 9 --json", "sim -P 9", "sim -P 9 --json", "version"} {
		if exit := run(strings.Fields(args), stdout, stderr); exit != exitFailed {
			t.Errorf("%s: exit code %d, want %d", args, exit, exitFailed)
		}
	}
}

func TestAMillionParentsAreOneDocument(t *testing.T) {
	const p = 1_000_000
	for _, order := range []string{"interleaved", "in-order"} {
		cmd := treeCmd{P: p, groupFlags: groupFlags{O: 1, Tree: "binomial", Order: order, Root: 7}}
		tree, err := cmd.tree()
		if err != nil {
			t.Fatal(err)
		}
		var text bytes.Buffer
		w := bufio.NewWriter(&text)
		writeParents(w, tree)
		w.Flush()
		var document struct{ Parent []int }
		if err := json.Unmarshal(text.Bytes(), &document); err != nil {
			t.Fatal(err)
		}
		if len(document.Parent) != p || slices.Index(document.Parent, -1) != 7 {
			t.Errorf("%s: %d parents, root %d; want %d and 7", order, len(document.Parent), slices.Index(document.Parent, -1), p)
		}
	}
}

// --faults s% kills round(P·s/100): checked in whole numbers, for shares of
// up to four decimals.
func TestSharesAreExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.IntRange(1, 1<<31-1).Draw(t, "P")
		parts := rapid.IntRange(0, 100_0000).Draw(t, "hundredths of a basis point")
		text := fmt.Sprintf("%d.%04d%%", parts/10000, parts%10000)
		var s share
		if err := s.UnmarshalText([]byte(text)); err != nil {
			t.Fatal(err)
		}
		n := big.NewInt(int64(p))
		n.Mul(n, big.NewInt(int64(parts))).Add(n, big.NewInt(50_0000)).Div(n, big.NewInt(100_0000))
		if got := s.of(p); int64(got) != n.Int64() {
			t.Fatalf("%s of %d: got %d, want %d", text, p, got, n)
		}
	})
}

func TestDeathsAreReadAsTheyAreWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := death{Rank: protocol.Rank(rapid.Int32().Draw(t, "rank"))}
		if rapid.Bool().Draw(t, "by sends") {
			d.AfterSends = rapid.IntRange(1, 1<<40).Draw(t, "k")
		} else {
			d.At = protocol.Time(rapid.Int64Range(0, 1<<40).Draw(t, "t"))
		}
		text, err := d.MarshalText()
		if err != nil {
			t.Fatal(err)
		}
		var got death
		if err := got.UnmarshalText(text); err != nil || got != d {
			t.Fatalf("%s: read as %v (%v), want %v", text, got, err, d)
		}
	})
}

func TestFlagsReachTheSimulator(t *testing.T) {
	plan := func(flags string) simulation {
		t.Helper()
		sim, err := parseSim(flags)
		if err != nil {
			t.Fatalf("%s: %v", flags, err)
		}
		spec, net, runs, err := sim.plan()
		if err != nil {
			t.Fatalf("%s: %v", flags, err)
		}
		return simulation{spec, net, runs}
	}
	for flags, change := range map[string]func(*simulation){
		"-P 8":                                 func(*simulation) {},
		"-P 9":                                 func(s *simulation) { s.net.P = 9 },
		"-P 8 -L 3":                            func(s *simulation) { s.net.L = 3 },
		"-P 8 -o 2":                            func(s *simulation) { s.net.O = 2 },
		"-P 8 -g 4":                            func(s *simulation) { s.net.G = 4 },
		"-P 8 --queue=false":                   func(s *simulation) { s.net.NoQueue = true },
		"-P 8 --tree lame:2":                   func(s *simulation) { s.spec.Tree = "lame:2" },
		"-P 8 --tree bfb":                      func(s *simulation) { s.spec.Tree, s.net.Detect = "bfb", 1 },
		"-P 8 --tree bfb --detect 5":           func(s *simulation) { s.spec.Tree, s.net.Detect = "bfb", 5 },
		"-P 8 --order in-order":                func(s *simulation) { s.spec.Order = topology.InOrder },
		"-P 8 --correction none":               func(s *simulation) { s.spec.Correction = "none" },
		"-P 8 --sync overlapped":               func(s *simulation) { s.spec.Synchronized = false },
		"-P 8 --root 3":                        func(s *simulation) { s.spec.Root, s.runs.Faults.Spare = 3, 3 },
		"-P 8 --first right":                   func(s *simulation) { s.spec.Ring.First = broadcast.ToRight },
		"-P 8 --wrap=false":                    func(s *simulation) { s.spec.Ring.Open = true },
		"-P 8 --sides 1":                       func(s *simulation) { s.spec.Ring.OneSided = true },
		"-P 8 --sync overlapped --early join":  func(s *simulation) { s.spec.Synchronized = false },
		"-P 8 --sync overlapped --early serve": func(s *simulation) { s.spec.Synchronized, s.spec.Early = false, broadcast.Serve },
		"-P 8 --runs 5":                        func(s *simulation) { s.runs.Runs = 5 },
		"-P 8 --seed 5":                        func(s *simulation) { s.runs.Seed = 5 },
		"-P 8 --workers 5":                     func(s *simulation) { s.runs.Workers = 5 },
		"-P 8 --faults 25%":                    func(s *simulation) { s.runs.Faults.Count = 2 },
		"-P 8 --fault-count 3 --block 2":       func(s *simulation) { s.runs.Faults.Count, s.runs.Faults.Block = 3, 2 },
		"-P 8 --failed 3,7 --failed 5":         func(s *simulation) { s.runs.Faults.Fixed.Failed = []protocol.Rank{3, 7, 5} },
		"-P 8 --die 3@4 --die 5#6": func(s *simulation) {
			s.runs.Faults.Fixed.Deaths = []logp.Death{{Rank: 3, At: 4}, {Rank: 5, AfterSends: 6}}
		},
	} {
		want := simulation{
			broadcast.Spec{Tree: "binomial", Correction: "checked", Synchronized: true},
			logp.Network{P: 8, L: 2, O: 1},
			logp.Runs{Runs: 1, Seed: 1, Faults: logp.Sampling{Block: 1}},
		}
		change(&want)
		want.spec.P, want.spec.L, want.spec.O = want.net.P, want.net.L, want.net.O
		if got := plan(flags); !reflect.DeepEqual(got, want) {
			t.Errorf("%s:\n got %+v\nwant %+v", flags, got, want)
		}
	}
}

type simulation struct {
	spec broadcast.Spec
	net  logp.Network
	runs logp.Runs
}

// A report that left out a flag would make two different runs look alike.
func TestReportRepeatsTheConfiguration(t *testing.T) {
	usual := configOf(t, "-P 8")
	for _, flags := range []string{
		"-P 9", "-L 3", "-o 2", "-g 2", "--root 1", "--tree lame:2", "--order in-order",
		"--correction none", "--sync overlapped", "--sync overlapped --early serve", "--first right",
		"--wrap=false", "--correction opportunistic:2 --sides 1", "--queue=false", "--fault-count 2",
		"--faults 25%", "--fault-count 2 --block 2", "--failed 3", "--die 3@2", "--die 3#2",
		"--runs 2", "--seed 2", "--tree bfb --correction none --detect 2",
	} {
		got := configOf(t, "-P 8 "+flags)
		if got == usual {
			t.Errorf("%s: not seen in the configuration", flags)
		}
	}
	if got := configOf(t, "-P 8 --workers 1"); got != usual {
		t.Errorf("the number of workers changes the configuration to %s", got)
	}
}

func configOf(t *testing.T, flags string) string {
	t.Helper()
	var row demoRow
	if err := row.simulate(&console{}, flags); err != nil {
		t.Fatalf("%s: %v", flags, err)
	}
	text, err := json.Marshal(row.Config)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func TestDemoFindsItsOwnClaimsBroken(t *testing.T) {
	row := func(uncolored float64, colorsAll bool) demoRow {
		return demoRow{simReport: &simReport{Summary: logp.Summary{Uncolored: logp.Statistic{Max: uncolored}}}, colorsAll: colorsAll}
	}
	sound := func() *simulatorDemo {
		return &simulatorDemo{
			Small:   smallAct{Missed: []protocol.Rank{6}, Corrected: []coloring{{Rank: 6}}},
			Large:   []demoRow{row(3, false), row(0, true)},
			Million: row(0, true),
		}
	}
	if err := sound().check(); err != nil {
		t.Fatalf("a sound demo: %v", err)
	}
	for name, breakIt := range map[string]func(*simulatorDemo){
		"nobody missed":                 func(d *simulatorDemo) { d.Small.Missed, d.Small.Corrected = nil, nil },
		"nobody corrected":              func(d *simulatorDemo) { d.Small.Corrected = nil },
		"someone uncolored":             func(d *simulatorDemo) { d.Small.Uncolored = 1 },
		"plain tree colors all":         func(d *simulatorDemo) { d.Large[0] = row(0, false) },
		"correction misses some":        func(d *simulatorDemo) { d.Large[1] = row(1, true) },
		"correction misses a millionth": func(d *simulatorDemo) { d.Million = row(1, true) },
	} {
		d := sound()
		breakIt(d)
		if d.check() == nil {
			t.Errorf("%s: not noticed", name)
		}
	}
}

// TestDemoAllowsForOtherDeaths: somebody may kill a process that it has not.
func TestDemoAllowsForOtherDeaths(t *testing.T) {
	for want, killed := range map[string][]int{
		"": {3, 5, 6},
		"5@1s did not come about; dead are: [3 6]": {3, 6},
	} {
		d := demo{
			demoCmd: &demoCmd{Kill: []control.Kill{{Task: 3, After: time.Second}, {Task: 5, After: time.Second}}},
			free:    &tpchReport{}, through: &tpchReport{Killed: killed},
		}
		if err := d.check(d.through); fmt.Sprint(err) != cmp.Or(want, "<nil>") {
			t.Errorf("%v: %v", killed, err)
		}
	}
}

func TestThousandsAreSeparated(t *testing.T) {
	var got []string
	for _, n := range []int64{0, 999, 1000, 123456, 1234567} {
		got = append(got, thousands(n))
	}
	if want := []string{"0", "999", "1,000", "123,456", "1,234,567"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
