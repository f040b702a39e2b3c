package doctor

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/coppice-go/coppice/internal/launch"
	"github.com/coppice-go/coppice/internal/transport"
	"github.com/coppice-go/coppice/internal/wire"
)

// Config is what to examine.
type Config struct {
	Hosts   []launch.Host // nil: only this host
	SSH     []string      // the command that runs a command on another host: SSH… HOST Command…; required with Hosts
	Command []string      // runs Serve on another host
	Self    []string      // runs Serve on this host
	Slots   int           // processes that this host runs, if there are no others
	Listen  transport.Place
	Env     []string // K=V, for all hosts
	Program string   // the program of the job; "": it is not checked
	Version string   // of this command
}

// Report is what was found.
type Report struct {
	Exit     int       `json:"exit"` // 0: a job can run
	Findings []Finding `json:"findings"`
	Seconds  float64   `json:"seconds"`
}

// here is the name of this host in findings.
const here = "this host"

// patient is a host that is examined.
type patient struct {
	name      string
	words     []string // the command that talks to it
	orders    orders
	session   *session // nil: it cannot be examined any more
	facts     facts
	reachable bool          // it listens, and could be examined so far
	took      time.Duration // to call it
	ahead     time.Duration // how far its clock is ahead of ours
	within    time.Duration // the uncertainty of ahead, in either direction
	reached   []reached
	heard     []uint32
}

// examination is one run.
type examination struct {
	Config
	all    []*patient // this host first
	report Report
	mu     sync.Mutex // guards report
}

// Examine calls all hosts and reports what it finds.
func Examine(ctx context.Context, c Config) *Report {
	e := &examination{Config: c}
	began := time.Now()
	e.prepare()
	defer func() {
		for _, p := range e.all {
			if p.session != nil {
				p.session.close()
			}
		}
	}()
	for _, step := range []func(context.Context, *patient){e.call, e.examine, e.compareClocks} {
		e.each(ctx, step)
	}
	for _, p := range e.all { // from here on a host may be lost while others look for whom to connect to
		p.reachable = p.session != nil && p.facts.Addresses != nil
	}
	e.each(ctx, e.connect)
	e.each(ctx, e.listen)
	e.judgeHosts()
	e.judgeWays()
	e.report.Seconds = time.Since(began).Seconds()
	return &e.report
}

// prepare writes the orders of all hosts.
func (e *examination) prepare() {
	key, job := make([]byte, 32), [16]byte{}
	_, _ = rand.Read(key) // it never fails
	_, _ = rand.Read(job[:])
	size := e.Slots
	if e.Hosts != nil {
		size = 0
		for _, h := range e.Hosts {
			size += h.Slots
		}
	}
	add := func(name string, words []string, slots int, env ...string) {
		e.all = append(e.all, &patient{name: name, words: words, orders: orders{
			Number: uint32(len(e.all)), Job: job, Key: key, Env: append(slices.Clip(e.Env), env...), Slots: slots, Size: size, Program: e.Program,
		}})
	}
	if e.Hosts == nil {
		add(here, e.Self, e.Slots)
		return
	}
	add(here, e.Self, 0, transport.ListenVariable+"="+e.Listen.ForLauncher().String())
	e.all[0].orders.Program = "" // the program runs on the other hosts
	for _, h := range e.Hosts {
		add(h.Name, slices.Concat(e.SSH, []string{h.Name}, e.Command), h.Slots)
	}
}

// each does a step for all hosts that can be examined, at once.
func (e *examination) each(ctx context.Context, step func(context.Context, *patient)) {
	var running sync.WaitGroup
	for _, p := range e.all {
		running.Go(func() { step(ctx, p) })
	}
	running.Wait()
}

// find adds a finding.
func (e *examination) find(state, check, where, text, advice string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if state == Fail {
		e.report.Exit = 1
	}
	text = strings.Join(strings.Fields(text), " ")
	e.report.Findings = append(e.report.Findings, Finding{State: state, Check: check, Where: where, Text: text, Advice: advice})
}

// lose ends the examination of a host.
func (e *examination) lose(p *patient, check string, err error, advice string) {
	if p.session != nil {
		p.session.kill()
		p.session.close()
		p.session = nil
	}
	e.find(Fail, check, p.name, err.Error(), advice)
}

