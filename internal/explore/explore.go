// Package explore runs every schedule of a small world, for tests of machines.
package explore

import "testing"

// World describes the states that schedules lead through. Its functions leave a state as it is; only
// steps change it.
type World[W any, K comparable] struct {
	Steps func(W) []func(W)              // what may happen next; none: the schedule ends
	Clone func(W) W                      // a copy that shares nothing that changes
	Key   func(W) K                      // distinguishes states
	Wrong func(w W, end bool) string     // what is wrong with a state; "": nothing
	Text  func(w W) (description string) // describes a wrong state
}

// Every runs every schedule that begins in a state, and fails the test in the first wrong state.
func (x World[W, K]) Every(t testing.TB, first W) {
	t.Helper()
	seen := map[K]bool{}
	todo := []W{first}
	ended := 0
	for len(todo) > 0 {
		w := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		steps := x.Steps(w)
		if len(steps) == 0 {
			ended++
		}
		if wrong := x.Wrong(w, len(steps) == 0); wrong != "" {
			t.Fatalf("=> %s\n%s", wrong, x.Text(w))
		}
		for _, step := range steps {
			next := x.Clone(w)
			step(next)
			if k := x.Key(next); !seen[k] {
				seen[k] = true
				todo = append(todo, next)
			}
		}
	}
	t.Logf("%d states, %d ends", len(seen), ended)
}
