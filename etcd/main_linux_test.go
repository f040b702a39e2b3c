package etcd

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/test/program"
)

// endVariable makes a process of the test binary one of a job that ends when the file that it names is there.
const endVariable = "COPPICE_ETCD_TEST_END"

func TestMain(m *testing.M) {
	if end := os.Getenv(endVariable); end != "" {
		walk(end)
		return
	}
	os.Exit(m.Run())
}

// walk is a process of the program of steps, which writes its log.
func walk(end string) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	job := coppice.Job{Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))}
	err := job.Run(ctx, program.Steps{
		Ended: func(step int) error {
			_, err := fmt.Println("step", step)
			return err
		},
		Last: func() bool {
			_, err := os.Stat(end)
			return err == nil
		},
	}.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