func (e *examination) call(ctx context.Context, p *patient) {
	began := time.Now()
	var err error
	if p.session, err = call(p.words); err == nil {
		_, err = p.session.ask(ctx, CallTime, nil)
	}
	p.took = time.Since(began)
	if err == nil {
		return
	}
	command := strings.Join(p.words, " ")
	advice := fmt.Sprintf("see that this works without a password or a question: %s", command)
	switch {
	case errors.Is(err, errNoCommand):
		advice = "install coppice there, in the PATH that a command through ssh has"
	case strings.Contains(err.Error(), "unknown command"):
		advice = "install the same version of coppice there: " + e.Version
	}
	e.lose(p, "call", err, advice)
}

func (e *examination) examine(ctx context.Context, p *patient) {
	if p.session == nil {
		return
	}
	a, err := p.session.ask(ctx, StepTime, &request{Examine: &p.orders})
	if err == nil && a.Facts == nil {
		err = errors.New("it has examined nothing")
	}
	if err != nil {
		e.lose(p, "examine", err, "install the same version of coppice there: "+e.Version)
		return
	}
	p.facts = *a.Facts
}

// clockTries is how often a host is asked for the time. The fastest answer counts.
const clockTries = 5

// compareClocks asks for the time: the host took it in the middle of the round trip, or at most half of that earlier or later.
func (e *examination) compareClocks(ctx context.Context, p *patient) {
	ctx, cancel := context.WithTimeout(ctx, StepTime)
	defer cancel()
	for i := 0; i < clockTries && p.session != nil; i++ {
		began := time.Now()
		a, err := p.session.ask(ctx, StepTime, &request{})
		if err != nil {
			e.lose(p, "clock", err, "look at the connection with it")
			return
		}
		if half := time.Since(began) / 2; i == 0 || half < p.within {
			p.within, p.ahead = half, a.Time.Sub(began.Add(half))
		}
	}
}

// connect makes a host connect to all others.
func (e *examination) connect(ctx context.Context, p *patient) {
	if !p.reachable {
		return
	}
	var others []target
	for _, o := range e.all {
		if o == p || !o.reachable {
			continue
		}
		t := target{Number: o.orders.Number, Host: o.facts.Host, Addresses: o.facts.Addresses}
		if o.name == here && !e.Listen.ForLauncher().Net.IsValid() {
			name, _ := os.Hostname()
			t.Fallback = cmp.Or(name, "localhost")
		}
		others = append(others, t)
	}
	if others == nil {
		return
	}
	a, err := p.session.ask(ctx, 3*ConnectTime+StepTime, &request{Reach: others})
	if err != nil {
		e.lose(p, "connect", err, "look at the connection with it")
		return
	}
	p.reached = a.Reached
}

// listen asks a host from which hosts datagrams have arrived.
func (e *examination) listen(ctx context.Context, p *patient) {
	if p.session == nil || p.reached == nil {
		return
	}
	a, err := p.session.ask(ctx, StepTime, &request{Heard: true})
	if err != nil {
		e.lose(p, "datagrams", err, "look at the connection with it")
		return
	}
	p.heard = a.Heard
}

// clockOff is the offset from which on a clock is worth a note.
const clockOff = time.Second

// judgeHosts reports on each host by itself.
func (e *examination) judgeHosts() {
	first := "" // hash of the program
	for _, p := range e.all {
		f := p.facts
		if f.Version == "" {
			continue // it was reported that the host could not be called
		}
		if p.name != here {
			e.judgeVersion(p)
		}
		if p.name == here && e.Hosts != nil {
			e.judgeLauncher()
		}
		for _, finding := range f.Findings {
			e.find(finding.State, finding.Check, p.name, finding.Text, finding.Advice)
		}
		if p.name != here {
			e.judgeClock(p)
		}
		if f.Program != "" && first != "" && f.Program != first {
			e.find(Note, "program", p.name, "another program than on the hosts before it, by its content", "copy the same to all hosts: a job runs one program")
		}
		first = cmp.Or(first, f.Program)
	}
}

// judgeLauncher reports whether the launcher can run on this host.
func (e *examination) judgeLauncher() {
	if err := launch.CheckLauncher(e.Hosts); err != nil {
		e.find(Fail, "limits", here, err.Error(), raise)
		return
	}
	e.find(OK, "limits", here, fmt.Sprintf("open files are enough to launch %d processes on %d hosts", e.all[0].orders.Size, len(e.Hosts)), "")
}

