package launch

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/coppice-go/coppice/internal/spool"
)

// Attachment follows a job on other hosts that has outlived its launcher. It restores broken connections.
type Attachment struct {
	Job        string
	Hosts      []spool.Host
	SSH, Agent []string         // the commands that call hosts
	From       map[string]int64 // by host: a position in its spool
	// Emit receives the output, from one goroutine at a time; nil: the output is not needed.
	Emit   func(host string, stream int, data []byte, next int64) error
	Notice func(line string) // reports to the user

	Patience time.Duration // how long to wait for hosts that do not answer, when all others have ended; 0: 30 s

	emitting sync.Mutex // held while Emit works, which may take its time

	mu      sync.Mutex
	calls   map[string]*agentCall // open calls, by host
	signals []syscall.Signal      // signals that were forwarded
	missing map[string]string     // hosts that do not answer, and why
	ended   map[string]hostEnd
	changed chan struct{} // of capacity one: something above has changed
}

// hostEnd is how the processes of a host ended.
type hostEnd struct {
	result   *spool.Result
	report   hostReport
	finished bool   // a process knew of the job's end
	gone     string // otherwise: why that is unknown
}

// retryTime is how long after a failed call a host is called again.
const retryTime = time.Second

// errUnsure is returned if it is unknown how a job ended.
var errUnsure = errors.New("the job may go on there; call again later")

// Follow follows the job to its end.
func (a *Attachment) Follow(parent context.Context) (*spool.Result, error) {
	ctx, stop := context.WithCancelCause(parent)
	a.calls, a.missing, a.ended, a.changed = map[string]*agentCall{}, map[string]string{}, map[string]hostEnd{}, make(chan struct{}, 1)
	var followers sync.WaitGroup
	defer followers.Wait()
	defer stop(nil)
	for _, h := range a.Hosts {
		followers.Go(func() {
			if err := a.followHost(ctx, h.Name); err != nil {
				stop(err)
			}
		})
	}
	var late <-chan time.Time // when to give up on hosts that do not answer; nil: others answer, and have not ended
	var since time.Time       // since when they do not answer
	for {
		select {
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		case <-late:
			result, err := a.conclude()
			if !errors.Is(err, errUnsure) || time.Since(since) > unsureMax {
				return result, err
			}
			late = time.After(patienceMin)
		case <-a.changed:
			open, patience := a.rest()
			switch {
			case open == 0:
				return a.conclude()
			case patience == 0:
				late = nil
			case late == nil:
				late, since = time.After(patience), time.Now()
			}
		}
	}
}

// unsureMax is how long hosts that do not answer are called, if they are needed to know how the job ended.
const unsureMax = 10 * time.Minute

// finishedPatience is how long hosts that do not answer are called, if it is known without them how the job ended.
const finishedPatience = 10 * time.Second

// rest returns on how many hosts the job has not ended, as far as is known, and how long to wait for them; 0: some of them
// answer.
func (a *Attachment) rest() (open int, patience time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	open = len(a.Hosts) - len(a.ended)
	if len(a.missing) < open {
		return open, 0
	}
	patience = patienceMin
	for _, end := range a.ended {
		if end.finished {
			patience = finishedPatience
		}
	}
	return open, cmp.Or(a.Patience, patience)
}

// followHost follows the processes of one host to their end. It returns only errors of Emit.
func (a *Attachment) followHost(ctx context.Context, host string) error {
	from := a.From[host]
	for {
		var failed error
		end, err := a.callHost(ctx, host, func(n notice) {
			if a.Emit == nil || failed != nil {
				return
			}
			a.emitting.Lock()
			defer a.emitting.Unlock()
			if failed = a.Emit(host, n.Stream, n.Data, n.At); failed == nil {
				from = n.At
			}
		}, &from)
		switch {
		case failed != nil:
			return failed
		case ctx.Err() != nil:
			return nil
		case err == nil:
			a.note(func() { a.ended[host] = *end })
			return nil
		}
		a.note(func() {
			if a.missing[host] == "" && a.Notice != nil {
				a.Notice(fmt.Sprintf("%s; trying again", oneLine(err.Error())))
			}
			a.missing[host] = err.Error()
		})
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(retryTime):
		}
	}
}

// note changes what is known.
func (a *Attachment) note(change func()) {
	a.mu.Lock()
	change()
	a.mu.Unlock()
	offer(a.changed, struct{}{})
}

