package main

import (
	"bufio"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/coppice-go/coppice/model"
)

type tuneCmd struct {
	P          *int     `name:"processes" short:"P" placeholder:"N" help:"Number of processes; required without --collectives."`
	L          int      `name:"latency" short:"L" default:"2" placeholder:"l" help:"LogP latency, 0 or more (default ${default})."`
	O          int      `name:"overhead" short:"o" default:"1" placeholder:"o" help:"LogP overhead of a send and of a receive, 1 or more (default ${default})."`
	Algo       string   `enum:"all,gos,ocg,ccg,fcg" default:"all" placeholder:"A" help:"gos (gossip alone), ocg (opportunistic correction), ccg (checked), fcg (failure-proof) or all (default ${default})."`
	Delta      *float64 `xor:"delta" placeholder:"d" help:"How probable it may be that ocg or gos leaves a process out, or that ccg or fcg takes longer."`
	Success    *float64 `xor:"delta" placeholder:"p" help:"Instead of --delta: how probable all of --broadcasts are to succeed (default 0.5)."`
	Broadcasts *int64   `bounds:"--broadcasts %d; allowed: 1 or more" placeholder:"M" help:"How many broadcasts --success is about (default 1000000)."`
	F          *int     `name:"f" placeholder:"F" help:"Failures during a run that fcg survives (default 1)."`
	Failed     int      `default:"0" placeholder:"N" help:"How many processes have failed before the start (default ${default})."`
	Margin     bool     `default:"true" negatable:"" help:"Add one o to the best T of ocg, ccg and fcg, as the paper does; --margin=false for the formula's own."`
	Membership bool     `help:"Instead of choosing T: choose the fan-out of the membership's tree."`
	JSON       bool     `name:"json" help:"Print JSON."`

	tuneCollectivesFlags
}

// all stands for every algorithm.
const all = "all"

// tuning is a T as the report shows it.
type tuning struct {
	T       int     `json:"T"`
	C       int     `json:"C"`
	K       int     `json:"K"`
	Latency int     `json:"latency"`
	Exceeds float64 `json:"exceeds"`
	Work    struct {
		Gossip     float64 `json:"gossip"`
		Correction float64 `json:"correction"`
		Total      float64 `json:"total"`
	} `json:"work"`
	Chosen bool `json:"chosen"`
}

func newTuning(t model.Tuning, chosen bool) tuning {
	r := tuning{T: t.T, C: t.C, K: t.K, Latency: t.Latency, Exceeds: t.Exceeds, Chosen: chosen}
	r.Work.Gossip, r.Work.Correction, r.Work.Total = t.Gossip, t.Correction, t.Gossip+t.Correction
	return r
}

// tuned is the T chosen for one algorithm.
type tuned struct {
	Algo model.Algorithm `json:"algo"`
	tuning
	Neighbours []tuning `json:"neighbours"`
}

// tuneReport is what tuning came to.
type tuneReport struct {
	P      int     `json:"P"`
	L      int     `json:"L"`
	O      int     `json:"o"`
	Failed int     `json:"failed"`
	Delta  float64 `json:"delta"`
	F      int     `json:"f"`
	Margin bool    `json:"margin"`
	Algos  []tuned `json:"algos"`

	LeftOut string `json:"left_out,omitempty"` // why fcg is not among all
}

func (t *tuneCmd) Run(c *console) error {
	switch {
	case t.Membership:
		report, err := t.tuneMembership()
		return c.showOrRefuse(t.JSON, report, err)
	case t.Collectives:
		return t.runCollectives(c)
	}
	report, err := t.tune()
	return c.showOrRefuse(t.JSON, report, err)
}

// tune chooses. All errors are about its input.
func (t *tuneCmd) tune() (*tuneReport, error) {
	g, err := t.gossip()
	if err != nil {
		return nil, err
	}
	tuner, err := model.NewTuner(g)
	if err != nil {
		return nil, err
	}
	r := &tuneReport{P: g.N, L: g.L, O: g.O, Failed: g.Failed, Delta: g.Delta, F: g.F, Margin: g.Margin}
	algorithms := model.Algorithms
	if t.Algo != all {
		algorithms = []model.Algorithm{model.Algorithm(t.Algo)}
	}
	for _, a := range algorithms {
		one, err := tuneOne(tuner, a, g.O)
		switch {
		case err == nil:
			r.Algos = append(r.Algos, *one)
		case a == model.FCG && t.F == nil && t.Algo == all: // too few processes for it
			r.LeftOut = err.Error()
		default:
			return nil, err
		}
	}
	return r, nil
}

// neighbours is how many T on each side of the chosen one are shown.
const neighbours = 3

func tuneOne(tuner *model.Tuner, a model.Algorithm, o int) (*tuned, error) {
	best, err := tuner.Tune(a)
	if err != nil {
		return nil, err
	}
	r := &tuned{Algo: a, tuning: newTuning(best, true)}
	for i := -neighbours; i <= neighbours; i++ {
		t := best.T + i*o
		if t < 0 {
			continue
		}
		other, err := tuner.At(a, t)
		if err != nil {
			return nil, err
		}
		r.Neighbours = append(r.Neighbours, newTuning(other, i == 0))
	}
	return r, nil
}

// gossip turns the flags into what the model takes. What it does not check
// itself is checked by the model.
func (t *tuneCmd) gossip() (g model.Gossip, err error) {
	if flag := changed(t, measuringFlags...); flag != "" {
		return g, fmt.Errorf("%s without --collectives; allowed with: --collectives", flag)
	}
	if t.P == nil {
		return g, errors.New("missing flags: --processes=N; see coppice tune --help")
	}
	g = model.Gossip{N: *t.P, Failed: t.Failed, L: t.L, O: t.O, F: given(t.F, 1), Margin: t.Margin}
	if t.F != nil && t.Algo != all && t.Algo != string(model.FCG) {
		return g, fmt.Errorf("--f with --algo %s; allowed with: --algo fcg, or all", t.Algo)
	}
	g.Delta, err = t.delta()
	return g, err
}

