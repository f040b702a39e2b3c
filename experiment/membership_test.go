package experiment

import (
	"context"
	"errors"
	"math"
	"path/filepath"
	"strings"
	"testing"

	"github.com/coppice-go/coppice/internal/extent"
	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/model"
	"github.com/coppice-go/coppice/protocol"

	"pgregory.net/rapid"
)

// TestStabilizationEqualsModel: on LogP networks the simulated protocol takes as long as the model of trees
// that are not full says, with three messages for each member but the proposer. A failed leaf leaves a gap:
// then the time is between that and the model of a tree with one node more.
func TestStabilizationEqualsModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 300).Draw(t, "n")
		fanout := 1 << rapid.IntRange(1, 4).Draw(t, "log a")
		net := logp.Network{
			L: protocol.Time(rapid.IntRange(0, 9).Draw(t, "L")), O: protocol.Time(rapid.IntRange(1, 4).Draw(t, "o")),
			G: protocol.Time(rapid.IntRange(0, 5).Draw(t, "g")),
		}
		net.G = min(net.G, 4*net.O+2*net.L) // a process that has its answer may send: the model has no longer gap
		ocp := rapid.IntRange(0, 9).Draw(t, "O_cp")
		dead := rapid.IntRange(0, n).Draw(t, "dead")
		r, err := change{n: n, fanout: fanout, net: net, ocp: protocol.Time(ocp), dead: ranksFrom(dead, 1)}.run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		loggp := model.LogGP{L: float64(net.L), O: float64(net.O), Gap: float64(net.G)}
		want := model.StabilizationFilled(fanout, n, loggp, float64(ocp))
		most := want
		if dead != n {
			most = max(want, model.StabilizationFilled(fanout, n+1, loggp, float64(ocp)))
		}
		if got := float64(r.accepted); got < want-1e-6 && dead == n || got > most+1e-6 {
			t.Errorf("n=%d, a=%d, %+v, O_cp=%d, %d dead: stable after %d, by the model %g to %g", n, fanout, net, ocp, dead, r.accepted, want, most)
		}
		if r.messages != int64(3*(n-1)) || r.views != 1 {
			t.Errorf("n=%d: %d messages, %d views; want %d and 1", n, r.messages, r.views, 3*(n-1))
		}
	})
}

