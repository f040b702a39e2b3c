package launch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coppice-go/coppice/internal/control"
)

// hurryTime is how long the reader of the output has to take the rest of it when
// the user has sent a second signal, or the timeout has expired.
const hurryTime = time.Second

// settleTime is how long the coordinator has to learn of the last ends.
const settleTime = time.Second

// station is where some processes of the job run: on this host, or on a host with an
// agent. It reports on job.endings.
type station interface {
	signal(syscall.Signal)                 // to all running processes, and to what they started
	kill(rank int)                         // kills the process of that rank, whatever started it, for the user or at the end of the run
	fence(control.Fence)                   // kills a process that the coordinator takes for dead, if the station of its host finds that proven
	close()                                // waits until all have ended and all their output was read
	where(rank int) (pid int, host string) // of the process that was started; host "": this one
}

// job is a Plan in progress. One goroutine calls its methods.
type job struct {
	*Plan
	screen   *screen
	server   *control.Server
	stations []station
	endings  chan ending
	running  map[int]uint64              // ranks whose process has not ended, and its incarnation
	at       map[int]station             // where each rank runs, or ran last
	entry    map[int]int                 // index of its entry in the report
	called   map[int]control.JoinRequest // by rank: the request for which a joined process was started
	joins    chan joinCall               // requests
	grown    chan *growth                // results of starts on other hosts
	calling  map[*growth]bool            // starts on other hosts in progress
	calls    context.Context             // ends when no more processes may be started
	hangUp   context.CancelFunc
	dog      *watchdog            // enforces the timeout
	over     chan struct{}        // closed when the job is no longer overseen
	close    func()               // closes over
	why      map[int]string       // by rank: why the launcher ended it
	kills    chan control.Kill    // kills that are due
	victims  map[control.Kill]int // the ranks that due kills were for
	suspects chan control.Fence   // the coordinator gave up on them
	failed   chan struct{}        // of capacity one: a task has returned an error
	refusals chan string          // of capacity one: why the processes cannot do what the settings say
	refused  string               // the reason from refusals
	began    time.Time
	first    time.Time        // when the job was started for the first time
	threads  []*threads       // that started the processes
	early    os.Signal        // a signal that came while hosts were called; nil: none
	grace    <-chan time.Time // when the processes must have ended after a signal
	forsaken <-chan time.Time // when to give up on agents that do not answer
	hurry    bool             // the user has sent a second signal
	report   Report
	notices  chan string // to be written
	again    respawner   // starts dead processes again

	rehearsals, stoppedRehearsals atomic.Int64

	states atomic.Pointer[[]control.ProcessState] // of the tasks, shortly before the timeout
}

// run carries the plan out once. If this is not the first start, first is the time of the first, and past
// has all earlier ones.
func (p *Plan) run(ctx context.Context, dog *watchdog, first time.Time, past []Restart) (*job, error) {
	j := &job{
		Plan:    p,
		dog:     dog,
		screen:  &screen{to: [streams]io.Writer{p.Output.Stdout, p.Output.Stderr}, late: dog.struck},
		endings: make(chan ending, p.N),
		running: map[int]uint64{},
		at:      map[int]station{},
		entry:   map[int]int{},
		why:     map[int]string{},
		kills:   make(chan control.Kill, len(p.Kills)),
		victims: map[control.Kill]int{},
		called:  map[int]control.JoinRequest{},
		joins:   make(chan joinCall),
		grown:   make(chan *growth),
		calling: map[*growth]bool{},
		over:    make(chan struct{}),

		suspects: make(chan control.Fence, p.N+p.Grow),
		failed:   make(chan struct{}, 1),
		refusals: make(chan string, 1),
		first:    first,
		report:   Report{Restarts: past},
		again:    newRespawner(),
	}
	j.notices = make(chan string, noticesMax)
	defer j.tellNotices()()
	j.close = sync.OnceFunc(func() { close(j.over) })
	j.calls, j.hangUp = context.WithCancel(ctx)
	defer j.hangUp()
	if err := j.open(); err != nil {
		return nil, err
	}
	defer j.server.Close()
	defer j.close()
	if err := j.start(); err != nil {
		return nil, err
	}
	stop := j.schedule()
	j.oversee(ctx)
	j.close()
	stop()
	if j.refused != "" {
		j.drain(ctx)
		return nil, InputError{errors.New(j.refused)}
	}
	j.finish(ctx)
	return j, nil
}

