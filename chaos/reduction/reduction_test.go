package reduction

import (
	"fmt"
	"testing"

	"github.com/coppice-go/coppice/internal/extent"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/collective"
)

var reductions = []collective.Op{collective.Reduce, collective.AllReduce}

func TestCorrectedReductionsKeepTheirPromiseInAnySchedule(t *testing.T) {
	for _, c := range []struct{ p, f, failed, crashes int }{
		{1, 1, 1, 1}, {2, 1, 1, 1}, {3, 1, 1, 1}, {3, 0, 1, 1}, {3, 2, 2, 1}, {4, 1, 1, 0}, {4, 1, 0, 1},
	} {
		for _, op := range reductions {
			for root := range protocol.Rank(c.p) {
				t.Run(fmt.Sprint(op, c, " root ", root), func(t *testing.T) {
					if c.p > 3 && extent.Few(t, "more than 3 processes, which have many states") {
						t.SkipNow()
					}
					report, err := Attack{
						Spec:   collective.Spec{Op: op, P: c.p, Root: root, Failures: c.f},
						Failed: c.failed, Crashes: c.crashes, LossyCrashes: c.p < 4,
					}.Exhaustive()
					t.Logf("%d states, %d ends, %.2f s", report.States, report.Terminals, report.Seconds)
					if err != nil {
						t.Error(err)
					}
				})
			}
		}
	}
}

func TestCorrectedReductionsKeepTheirPromiseInRandomSchedules(t *testing.T) {
	runs := 800
	if !extent.Full() {
		runs = 200
	}
	for p := 2; p <= 17; p++ {
		for f := range 4 {
			for _, op := range reductions {
				t.Run(fmt.Sprint(op, " ", p, " ", f), func(t *testing.T) {
					for _, crashes := range []int{0, f, f + 2} {
						r := Attack{
							Spec:   collective.Spec{Op: op, P: p, Root: protocol.Rank((p + f) / 2 % p), Failures: f},
							Failed: min(f, p-1), Crashes: min(crashes, p), LossyCrashes: crashes > f, Reorder: f == 1,
						}
						if _, err := r.Random(uint64(p), runs/4, 0); err != nil {
							t.Error(err)
						}
					}
				})
			}
		}
	}
}
