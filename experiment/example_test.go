package experiment_test

import (
	"context"
	"fmt"

	"github.com/coppice-go/coppice/experiment"
	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/protocol/broadcast"
)

// One cell: a broadcast among 1,000 processes of which 20 are dead, simulated 500 times. If the Lab has a
// Dir, an interrupted measurement resumes where it was.
func ExampleLab_Measure() {
	lab := &experiment.Lab{Runs: 500, Seed: 1}
	samples, err := lab.Measure(context.Background(), experiment.Cell{
		Spec: broadcast.Spec{Tree: "lame:2", Correction: "checked", Synchronized: true},
		Net:  logp.Network{P: 1000, L: 2, O: 1},
		Dead: 20,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	s := samples[0]
	fmt.Printf("%d runs: largest gap %d at 99%%, nobody left out: %t\n", s.Runs, s.GapMax.Quantile(0.99), s.Uncolored.Max() == 0)
	// Output: 500 runs: largest gap 4 at 99%, nobody left out: true
}
