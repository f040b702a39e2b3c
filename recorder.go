package coppice

import (
	"bytes"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coppice-go/coppice/internal/node"
)

// callRecord is what a task did in one of its groups: an operation with what it gave and got, or a fork.
type callRecord struct {
	op     string
	plan   node.Plan
	peer   int // of a message
	tag    int
	typ    string
	sign   uint64
	value  []byte
	values [][]byte
	after  time.Duration // what the function had worked by then; 0 on a fork
	got    callResult
}

// callResult is what came of it.
type callResult struct {
	node.Result
	failed  []int        // of Agree
	refused bool         // the error is that of the function of a Once
	made    *node.Member // a fork, or a group
	err     error
}

// clone returns a copy that shares no memory.
func (r callResult) clone() callResult {
	r.Value, r.Values, r.Lent, r.failed = bytes.Clone(r.Value), cloneAll(r.Values), slices.Clone(r.Lent), slices.Clone(r.failed)
	return r
}

func cloneAll(all [][]byte) [][]byte {
	all = slices.Clone(all)
	for i, b := range all {
		all[i] = bytes.Clone(b)
	}
	return all
}

// recording is the calls of a task between two of its Saves.
type recording struct {
	calls   map[uint64][]*callRecord // by group, in order
	members map[uint64]*node.Member  // by group of the first epoch: its place in this one
	bytes   int
	full    bool          // there were more
	work    time.Duration // how long the function took between calls
}

// recorder records what a task does, so that it can be rehearsed. A nil one records nothing.
type recorder struct {
	rehearser *rehearser
	task      *Task       // at its start
	on        atomic.Bool // calls are recorded
	differs   atomic.Pointer[error]

	mu      sync.Mutex
	first   recording // before the first Save
	since   recording // since the last one
	start   *savedState
	room    int        // bytes that may still be recorded
	calls   int        // so many since the last Save
	idle    time.Time  // when the last call ended
	cost    int64      // nanoseconds that it took to record the calls since the last Save
	price   int64      // what it took last to record and to rehearse
	waiting *rehearsal // for spare time
	running *rehearsal
}

// savedState is what a task saved.
type savedState struct {
	epoch uint64
	value []byte
	next  *node.Member // the task's place in the epoch
}

// recordMax is how many bytes of a task's calls are recorded, before its first Save and since its last one together.
const recordMax = 64 << 20

// callsMax is how many calls are recorded between two Saves, unless all that tasks do is rehearsed.
const callsMax = 1 << 14

// recordBytes is what a call takes beside its values.
const recordBytes = 256

func newRecorder(r *rehearser, t *Task) *recorder {
	rec := &recorder{rehearser: r, task: &Task{m: t.m, log: t.log, attempt: t.attempt, trunk: t.trunk}, room: recordMax, idle: time.Now()}
	rec.first.calls = map[uint64][]*callRecord{}
	rec.on.Store(true)
	return rec
}

// current is the recording that calls go to.
func (r *recorder) current() *recording {
	if r.start == nil {
		return &r.first
	}
	return &r.since
}

// record makes a call and records it.
func (r *recorder) record(t *Task, c callRecord, call func() callResult) callResult {
	if !r.on.Load() {
		return call()
	}
	begun := time.Now()
	c.value, c.values = bytes.Clone(c.value), cloneAll(c.values)
	took := time.Since(begun)
	got := call()
	back := time.Now()
	c.got = got.clone()
	size := c.size()
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.current()
	if !t.fork {
		now.work += begun.Sub(r.idle)
		c.after = r.first.work + r.since.work
		r.idle = time.Now()
	}
	r.cost += int64(took + time.Since(back))
	if r.calls++; size > r.room || r.calls > callsMax && !r.rehearser.all() {
		now.full = true
		r.on.Store(false)
	}
	if now.full || !r.on.Load() {
		return got
	}
	r.room -= size
	now.bytes += size
	name := t.m.Name()
	now.calls[name] = append(now.calls[name], &c)
	if t.first != nil && t.m != t.first {
		now.members[name] = t.m
	}
	return got
}

// pause has the calls that Save makes left out, until saved.
func (r *recorder) pause() (on bool) {
	if r == nil {
		return false
	}
	if r.rehearser.all() {
		r.await()
	}
	if on = r.on.Swap(false); on {
		r.mu.Lock()
		r.current().work += time.Since(r.idle)
		r.mu.Unlock()
	}
	return on
}

// keeps reports whether the state that the task saves is needed. on is what pause returned.
func (r *recorder) keeps(on bool) bool {
	if r == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return on || r.current().full || r.records()
}

// records reports whether calls after the next Save are to be recorded.
func (r *recorder) records() bool {
	return !r.first.full && r.waiting == nil && (r.rehearser.all() || r.running == nil && int64(r.rehearser.left()) >= r.price)
}

// saved takes note that the task has saved its state; or, if it has resumed, that it goes on from what was saved. state is nil if it is
// not needed.
func (r *recorder) saved(on, resumed bool, state []byte, next *node.Member) {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	saved := &savedState{epoch: next.Epoch(), value: state, next: next}
	if state != nil && (on || r.current().full) && !resumed && r.waiting == nil {
		r.waiting = newRehearsal(r, saved)
	}
	r.spend()
	r.room += r.since.bytes
	r.start, r.since = saved, recording{calls: map[uint64][]*callRecord{}, members: map[uint64]*node.Member{}}
	r.idle = time.Now()
	if w := r.waiting; w != nil && r.running == nil && (r.rehearser.all() || r.rehearser.left() >= w.work()) {
		r.begin(limitTimes*w.work() + limitMore)
	}
	r.on.Store(state != nil && r.records())
}

// spend has the time that it took to record count as that of rehearsals.
func (r *recorder) spend() {
	r.rehearser.spent.Add(r.cost)
	r.price, r.calls, r.cost = r.cost, 0, 0
}

// size is how many bytes the record takes.
func (c *callRecord) size() int {
	n := recordBytes + len(c.value) + len(c.got.Value)
	for _, b := range c.values {
		n += len(b)
	}
	for _, b := range c.got.Values {
		n += len(b)
	}
	return n
}

// begin begins the rehearsal that waits.
func (r *recorder) begin(limit time.Duration) {
	r.running, r.waiting = r.waiting, nil
	r.running.begin(limit)
}

// finish rehearses what the function has done since the last Save, if there is time, and says whether a rehearsal has diverged. The function
// has returned err.
func (r *recorder) finish(err error) error {
	if r == nil {
		return nil
	}
	r.mu.Lock()
	on := r.on.Swap(false) || r.current().full
	if err != nil {
		r.mu.Unlock()
		r.stop()
		return nil
	}
	r.current().work += time.Since(r.idle)
	r.mu.Unlock()
	r.await()
	r.mu.Lock()
	if r.waiting == nil && on && (len(r.first.calls) > 0 || r.start != nil) {
		r.waiting = newRehearsal(r, nil)
	}
	r.spend()
	if w := r.waiting; w != nil {
		if limit := r.rehearser.limit(w.work()); limit > 0 && w.reaches(limit) {
			r.begin(limit)
		}
	}
	r.mu.Unlock()
	r.await()
	if e := r.differs.Load(); e != nil {
		return *e
	}
	return nil
}

// await waits until nothing is rehearsed.
func (r *recorder) await() {
	r.mu.Lock()
	running := r.running
	r.mu.Unlock()
	if running != nil {
		<-running.done
	}
}

// stop stops what is rehearsed, and records nothing more.
func (r *recorder) stop() {
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.on.Store(false)
	r.waiting = nil
	if r.running != nil {
		r.running.stop()
	}
}
