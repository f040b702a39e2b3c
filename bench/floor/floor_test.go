package floor_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coppice-go/coppice/bench/floor"
)

// processWord as the first argument makes this binary a process of the floor.
const processWord = "floor-process"

func TestMain(m *testing.M) {
	if len(os.Args) == 5 && os.Args[1] == processWord {
		rank, _ := strconv.Atoi(os.Args[3])
		n, _ := strconv.Atoi(os.Args[4])
		if err := floor.Run(os.Args[2], rank, n, os.Stdin, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

func command(n int) func(string, int) []string {
	return func(dir string, rank int) []string {
		return []string{os.Args[0], processWord, dir, strconv.Itoa(rank), strconv.Itoa(n)}
	}
}

func TestEverySurvivorGetsOverADeath(t *testing.T) {
	for _, c := range []struct{ n, victim int }{{3, 0}, {3, 2}, {8, 0}, {8, 7}, {9, 4}} {
		times, err := floor.Measure(t.Context(), c.n, c.victim, command(c.n))
		if err != nil {
			t.Fatalf("%+v: %v", c, err)
		}
		if len(times.Noticed) != c.n-1 || len(times.Done) != c.n-1 {
			t.Fatalf("%+v: %d noticed, %d done", c, len(times.Noticed), len(times.Done))
		}
		// No process passes the barrier before the last one has noticed.
		var last int64
		for _, noticed := range times.Noticed {
			if noticed <= times.Killed {
				t.Errorf("%+v: noticed %d ns before the death", c, times.Killed-noticed)
			}
			last = max(last, noticed)
		}
		for _, done := range times.Done {
			if done <= last {
				t.Errorf("%+v: done %d ns before all had noticed", c, last-done)
			}
		}
		if took := times.Took(); took <= 0 || took > 10*time.Second {
			t.Errorf("%+v: %v", c, took)
		}
	}
}

func TestAProcessThatFailsIsNamed(t *testing.T) {
	_, err := floor.Measure(t.Context(), 3, 1, func(string, int) []string { return []string{os.Args[0], "-test.list=^TestEvery"} })
	if err == nil || !strings.Contains(err.Error(), "process 0 of the floor: said") {
		t.Errorf("error %v", err)
	}
	_, err = floor.Measure(t.Context(), 3, 1, func(string, int) []string { return []string{"no-such-program"} })
	if err == nil {
		t.Error("a program that does not exist: no error")
	}
	for _, c := range []struct{ n, victim int }{{2, 0}, {3, 3}, {3, -1}} {
		if _, err := floor.Measure(context.Background(), c.n, c.victim, command(c.n)); err == nil || !strings.Contains(err.Error(), "allowed: 3 or more") {
			t.Errorf("%+v: error %v", c, err)
		}
	}
}
