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
	mode := flag.String("mode", "plain", "protection of broadcasts: plain, or a correction such as checked; copied: plain without lending memory, as corrected ones")
	flag.Parse()
	jobs, err := loop.Parse(flag.Args())
	if err != nil {
		fail(2, err)
	}
	protection := coppice.Plain
	switch *mode {
	case "plain":
	case "replay":
		protection = coppice.Replayed
	case "copied":
		protection = coppice.Plain.Along("binomial")
	default:
		protection = coppice.Corrected(*mode)
	}
	program := func(ctx context.Context, t *coppice.Task) error { return run(ctx, t, jobs, protection) }
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

func run(ctx context.Context, t *coppice.Task, jobs []loop.Job, p coppice.Protection) error {
	for _, job := range jobs {
		spans, err := ops.Measure(ctx, t, t, job, p)
		if err == nil && job.Op != loop.Start {
			err = job.Write(t.Rank(), spans)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
