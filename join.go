package coppice

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"net"
	"net/netip"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/internal/detect"
	"github.com/coppice-go/coppice/internal/node"
	"github.com/coppice-go/coppice/internal/posix"
	"github.com/coppice-go/coppice/internal/store"
	"github.com/coppice-go/coppice/internal/transport"
	"github.com/coppice-go/coppice/internal/wire"
	"github.com/coppice-go/coppice/protocol/collective"
	"github.com/coppice-go/coppice/protocol/membership"
)

// runJoined runs the tasks of one process of a job.
func (j *Job) runJoined(ctx context.Context, cfg node.Config, f Func) error {
	place, err := control.FromEnvironment(os.Getenv)
	if err != nil {
		return fmt.Errorf("coppice: %w", err)
	}
	if place.How == control.AloneHow {
		return j.runLocal(ctx, 1, cfg, f, newArchive(store.Run{Resume: j.Resume, Restarted: place.Restarted}))
	}
	if !joined.CompareAndSwap(false, true) {
		return errors.New("coppice: this process takes part in its job already; allowed: one Run at a time")
	}
	defer joined.Store(false)
	place.Silence, place.HostID = cmp.Or(place.Silence, cfg.Silence), transport.HostID()
	at, _, err := transport.ListenPlace(os.Getenv, place.Spread())
	if err != nil {
		return fmt.Errorf("coppice: %w", err)
	}
	place.Net = at.Net
	var server *control.Server
	if place.Host {
		if server, place, err = control.Host(place, control.ServerConfig{Silence: cfg.Silence, Logger: cfg.Logger}); err != nil {
			return fmt.Errorf("coppice: %w", err)
		}
	}
	if server != nil {
		defer server.Close()
	}
	ctx, cancel := context.WithCancelCause(ctx)
	cfg.Ends = ctx.Done()
	defer cancel(nil)
	m := &mediator{cancel: cancel, finished: make(chan struct{}), ending: ending{last: math.MaxUint64}, size: place.Size, orphan: place.How == control.RunHow}
	client, welcome, err := control.Join(ctx, place, m, cfg.Logger)
	switch {
	case err != nil && terminated.Load() && ctx.Err() != nil:
		return errTerminated
	case err != nil:
		return fmt.Errorf("coppice: %w", err)
	}
	defer client.Close()
	if server != nil {
		client.Serves(server)
	}
	cfg.Unwatched = place.How != control.RunHow
	cfg.Arbiter = client.Arbiter()
	cfg.Tasks = cmp.Or(cfg.Tasks, welcome.Size)
	settings := *j
	asked, err := settings.overrule(&cfg, welcome.Settings) // to resume: the launcher tells what came of that
	if err != nil {
		client.Emit(control.Event{Type: control.EventRefused, Attrs: map[string]any{"why": err.Error()}})
		select { // the launcher says it, and ends all processes
		case <-m.finished:
		case <-ctx.Done():
		case <-time.After(refusedTime):
		}
		return fmt.Errorf("coppice: %w", err)
	}
	if cfg.Network == collective.OverSockets && welcome.LocalSize < welcome.Size { // each process is told the same
		cfg.Network = collective.AcrossHosts
		if each := welcome.LocalSize; each > 0 && welcome.Size%each == 0 { // most likely
			cfg.Hosts = slices.Repeat([]int{each}, welcome.Size/each)
		}
	}
	files := &archive{
		run:     store.Run{ID: welcome.Place.Job, Resume: j.Resume || asked, Restarted: place.Restarted},
		takesUp: func() { client.Emit(control.Event{Type: control.EventTaken}) },
	}
	c := newCrew(ctx, cfg.Logger, f, files, settings.Rehearse)
	c.job = newJob()
	cfg.Where = where(c.job)
	if j.Recovery == Replay {
		cfg.Adopt = func(_, task, attempt int) { c.start(task, attempt) }
		// By hand, or by Kubernetes, a process may be started again, without any notice.
		// One that is to end hands its tasks over; so does one of srun.
		cfg.Moves = cfg.Moves || welcome.Grow > 0 || place.How == control.ManualHow || place.How == control.SrunHow
	}
	p, err := newJoined(cfg, host{client}, welcome, client.Page())
	if err != nil {
		return fmt.Errorf("coppice: %w", err)
	}
	m.connect(p)
	departs := &departure{p: p, client: client, finished: m.finished, log: cfg.Logger, jointly: place.How == control.SrunHow}
	departs.grace, _ = grace(os.Getenv(graceVariable)) // it was checked
	// Otherwise it has a launcher, or belongs to a detached job, whose keeper ends all.
	if place.Settings == nil && (place.How == control.ManualHow || place.How == control.SrunHow && j.Recovery == Replay) {
		leaves.Store(departs)
		defer leaves.Store(nil)
		if terminated.Load() { // no task has begun
			departs.leave("terminated")
		}
	}
	client.Keep(p.Endpoint().Keep)
	client.Follow(meshOf(p))
	go func() {
		<-p.Out()
		if view := client.Sure(); view > 0 { // who is missing has left
			m.Finished(view, "")
			return
		}
		if departs.begun.Load() { // that is its own doing, or it leaves as well
			return
		}
		cancel(failed("run", p.Sight().View.Number, &node.Failure{Err: p.Ended()}))
	}()
	var addresses []string
	for _, a := range p.Endpoint().Addresses() {
		addresses = append(addresses, a.String())
	}
	if name := os.Getenv(detectVariable); name != "" {
		d, err := startDetector(name, p, welcome)
		if err != nil {
			return errors.Join(fmt.Errorf("coppice: %s: %w", detectVariable, err), p.Close())
		}
		defer d.Close()
		m.detect(d)
		addresses = append(addresses, detectKind+d.Address())
	}
	client.Announce(addresses, transport.HostID())
	c.serve(p, m.finished,
		func(v *membership.View, err error) {
			err = misused(p, err, p.Settle(ctx))
			if runs, stopped := c.spare.counts(); runs > 0 {
				client.Emit(control.Event{Type: control.EventRehearsed, Attrs: map[string]any{"runs": runs, "stopped": stopped}})
			}
			tasks, why := p.Missing()
			for i, task := range tasks {
				client.Emit(control.Event{Type: control.EventLost, Attrs: map[string]any{"task": task, "why": why[i]}})
			}
			if !departs.left.Load() { // then what its tasks return is its own doing
				client.Returned(v.Number, text(err), j.Recovery == Report)
			}
		},
		func(v *membership.View) { client.Resumed(v.Number) })
	if departs.begun.Load() { // it exits, unless the job ends before, or is interrupted
		select {
		case <-m.finished:
		case <-ctx.Done():
		}
	}
	last := m.end().last // others may have been taken for dead that had ended, and their tasks run again
	err = c.err(last)
	if out := p.Ended(); err == nil && out != nil && out != errOver && client.Sure() == 0 { // nobody waits for this process, nor is it of use to anybody
		err = failed("run", p.Sight().View.Number, &node.Failure{Err: out})
	}
	if err = misused(p, err, p.Misuse()); err == nil && (j.Recovery == Report || p.Sight().View.Number <= last) {
		err = incomplete(p)
	}
	if e := m.end(); err == nil && e.over && e.err == nil && !e.ill {
		if v := p.Sight().View; !asked && int(v.Owners[0]) == welcome.Place.Rank { // one tells
			files.tellNothing(cfg.Logger)
		}
		err = files.finish()
	}
	return errors.Join(err, m.end().err, p.Close())
}

