package etcd

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/test/program"
)

// stepsVariable makes a process of the test binary one of a job of so many steps.
const stepsVariable = "COPPICE_ETCD_TEST_STEPS"

func TestMain(m *testing.M) {
	if count, err := strconv.Atoi(os.Getenv(stepsVariable)); err == nil {
		walk(count)
		return
	}
	os.Exit(m.Run())
}

// walk is a process of the program of steps, which writes its log.
func walk(count int) {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	job := coppice.Job{Logger: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelInfo}))}
	err := job.Run(ctx, program.Steps{Count: count, Ended: func(step int) error {
		_, err := fmt.Println("step", step)
		return err
	}}.Run)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