// end reports that a process has ended.
func (j *job) end(e ending) {
	select {
	case j.endings <- e:
	case <-j.over:
	}
}

// finish waits for the rest of the output and makes the report.
func (j *job) finish(ctx context.Context) {
	j.report.Seconds = time.Since(j.first).Seconds()
	j.drain(ctx)
	select { // the coordinator may not have learned of the last ends
	case <-j.server.Done():
	case <-time.After(settleTime):
	}
	known := j.server.Outcome()
	j.report.abandoned, j.report.losses = known.Abandoned, known.Lost
	for _, s := range j.server.Status() {
		j.learn(s)
	}
	j.report.inherit(known.View, known.Removed)
	j.report.broke = j.screen.failure()
	j.report.conclude()
	for _, k := range j.Kills {
		if !slices.Contains(j.report.Killed, j.victim(k)) {
			j.notice("--kill %v never came about", k)
		}
	}
	j.sayRehearsals()
	if j.Resume && j.report.Exit == 0 && !known.TakenUp {
		j.notice("--resume: nothing was taken up again: the program has not used Stored with the directory of an unfinished job")
	}
}

// learn copies into the report what the coordinator knows of a rank's latest
// process.
func (j *job) learn(s control.Status) {
	i, started := j.entry[s.Rank]
	if !started {
		return
	}
	kill := ""
	if s.Incarnation == firstIncarnation {
		kill = j.killOf(s.Rank)
	}
	s.Left = j.left(s)
	j.report.Tasks[i].learn(s, kill)
}

// drain waits until all output of the processes is shown, or the user has no
// patience with its reader.
func (j *job) drain(ctx context.Context) {
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		for _, s := range j.stations {
			s.close()
		}
		for _, t := range j.threads {
			t.close()
		}
	}()
	var late <-chan time.Time
	cancelled := ctx.Done()
	switch {
	case j.hurry || j.report.Timeout || j.report.cancelled != nil:
		late, cancelled = time.After(hurryTime), nil
	case j.report.Signal != "":
		late = time.After(j.graceTime())
	}
	select {
	case <-drained:
	case <-late:
	case <-cancelled:
		j.report.cancelled = context.Cause(ctx)
	case s := <-j.Signals:
		if sig, ok := s.(syscall.Signal); ok {
			j.report.interrupt(sig)
		}
	}
}

// victim returns the rank of the process that a kill is for: the one that began with the
// task, or that owned it when the kill was due.
func (j *job) victim(k control.Kill) int {
	if rank, due := j.victims[k]; due {
		return rank
	}
	if v := j.server.First(); v != nil && k.Task < len(v.Owners) {
		return v.Owners[k.Task]
	}
	return k.Task
}

// killOf returns the kill of a process that the user asked for; "": none.
func (j *job) killOf(rank int) string {
	for _, k := range j.Kills {
		if j.victim(k) == rank {
			return k.String()
		}
	}
	return ""
}

// schedule triggers the launcher's own kills at their time, until the caller calls the
// returned function.
func (j *job) schedule() (stop func()) {
	var timers []*time.Timer
	for _, k := range j.Kills {
		if k.Op == "" {
			timers = append(timers, time.AfterFunc(k.After, func() { j.kills <- k }))
		}
	}
	if j.Timeout > 0 && !j.Abrupt {
		timers = append(timers, time.AfterFunc(time.Until(j.first.Add(j.Timeout-min(askedBefore, j.Timeout/4))), j.askStates))
	}
	return func() {
		for _, t := range timers {
			t.Stop()
		}
	}
}