// TestStabilizationAtFullSize: within 10% of equation 4.2 under LogP.
func TestStabilizationAtFullSize(t *testing.T) {
	n := 1 << extent.Of(t, 12, 16) // at 12 all levels of the trees are full
	for _, fanout := range []int{8, 4, 2} {
		r, err := change{n: n, fanout: fanout, net: logP(0)}.run(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		want := model.Stabilization(fanout, n, scalingNet, 0)
		if off := float64(r.accepted)/want - 1; math.Abs(off) > 0.1 {
			t.Errorf("a=%d: stable after %d, by the model %g", fanout, r.accepted, want)
		}
		if r.stable <= r.accepted {
			t.Errorf("a=%d: the last knows at %d, the proposer at %d", fanout, r.stable, r.accepted)
		}
	}
}

// TestDistanceModelBoundsStabilization: with hops that cost the same, and next to no overhead, no process
// takes longer than the farthest pairs of all levels together.
func TestDistanceModelBoundsStabilization(t *testing.T) {
	torus := logp.Torus{X: 5, Y: 4, Z: 6}
	hops := func(a, b int) int { return torus.Hops(protocol.Rank(a), protocol.Rank(b)) }
	equal := 0
	for n := 1; n < 120; n++ {
		for _, fanout := range []int{2, 4} {
			r, err := change{n: n, fanout: fanout, ocp: 500, net: logp.Network{L: 10_000, O: 1, Torus: torus}}.run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			bound, err := model.StabilizationDistance(fanout, n, hops, 10_000, 500)
			if err != nil {
				t.Fatal(err)
			}
			overhead := float64(model.Levels(fanout, n) * (4 + fanout))
			if float64(r.accepted) > bound+overhead {
				t.Errorf("n=%d, a=%d: stable after %d, the bound is %g", n, fanout, r.accepted, bound)
			}
			if float64(r.accepted) >= bound {
				equal++
			}
		}
	}
	if equal < 20 {
		t.Errorf("the bound is met only %d times", equal)
	}
}

// TestSwitchedModelHoldsBeyondTheFigures: it is a rough model, but its error stays
// bounded where switches are idle and where they are busy all the time.
func TestSwitchedModelHoldsBeyondTheFigures(t *testing.T) {
	m, most := model.Machine{L: 118, Ocp: 2}, extent.Of(t, 400, 1500)
	for _, s := range []struct {
		model.Switched
		low float64 // of simulation over model
	}{
		{model.Switched{Port: 29.5, Packet: 2}, 0.65},
		{model.Switched{Port: 29.5, Packet: 20}, 0.65},
		{model.Switched{Port: 29.5, Packet: 60}, 0.65},
	} {
		net := cluster{m, s.Switched, 0}.net()
		for _, fanout := range []int{2, 4, 8} {
			for n := 2; n <= most; n += 1 + n/5 {
				r, err := change{n: n, fanout: fanout, ocp: inTicks(m.Ocp), net: net}.run(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				by, err := s.StabilizationSwitched(fanout, n, m)
				if err != nil {
					t.Fatal(err)
				}
				if ratio := inUS(r.accepted) / by; ratio < s.low || ratio > 1.25 {
					t.Errorf("%+v, n=%d, a=%d: %g times the model's %g", s.Switched, n, fanout, ratio, by)
				}
			}
		}
	}
}

// TestChatEqualsContentionModel: whole groups that talk without a pause.
func TestChatEqualsContentionModel(t *testing.T) {
	for _, c := range []struct {
		children, n  int
		port, packet float64
	}{
		{1, 2, 0, 0},
		{1, 8, 0, 10},
		{1, 40, 0, 10}, // the switch is busy
		{2, 3, 25, 0},
		{2, 30, 25, 0},
		{2, 30, 25, 10},
		{4, 5, 25, 0},
		{4, 40, 25, 10},
	} {
		s := model.Switched{Port: c.port, Packet: c.packet}
		cl := cluster{model.Machine{L: 100}, s, c.n}
		got, err := chatLatency(t.Context(), c.n, c.children, cl.net())
		if err != nil {
			t.Fatal(err)
		}
		if want := s.ContentionLatency(c.children, c.n, 100); math.Abs(got/want-1) > 0.02 {
			t.Errorf("%+v: %g, by the model %g", c, got, want)
		}
	}
	if _, err := chatLatency(t.Context(), 1, 2, ethernet.net()); err == nil {
		t.Error("one node talks to itself")
	}
}

// TestMembershipLeavesWholeReports runs the figures and keeps them.
func TestMembershipLeavesWholeReports(t *testing.T) {
	dir := t.TempDir()
	for _, e := range membershipExperiments {
		if e.Name == "membership-scaling" { // takes seconds
			continue
		}
		f, err := e.Run(t.Context(), &Lab{Runs: 1, Starter: fakeStabilizer{}})
		if err != nil {
			t.Fatal(err)
		}
		if len(f.Claims) == 0 || len(f.Tables) == 0 || f.Chart == nil {
			t.Errorf("%s: %d claims, %d tables, a chart: %t", e.Name, len(f.Claims), len(f.Tables), f.Chart != nil)
		}
		for _, c := range f.Claims {
			if c.What == "" || c.Paper == "" || c.Ours == "" || c.Verdict == Differs && c.Reason == "" || strings.Contains(c.Ours, "NaN") {
				t.Errorf("%s: a claim says nothing: %+v", e.Name, c)
			}
		}
		if err := f.Keep(dir); err != nil {
			t.Fatal(err)
		}
	}
	if err := Report(dir); err != nil {
		t.Fatal(err)
	}
	if pages, err := filepath.Glob(filepath.Join(dir, "report.*")); err != nil || len(pages) != 2 {
		t.Errorf("reports: %v, %v", pages, err)
	}
}

// fakeStabilizer measures nothing.
type fakeStabilizer struct {
	Starter
	fails bool
}

func (s fakeStabilizer) Stabilize(_ context.Context, processes, fanout, rounds int) (us []float64, err error) {
	if s.fails {
		return nil, errors.New("no processes")
	}
	for i := range rounds {
		us = append(us, float64(processes*fanout+i))
	}
	return us, nil
}

func TestMembershipIsMeasuredWhereItCanBe(t *testing.T) {
	found, err := Find("membership-measured")
	if err != nil {
		t.Fatal(err)
	}
	f, err := found[0].Run(t.Context(), &Lab{Runs: 1})
	if err != nil || f.Verdict() != Skipped {
		t.Errorf("without a starter: %+v, %v", f, err)
	}
	f, err = found[0].Run(t.Context(), &Lab{Runs: 3, Starter: fakeStabilizer{}, Processes: []int{16, 8}})
	if err != nil || len(f.Tables) != 1 || len(f.Tables[0].Rows) != 6 || f.Tables[0].Rows[0][2] != "17" {
		t.Errorf("measured: %+v, %v", f, err)
	}
	if _, err := found[0].Run(t.Context(), &Lab{Runs: 3, Starter: fakeStabilizer{fails: true}}); err == nil {
		t.Error("what fails is no error")
	}
	if _, err := found[0].Run(t.Context(), &Lab{Runs: 3, Starter: fakeStabilizer{}, Processes: []int{2}}); err == nil {
		t.Error("two processes are accepted")
	}
}
