package main

import (
	"bufio"
	"errors"
	"fmt"
	"slices"

	"github.com/coppice-go/coppice/model"
)

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
	table := newTable(w)
	fmt.Fprintln(table, "      \tfan-out\tlevels\tstabilization\tas filled\t")
	for _, f := range r.Fanouts {
		name := ""
		if f.Chosen {
			name = "chosen"
		}
		fmt.Fprintf(table, "%s\t%d\t%d\t%.0f\t%.0f\t\n", name, f.Fanout, f.Levels, f.Stabilization, f.Filled)
	}
	table.Flush()
}