// oversee does what is needed while processes run.
func (j *job) oversee(ctx context.Context) {
	var patience <-chan time.Time
	struck, cancelled := j.dog.struck, ctx.Done()
	if j.early != nil {
		j.interrupt(j.early)
	}
	for len(j.running) > 0 || len(j.calling) > 0 {
		select {
		case c := <-j.joins:
			j.join(c)
		case g := <-j.grown:
			j.settleGrowth(g)
		case e := <-j.endings:
			j.ended(e)
		case s := <-j.Signals:
			j.interrupt(s)
		case k := <-j.kills:
			j.killOne(k)
		case s := <-j.suspects:
			j.fence(s)
		case <-j.failed:
			j.giveUp()
		case why := <-j.refusals:
			j.refused = why
			j.hangUp()
			j.killAll(whyRefused)
		case <-j.again.stirs:
			j.raise()
		case <-struck:
			struck = nil
			j.timeout()
			patience = time.After(dumpTime)
		case <-patience:
			j.killAll(whyTimeout)
		case <-j.grace:
			j.notice("no end within %v: killing %s", j.graceTime(), j.stillRunning())
			j.killAll(whyInterrupted)
		case <-j.forsaken:
			j.hangUpAll()
		case <-cancelled:
			cancelled = nil
			j.report.cancelled = context.Cause(ctx)
			j.killAll(whyInterrupted)
		}
	}
}

// kill kills the process of a rank, if its station has begun.
func (j *job) kill(rank int) {
	if at := j.at[rank]; at != nil {
		at.kill(rank)
	}
}

// observe reacts to an event.
func (j *job) observe(e control.Event) {
	if j.Events != nil {
		j.Events(e)
	}
	j.hearFailure(e)
	j.hearRehearsals(e)
	if j.respawns() {
		j.again.clock.hear(e)
		if e.Type == control.EventDied || e.Type == control.EventView || e.Type == control.EventEpoch {
			j.again.stir()
		}
	}
	j.hearSuspects(e)
	if why, _ := e.Attrs["why"].(string); e.Type == control.EventRefused && why != "" {
		offer(j.refusals, why) // one is enough
	}
}

// hearRehearsals counts what processes have rehearsed.
func (j *job) hearRehearsals(e control.Event) {
	if e.Type != control.EventRehearsed {
		return
	}
	count := func(name string) int64 {
		n, _ := e.Attrs[name].(json.Number)
		i, _ := n.Int64()
		return i
	}
	j.rehearsals.Add(count("runs"))
	j.stoppedRehearsals.Add(count("stopped"))
}

// sayRehearsals says what was rehearsed in a job that has ended well.
func (j *job) sayRehearsals() {
	if j.Rehearse == 0 || j.report.Exit != 0 {
		return
	}
	text := fmt.Sprintf("--rehearse: tasks were run again %d times, and did nothing else than before", j.rehearsals.Load())
	switch n := j.stoppedRehearsals.Load(); {
	case j.rehearsals.Load() == 0 && j.Rehearse == 1:
		text = "--rehearse: tasks have called nothing that could be compared"
	case j.rehearsals.Load() == 0:
		text = "--rehearse: there was no time to run a task again; more with a larger share, such as --rehearse=1"
	case n > 0:
		text += fmt.Sprintf("; %d were stopped on the way", n)
	}
	j.notice("%s", text)
}

// What the launcher did to a process.
const (
	whyTimeout     = "time-out"
	whyInterrupted = "interrupted"
	whyRestart     = "restart"
	whyRefused     = "refused"
	whyKill        = "--kill "
)

// ended records the end of a process.
func (j *job) ended(e ending) {
	if j.running[e.rank] != e.life {
		return
	}
	if j.dog.hasStruck() { // the watchdog may have ended it
		j.timeout()
	}
	delete(j.running, e.rank)
	t := &j.report.Tasks[j.entry[e.rank]]
	t.Why = j.why[e.rank]
	t.end(e, j.began)
	if died := e.lost != "" || e.status.Signal != 0; died && !j.outlasted(e.rank) || !died && e.status.Exit != 0 {
		j.giveUp()
	}
	j.fall(e)
	j.checkForsaken()
}

