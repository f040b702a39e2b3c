package launch

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/coppice-go/coppice/internal/control"
)

// Agent starts a launcher's processes on this host, as the orders on in say, and
// relays their output and how they end to out. It returns when that is done. When in
// ends, the launcher is gone or no longer needs the agent; then, or when ctx ends, the agent kills its remaining
// processes. If the launcher's host is lost, in never ends: then
// processes that have joined the job end by themselves. If nothing reads what the agent writes,
// it ends when it has not heard from the launcher for the patience of its orders.
//
// Processes that outlive the launcher get a keeper (Keep), which is started by a command to which the path of a directory is
// added. They look for each other at addresses for which seedAt returns HOST:PORTS, as transport.Place has it, if processes are to listen at certain places.
func Agent(ctx context.Context, in io.Reader, out io.Writer, keeper *exec.Cmd, seedAt func(listen string) (string, error)) error {
	if _, err := io.WriteString(out, agentGreeting+"\n"); err != nil {
		return err
	}
	said := newLineReader(in)
	a := &agent{to: &lineWriter{w: out}}
	if err := a.read(said); err != nil {
		return err
	}
	switch {
	case a.orders.Seed:
		return a.seed(ctx, said, keeper, seedAt)
	case a.orders.Follow != nil:
		return a.follow(ctx, said)
	}
	if err := a.start(a.relays, a.tellEnd); err != nil {
		return errors.Join(err, a.to.say(notice{Type: noticeRefused, Text: err.Error()}))
	}
	defer a.remove()
	heard, gone := make(chan struct{}, 1), make(chan struct{})
	go func() {
		defer close(gone)
		for said.Scan() {
			var c command
			if json.Unmarshal(said.Bytes(), &c) != nil {
				return
			}
			offer(heard, struct{}{})
			a.obey(c)
		}
	}()
	a.attend(ctx, heard, gone)
	return nil
}

// read reads orders.
func (a *agent) read(said *bufio.Scanner) error {
	if !said.Scan() {
		return errors.Join(errors.New("no orders; allowed: those of coppice run --hosts"), said.Err())
	}
	a.orders = agentOrders{}
	if err := json.Unmarshal(said.Bytes(), &a.orders); err != nil {
		return fmt.Errorf("orders: %w; allowed: those of coppice run --hosts", err)
	}
	return nil
}

// attend waits for the end of the processes, and kills them if it must.
func (a *agent) attend(ctx context.Context, heard, gone <-chan struct{}) {
	childless, done := make(chan struct{}), make(chan struct{})
	go func() {
		a.crew.running.Wait()
		close(childless)
		a.crew.close()
		close(done)
	}()
	patience := cmp.Or(a.orders.Patience, patienceMin)
	silence := time.NewTimer(patience)
	defer silence.Stop()
	cancelled := ctx.Done()
	for alive := true; ; {
		select {
		case <-done:
			return
		case <-gone:
			gone = nil
			a.crew.signal(syscall.SIGKILL)
		case <-cancelled:
			gone, cancelled = nil, nil
			a.crew.signal(syscall.SIGKILL)
		case <-childless:
			alive, childless = false, nil
		case <-heard:
			silence.Reset(patience)
		case <-silence.C:
			if !alive { // nothing reads the rest of the output
				return
			}
			silence.Reset(patience)
		}
	}
}

// agent acts for the launcher on another host.
type agent struct {
	orders agentOrders
	place  control.Place // what all processes here have in common
	remove func()        // removes the job's directory on this host
	to     *lineWriter
	crew   *crew
}

