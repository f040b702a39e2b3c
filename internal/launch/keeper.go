package launch

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/internal/spool"
)

// Processes that outlive their launcher have a keeper on each host: an agent in its own session, which spools
// their output and how they end. The launcher's connection may break as soon as it has given its orders. A keeper
// decides nothing: the processes find each other at seeds, one of them has the coordinator, and a majority of them
// continues without the lost ones. If a keeper is killed, the kernel kills the processes that it started, and the
// others take over their tasks.

// seed tells the launcher where others may look for processes of this host. Then it starts a keeper with the orders that
// follow, and waits until the launcher no longer needs it.
func (a *agent) seed(ctx context.Context, said *bufio.Scanner, keeper *exec.Cmd, seedAt func(string) (string, error)) error {
	at := ":0"
	var err error
	if a.orders.Listen != "" {
		at, err = seedAt(a.orders.Listen)
	}
	var door net.Listener // no other process gets the port until the processes are started
	if err == nil {
		door, err = control.ListenPorts(at, true) // processes take the first ones
	}
	if err != nil {
		return errors.Join(err, a.to.say(notice{Type: noticeRefused, Text: err.Error()}))
	}
	defer door.Close()
	_, port, _ := net.SplitHostPort(door.Addr().String())
	host, _, _ := net.SplitHostPort(at)
	if words := strings.Fields(os.Getenv("SSH_CONNECTION")); host == "" && len(words) == 4 { // the address that the launcher has reached
		host = words[2]
	}
	host = cmp.Or(host, a.orders.Fallback)
	if err := a.to.say(notice{Type: noticeSeed, Text: net.JoinHostPort(host, port)}); err != nil {
		return err
	}
	if err := a.read(said); err != nil {
		return err
	}
	if a.orders.Keep == nil {
		return errors.New("orders after a seed; allowed: those of coppice run --hosts --detach")
	}
	door.Close()
	job, answer, err := a.startKeeper(keeper)
	if err != nil {
		answer = notice{Type: noticeRefused, Text: err.Error()}
	}
	if err := a.to.say(answer); err != nil || answer.Type == noticeRefused {
		return err // the processes need this agent no more
	}
	for said.Scan() {
		var c command
		if json.Unmarshal(said.Bytes(), &c) == nil && c.Undo {
			_ = job.Signal(syscall.SIGKILL) // a process that is gone needs none
			_, _ = job.Follow(ctx, 0, nil)
			control.Sweep(os.Getenv)
			return forget(job, a.orders.Keep.Name)
		}
	}
	return nil
}

// forget removes what is kept of a job on this host, and its entry here.
func forget(kept *spool.Job, job string) error {
	return errors.Join(kept.Remove(), spool.At(filepath.Join(filepath.Dir(kept.Path()), job)).Remove())
}

// startKeeper starts the keeper of the processes, and returns its answer about their start.
func (a *agent) startKeeper(keeper *exec.Cmd) (job *spool.Job, answer notice, err error) {
	root, err := spool.Root()
	if err != nil {
		return nil, answer, err
	}
	spool.Sweep(root)
	keep := a.orders.Keep
	if _, err := spool.New(root, keep.Name, keep.About); err != nil && !errors.Is(err, fs.ErrExist) { // it exists if hosts share a home directory
		return nil, answer, err
	}
	if job, err = spool.New(root, KeptName(keep.Name, keep.Host), spool.About{Command: keep.About.Command, Began: time.Now()}); err != nil {
		return nil, answer, err
	}
	text, err := json.Marshal(a.orders)
	if err != nil {
		return nil, answer, err
	}
	answer, err = runKeeper(keeper, job, text)
	if err != nil || answer.Type == noticeRefused {
		err = errors.Join(err, forget(job, keep.Name))
	}
	return job, answer, err
}

// runKeeper starts a keeper and waits for its answer.
func runKeeper(keeper *exec.Cmd, job *spool.Job, orders []byte) (answer notice, err error) {
	log, err := job.Log()
	if err != nil {
		return answer, err
	}
	defer log.Close()
	keeper.Args = append(keeper.Args, job.Path())
	keeper.Stdin, keeper.Stderr, keeper.SysProcAttr = strings.NewReader(string(orders)+"\n"), log, Detached()
	out, err := keeper.StdoutPipe()
	if err != nil {
		return answer, err
	}
	if err := keeper.Start(); err != nil {
		return answer, err
	}
	said := newLineReader(out)
	if !said.Scan() {
		text, _ := os.ReadFile(log.Name())
		return answer, fmt.Errorf("the keeper of the processes has ended before it had started them: %w: %s", errors.Join(said.Err(), keeper.Wait()), oneLine(string(text)))
	}
	err = json.Unmarshal(said.Bytes(), &answer)
	if answer.Type == noticeRefused {
		_ = keeper.Wait() // it records the refusal in the directory of the job, which the caller removes
	}
	return answer, err
}