// refusedTime is how long the launcher has to end a process that cannot do what it wants.
const refusedTime = 10 * time.Second

// joined tells that this process takes part in a job.
var joined atomic.Bool

// newJoined makes the process that a welcome describes.
func newJoined(cfg node.Config, h host, w control.Welcome, page *detect.Page) (*node.Process, error) {
	place := w.Place
	cfg.Rank, cfg.Size, cfg.Grow, cfg.Joins = place.Rank, w.Size, w.Grow, w.Joins
	cfg.Host, cfg.HostName = h, transport.HostID()
	cfg.Silence = w.Silence
	cfg.Logger = cfg.Logger.With("process", place.Rank)
	here := place.LocalSize // processes of this host
	if here == 0 {
		here = w.LocalSize
	}
	if here <= runtime.NumCPU() {
		cfg.Spin = true
	} else { // many to a processor: look for work left alone less often
		cfg.Pause = min(time.Duration(here/runtime.NumCPU())*time.Millisecond, 16*time.Millisecond)
	}
	places, err := listenAt(place)
	if err != nil {
		return nil, err
	}
	shares := 0
	if transport.Shares(os.Getenv) {
		shares = here
	}
	return node.New(cfg, node.Socket{
		Shares: shares,
		Job:    place.Job, Key: place.Key, Incarnation: place.Incarnation, Places: places,
		Page: page, Datagrams: place.Spread(), Visit: h.Visit, Visited: h.Visited,
	})
}

// meshOf is how a client follows the coordinator.
func meshOf(p *node.Process) *control.Mesh {
	return &control.Mesh{
		Sight:       func() *control.View { return reported(p.Sight().View) },
		Coordinator: p.Coordinator,
	}
}

