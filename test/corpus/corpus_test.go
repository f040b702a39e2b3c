package corpus_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/coppicetest"
	"github.com/coppice-go/coppice/internal/watch"
	"github.com/coppice-go/coppice/test/corpus"
	"github.com/coppice-go/coppice/test/corpus/breach"
	"github.com/coppice-go/coppice/test/corpus/correct"
)

func TestCorpusIsLargeEnough(t *testing.T) {
	if n := len(breach.Programs); n < 60 {
		t.Errorf("%d programs with a breach; want 60 or more", n)
	}
	if n := len(correct.Programs); n < 30 {
		t.Errorf("%d correct programs; want 30 or more", n)
	}
	seen := map[string]bool{}
	for _, p := range append(breach.Programs, correct.Programs...) {
		if seen[p.Name] {
			t.Errorf("two programs are named %s", p.Name)
		}
		seen[p.Name] = true
	}
	for _, p := range breach.Programs {
		if p.Wrong == "" {
			t.Errorf("%s: nothing says what is wrong with it", p.Name)
		}
	}
}

func TestCorrectProgramsSurvive(t *testing.T) {
	for _, p := range correct.Programs {
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			coppicetest.Survives(t, p.Tasks, p.Run, coppicetest.Options{Runs: 80})
		})
	}
}

// A finder runs a program, and returns what it finds wrong with it, or "".
type finder struct {
	name string // of its column
	find func(t *testing.T, p corpus.Program) string
}

// finders are the means that run programs, in the order of their columns.
var finders = []finder{
	{"faults", survives},
	{"rehearsal", func(t *testing.T, p corpus.Program) string { return ends(t, p, 1) }},
	{"run time", func(t *testing.T, p corpus.Program) string { return ends(t, p, 0) }},
}

// survives is what coppicetest finds without a rehearsal.
func survives(t *testing.T, p corpus.Program) string {
	ctx, stop := context.WithCancel(watch.With(t.Context(), &watch.Watcher{Unrehearsed: true}))
	defer stop()
	r := &recorder{TB: t, ctx: ctx}
	var done sync.WaitGroup
	done.Go(func() {
		coppicetest.Survives(r, p.Tasks, p.Run, coppicetest.Options{Runs: 150, Timeout: 4 * time.Second})
	})
	done.Wait()
	return r.failure
}

// recorder is a test that may fail.
type recorder struct {
	testing.TB
	ctx     context.Context
	failure string
}

func (r *recorder) Context() context.Context { return r.ctx }
func (r *recorder) Logf(string, ...any)      {}

func (r *recorder) Fatal(args ...any) {
	r.failure = fmt.Sprint(args...)
	runtime.Goexit()
}

func (r *recorder) Fatalf(format string, args ...any) { r.Fatal(fmt.Sprintf(format, args...)) }

// ends is how a job without faults fails, and with how much of its time for rehearsals.
func ends(t *testing.T, p corpus.Program, rehearse float64) string {
	ctx, stop := context.WithTimeout(t.Context(), 4*time.Second)
	defer stop()
	job := coppice.Job{Local: p.Tasks, Rehearse: rehearse, Logger: slog.New(slog.DiscardHandler)}
	done := make(chan error, 1)
	go func() {
		done <- job.Run(ctx, func(ctx context.Context, task *coppice.Task) (err error) {
			defer func() {
				if crash := recover(); crash != nil {
					err = fmt.Errorf("panic: %v", crash)
				}
			}()
			_, err = p.Run(ctx, task)
			return err
		})
	}()
	select {
	case err := <-done:
		if err != nil {
			return err.Error()
		}
	case <-time.After(8 * time.Second):
		return "it does not end"
	}
	return ""
}

// TestBreachesAreFound checks that each breach is found by what the table says finds it. A breach that depends on luck, or on another host, is not in
// the table as found. COPPICE_UPDATE=1 writes the table anew; COPPICE_FULL=1 looks whether more is found than it says.
func TestBreachesAreFound(t *testing.T) {
	update, full := os.Getenv("COPPICE_UPDATE") != "", os.Getenv("COPPICE_FULL") != ""
	was := found(t)
	now := map[string][]string{}
	var mu sync.Mutex
	t.Run("programs", func(t *testing.T) {
		for _, p := range breach.Programs {
			t.Run(p.Name, func(t *testing.T) {
				t.Parallel()
				words := make([]string, len(finders))
				for i, f := range finders {
					switch {
					case p.Alone:
						words[i] = notRun
						continue
					case update:
						words[i] = often(t, f, p)
						continue
					case len(was[p.Name]) != len(finders):
						t.Fatalf("%s has no line for it; write it with COPPICE_UPDATE=1", byRunning)
					}
					switch words[i] = was[p.Name][i]; {
					case words[i] == always:
						if !finds(t, f, p) {
							t.Errorf("%s does not find: %s", f.name, p.Wrong)
						}
					case words[i] == never && full && often(t, f, p) == always:
						t.Errorf("%s finds: %s; say so with COPPICE_UPDATE=1", f.name, p.Wrong)
					}
				}
				mu.Lock()
				defer mu.Unlock()
				now[p.Name] = words
			})
		}
	})
	if update {
		write(t, now)
	} else if !t.Failed() && len(now) == len(breach.Programs) && !reflect.DeepEqual(now, was) {
		t.Errorf("%s has lines for other programs", byRunning)
	}
}

// tries is how often a breach has to be found to be found always.
const tries = 20

// finds reports whether a finder finds a breach. Nearly always it does the first time.
func finds(t *testing.T, f finder, p corpus.Program) bool {
	for range tries / 2 {
		if f.find(t, p) != "" {
			return true
		}
	}
	return false
}

// often is how often a finder finds a breach.
func often(t *testing.T, f finder, p corpus.Program) string {
	n := 0
	for range tries {
		if f.find(t, p) != "" {
			n++
		}
	}
	switch n {
	case 0:
		return never
	case tries:
		return always
	}
	return sometimes
}

// TestEveryBreachIsFound by vet, or in every run by something else.
func TestEveryBreachIsFound(t *testing.T) {
	vet, running := byRules(t), found(t)
	for _, p := range breach.Programs {
		if vet[p.Name] == "" && !strings.Contains(strings.Join(running[p.Name], " "), always) {
			t.Errorf("nothing finds: %s: %s", p.Name, p.Wrong)
		}
	}
}
