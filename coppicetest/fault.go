package coppicetest

import (
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/coppice-go/coppice/internal/control"
)

// kind is what is done to a run.
type kind uint8

const (
	nothing kind = iota
	kill
	pause
	join
	leave
)

// kinds say how it is written.
var kinds = [...]struct {
	flag string // that has Survives try it alone
	when string // what a failure begins with, before the point
	noun string
}{
	kill:  {"kill", "killed at", "kill"},
	pause: {"pause", "with a process that stands still at", "pause"},
	join:  {"join", "with a process that joins at", "join"},
	leave: {"leave", "with a process that leaves at", "departure"},
}

// fault is what is done to a run, and at which points, separated by commas.
type fault struct {
	kind  kind
	at    string
	asked bool // by a flag
}

// alone are the flags that have Survives try one fault, by kind.
var alone = [...]*string{
	kill:  flag.String("coppicetest.kill", "", "have Survives try only these kill points, separated by commas, in one run: 1@allreduce#3/2"),
	pause: flag.String("coppicetest.pause", "", "have Survives try only this point at which a process stands still: 1@allreduce#3/2"),
	join:  flag.String("coppicetest.join", "", "have Survives try only this operation at which a process joins: 1@allreduce#3"),
	leave: flag.String("coppicetest.leave", "", "have Survives try only this operation at which the process of the task leaves: 1@allreduce#3"),
}

// only is the fault that a flag asks for.
func only() (f fault, err error) {
	for k, text := range alone {
		if text == nil || *text == "" {
			continue
		}
		if f.asked {
			return f, fmt.Errorf("-coppicetest.%s and -coppicetest.%s; allowed: one of them", kinds[f.kind].flag, kinds[k].flag)
		}
		f = fault{kind(k), *text, true}
	}
	if f.asked {
		err = f.check()
	}
	return f, err
}

// check says what is wrong with points that a flag has.
func (f fault) check() error {
	points, moves := strings.Split(f.at, ","), f.kind == join || f.kind == leave
	form := "TASK@OP#SEQ"
	if !moves {
		form += " or TASK@OP#SEQ/STEP"
	}
	for _, text := range points {
		p, err := control.ParseKill(text)
		if err != nil || p.Op == "" || moves && p.Step > 0 || len(points) > 1 && f.kind != kill {
			return fmt.Errorf("-coppicetest.%s=%s; allowed: %s, as a failure prints it", kinds[f.kind].flag, f.at, form)
		}
	}
	return nil
}

// String says what is done.
func (f fault) String() string {
	if f.kind == nothing {
		return "nobody is killed, and"
	}
	return fmt.Sprintf("%s %s,", kinds[f.kind].when, f.at)
}

// exact reports whether the fault is one that a run comes to: it begins as a task begins an operation.
func (f fault) exact() bool { return f.kind != nothing && !strings.Contains(f.at, "/") }

// quietFor is how long no task may have begun an operation, or, in all, how long a process stands still.
const (
	quietFor  = 500 * time.Microsecond
	stillMost = 20 * time.Millisecond
)

// still returns when no task has begun an operation for a while: then the tasks of other processes probably wait.
func still(begun *atomic.Int64) {
	began := time.Now()
	for last, since := begun.Load(), began; time.Since(since) < quietFor && time.Since(began) < stillMost; {
		time.Sleep(quietFor / 5)
		if now := begun.Load(); now != last {
			last, since = now, time.Now()
		}
	}
}

// others tries the faults that are no kills, at some of the points of each kind, and returns how many of each it has tried, and how often a task
// has moved.
func (s *search) others(first outcome, points []point) (tried [len(kinds)]int, err error) {
	before := beforeSave(first)
	for _, k := range []kind{pause, join, leave} {
		rng := rand.New(rand.NewPCG(s.o.Seed, uint64(1+k)))
		some := points
		if k != pause {
			some = before
		}
		for _, i := range rng.Perm(len(some))[:s.share(k, len(some))] {
			p := some[i]
			if k == pause {
				p.step = rng.IntN(s.steps[p] + 1)
			}
			s.runs++
			tried[k]++
			f := fault{kind: k, at: p.String()}
			if err := s.judge(f, s.perform(f, false)); err != nil {
				return tried, s.earliest(k, first.begun[p.task], p, err)
			}
		}
	}
	return tried, nil
}

// share is how many of some points are tried.
func (s *search) share(k kind, points int) int {
	return min(points, max(0, [...]int{pause: s.o.Pauses, join: s.o.Joins, leave: s.o.Leaves}[k]))
}

// processes is with how many a run begins. If one is to join, there are fewer than tasks, so that it is given some; how many fewer depends on the
// point, so that it is not always the same task.
func (s *search) processes(f fault) int {
	if f.kind != join || s.n < 2 {
		return s.n
	}
	sum := fnv.New32a()
	_, _ = sum.Write([]byte(f.at)) // never fails
	return 1 + int(sum.Sum32()%uint32(s.n-1))
}

// reserved is how many runs are for other faults than kills.
func (s *search) reserved(first outcome, points []point) int {
	before := len(beforeSave(first))
	return s.share(pause, len(points)) + s.share(join, before) + s.share(leave, before)
}

// beforeSave are the operations after which the task saves: tasks move in Save.
func beforeSave(first outcome) (points []point) {
	for task := range len(first.returned) {
		begun := first.begun[task]
		last := len(begun) - 1
		for ; last > 0 && begun[last].op != "save"; last-- {
		}
		points = append(points, slices.Clone(begun[:max(0, last)])...)
	}
	return points
}
