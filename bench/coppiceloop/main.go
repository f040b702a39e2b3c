// Command coppiceloop runs the loops of bench/README.md on Coppice's public API.
//
//	coppice run -n P -- coppiceloop [-mode M] JOB...
//	coppiceloop -local P JOB...
//
// A JOB is OP BYTES WARMUP ITERATIONS OUT.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/bench/loop"
	"github.com/coppice-go/coppice/bench/ops"
)

func main() {
	local := flag.Int("local", 0, "run this many processes as goroutines")
	mode := flag.String("mode", "plain", "mode of broadcasts: plain, replay, or a correction such as checked; copied: plain without lending memory, as corrected ones")
	flag.Parse()
	jobs, err := loop.Parse(flag.Args())
	if err != nil {
		fail(2, err)
	}
	how := ops.How{Mode: coppice.Plain()}
	switch *mode {
	case "plain":
	case "replay":
		how.Mode = coppice.Replayed()
	case "copied":
		how.Along = []coppice.Option{coppice.Along(coppice.Binomial())}
	default:
		if how.Correction, err = coppice.ParseCorrection(*mode); err != nil {
			fail(2, err)
		}
	}
	program := func(ctx context.Context, t *coppice.Task) error { return run(ctx, t, jobs, how) }
	if *local == 0 {
		coppice.Main(program)
		return
	}
	if err := coppice.Local(context.Background(), *local, program); err != nil {
		fail(1, err)
	}
}

func fail(exit int, err error) {
	fmt.Fprintln(os.Stderr, "coppiceloop:", err)
	os.Exit(exit)
}

func run(ctx context.Context, t *coppice.Task, jobs []loop.Job, how ops.How) error {
	for _, job := range jobs {
		spans, err := ops.Measure(ctx, t, t, job, how)
		if err == nil && job.Op != loop.Start {
			err = job.Write(t.Rank(), spans)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