func (t *tuneCmd) delta() (float64, error) {
	success, broadcasts := given(t.Success, 0.5), given(t.Broadcasts, 1_000_000) // the paper's: δ = 6.93e-7
	switch {
	case t.Delta != nil && t.Broadcasts != nil:
		return 0, errors.New("--delta and --broadcasts; allowed: --delta alone, or --success with --broadcasts")
	case t.Delta != nil && !(*t.Delta > 0 && *t.Delta < 1):
		return 0, fmt.Errorf("--delta %g; allowed: more than 0 and less than 1", *t.Delta)
	case t.Delta != nil:
		return *t.Delta, nil
	case !(success > 0 && success < 1):
		return 0, fmt.Errorf("--success %g; allowed: more than 0 and less than 1", success)
	}
	return model.DeltaFor(success, float64(broadcasts)), nil
}

// alone is the only algorithm; nil: there are several.
func (r *tuneReport) alone() *tuned {
	if len(r.Algos) == 1 {
		return &r.Algos[0]
	}
	return nil
}

// String is what was asked for, in one line.
func (r *tuneReport) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "P=%d L=%d o=%d", r.P, r.L, r.O)
	if r.Failed > 0 {
		fmt.Fprintf(&b, "; %d failed", r.Failed)
	}
	fmt.Fprintf(&b, "; δ=%.3g", r.Delta)
	if r.alone() == nil || r.alone().Algo == model.FCG {
		fmt.Fprintf(&b, "; fcg survives f=%d", r.F)
	}
	if !r.Margin {
		b.WriteString("; no margin")
	}
	return b.String()
}

// write prints the report for people.
func (r *tuneReport) write(w *bufio.Writer) {
	fmt.Fprintf(w, "%v\n\n", r)
	table := newTable(w)
	row := func(name string, t tuning) {
		fmt.Fprintf(table, "%-4s\t%d\t%d\t%d\t%d\t%.2g\t%s\t%s\t%s\t\n", name, t.T, t.C, t.K, t.Latency, t.Exceeds,
			messages(t.Work.Gossip), messages(t.Work.Correction), messages(t.Work.Total))
	}
	fmt.Fprintln(table, "    \tT\tC\tK\tlatency\tK exceeded\tgossip\tcorrection\tmessages\t")
	if one := r.alone(); one != nil {
		for _, t := range one.Neighbours {
			name := ""
			if t.Chosen {
				name = string(one.Algo)
			}
			row(name, t)
		}
	} else {
		for _, one := range r.Algos {
			row(string(one.Algo), one.tuning)
		}
	}
	table.Flush()
	if r.LeftOut != "" {
		fmt.Fprintf(w, "\nno %s\n", r.LeftOut)
	}
}

// messages writes a number of messages as a whole number.
func messages(f float64) string { return thousands(int64(math.Round(f))) }

// fanout is a fan-out of the membership's tree as the report shows it.
type fanout struct {
	Fanout        int     `json:"fanout"`
	Levels        int     `json:"levels"`
	Stabilization float64 `json:"stabilization"` // T_s by the model
	Filled        float64 `json:"filled"`        // … with the last level as far as it is filled
	Chosen        bool    `json:"chosen,omitempty"`
}

// tuneMembershipReport is what choosing a fan-out came to; the chosen one stands at
// the top of the document.
type tuneMembershipReport struct {
	P int `json:"P"`
	L int `json:"L"`
	O int `json:"o"`
	fanout
	Fanouts []fanout `json:"fanouts"`
}

// tuneMembership chooses. All errors are about its input.
func (t *tuneCmd) tuneMembership() (*tuneMembershipReport, error) {
	if flag := changed(t, slices.Concat(measuringFlags, []string{"collectives"}, gossipFlags)...); flag != "" {
		return nil, fmt.Errorf("%s with --membership; allowed: --processes, --latency, --overhead, --json", flag)
	}
	if t.P == nil {
		return nil, errors.New("missing flags: --processes=N; see coppice tune --help")
	}
	if err := model.CheckLogP(t.L, t.O); err != nil {
		return nil, err
	}
	best, all, err := model.FanoutFor(*t.P, model.LogGP{L: float64(t.L), O: float64(t.O)}, 0)
	if err != nil {
		return nil, err
	}
	r := &tuneMembershipReport{P: *t.P, L: t.L, O: t.O}
	for _, f := range all {
		one := fanout{f.A, f.Levels, f.Stabilization, f.Filled, f.A == best.A}
		r.Fanouts = append(r.Fanouts, one)
		if one.Chosen {
			r.fanout = one
		}
	}
	r.Chosen = false // of the top: it always is
	return r, nil
}

// write prints the report for people.
func (r *tuneMembershipReport) write(w *bufio.Writer) {
	fmt.Fprintf(w, "P=%d L=%d o=%d\n\n", r.P, r.L, r.O)
	tabulate(newTable(w), "      \tfan-out\tlevels\tstabilization\tas filled\t", r.Fanouts, func(f fanout) string {
		name := ""
		if f.Chosen {
			name = "chosen"
		}
		return fmt.Sprintf("%s\t%d\t%d\t%.0f\t%.0f\t", name, f.Fanout, f.Levels, f.Stabilization, f.Filled)
	})
}
