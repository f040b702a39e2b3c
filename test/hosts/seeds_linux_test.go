package hosts

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

// seeded starts the processes of some ranks of a job that has a seed on each of three hosts, in an order, with a pause between them.
func seeded(t *testing.T, pause time.Duration, ranks ...int) *spread {
	t.Helper()
	s := &spread{network: newNetwork(t, hostCount), seeds: []int{hostA, hostB, hostC}}
	for _, rank := range ranks {
		s.guests = append(s.guests, s.start(t, rank, 1))
		time.Sleep(pause)
	}
	s.begun(t)
	return s
}

// TestSeedsInAnyOrder: whoever is there first or last, the processes find each other.
func TestSeedsInAnyOrder(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		pause time.Duration
		ranks []int
	}{
		{"at once", 0, []int{0, 1, 2, 3, 4}},
		{"the last seed first", 1500 * time.Millisecond, []int{4, 3, 2, 1, 0}},
		{"the second seed first", 700 * time.Millisecond, []int{2, 3, 0, 4, 1}},
		{"the first two at the same time as the third serves", time.Second, []int{4, 0, 2, 1, 3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := seeded(t, c.pause, c.ranks...)
			s.oneHistory(t)
			release(t, s.guests...)
		})
	}
}

// TestSeedsWithoutAHost: a host that is not there at the start, with the first seed, is done without.
func TestSeedsWithoutAHost(t *testing.T) {
	t.Parallel()
	s := seeded(t, 0, 2, 3, 4)
	agree(t, "2 3 4", s.guests...)
	s.oneHistory(t)
	release(t, s.guests...)
}

// TestSeedsOverIPv6: hosts that have no other addresses, all or one of them.
func TestSeedsOverIPv6(t *testing.T) {
	t.Parallel()
	for name, only := range map[string][]int{"all": nil, "one": {hostB}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &spread{network: newNetwork(t, hostCount), seeds: []int{hostA, hostB, hostC}, six: true}
			if err := s.onlyIPv6(only...); err != nil {
				t.Fatal(err)
			}
			for _, rank := range []int{0, 1, 2, 3, 4} {
				s.guests = append(s.guests, s.start(t, rank, 1))
			}
			s.begun(t)
			s.guests[0].signal(t, syscall.SIGKILL)
			agree(t, "1 2 3 4", s.some(1, 2, 3, 4)...)
			s.oneHistory(t)
			release(t, s.some(1, 2, 3, 4)...)
		})
	}
}

// TestSeedsMinority: where a majority never comes, all end with an error that says so.
func TestSeedsMinority(t *testing.T) {
	t.Parallel()
	s := &spread{network: newNetwork(t, hostCount), seeds: []int{hostA, hostB, hostC}}
	for _, rank := range []int{0, 2} {
		s.guests = append(s.guests, s.start(t, rank, 1))
	}
	for _, g := range s.guests {
		l := g.end(t)
		if want := "2 of 5 have come within 5s"; !strings.Contains(l.Text, want) {
			t.Errorf("%s ended with %q; want %q", g.name, l.Text, want)
		}
	}
}

// TestSeedsLoseTheCoordinatorsHost cuts off the host with the coordinator: the others go on.
func TestSeedsLoseTheCoordinatorsHost(t *testing.T) {
	t.Parallel()
	s := seeded(t, 0, 0, 1, 2, 3, 4)
	s.part(t, []int{hostA}, []int{hostB, hostC})
	agree(t, "2 3 4", s.some(2, 3, 4)...)
	endsWith(t, []string{"no quorum"}, s.some(0, 1)...)
	s.oneHistory(t)
	release(t, s.some(2, 3, 4)...)
}
