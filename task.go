package coppice

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"

	"github.com/coppice-go/coppice/internal/codec"
	"github.com/coppice-go/coppice/internal/node"
	"github.com/coppice-go/coppice/internal/watch"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/collective"
)

// Task is one task of a job, as its program sees it: its rank among the tasks,
// and the sequence of its operations. It is for one goroutine at a time; see
// Fork and Go.
type Task struct {
	m    *node.Member
	log  *slog.Logger
	rand *rand.Rand

	attempt int
	busy    atomic.Bool  // an operation is under way
	fork    bool         // or another group: it is not what the function was given
	depth   int          // of the function that it was given to; see goDepth
	first   *node.Member // its place in the first epoch, if the fork was made there
	trunk   *trunk
	living  *Task // the group of those that live, for operations WithoutLost

	// What operations give, in memory that the next one uses again.
	small []byte
	parts [][]byte
	word  []byte

	codec   any                                  // of the type of the last operation
	choices [collective.ReduceScatter + 1]choice // the last of each operation
}

// choice is how an operation is carried out. Programs mostly make the same one again.
type choice struct {
	on   node.Choice
	m    *node.Member
	plan node.Plan
}

// choose is the plan for an operation.
func (t *Task) choose(op collective.Op, on node.Choice) node.Plan {
	m, last := t.at(), &t.choices[op]
	if last.m != m || last.on != on {
		*last = choice{on, m, m.Choose(op, on)}
	}
	return last.plan
}

// codecOf is the codec of a type.
func codecOf[T any](t *Task) (*codec.Codec[T], error) {
	if c, ok := t.codec.(*codec.Codec[T]); ok {
		return c, nil
	}
	c, err := codec.For[T]()
	if err == nil {
		t.codec = c
	}
	return c, err
}

func newTask(m *node.Member, log *slog.Logger) *Task {
	return &Task{m: m, log: log.With("task", m.Task()), trunk: &trunk{tasks: m.Size(), archive: &archive{}}}
}

// trunk is what a task and its forks have in common.
type trunk struct {
	epoch    atomic.Uint64
	returned atomic.Bool  // the task's function
	futures  atomic.Int64 // that are not done
	asking   atomic.Int64 // functions of Once that have not returned
	asked    atomic.Bool  // one of them has made a fork
	tasks    int          // of the job
	archive  *archive     // of its process
	watcher  *watch.Watcher

	recorder  *recorder  // nil: the task is not rehearsed
	rehearsal *rehearsal // that this is; nil: none

	mu    sync.Mutex
	files map[string]*files // by directory
}

// no reports whether the task is in no group: it is nil, or a zero Task. Its operations are errors that say so.
func (t *Task) no() bool { return t == nil || t.m == nil }

// Rank is the task's rank, 0 to Size−1: fixed for the life of the job. Without a group (Split returns nil for a negative color) it is −1.
func (t *Task) Rank() int {
	if t.no() {
		return -1
	}
	return t.m.Rank()
}

// Size is the number of tasks.
func (t *Task) Size() int {
	if t.no() {
		return 0
	}
	return t.m.Size()
}

// Attempt is 0, and more when the program is run again because the process that
// ran it died.
func (t *Task) Attempt() int {
	if t.no() {
		return 0
	}
	return t.attempt
}

// Rand returns random numbers that are the same on every attempt, and differ
// between tasks, forks and epochs: after [Save], ask for it again.
func (t *Task) Rand() *rand.Rand {
	if t.no() {
		return rand.New(rand.NewPCG(0, 0))
	}
	if m := t.at(); t.rand == nil {
		t.rand = rand.New(rand.NewPCG(protocol.Mix(m.Name(), 1+2*m.Epoch()), uint64(m.Task())))
	}
	return t.rand
}

// Logger is the job's logger; it names the task.
func (t *Task) Logger() *slog.Logger {
	if t.no() {
		return slog.New(slog.DiscardHandler)
	}
	return t.log
}

// Fork returns the same task with a sequence of operations of its own, for
// another goroutine. All tasks fork in the same order. It is local: no task
// waits for another.
func (t *Task) Fork() *Task {
	if t.no() {
		return nil
	}
	if t.trunk.asking.Load() > 0 && asks() {
		t.trunk.asked.Store(true) // Once says so
	}
	if t.trunk.scripted() {
		return t.in(t.script(callRecord{op: "fork"}, func() callResult { return callResult{made: t.at().Fork()} }).made)
	}
	return t.in(t.at().Fork())
}

// in is the same task in another group; nil: it is in none.
func (t *Task) in(m *node.Member) *Task {
	if m == nil {
		return nil
	}
	u := &Task{m: m, log: t.log, attempt: t.attempt, fork: true, depth: anyDepth, trunk: t.trunk}
	if m.Epoch() == 0 {
		u.first = m
	}
	return u
}

// Split makes smaller groups: the tasks that pass the same color form one, with
// ranks in the order of key, equal ones in the order of their ranks. All tasks
// of the group call it. The result is nil for a negative color, which joins no
// group.
func (t *Task) Split(ctx context.Context, color, key int) (*Task, error) {
	return perform(ctx, t, "split", nil, func(t *Task, _ settings) (*Task, error) {
		if t.trunk.scripted() {
			c := callRecord{op: "split", peer: color, tag: key}
			r := t.script(c, func() (r callResult) { r.made, r.err = t.at().Split(ctx, color, key); return r })
			return t.in(r.made), r.err
		}
		m, err := t.at().Split(ctx, color, key)
		return t.in(m), err
	})
}

// given refuses an operation without a group or a context.
func (t *Task) given(ctx context.Context, op string) error {
	switch {
	case t == nil:
		return fmt.Errorf("%s: no group: the task is nil; allowed: the one that the function was given, or a group made of it (Split returns nil for a negative color)", op)
	case t.m == nil:
		return fmt.Errorf("%s: no group: the task is a zero Task; allowed: the one that the function was given, or a group made of it", op)
	case ctx == nil:
		return fmt.Errorf("%s: no context; allowed: the one that the function was given, or one made of it", op)
	}
	return nil
}

// exit ends the goroutine of a task whose process, a goroutine too, was killed.
func exit() { runtime.Goexit() }
