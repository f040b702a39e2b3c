package ops

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/bench/loop"
)

// Every operation checks its own data, so a loop that ends well has moved it.
func TestEveryOperationIsMeasured(t *testing.T) {
	for _, p := range []int{1, 2, 3, 8} {
		for _, op := range loop.Known {
			for _, bytes := range []int{8, 1 << 10, 128 << 10} {
				if op == loop.PingPong && p != 2 {
					continue
				}
				t.Run(fmt.Sprintf("%s/%d/%d", op, bytes, p), func(t *testing.T) {
					measured(t, p, loop.Job{Op: op, Bytes: bytes, Warmup: 2, Iterations: 3, Copies: 2}, How{Mode: coppice.Plain()})
				})
			}
		}
	}
	for _, op := range slices.Concat(loop.Collectives, loop.Further) {
		t.Run("agreed/"+op, func(t *testing.T) {
			measured(t, 3, loop.Job{Op: op, Bytes: 1 << 10, Warmup: 2, Iterations: 3}, How{Mode: coppice.Agreed()})
			measured(t, 3, loop.Job{Op: op, Bytes: 8, Warmup: 2, Iterations: 3, Twice: true}, How{Mode: coppice.Agreed()})
		})
	}
	t.Run("corrected", func(t *testing.T) {
		job := loop.Job{Op: loop.Broadcast, Bytes: 1 << 10, Warmup: 2, Iterations: 300}
		measured(t, 5, job, How{Mode: coppice.Plain(), Correction: coppice.Checked()})
	})
}

func measured(t *testing.T, p int, job loop.Job, how How) {
	t.Helper()
	want := job.Iterations
	if job.Op == loop.Start {
		want = 0
	}
	run := &coppice.Job{Local: p, Recovery: coppice.Report}
	if job.Op == loop.Save {
		run.Recovery, run.Copies = coppice.Replay, job.Copies
	}
	err := run.Run(t.Context(), func(ctx context.Context, task *coppice.Task) error {
		spans, err := Measure(ctx, task, task, job, how)
		if err == nil && len(spans) != want {
			err = fmt.Errorf("%d spans, want %d", len(spans), want)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

func TestWhatIsNoOperationIsRefused(t *testing.T) {
	for _, job := range []loop.Job{{Op: "shuffle", Bytes: 8}, {Op: loop.PingPong, Bytes: 8}} {
		err := coppice.Local(t.Context(), 3, func(ctx context.Context, task *coppice.Task) error {
			if _, err := Measure(ctx, task, task, job, How{Mode: coppice.Plain()}); err == nil {
				return fmt.Errorf("%s of 3: no error", job.Op)
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

// Blocks from the wrong task, or for another one, or missing, are noticed.
func TestWrongBlocksAreNoticed(t *testing.T) {
	const p, bytes, i, me = 3, 8, 7, 1
	o := &operation{bytes: bytes}
	whole := func() [][]byte {
		got := o.blocks(p)
		for from, block := range got {
			loop.Mark(block, i, from, me)
		}
		return got
	}
	if !o.intact(whole(), p, i, me) {
		t.Error("what came whole is not intact")
	}
	for name, spoil := range map[string]func(got [][]byte) [][]byte{
		"swapped":   func(got [][]byte) [][]byte { slices.Reverse(got); return got },
		"for other": func(got [][]byte) [][]byte { loop.Mark(got[2], i, 2, 2); return got },
		"stale":     func(got [][]byte) [][]byte { loop.Mark(got[0], i-1, 0, me); return got },
		"missing":   func(got [][]byte) [][]byte { return got[:2] },
		"short":     func(got [][]byte) [][]byte { got[1] = got[1][:4]; return got },
	} {
		if o.intact(spoil(whole()), p, i, me) {
			t.Errorf("%s: taken for whole", name)
		}
	}
	if len(o.blocks(0)) != 0 || !slices.Equal(o.blocks(2)[1], loop.Block(bytes)) {
		t.Error("blocks of another number or size than asked for")
	}
}