// callHost calls a host and reads its notices to the end.
func (a *Attachment) callHost(ctx context.Context, host string, emit func(notice), from *int64) (*hostEnd, error) {
	c, err := callAgent(a.SSH, a.Agent, host)
	if err != nil {
		return nil, err
	}
	defer c.hangUp()
	orders := &followOrders{Job: a.Job, Host: host, From: *from, Wait: a.Emit == nil}
	if err := c.begin(ctx, patienceMin/3, agentOrders{Follow: orders}); err != nil {
		return nil, err
	}
	a.note(func() {
		a.calls[host] = c
		for _, s := range a.signals {
			_ = c.say.say(command{Signal: s}) // it may be lost: then the host is called again
		}
	})
	defer a.note(func() { delete(a.calls, host) })
	go c.beat(patienceMin / 6)
	for answered := false; ; answered = true {
		n, err := c.next(ctx, patienceMin/2)
		if err != nil {
			return nil, err
		}
		if !answered {
			a.note(func() { delete(a.missing, host) })
		}
		switch n.Type {
		case noticeSpool:
			emit(n)
		case noticeResult:
			end := &hostEnd{result: n.Result}
			if n.Result == nil || json.Unmarshal(n.Result.Report, &end.report) != nil {
				return nil, fmt.Errorf("host %s has a result that is none", host)
			}
			end.finished = len(end.report.Ended) > 0
			return end, nil
		case noticeGone:
			return &hostEnd{gone: n.Text}, nil
		}
	}
}

// Signal forwards a signal to all hosts, including those that answer later. If none answers now, it does nothing and
// returns false.
func (a *Attachment) Signal(s syscall.Signal) (heard bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.calls) == 0 {
		return false
	}
	a.signals = append(a.signals, s)
	for _, c := range a.calls {
		_ = c.say.say(command{Signal: s}) // it may be lost: then the host is called again
	}
	return true
}

// conclude returns how the job ended, according to the reports of the hosts.
func (a *Attachment) conclude() (*spool.Result, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	var r Report
	all, lost, finished := 0, 0, false
	var silent []string
	for _, h := range a.Hosts {
		all += len(h.Ranks)
		end, ok := a.ended[h.Name]
		if ok && end.result != nil {
			r.add(end)
			finished = finished || end.finished
			continue
		}
		why := fmt.Sprintf("host %s: %s", h.Name, end.gone)
		if !ok {
			why = cmp.Or(a.missing[h.Name], "host "+h.Name+" does not answer")
			silent, lost = append(silent, oneLine(why)), lost+len(h.Ranks)
		}
		for _, rank := range h.Ranks {
			r.Tasks = append(r.Tasks, TaskReport{Rank: rank, Host: h.Name, Why: why})
		}
	}
	if !finished && 2*lost >= all { // the silent hosts may have a majority
		return nil, fmt.Errorf("%s: %w", strings.Join(silent, "; "), errUnsure)
	}
	slices.SortFunc(r.Tasks, func(a, b TaskReport) int { return cmp.Compare(a.Rank, b.Rank) })
	slices.Sort(r.late)
	r.settle()
	text, err := json.Marshal(r)
	return &spool.Result{Exit: r.Exit, Signal: r.received, Started: true, Error: r.Cause, Report: text}, err
}

// add adds the results of the processes of a host.
func (r *Report) add(end hostEnd) {
	for _, t := range end.report.Tasks {
		t.left = slices.Contains(end.report.Ended, t.Rank)
		t.ended = time.Unix(0, 0).Add(time.Duration(t.Seconds * float64(time.Second))) // hosts began at about the same time
		r.Tasks = append(r.Tasks, t)
	}
	r.Seconds = max(r.Seconds, end.report.Seconds)
	if end.report.Timeout {
		r.Timeout, r.timeout, r.late = true, end.report.After, append(r.late, end.report.Late...)
	}
	if end.result.Signal != 0 {
		r.interrupt(end.result.Signal)
	}
}

// Remove removes what the hosts keep of the job, once it has ended. It reports hosts that do not answer.
func (a *Attachment) Remove(ctx context.Context) error {
	return forEach(a.Hosts, func(i int) error {
		host := a.Hosts[i].Name
		c, err := callAgent(a.SSH, a.Agent, host)
		if err != nil {
			return err
		}
		defer c.hangUp()
		err = c.begin(ctx, patienceMin/3, agentOrders{Follow: &followOrders{Job: a.Job, Host: host, Remove: true}})
		var n notice
		if err == nil {
			n, err = c.next(ctx, patienceMin/3)
		}
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			a.Notice(fmt.Sprintf("%s: what it keeps of the job is removed there by a later one", oneLine(err.Error())))
		case n.Type == noticeRefused:
			return c.refused(n)
		}
		return nil
	})
}
