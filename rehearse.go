package coppice

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coppice-go/coppice/internal/codec"
	"github.com/coppice-go/coppice/internal/difference"
	"github.com/coppice-go/coppice/internal/node"
)

// A task whose process has crashed is run again, and has to do what it did before. With Job.Rehearse that is tried while nobody has crashed:
// beside the task its function runs once more, from the top, with the state of a Save of the task. Its operations exchange nothing:
// they return what was recorded when the task called them. What the function does until its next Save, or until it returns, has to
// be what the task did; otherwise the task gets ErrDiverged.

// rehearser runs the rehearsals of a process.
type rehearser struct {
	ctx   context.Context
	f     Func
	rate  float64 // rehearsals may take so much of the time
	ends  bool    // what comes after the last call is run, too; mostly that is output, which nobody wants to see twice
	begun time.Time
	spent atomic.Int64 // nanoseconds

	runs, stopped atomic.Int64 // since counts was called
}

// counts returns how many rehearsals have ended since it was called last, and how many of these were stopped before they came to the end of what
// they rehearse.
func (r *rehearser) counts() (runs, stopped int64) {
	if r == nil {
		return 0, 0
	}
	return r.runs.Swap(0), r.stopped.Swap(0)
}

// left is how long rehearsals may take now.
func (r *rehearser) left() time.Duration {
	return time.Duration(r.rate*float64(time.Since(r.begun))) - time.Duration(r.spent.Load())
}

// limit is how long a rehearsal of so much work may take when there is nothing to do besides.
func (r *rehearser) limit(work time.Duration) time.Duration {
	if r.all() {
		return limitTimes*work + limitMore
	}
	return r.left()
}

// all reports whether all that tasks do is rehearsed.
func (r *rehearser) all() bool { return r.rate >= 1 }

// A rehearsal that takes longer than what it rehearses so many times, and so much more, is stopped.
const (
	limitTimes = 3
	limitMore  = 2 * time.Second
)

// rehearsal is one run of the function beside the task.
type rehearsal struct {
	recorder *recorder
	first    recording // up to the first Save
	start    *savedState
	since    recording     // since start; empty without
	end      *savedState   // nil: the function has returned
	until    time.Duration // it goes on to the last call that the task had made after so much work
	begun    time.Time
	late     *time.Timer
	done     chan struct{} // closed when it has ended, or is waited for no longer
	ended    sync.Once

	mu       sync.Mutex
	cancel   context.CancelFunc
	over     bool
	judged   bool           // it has come to its end, or to something else than before
	resumed  bool           // it has gone on from start
	position map[uint64]int // by group: calls made
}

// newRehearsal is one of what is recorded.
func newRehearsal(r *recorder, end *savedState) *rehearsal {
	return &rehearsal{
		recorder: r, first: r.first, start: r.start, since: r.since, end: end,
		until: math.MaxInt64, done: make(chan struct{}), position: map[uint64]int{},
	}
}

// work is how long the function took for what is rehearsed.
func (r *rehearsal) work() time.Duration { return r.first.work + r.since.work }

// reaches has the rehearsal go no further than it comes in a time, and reports whether it comes to a call.
func (r *rehearsal) reaches(limit time.Duration) bool {
	if !r.recorder.rehearser.all() {
		r.until = limit
	}
	some := func(n *recording) bool {
		calls := n.calls[r.recorder.task.m.Name()]
		return len(calls) > 0 && calls[0].after <= r.until
	}
	return some(&r.first) || len(r.first.calls[r.recorder.task.m.Name()]) == 0 && some(&r.since)
}

// begin begins the rehearsal, and stops it after a time.
func (r *rehearsal) begin(limit time.Duration) {
	of, real := r.recorder.rehearser, r.recorder.task
	ctx, cancel := context.WithCancel(of.ctx)
	r.cancel, r.begun = cancel, time.Now()
	task := newTask(real.m, slog.New(slog.DiscardHandler))
	task.attempt = real.attempt + 1
	task.trunk.rehearsal, task.trunk.archive = r, real.trunk.archive
	r.late = time.AfterFunc(limit, r.stop)
	go func() {
		defer r.finish()
		defer r.stop()
		defer func() {
			if crash := recover(); crash != nil {
				r.differ("panics: %v", crash)
			}
		}()
		r.returned(of.f(label(ctx, "", fmt.Sprintf("rehearsal of %d", real.m.Task())), task))
	}()
}

