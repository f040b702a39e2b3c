package corpus_test

import (
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coppice-go/coppice/coppicetest"
	"github.com/coppice-go/coppice/test/corpus"
	"github.com/coppice-go/coppice/test/corpus/breach"
	"github.com/coppice-go/coppice/test/corpus/correct"
)

// The tables of what finds which breach. The first is checked here, the second in module vet.
const (
	byTest = "testdata/coppicetest.txt"
	byVet  = "../../vet/testdata/corpus.txt"
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
			coppicetest.Survives(t, p.Tasks, p.Run, coppicetest.Options{Runs: 60})
		})
	}
}

// TestSurvivesFindsBreaches checks that coppicetest finds each breach that the table says it finds. A breach that depends on
// luck, or on another host, is not in the table as found.
func TestSurvivesFindsBreaches(t *testing.T) {
	want := table(t, byTest)
	for _, p := range breach.Programs {
		if _, ok := want[p.Name]; !ok {
			t.Errorf("%s has no line for %s; add one", byTest, p.Name)
		}
		if p.Alone || want[p.Name] != "found" && os.Getenv("COPPICE_FULL") == "" {
			continue
		}
		t.Run(p.Name, func(t *testing.T) {
			t.Parallel()
			failure := failureOf(t, p)
			if want[p.Name] == "found" && failure == "" {
				t.Errorf("coppicetest.Survives does not find: %s", p.Wrong)
			}
			t.Logf("%s: %s", want[p.Name], failure)
		})
	}
}

func TestEveryBreachIsFound(t *testing.T) {
	vet, test := table(t, byVet), table(t, byTest)
	for _, p := range breach.Programs {
		if rules, ok := vet[p.Name]; (!ok || rules == "-") && test[p.Name] != "found" {
			t.Errorf("%s: neither vet nor coppicetest finds: %s", p.Name, p.Wrong)
		}
	}
}

// table reads lines of a name and what is said of it.
func table(t *testing.T, file string) map[string]string {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	lines := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, said, ok := strings.Cut(strings.TrimSpace(line), " ")
		if ok && name != "#" {
			lines[name] = strings.TrimSpace(said)
		}
	}
	return lines
}

// failureOf returns how a test of a program fails, or "".
func failureOf(t *testing.T, p corpus.Program) string {
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	r := &recorder{TB: t, ctx: ctx}
	var done sync.WaitGroup
	done.Go(func() {
		coppicetest.Survives(r, p.Tasks, p.Run, coppicetest.Options{Runs: 120, Timeout: 4 * time.Second})
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