// Visit implements control.Visitor, from before there is a process.
func (m *mediator) Visit(ctx context.Context, self control.Place, peer control.Peer, me wire.Identity) (net.Conn, wire.Identity, error) {
	a, err := transport.Choose(transport.HostID(), peer.Host, parsed(peer.Addresses))
	if err != nil {
		return nil, wire.Identity{}, err
	}
	m.mu.Lock()
	p := m.p
	m.mu.Unlock()
	if p != nil {
		return p.Endpoint().Visit(ctx, a, me)
	}
	e, err := transport.Listen(transport.Config{
		Key: self.Key, Self: wire.Identity{Job: self.Job, From: uint32(self.Rank), Incarnation: self.Incarnation},
		Decide:      func(wire.Identity) (me wire.Identity, verdict wire.Refusal) { return me, wire.NotMe },
		Established: func(*transport.Conn) {},
	})
	if err != nil {
		return nil, wire.Identity{}, err
	}
	defer e.Close()
	return e.Visit(ctx, a, me)
}

// detectVariable names a detector of silence that the program imports, such as
// swim; it must be the same for all processes of a job.
const detectVariable = "COPPICE_DETECT"

// detectKind stands before the address of a detector among those of a process.
const detectKind = "detect:"

// startDetector starts the detector of a process, at the address where other hosts
// reach it. Whom it suspects, the process doubts.
func startDetector(name string, p *node.Process, w control.Welcome) (detect.Detector, error) {
	start, err := detect.Registered(name)
	if err != nil {
		return nil, err
	}
	bind := netip.MustParseAddr("127.0.0.1") // all on one host
	for _, a := range p.Endpoint().Addresses() {
		if a.Host.IsValid() {
			bind = a.Host.Addr()
			break
		}
	}
	return start(detect.Outside{
		Rank: w.Place.Rank, Incarnation: w.Place.Incarnation, Key: w.Place.Key,
		Bind: netip.AddrPortFrom(bind, 0).String(), Silence: w.Silence, Logger: p.Logger(),
		Suspect: func(rank int, _ uint64, _ string) { p.Doubt(rank) },
		Alive:   func(int, uint64) {},
	})
}

// listenAt is where a process listens: for its own host on a Unix socket, and
// for others, if there are any, on one port.
func listenAt(place control.Place) ([]transport.Place, error) {
	at := []transport.Place{{Kind: transport.Unix, Path: filepath.Join(place.Dir, strconv.Itoa(place.Rank)+".sock")}}
	p, listens, err := transport.ListenPlace(os.Getenv, place.Spread())
	if listens {
		at = append(at, p)
	}
	return at, err
}

// host is what the runtime asks of the coordinator and of the machine it is on.
type host struct{ *control.Client }

func (host) Will(dir string, rank int, incarnation uint64) ([]byte, error) {
	if dir == "" {
		return nil, errors.New("it is not known where it keeps its record")
	}
	return control.ReadRecord(dir, rank, incarnation)
}

// reported is a view as the coordinator is told of it.
func reported(v *membership.View) *control.View {
	owners := make([]int, len(v.Owners))
	for t, id := range v.Owners {
		owners[t] = int(id)
	}
	return &control.View{Number: v.Number, Members: identities(v.Members), Owners: owners, Since: v.Since, Gone: identities(v.Gone)}
}

func identities(members []membership.Member) []control.Identity {
	all := make([]control.Identity, len(members))
	for i, m := range members {
		all[i] = control.Identity{uint64(m.ID), uint64(m.Incarnation)}
	}
	return all
}

func (h host) Opened(v *membership.View) {
	w := reported(v)
	h.Emit(control.Event{Type: control.EventView, Attrs: map[string]any{
		"number": w.Number, "members": w.Members, "owners": w.Owners, "since": w.Since, "opened": true,
	}})
}

func (h host) Epoch(number uint64) {
	h.Emit(control.Event{Type: control.EventEpoch, Attrs: map[string]any{"number": number}})
}

// mediator hands what the coordinator says to the process, from when there is
// one.
type mediator struct {
	cancel   context.CancelCauseFunc
	finished chan struct{}
	size     int  // of the job when it began
	orphan   bool // an orphan must not live on

	mu    sync.Mutex
	p     *node.Process
	meet  func(address string) // the detector's; nil: there is none
	met   []string             // before there was one
	early []func(*node.Process)
	ending
}

// ending is how the job has come to its end, as far as this process has heard.
type ending struct {
	over bool
	last uint64 // the view in which it did: what this process did in a later one does not count
	ill  bool   // tasks of another process have failed
	err  error
}

// end is what is known now.
func (m *mediator) end() ending {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ending
}

// connect makes p the process.
func (m *mediator) connect(p *node.Process) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.early {
		f(p)
	}
	m.p, m.early = p, nil
}

// detect makes d the detector.
func (m *mediator) detect(d detect.Detector) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, address := range m.met {
		d.Meet(address)
	}
	m.meet, m.met = d.Meet, nil
}