// finish ends the rehearsal.
func (r *rehearsal) finish() {
	r.ended.Do(func() {
		r.late.Stop()
		r.mu.Lock()
		judged := r.judged
		r.mu.Unlock()
		took, rec := int64(time.Since(r.begun)), r.recorder
		rec.rehearser.spent.Add(took)
		if rec.rehearser.runs.Add(1); !judged {
			rec.rehearser.stopped.Add(1)
		}
		rec.mu.Lock()
		rec.price += took
		rec.running = nil
		rec.mu.Unlock()
		close(r.done)
	})
}

// stop ends the rehearsal: operations that it calls from now on end their goroutine. One that calls none, or waits for another goroutine, is not
// waited for.
func (r *rehearsal) stop() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.cancel()
	if !r.over || r.judged {
		time.AfterFunc(killedTime, r.finish)
	}
	r.over = true
}

// judge ends the rehearsal with the verdict that the task does the same, unless there is another one.
func (r *rehearsal) judge() {
	r.mu.Lock()
	r.judged = r.judged || !r.over
	r.mu.Unlock()
	r.stop()
}

// returned takes note that the function has returned.
func (r *rehearsal) returned(err error) {
	r.mu.Lock()
	name := r.recorder.task.m.Name()
	now, at := r.current(), r.position[name]
	over := r.over
	r.mu.Unlock()
	switch {
	case over || now.full:
	case at < len(now.calls[name]):
		r.differ("its function returns; before, it called %s", now.calls[name][at].op)
	case r.end != nil:
		r.differ("its function returns; before, it called save")
	case err != nil:
		r.differ("its function returns an error, and before, none: %v", err)
	default:
		r.judge()
	}
}

// current is the recording that calls are compared with.
func (r *rehearsal) current() *recording {
	if r.resumed {
		return &r.since
	}
	return &r.first
}

// differ says how what the task does in the rehearsal differs from what it did.
func (r *rehearsal) differ(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.over {
		return
	}
	r.over, r.judged = true, true
	from := "the start"
	if r.start != nil {
		from = fmt.Sprintf("its Save of epoch %d", r.start.epoch)
	}
	m := r.recorder.task.m
	err := failed("rehearsal", m.Sight().View.Number, &node.Failure{
		Tasks: []int{m.Task()}, Err: ErrDiverged,
		Text: fmt.Sprintf("task %d does something else when it is run again from %s: ", m.Task(), from) + fmt.Sprintf(format, args...),
	})
	r.recorder.differs.CompareAndSwap(nil, &err)
}

// next returns what the task got when it made the same call.
func (r *rehearsal) next(t *Task, c *callRecord) callResult {
	r.mu.Lock()
	if r.over {
		r.mu.Unlock()
		exit()
	}
	name := t.m.Name()
	now := r.current()
	calls, at := now.calls[name], r.position[name]
	r.position[name]++
	r.mu.Unlock()
	if at < len(calls) {
		if d := c.differs(calls[at]); d != "" {
			r.differ("%s", d)
			r.stop()
			exit()
		}
		if calls[at].after > r.until {
			r.stop()
			exit()
		}
		r.leave(t, at+1)
		return calls[at].got.clone()
	}
	switch {
	case now.full: // nobody knows what comes next
		r.stop()
	case t.fork: // the task had not come that far there
	case r.end != nil || !r.resumed && r.start != nil:
		r.differ("it calls %s at %s; before, save", c.op, caller())
	default:
		r.differ("it calls %s at %s; before, its function returned", c.op, caller())
	}
	if !t.fork {
		r.stop()
	}
	exit()
	return callResult{}
}