// interrupt forwards the first signal and kills at the second.
func (j *job) interrupt(s os.Signal) {
	sig, ok := s.(syscall.Signal)
	if !ok {
		return
	}
	if j.report.Signal != "" {
		j.notice("%s again: killing %s", control.SignalName(sig), j.stillRunning())
		j.hurry = true
		j.killAll(whyInterrupted)
		return
	}
	j.hangUp()
	j.report.interrupt(sig)
	j.grace = time.After(j.graceTime())
	j.notice("%s: passed on to %s; once more kills", control.SignalName(sig), j.stillRunning())
	j.blame(whyInterrupted)
	j.server.Stop("the launcher received " + control.SignalName(sig))
	for _, s := range j.stations {
		s.signal(sig)
	}
}

// graceDefault is how long processes have to end by themselves.
const graceDefault = 30 * time.Second

func (j *job) graceTime() time.Duration { return cmp.Or(j.Grace, graceDefault) }

// timeout records what the watchdog is doing.
func (j *job) timeout() {
	if j.report.Timeout {
		return
	}
	j.hangUp()
	j.report.Timeout = true
	j.report.timeout, j.report.late = j.Timeout, j.ranks()
	j.blame(whyTimeout)
	defer j.noticeStates()
	switch asked := j.dog.spared(); {
	case j.Abrupt:
	case len(asked) == 0:
		j.notice("time-out after %v: %s still running; killing", j.Timeout, j.stillRunning())
	case len(asked) < len(j.running):
		j.notice("time-out after %v: %s still running; asking %s for goroutines, killing the others", j.Timeout, j.stillRunning(), tasks(asked))
	default:
		j.notice("time-out after %v: %s still running; asking for goroutines, then killing", j.Timeout, j.stillRunning())
	}
}

// Shortly before the timeout the launcher asks what the tasks do. The watchdog does not wait for the answers.
const (
	askedBefore = time.Second
	statesShown = 32 // lines
)

// askStates asks what the tasks do.
func (j *job) askStates() {
	ctx, stop := context.WithTimeout(j.calls, min(askedBefore, j.Timeout/4)*3/4)
	defer stop()
	states := j.server.States(ctx)
	j.states.Store(&states)
}

// noticeStates says what the tasks did before the timeout.
func (j *job) noticeStates() {
	states := j.states.Load()
	if states == nil {
		return
	}
	lines := control.StateLines(*states)
	for _, line := range lines[:min(len(lines), statesShown)] {
		j.notice("%s", line)
	}
	if more := len(lines) - statesShown; more > 0 {
		j.notice("and %d others", more)
	}
}

// killOne carries out a kill that the user asked for: of the process that owns the task now.
func (j *job) killOne(k control.Kill) {
	rank := k.Task
	if v := j.server.View(); v != nil && k.Task < len(v.Owners) {
		rank = v.Owners[k.Task]
	}
	j.victims[k] = rank
	if j.running[rank] != firstIncarnation {
		return
	}
	j.why[rank] = whyKill + k.String()
	j.kill(rank)
}

// killAll kills all running processes.
func (j *job) killAll(why string) {
	j.blame(why)
	for _, s := range j.stations {
		s.signal(syscall.SIGKILL)
	}
	for rank := range j.running {
		j.kill(rank)
	}
}

// blame records why the running processes are about to end.
func (j *job) blame(why string) {
	for rank := range j.running {
		if j.why[rank] == "" {
			j.why[rank] = why
		}
	}
}

// ranks returns the ranks that still run.
func (j *job) ranks() []int { return slices.Sorted(maps.Keys(j.running)) }

func (j *job) stillRunning() string { return tasks(j.ranks()) }

// notice reports something to the user. A reader that is slow must not delay the job, so a separate goroutine
// writes the notice, or drops it if too many wait.
func (j *job) notice(format string, args ...any) {
	if j.Notice == nil {
		return
	}
	offer(j.notices, fmt.Sprintf(format, args...))
}

// noticesMax is how many notices may wait to be written.
const noticesMax = 1000

// tellNotices writes notices. The function that it returns writes the rest, and waits for
// that a while.
func (j *job) tellNotices() (end func()) {
	written := make(chan struct{})
	go func() {
		defer close(written)
		for line := range j.notices {
			j.Notice(line)
		}
	}()
	return func() {
		close(j.notices)
		select {
		case <-written:
		case <-time.After(hurryTime):
		}
	}
}
