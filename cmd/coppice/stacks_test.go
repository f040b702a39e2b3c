package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/coppice-go/coppice"
)

func init() { tools["waiting-tasks"], tools["forgetful"] = waitingTasks, forgetful }

// waitingTasks is a program of the scripts: task 0 asks what the tasks do until the others wait for it, and prints the answer.
func waitingTasks() {
	coppice.Main(func(ctx context.Context, t *coppice.Task) error {
		switch t.Rank() {
		case 0:
			for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
				out, err := exec.Command("coppice", "stacks").CombinedOutput()
				if err != nil {
					return fmt.Errorf("%w: %s", err, out)
				}
				if strings.Count(string(out), "; waits ") == t.Size()-1 {
					fmt.Print(string(out))
					break
				}
				if time.Since(began) > 20*time.Second {
					return errors.New(string(out))
				}
			}
			if err := coppice.Send(ctx, t, 1, 7, 1); err != nil {
				return err
			}
		case 1:
			if _, err := coppice.Recv[int](ctx, t, 0, 7); err != nil {
				return err
			}
		case 2:
			sum := coppice.Go(t, func(t *coppice.Task) (int, error) { return coppice.AllReduce(ctx, t, 1, coppice.Sum) })
			if _, err := sum.Wait(ctx); err != nil {
				return err
			}
			return coppice.Barrier(ctx, t)
		}
		if _, err := coppice.Go(t, func(t *coppice.Task) (int, error) { return coppice.AllReduce(ctx, t, 1, coppice.Sum) }).Wait(ctx); err != nil {
			return err
		}
		return coppice.Barrier(ctx, t)
	})
}

// forgetful is a program of the scripts that does not save all that it needs.
func forgetful() {
	coppice.Main(func(ctx context.Context, t *coppice.Task) error {
		var s struct{ Round int }
		total := 0
		for ; s.Round < 5; s.Round++ {
			if err := coppice.Save(ctx, t, &s); err != nil {
				return err
			}
			sum, err := coppice.AllReduce(ctx, t, total+1, coppice.Sum)
			if err != nil {
				return err
			}
			total = sum
		}
		return nil
	})
}