// leave ends the rehearsal if the task made no more than so many calls before its function returned, unless that is to be seen.
func (r *rehearsal) leave(t *Task, calls int) {
	if t.fork || r.end != nil || r.resumed != (r.start != nil) || r.recorder.rehearser.ends {
		return
	}
	if now := r.current(); !now.full && calls == len(now.calls[t.m.Name()]) {
		r.judge()
		exit()
	}
}

// member is the place of a group of the first epoch in the one that is rehearsed.
func (r *rehearsal) member(first *node.Member) *node.Member {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.current().members[first.Name()]; m != nil {
		return m
	}
	return first
}

// differs says how a call differs from the one that was recorded; "": it does not.
func (c *callRecord) differs(before *callRecord) string {
	switch {
	case c.op != before.op:
		return fmt.Sprintf("it calls %s at %s; before, %s", c.op, caller(), before.op)
	case c.typ != before.typ:
		return fmt.Sprintf("%s at %s is of %s; before, of %s", c.op, caller(), c.typ, before.typ)
	case c.peer == before.peer && c.tag == before.tag:
	case c.op == "split":
		return fmt.Sprintf("split at %s has color %d and key %d; before, %d and %d", caller(), c.peer, c.tag, before.peer, before.tag)
	default:
		return fmt.Sprintf("%s at %s is for task %d and tag %d; before, for task %d and tag %d", c.op, caller(), c.peer, c.tag, before.peer, before.tag)
	}
	switch {
	case c.plan != before.plan && (len(c.value) == len(before.value)) || c.sign != before.sign:
		return fmt.Sprintf("%s at %s has another root, operator or mode than before", c.op, caller())
	}
	if d := differing(c.typ, before.value, c.value); d != "" {
		return fmt.Sprintf("%s at %s gives something else: %s", c.op, caller(), d)
	}
	if len(c.values) != len(before.values) {
		return fmt.Sprintf("%s at %s gives %d parts; before, %d", c.op, caller(), len(c.values), len(before.values))
	}
	for i, b := range c.values {
		if d := differing(c.typ, before.values[i], b); d != "" {
			return fmt.Sprintf("%s at %s gives something else as part %d: %s", c.op, caller(), i, d)
		}
	}
	return ""
}

// differing says how two values differ of which these are the bytes; "": they do not.
func differing(typ string, before, now []byte) string {
	if slices.Equal(before, now) && (before == nil) == (now == nil) {
		return ""
	}
	was, ok1 := codec.Value(typ, before)
	is, ok2 := codec.Value(typ, now)
	if ok1 && ok2 {
		if d := difference.Of(was, is, "before"); d != "" {
			return d
		}
		return fmt.Sprintf("%v in other bytes", reflect.ValueOf(is))
	}
	return fmt.Sprintf("%d bytes; before %d, or others", len(now), len(before))
}

// rehearseSave is Save in a rehearsal.
func rehearseSave[S any](r *rehearsal, t *Task, c *codec.Codec[S], state *S) error {
	r.mu.Lock()
	name, now := t.m.Name(), r.current()
	over, at, start := r.over, r.position[name], r.start
	r.mu.Unlock()
	switch {
	case over:
	case at < len(now.calls[name]):
		r.differ("it calls save at %s; before, %s", caller(), now.calls[name][at].op)
	case now.full:
		r.stop()
	case start != nil && !r.resumed:
		r.mu.Lock()
		r.resumed, r.position = true, map[uint64]int{}
		r.mu.Unlock()
		if err := c.Decode(start.value, state, false); err != nil {
			return err
		}
		t.enter(start.next)
		r.leave(t, 0)
		return nil
	case r.end == nil:
		r.differ("it calls save at %s; before, its function returned", caller())
	default:
		b, err := c.Append(nil, state)
		if err != nil {
			r.differ("save at %s: %v", caller(), err)
		} else if d := differing(c.Name(), r.end.value, b); d != "" {
			r.differ("save at %s saves something else: %s", caller(), d)
		}
		r.judge()
	}
	exit()
	return nil
}
