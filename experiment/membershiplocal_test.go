package experiment

import (
	"context"
	"testing"

	"github.com/coppice-go/coppice/model"
	"github.com/coppice-go/coppice/protocol"
)

// TestLocalizedStabilizationEqualsModel: localized views take the same as views with a list of members: the
// model of trees that are not full, and three messages for each remaining process but the proposer, and one
// report.
func TestLocalizedStabilizationEqualsModel(t *testing.T) {
	for _, a := range []int{2, 4} {
		for _, n := range []int{2, 3, 7, 8, 20, 21, 22, 100, 1000, 5461, 5462} {
			c := localScene{n: n, fanout: a, dead: []protocol.Rank{protocol.Rank(n - 1)}}
			r, err := c.run(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			want := model.StabilizationFilled(a, n-1, model.LogGP{L: 2, O: 1}, 0)
			if float64(r.accepted) != want {
				t.Errorf("%d processes, %d children: stable after %d, by the model %g", n, a, r.accepted, want)
			}
			report := int64(1)
			if n <= a+1 {
				report = 0 // the root sees it itself
			}
			if want := 3*int64(n-2) + report; r.messages != want || r.views != 1 {
				t.Errorf("%d processes, %d children: %d messages in %d views; want %d in 1", n, a, r.messages, r.views, want)
			}
		}
	}
}

func TestLocalizedExperiment(t *testing.T) {
	defer func(n int) { localSizeMax = n }(localSizeMax)
	localSizeMax = 30_000
	f, err := localExperiments[0].Run(context.Background(), &Lab{})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range f.Claims {
		if c.Verdict == Differs {
			t.Errorf("%+v", c)
		}
	}
	if len(f.Tables) != 3 || len(f.Tables[1].Rows) != 14 {
		t.Errorf("tables: %v", f.Tables)
	}
}
