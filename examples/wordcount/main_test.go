package main

import (
	"context"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/coppicetest"
)

const text = `The fox and the dog.
The dog barks; the fox does not.

A fox is no dog, and a dog no fox:`

func TestSurvives(t *testing.T) {
	want := []word{{"dog", 4}, {"fox", 4}, {"the", 4}, {"a", 2}, {"and", 2}}
	coppicetest.Survives(t, 3, func(ctx context.Context, task *coppice.Task) ([]word, error) {
		words, err := count(ctx, task, func() ([]byte, error) { return []byte(text), nil }, len(want))
		if task.Rank() == 0 && err == nil && !reflect.DeepEqual(words, want) {
			t.Errorf("%v, want %v", words, want)
		}
		return words, err
	})
}

// TestFileThatChanges: a task that is run again counts what it has read.
func TestFileThatChanges(t *testing.T) {
	var reads atomic.Int64
	err := coppice.Local(coppicetest.WithKills(t.Context(), "1@gather#1"), 3, func(ctx context.Context, task *coppice.Task) error {
		words, err := count(ctx, task, func() ([]byte, error) {
			return []byte(strings.Repeat("a\n", 30*int((reads.Add(1)+2)/3))), nil // the first three read the same
		}, 1)
		if task.Rank() == 0 && err == nil && !reflect.DeepEqual(words, []word{{"a", 30}}) {
			t.Error(words)
		}
		return err
	})
	if err != nil || reads.Load() != 3 {
		t.Errorf("%v, the file was read %d times, want 3", err, reads.Load())
	}
}
