package programs_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/coppicetest"
)

// limited returns a context that ends long after any of these tests should.
func limited(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	t.Cleanup(cancel)
	return ctx
}

// A process drops a log that is too large, with a warning before. After that a crash is ErrLost for a
// task that needs the crashed one; it does not hang.
func TestLogIsBounded(t *testing.T) {
	var said syncBuffer
	job := coppice.Job{
		Local: 3, LogBytes: 256 << 10,
		Logger: slog.New(slog.NewTextHandler(&said, nil)),
	}
	err := job.Run(coppicetest.WithKills(limited(t), "1@barrier#1/1"), func(ctx context.Context, t *coppice.Task) error {
		for range 500 {
			if _, err := coppice.AllReduce(ctx, t, make([]float64, 100), coppice.Sum); err != nil {
				return err
			}
		}
		return coppice.Barrier(ctx, t)
	})
	if !errors.Is(err, coppice.ErrLost) || !strings.Contains(err.Error(), "LogBytes") {
		t.Errorf("got %v", err)
	}
	if text := said.String(); !strings.Contains(text, "log almost full") || !strings.Contains(text, "log given up") {
		t.Errorf("said %s", text)
	}
}

// A program that fits into the log survives.
func TestLogHolds(t *testing.T) {
	job := coppice.Job{Local: 3, LogBytes: 2 << 20}
	if err := job.Run(coppicetest.WithKills(limited(t), "1@barrier#1/1"), func(ctx context.Context, t *coppice.Task) error {
		for range 500 {
			if _, err := coppice.AllReduce(ctx, t, make([]float64, 100), coppice.Sum); err != nil {
				return err
			}
		}
		return coppice.Barrier(ctx, t)
	}); err != nil {
		t.Error(err)
	}
}

// Data sent in mode Plain is not kept: a task that is run again cannot pass such an operation, and
// reports that.
func TestPlainIsNotReplayed(t *testing.T) {
	job := coppice.Job{Local: 3}
	var reran atomic.Bool
	err := job.Run(coppicetest.WithKills(limited(t), "1@allgather#1/1"), func(ctx context.Context, t *coppice.Task) error {
		if _, err := coppice.AllReduce(ctx, t, 1, coppice.Sum, coppice.Plain()); err != nil {
			if t.Attempt() > 0 && errors.Is(err, coppice.ErrLost) && strings.Contains(err.Error(), "Plain") {
				reran.Store(true)
			}
			return err
		}
		_, err := coppice.AllGather(ctx, t, t.Rank())
		return err
	})
	if !errors.Is(err, coppice.ErrLost) || !reran.Load() {
		t.Errorf("got %v, run again: %v", err, reran.Load())
	}
}

// All tasks call Plain, or none.
func TestPlainMismatch(t *testing.T) {
	err := coppice.Local(limited(t), 2, func(ctx context.Context, t *coppice.Task) error {
		var opts []coppice.Option
		if t.Rank() == 0 {
			opts = append(opts, coppice.Plain())
		}
		_, err := coppice.AllReduce(ctx, t, 1, coppice.Sum, opts...)
		return err
	})
	if !errors.Is(err, coppice.ErrMismatch) {
		t.Errorf("got %v", err)
	}
}

// syncBuffer is a buffer for several writers.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(b)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}