// Keep starts the processes of the orders on in, and keeps their output, and how they end, in the directory of a job. It reports
// on ready whether they have started. It forwards the first signal to the processes; the second kills them.
func Keep(dir string, in io.Reader, ready io.WriteCloser, signals <-chan os.Signal) error {
	k, err := spool.At(dir).Keep()
	if err != nil {
		return err
	}
	a := &agent{to: &lineWriter{w: ready}}
	if err := a.read(newLineReader(in)); err != nil {
		return err
	}
	kept := &hostKeeper{agent: a, spool: k, began: time.Now(), dog: newWatchdog(a.orders.Keep.Timeout, false)}
	defer kept.dog.end()
	kept.screen = &screen{to: [streams]io.Writer{k.Stream(spool.Stdout), k.Stream(spool.Stderr)}, late: kept.dog.struck}
	if err := a.start(kept.hear, kept.ended); err != nil {
		return errors.Join(a.to.say(notice{Type: noticeRefused, Text: err.Error()}), k.End(&spool.Result{Exit: 1, Error: err.Error()}))
	}
	kept.dog.watch(a.crew)
	_ = a.to.say(notice{Type: noticeStarted}) // the caller may be gone
	ready.Close()
	kept.attend(signals)
	a.remove()
	result, err := kept.result()
	return errors.Join(err, k.End(result))
}

// hostKeeper keeps the processes of a job on this host.
type hostKeeper struct {
	*agent
	spool  *spool.Keeper
	screen *screen
	began  time.Time
	dog    *watchdog

	mu     sync.Mutex
	report hostReport
	said   map[int]*lastCry
}

// hostReport is the result of the processes on a host.
type hostReport struct {
	Report
	Ended []int         `json:"ended"`           // ranks whose processes knew of the job's end
	After time.Duration `json:"after,omitempty"` // in ns: the timeout that expired
	Late  []int         `json:"late,omitempty"`  // ranks whose processes still ran then
}

// hear spools the output of a process, as a launcher would show it.
func (k *hostKeeper) hear(rank int, o *order) error {
	output := Output{Prefix: k.orders.Keep.Prefix, Ranks: k.orders.Keep.Shown}
	if k.orders.Keep.Hidden {
		output.Ranks = []int{}
	}
	relays, err := output.newRelays(k.screen, rank, false)
	if err != nil {
		return err
	}
	for s, r := range relays {
		o.take[s], o.end[s] = r.take, r.end
	}
	if k.said == nil {
		k.said = map[int]*lastCry{}
	}
	k.said[rank] = relays[stderr].cry
	return nil
}

// ended records the end of a process.
func (k *hostKeeper) ended(e ending) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.dog.hasStruck() { // the watchdog may have ended it
		k.timeout()
	}
	t := TaskReport{
		Rank: e.rank, Host: k.orders.Keep.Host, Joined: control.HasJoined(k.place.Dir, e.rank, e.life), said: k.said[e.rank],
	}
	t.end(e, k.began)
	if k.report.Timeout {
		t.Why = whyTimeout
	}
	if t.left = control.KnewEnd(k.place.Dir, e.rank, e.life); t.left {
		k.report.Ended = append(k.report.Ended, e.rank)
	}
	k.crew.each(func(p *process, rank int) {
		if rank == e.rank {
			t.PID = p.pid
		}
	})
	k.report.Tasks = append(k.report.Tasks, t)
}

// timeout records that the timeout has expired.
func (k *hostKeeper) timeout() {
	if k.report.Timeout {
		return
	}
	k.report.Timeout, k.report.After = true, k.dog.after
	for _, rank := range k.orders.Ranks {
		if !slices.ContainsFunc(k.report.Tasks, func(t TaskReport) bool { return t.Rank == rank }) {
			k.report.Late = append(k.report.Late, rank)
		}
	}
}

// attend waits for the end of all processes.
func (k *hostKeeper) attend(signals <-chan os.Signal) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		k.crew.close()
	}()
	var late <-chan time.Time
	for {
		select {
		case <-done:
			return
		case <-late:
			k.crew.signal(syscall.SIGKILL)
		case s := <-signals:
			sig, ok := s.(syscall.Signal)
			switch {
			case !ok:
			case late != nil:
				k.crew.signal(syscall.SIGKILL)
			default:
				k.mu.Lock()
				k.report.interrupt(sig)
				k.mu.Unlock()
				late = time.After(cmp.Or(k.orders.Keep.Grace, graceDefault))
				k.crew.signal(sig)
			}
		}
	}
}

// result returns the result of the processes.
func (k *hostKeeper) result() (*spool.Result, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.report.Seconds = time.Since(k.began).Seconds()
	k.report.broke = k.screen.failure()
	k.report.timeout, k.report.late = k.report.After, k.report.Late
	k.report.settle()
	text, err := json.Marshal(k.report)
	return &spool.Result{Exit: k.report.Exit, Signal: k.report.received, Started: true, Error: k.report.Cause, Report: text}, err
}

// settle concludes a report on processes that had no launcher. A process that has joined the job and did not know of its end
// was lost on the way, if another process knew: the others continued without it.
func (r *Report) settle() {
	joined, finished := false, false
	for i := range r.Tasks {
		joined, finished = joined || r.Tasks[i].Joined, finished || r.Tasks[i].left
	}
	for i := range r.Tasks {
		t := &r.Tasks[i]
		t.out = finished && t.Joined && !t.left
	}
	if !finished {
		r.inherit(nil, nil)
	}
	if joined && !finished {
		r.abandoned = "no process has seen the end of the job"
	}
	r.conclude()
}
