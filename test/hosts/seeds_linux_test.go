package hosts

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
)

// seeded starts processes of a job with a seed on each of three hosts: those of these ranks, in this
// order, with a pause between them.
func seeded(t *testing.T, pause time.Duration, ranks ...int) *spread {
	t.Helper()
	return seededAt(t, []int{hostA, hostB, hostC}, pause, ranks...)
}

func seededAt(t *testing.T, seeds []int, pause time.Duration, ranks ...int) *spread {
	t.Helper()
	s := &spread{network: newNetwork(t, hostCount), seeds: seeds}
	for _, rank := range ranks {
		s.guests = append(s.guests, s.start(t, rank, 1))
		time.Sleep(pause)
	}
	s.begun(t)
	return s
}

// TestSeedsInAnyOrder: the processes find each other, whichever starts first or last.
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

// TestSeedsWithoutAHost: a job starts even if the host of the first seed is missing.
func TestSeedsWithoutAHost(t *testing.T) {
	t.Parallel()
	s := seeded(t, 0, 2, 3, 4)
	agree(t, "2 3 4", s.guests...)
	s.oneHistory(t)
	release(t, s.guests...)
}

// TestSeedsOverIPv6: all hosts, or one of them, have only IPv6 addresses.
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

// TestSeedsMinority: if a majority never comes, all end with an error that says so.
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

// again restarts the process of a rank with the same variables, and waits until all are in a view with
// it.
func (s *spread) again(t *testing.T, rank int, with ...*guest) *guest {
	t.Helper()
	g := s.start(t, rank, 1)
	number := 0
	with[0].until(t, fmt.Sprintf("a view in which rank %d is again", rank), func() bool {
		for _, l := range with[0].views() {
			members := strings.Fields(l.Text)
			isAgain := func(m string) bool { return strings.HasPrefix(m, fmt.Sprint(rank, ".")) }
			if len(members) == len(with)+1 && slices.ContainsFunc(members, isAgain) {
				number = l.Value
			}
		}
		return number > 0
	})
	g.opens(t, number, len(with)+1)
	return g
}

// kill kills the process of a rank.
func (s *spread) kill(t *testing.T, rank int) {
	t.Helper()
	s.guests[rank].signal(t, syscall.SIGKILL)
	<-s.guests[rank].over
}

// TestSeedsProcessComesAgain kills a process, perhaps the one with the coordinator, and starts it again
// with the same variables: the others accept it as the next incarnation of its rank.
func TestSeedsProcessComesAgain(t *testing.T) {
	for _, c := range []struct {
		name  string
		rank  int
		after time.Duration
	}{
		{"at once", 3, 0},
		{"when the others go on without it", 3, 3 * networkSilence},
		{"with the coordinator, at once", 0, 0},
		{"with the coordinator, later", 0, 3 * networkSilence},
		{"alone on the host of a seed", 4, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := seeded(t, 0, 0, 1, 2, 3, 4)
			s.kill(t, c.rank)
			time.Sleep(c.after)
			others := slices.Delete(slices.Clone(s.guests), c.rank, c.rank+1)
			next := s.again(t, c.rank, others...)
			s.oneHistory(t, next)
			release(t, others...)
			endsWith(t, []string{"well"}, next)
		})
	}
}

// TestSeedsWithoutProcesses kills, one after the other, all processes on the hosts of the seeds, and
// starts one again: it finds no process there that knows of the job, but the job finds it.
func TestSeedsWithoutProcesses(t *testing.T) {
	s := seededAt(t, []int{hostA, hostC}, 0, 0, 1, 2, 3, 4)
	s.kill(t, 4)
	agree(t, "0 1 2 3", s.some(0, 1, 2, 3)...)
	s.kill(t, 1)
	agree(t, "0 2 3", s.some(0, 2, 3)...)
	s.kill(t, 0)
	agree(t, "2 3", s.some(2, 3)...)
	next := s.again(t, 0, s.some(2, 3)...)
	s.oneHistory(t, next)
	release(t, s.some(2, 3)...)
	endsWith(t, []string{"well"}, next)
}

// TestSeedsSecondGathererTakesOver lets a process at the second seed gather while it cannot reach the
// first one, and give way to the first; when the first one's host is lost, the process that gave way
// takes the coordinator's place.
func TestSeedsSecondGathererTakesOver(t *testing.T) {
	s := &spread{network: newNetwork(t, hostCount), seeds: []int{hostA, hostB, hostC}}
	s.part(t, []int{hostA}, []int{hostB, hostC})
	for rank := range hostOf {
		s.guests = append(s.guests, s.start(t, rank, 1))
	}
	time.Sleep(2500 * time.Millisecond)
	s.heal(t)
	s.begun(t)
	s.kill(t, 0)
	s.kill(t, 1)
	agree(t, "2 3 4", s.some(2, 3, 4)...)
	release(t, s.some(2, 3, 4)...)
}
