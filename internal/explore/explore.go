// Package explore takes every schedule of a small world, for tests of machines.
package explore

import "testing"

// World is a state that schedules lead through. Methods take it as it is; steps change it.
type World[W any, K comparable] struct {
	Steps func(W) []func(W)              // what may happen next; none: the schedule has come to its end
	Clone func(W) W                      // a copy that shares nothing that changes
	Key   func(W) K                      // tells states apart
	Wrong func(w W, end bool) string     // what is wrong with a state; "": nothing
	Text  func(w W) (description string) // of a state that is wrong
}

// Every takes every schedule that begins in a state, and fails the test in the first state that is wrong.
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
