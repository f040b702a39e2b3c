// Command coppiceloop is the loops of bench/README.md on Coppice's public API.
//
//	coppice run -n P -- coppiceloop [-mode M] OP BYTES WARMUP ITERATIONS OUT
//	coppiceloop -local P OP BYTES WARMUP ITERATIONS OUT
package main

import (
	"context"
	"flag"
	"fmt"
	"os"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/bench/loop"
)

func main() {
	local := flag.Int("local", 0, "run this many processes as goroutines")
	mode := flag.String("mode", "plain", "protection of broadcasts: plain, or a correction such as checked")
	flag.Parse()
	job, err := loop.Parse(flag.Args())
	if err != nil {
		fail(2, err)
	}
	protection := coppice.Plain
	if *mode != "plain" {
		protection = coppice.Corrected(*mode)
	}
	program := func(ctx context.Context, t *coppice.Task) error { return run(ctx, t, job, protection) }
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

func run(ctx context.Context, t *coppice.Task, job loop.Job, p coppice.Protection) error {
	barrier := func() error { return coppice.Barrier(ctx, t) }
	if err := barrier(); err != nil || job.Op == loop.Start {
		return err
	}
	switch job.Op {
	case loop.PingPong:
		if t.Size() != 2 {
			return fmt.Errorf("a ping-pong has 2 processes, not %d", t.Size())
		}
		return job.Run(t.Rank(), pingPong(ctx, t))
	case loop.Broadcast:
		return job.Run(t.Rank(), loop.Steps{
			Timed: func(data []byte) ([]byte, error) {
				return coppice.Broadcast(ctx, t, data, coppice.Mode(p))
			},
			Untimed: barrier,
		})
	default:
		return job.Run(t.Rank(), loop.Steps{
			Timed: func([]byte) ([]byte, error) { return nil, barrier() },
		})
	}
}

func pingPong(ctx context.Context, t *coppice.Task) loop.Steps {
	const tag = 0
	other := 1 - t.Rank()
	if t.Rank() == 0 {
		return loop.Steps{Timed: func(data []byte) ([]byte, error) {
			if err := coppice.Send(ctx, t, other, tag, data); err != nil {
				return nil, err
			}
			return coppice.Recv[[]byte](ctx, t, other, tag)
		}}
	}
	return loop.Steps{Timed: func([]byte) ([]byte, error) {
		got, err := coppice.Recv[[]byte](ctx, t, other, tag)
		if err != nil {
			return nil, err
		}
		return got, coppice.Send(ctx, t, other, tag, got)
	}}
}