// start starts the processes. hear returns what receives the output of each process; ended is called when a process has ended.
func (a *agent) start(hear func(rank int, o *order) error, ended func(ending)) (err error) {
	n := len(a.orders.Ranks)
	if err := CheckLimits(n); err != nil {
		return err
	}
	path, err := findProgram(a.orders.Program, a.orders.Program)
	if err != nil {
		return err
	}
	if err := a.prepare(); err != nil {
		return err
	}
	none, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	defer none.Close()
	common := merge(inherited(), working(a.orders.Dir), a.orders.Env)
	list := make([]order, len(a.orders.Ranks))
	for i, rank := range a.orders.Ranks {
		at := a.place
		at.Rank, at.LocalRank = rank, i
		list[i] = order{
			rank: rank, life: at.Incarnation, path: path, argv: append([]string{a.orders.Program}, a.orders.Args...), dir: a.orders.Dir,
			env:   merge(common, at.Vars()),
			stdin: none,
		}
		if err := hear(rank, &list[i]); err != nil {
			a.remove()
			return err
		}
	}
	a.crew = newCrew(list)
	if err := a.crew.start(); err != nil {
		a.remove()
		return programError(a.orders.Program, err)
	}
	if a.orders.Keep == nil {
		a.crew.out.Go(a.tellStarts) // a launcher that does not read delays no process
	}
	a.crew.watch(func(int) {}, ended)
	return nil
}

// relays sends the output of a process to the launcher.
func (a *agent) relays(rank int, o *order) error {
	for s := range streams {
		o.take[s] = func(b []byte) error {
			return a.to.say(notice{Type: noticeOutput, Rank: rank, Stream: s, Data: b})
		}
		o.end[s] = func() error {
			return a.to.say(notice{Type: noticeClosed, Rank: rank, Stream: s})
		}
	}
	return nil
}

// tellStarts reports the started processes to the launcher.
func (a *agent) tellStarts() {
	for i, p := range a.crew.procs {
		if a.to.say(notice{Type: noticeStarted, Rank: a.crew.orders[i].rank, PID: p.pid}) != nil {
			return // the launcher is gone, as the end of its orders will show
		}
	}
}

// tellEnd tells the launcher how a process ended.
func (a *agent) tellEnd(e ending) {
	will := control.ReadWill(a.place.Dir, e.rank, e.life)
	_ = a.to.say(notice{Type: noticeExited, Rank: e.rank, Status: &e.status, Will: will}) // it may be gone, as the end of its orders will show
}

// prepare creates the job's directory on this host, with the key.
func (a *agent) prepare() error {
	o := &a.orders
	a.place = control.Place{
		Job: o.Job, Size: o.Size, Grow: o.Grow, Incarnation: max(o.Life, firstIncarnation), Coordinator: o.Coordinator, LocalSize: len(o.Ranks),
	}
	var dir string
	var settings []byte
	var err error
	if o.Keep != nil {
		settings = o.Keep.Settings
		dir, err = control.NamedDir(os.Getenv, o.Keep.Name)
	} else {
		host, port, e := net.SplitHostPort(o.Coordinator)
		if e != nil {
			return fmt.Errorf("orders: %w", e)
		}
		if host == "" {
			a.place.Coordinator = net.JoinHostPort(Caller(o.Fallback), port)
		}
		dir, err = control.MakeDir(os.Getenv)
	}
	if err == nil {
		a.place.Dir = dir
		if a.remove, err = control.Furnish(dir, o.Key, settings); err != nil && o.Keep == nil {
			os.RemoveAll(dir)
		}
	}
	if err != nil {
		return fmt.Errorf("the job's directory: %w", err)
	}
	return nil
}

// Caller returns the host that called this one by ssh, as this host knows it.
func Caller(otherwise string) string {
	if from, _, ok := strings.Cut(os.Getenv("SSH_CONNECTION"), " "); ok {
		return from
	}
	return otherwise
}

func (a *agent) obey(c command) {
	switch {
	case c.Fence != nil:
		a.fence(*c.Fence)
	case c.Signal == 0:
	case c.Rank != nil:
		a.crew.signalOne(*c.Rank, c.Signal)
	default:
		a.crew.signal(c.Signal)
	}
}

// fence kills a process if the order proves that it may be killed.
func (a *agent) fence(f control.Fence) {
	if !slices.Contains(a.crew.alive(), f.Rank) {
		return // it is dead, or not of this host
	}
	err := f.Check(a.place.Dir)
	if life := a.place.Incarnation; f.Incarnation != life {
		err = fmt.Errorf("incarnation %d runs here, not %d", life, f.Incarnation)
	}
	if err != nil {
		_ = a.to.say(notice{Type: noticeSpared, Rank: f.Rank, Text: fmt.Sprintf("the agent of its host refuses: %v", err)}) // the launcher may be gone
		return
	}
	a.crew.signalOne(f.Rank, syscall.SIGKILL)
}