// recordsOf is where a process of this host keeps its record: where it listens.
func recordsOf(peer control.Peer) string {
	for _, a := range parsed(peer.Addresses) {
		if a.Kind == transport.Unix && peer.Host == transport.HostID() {
			return filepath.Dir(a.Path)
		}
	}
	return ""
}

// parsed are the addresses that this program understands.
func parsed(texts []string) (of []transport.Address) {
	for _, text := range texts {
		if a, err := transport.ParseAddress(text); err == nil {
			of = append(of, a)
		}
	}
	return of
}

// introduce names the detectors of others.
func (m *mediator) introduce(peers []control.Peer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, peer := range peers {
		for _, text := range peer.Addresses {
			switch address, is := strings.CutPrefix(text, detectKind); {
			case !is:
			case m.meet == nil:
				m.met = append(m.met, address)
			default:
				m.meet(address)
			}
		}
	}
}

func (m *mediator) tell(f func(*node.Process)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.p == nil {
		m.early = append(m.early, f)
		return
	}
	f(m.p)
}

// Peers implements control.Handler.
func (m *mediator) Peers(peers []control.Peer) {
	m.introduce(peers)
	found := make([]node.Address, 0, len(peers))
	for _, peer := range peers {
		a, err := transport.Choose(transport.HostID(), peer.Host, parsed(peer.Addresses))
		switch {
		case err == nil:
			found = append(found, node.Address{Rank: peer.Rank, Incarnation: peer.Incarnation, At: a, Host: peer.Host, Records: recordsOf(peer)})
		case peer.Rank < m.size:
			m.cancel(fmt.Errorf("process %d: %w; set %s there, such as %s:10.0.0.0/8:0", peer.Rank, err, transport.ListenVariable, transport.TLS))
		default: // without one that joins the job goes on
			m.tell(func(p *node.Process) { p.Logger().Error("no way to a peer", "peer", peer.Rank, "error", err) })
		}
	}
	m.tell(func(p *node.Process) { p.Peers(found...) })
}

// Died implements control.Handler.
func (m *mediator) Died(d control.Death) {
	m.tell(func(p *node.Process) {
		p.Tell(node.Death{Rank: d.Rank, Incarnation: d.Incarnation, Certain: d.Certain, How: d.How, Record: d.Record})
	})
}

// HeardOf implements control.Handler.
func (m *mediator) HeardOf(rank int, hears bool, silent time.Duration) {
	m.tell(func(p *node.Process) { p.HeardOf(rank, hears, silent) })
}

// Alive implements control.Handler.
func (m *mediator) Alive(rank int) {
	m.tell(func(p *node.Process) { p.Alive(rank) })
}

// PeersReturned implements control.Handler.
func (m *mediator) PeersReturned(ranks []int, incarnation uint64, failure string) {
	m.mu.Lock()
	m.ill = m.ill || failure != ""
	m.mu.Unlock()
	m.tell(func(p *node.Process) { p.PeersReturned(ranks, incarnation, failure) })
}

// AllKnow implements control.Handler.
func (m *mediator) AllKnow() { m.tell((*node.Process).Over) }

// Finished implements control.Handler.
func (m *mediator) Finished(view uint64, why string) {
	if why != "" {
		m.finish(fmt.Errorf("%w: %s", ErrAbandoned, why))
		return
	}
	m.mu.Lock()
	m.last = cmp.Or(view, m.last)
	m.mu.Unlock()
	m.finish(nil)
}

// Stop implements control.Handler.
func (m *mediator) Stop(reason string) { m.cancel(fmt.Errorf("%w: %s", ErrAbandoned, reason)) }

// orphanTime is how long an orphan has to come to its end by itself.
const orphanTime = time.Second

// Lost implements control.Handler.
func (m *mediator) Lost(err error) {
	if errors.Is(err, wire.Excluded) { // it learns of the view that went on without it from the coordinator first
		err = fmt.Errorf("%w: %w", ErrExcluded, err)
	} else {
		err = fmt.Errorf("%w: %w", ErrAbandoned, err)
	}
	if m.orphan { // who read our output is gone as well: to write must not end us before our time
		signal.Ignore(syscall.SIGPIPE)
	}
	m.tell(func(p *node.Process) {
		p.End(err)
		go m.bereave(err)
	})
}

// bereave ends the process, which has lost the coordinator.
func (m *mediator) bereave(err error) {
	m.cancel(err)
	m.finish(err)
	if m.orphan {
		time.AfterFunc(orphanTime, func() { _ = posix.Kill(os.Getpid(), syscall.SIGKILL) })
	}
}

func (m *mediator) finish(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.over {
		m.over, m.err = true, err
		close(m.finished)
	}
}