func (e *examination) judgeVersion(p *patient) {
	e.find(OK, "call", p.name, fmt.Sprintf("answers after %.2f s", p.took.Seconds()), "")
	same := "install the same version of coppice on all hosts"
	switch f := p.facts; {
	case f.Agent != launch.AgentVersion() || f.Wire != wire.Version:
		e.find(Fail, "version", p.name, fmt.Sprintf("%s (%s, wire %d); here %s (%s, wire %d)", f.Version, f.Agent, f.Wire, e.Version, launch.AgentVersion(), wire.Version), same)
	case f.Version != e.Version:
		e.find(Note, "version", p.name, fmt.Sprintf("%s; here %s", f.Version, e.Version), same+", and programs that were built with it")
	default:
		e.find(OK, "version", p.name, f.Version, "")
	}
}

func (e *examination) judgeClock(p *patient) {
	word := "ahead"
	if p.ahead < 0 {
		word = "behind"
	}
	text := fmt.Sprintf("%.1f ms %s, ± %.1f ms; no decision of a job depends on it", 1e3*p.ahead.Abs().Seconds(), word, 1e3*p.within.Seconds())
	if p.ahead.Abs()-p.within > clockOff {
		e.find(Note, "clock", p.name, text, "times in logs and events of this host mislead: have it keep time (NTP)")
		return
	}
	e.find(OK, "clock", p.name, text, "")
}

// judgeWays reports on the connections between hosts.
func (e *examination) judgeWays() {
	well, ways, slowest := 0, 0, time.Duration(0)
	for _, p := range e.all {
		for _, r := range p.reached {
			ways++
			if r.How == reachedWell {
				well++
				slowest = max(slowest, r.Took)
				continue
			}
			e.judgeWay(p, e.all[r.To], r)
		}
	}
	if well > 0 {
		e.find(OK, "connect", "all hosts", fmt.Sprintf("%d of %d ways, the slowest in %.1f ms", well, ways, 1e3*slowest.Seconds()), "")
	}
	e.judgeDatagrams()
}

// judgeWay reports what is wrong where there was no connection.
func (e *examination) judgeWay(from, to *patient, r reached) {
	way := from.name + " → " + to.name
	state, needed := Fail, ""
	if from.name == here { // it calls others through ssh only
		state, needed = Note, "; coppice run --hosts does not need this way, a job with a process on this host does"
	}
	open := fmt.Sprintf("let %s connect to TCP port %s in the firewall of %s, or on the way; %s=tls:LOW-HIGH confines the ports", from.name, portOf(r.Address), to.name, transport.ListenVariable)
	text := fmt.Sprintf("%s is %s", r.Address, r.How)
	switch r.How {
	case blocked:
		text += fmt.Sprintf(": no answer within %v", ConnectTime)
		switch there, back := to.hears(from), from.hears(to); {
		case back && !there:
			text += fmt.Sprintf("; what %s sends to %s is lost, datagrams too, the other way they arrive", from.name, to.name)
		case there && !back:
			text += fmt.Sprintf("; what %s sends to %s is lost, datagrams too, this way they arrive", to.name, from.name)
			open = fmt.Sprintf("see what is lost on the way from %s to %s, where this way's answers go", to.name, from.name)
		}
	case refused:
		text += ": somebody says no"
		open += "; or the address is another machine's: choose the network by --interface"
	case strange:
		text += ": " + r.Text
		open = "the address leads to another program or host: choose the network by --interface"
	case unfinished:
		text = fmt.Sprintf("%s connects, but the handshake does not end: %s", r.Address, r.Text)
		open = "look for a proxy on the way, or for large packets that are lost (MTU)"
	default:
		text = cmp.Or(r.Address, "no address") + ": " + r.Text
		open = "see that the hosts have a route to each other; choose the network by --interface or " + transport.ListenVariable
	}
	e.find(state, "connect", way, text, open+needed)
}

func portOf(address string) string {
	_, port, _ := net.SplitHostPort(address)
	return port
}

// hears reports whether datagrams of another host have arrived.
func (p *patient) hears(other *patient) bool { return slices.Contains(p.heard, other.orders.Number) }

// judgeDatagrams reports where connections work and datagrams do not. The launcher's host needs none.
func (e *examination) judgeDatagrams() {
	for _, p := range e.all {
		for _, r := range p.reached {
			to := e.all[r.To]
			if p.name == here || to.name == here || r.How != reachedWell || to.hears(p) {
				continue
			}
			e.find(Note, "datagrams", p.name+" → "+to.name, fmt.Sprintf("none of %d to UDP port %s has arrived", datagrams, portOf(r.Address)),
				"let them through: without them signs of life go over the connections, and a busy one may delay them")
		}
	}
}
