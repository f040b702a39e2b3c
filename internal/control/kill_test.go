//go:build unix

package control

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestKillsAreRead(t *testing.T) {
	for _, c := range []struct {
		text string
		want Kill
	}{
		{"3@150ms", Kill{Task: 3, After: 150 * time.Millisecond}},
		{"0@0s", Kill{}},
		{"0@1m2.5s", Kill{After: 62500 * time.Millisecond}},
		{"12@reduce#2", Kill{Task: 12, Op: "reduce", Seq: 2}},
		{"3@allgather#1/7", Kill{Task: 3, Op: "allgather", Seq: 1, Step: 7}},
		{"3@gather#1/2+half", Kill{Task: 3, Op: "gather", Seq: 1, Step: 2, Half: true}},
	} {
		if got, err := ParseKill(c.text); err != nil || got != c.want {
			t.Errorf("%s: got %+v (%v), want %+v", c.text, got, err, c.want)
		}
	}
}

func TestOtherFormsOfKillsAreRefused(t *testing.T) {
	for _, text := range []string{
		"", "3", "@", "3@", "@5s", "-1@5s", "+1@5s", "x@5s", "3@5", "3@-5s", "3@soon", "3@#1", "3@reduce#",
		"3@reduce#0", "3@reduce#-1", "3@reduce#+1", "3@reduce#x", "3@reduce#1/", "3@reduce#1/0",
		"3@reduce#1+half", "3@reduce#1/2+third", "3@reduce#1/2/3", "3@reduce#1/2+half+half", "3 @5s", "3@5s ", "99999999999999999999@5s",
	} {
		if k, err := ParseKill(text); err == nil || !strings.Contains(err.Error(), "; allowed: TASK@WHEN") {
			t.Errorf("%q: read as %+v, error %v", text, k, err)
		}
	}
}

// TestKillsInUnknownOperationsAreRefused: such an order would never come about.
func TestKillsInUnknownOperationsAreRefused(t *testing.T) {
	for _, op := range []string{"all-reduce", "Reduce", "-x", "bcast", "reduce ", "reduc"} {
		text := "3@" + op + "#1/2"
		want := fmt.Sprintf("kill %q: operation %q; allowed: barrier, broadcast, scatter, gather, allgather, alltoall, reduce, allreduce, scan, exscan, reducescatter, send, recv, split, agree, save, once", text, op)
		if k, err := ParseKill(text); err == nil || err.Error() != want {
			t.Errorf("%q: read as %+v, error %v", text, k, err)
		}
	}
	for _, op := range Operations {
		if _, err := ParseKill("3@" + op + "#1/2"); err != nil {
			t.Error(err)
		}
	}
}

func TestKillsAreReadAsTheyAreWritten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := Kill{Task: rapid.IntRange(0, 1<<20).Draw(t, "task")}
		if rapid.Bool().Draw(t, "by operation") {
			k.Op = rapid.SampledFrom(Operations).Draw(t, "op")
			k.Seq = rapid.IntRange(1, 1<<40).Draw(t, "seq")
			k.Step = rapid.IntRange(0, 1<<40).Draw(t, "step")
			k.Half = k.Step > 0 && rapid.Bool().Draw(t, "half")
		} else {
			k.After = time.Duration(rapid.Int64Range(0, 1<<60).Draw(t, "after"))
		}
		text, err := json.Marshal(Settings{Kill: []Kill{k}})
		if err != nil {
			t.Fatal(err)
		}
		var got Settings
		if err := json.Unmarshal(text, &got); err != nil || len(got.Kill) != 1 || got.Kill[0] != k {
			t.Fatalf("%s: read as %+v (%v), want %+v", text, got, err, k)
		}
	})
}
