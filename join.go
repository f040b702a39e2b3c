package coppice

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	goruntime "runtime"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/internal/runtime"
	"github.com/coppice-go/coppice/internal/transport"
)

// runJoined runs the tasks of one process of a job.
func runJoined(ctx context.Context, cfg runtime.Config, f Func) error {
	place, err := control.FromEnvironment(os.Getenv)
	if err != nil {
		return fmt.Errorf("coppice: %w", err)
	}
	if place.How == control.AloneHow {
		return runLocal(ctx, 1, cfg, f)
	}
	if place.Host {
		server, complete, err := control.Host(place, control.ServerConfig{Silence: cfg.Silence, Logger: cfg.Logger})
		if err != nil {
			return fmt.Errorf("coppice: %w", err)
		}
		defer server.Close()
		place = complete
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	m := &mediator{cancel: cancel, finished: make(chan struct{}), orphan: place.How == control.RunHow}
	client, welcome, err := control.Join(ctx, place, m, cfg.Logger)
	if err != nil {
		return fmt.Errorf("coppice: %w", err)
	}
	defer client.Close()
	if err := overrule(&cfg, welcome.Settings); err != nil {
		return fmt.Errorf("coppice: %w", err)
	}
	p, err := newJoined(cfg, client, welcome)
	if err != nil {
		return fmt.Errorf("coppice: %w", err)
	}
	m.connect(p)
	var addresses []string
	for _, a := range p.Addresses() {
		addresses = append(addresses, a.String())
	}
	client.Announce(addresses, transport.HostID())
	err = misused(runTasks(ctx, p, p.Logger(), f), p.Settle(ctx))
	client.Returned(text(err))
	<-m.finished
	return errors.Join(misused(err, p.Misuse()), m.lost(), p.Close())
}

// newJoined makes the process that a welcome describes.
func newJoined(cfg runtime.Config, client *control.Client, w control.Welcome) (*runtime.Process, error) {
	place := w.Place
	cfg.Rank, cfg.Size = place.Rank, w.Size
	cfg.Host = host{client}
	cfg.Silence = w.Silence
	cfg.Logger = cfg.Logger.With("process", place.Rank)
	here := place.LocalSize // processes of this host
	if here == 0 {
		here = w.LocalSize
	}
	if here <= goruntime.NumCPU() {
		cfg.Spin = true
	} else { // many to a processor: look for work left alone less often
		cfg.Pause = min(time.Duration(here/goruntime.NumCPU())*time.Millisecond, 16*time.Millisecond)
	}
	places, err := listenAt(place)
	if err != nil {
		return nil, err
	}
	return runtime.New(cfg, runtime.Socket{Job: place.Job, Key: place.Key, Incarnation: place.Incarnation, Places: places})
}

// listenVariable says where a process listens besides its Unix socket: such as
// tls:7000-7099 or tls:10.0.0.0/8:0.
const listenVariable = "COPPICE_LISTEN"

// listenAt is where a process listens: for its own host on a Unix socket, and
// for others, if there are any, on one port.
func listenAt(place control.Place) ([]transport.Place, error) {
	at := []transport.Place{{Kind: transport.Unix, Path: filepath.Join(place.Dir, strconv.Itoa(place.Rank)+".sock")}}
	given, forced := os.Getenv(listenVariable), os.Getenv(transport.ChooseVariable)
	switch {
	case forced != "" && forced != transport.Unix && forced != transport.TCP && forced != transport.TLS:
		return nil, fmt.Errorf("%s=%q; allowed: %s, %s, %s", transport.ChooseVariable, forced, transport.Unix, transport.TCP, transport.TLS)
	case given != "":
		p, err := transport.ParsePlace(given)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", listenVariable, err)
		}
		return append(at, p), nil
	case forced == transport.TCP || forced == transport.TLS:
		return append(at, transport.Place{Kind: forced}), nil
	case place.LocalSize < place.Size:
		return append(at, transport.Place{Kind: transport.TLS}), nil
	default:
		return at, nil
	}
}

// host is what the runtime asks of the coordinator.
type host struct{ client *control.Client }

func (h host) Ask(rank int) { h.client.Ask(rank) }

func (h host) Suspect(rank int, incarnation uint64, why string) {
	h.client.Suspect(rank, incarnation, why)
}

// mediator hands what the coordinator says to the process, from when there is
// one.
type mediator struct {
	cancel   context.CancelCauseFunc
	finished chan struct{}
	orphan   bool // an orphan must not live on

	mu    sync.Mutex
	p     *runtime.Process
	early []func(*runtime.Process)
	err   error
	over  bool
}

// connect makes p the process.
func (m *mediator) connect(p *runtime.Process) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, f := range m.early {
		f(p)
	}
	m.p, m.early = p, nil
}

func (m *mediator) tell(f func(*runtime.Process)) {
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
	m.tell(func(p *runtime.Process) {
		for _, peer := range peers {
			var of []transport.Address
			for _, text := range peer.Addresses {
				if a, err := transport.ParseAddress(text); err == nil {
					of = append(of, a)
				}
			}
			a, err := transport.Choose(transport.HostID(), peer.Host, of)
			if err != nil {
				p.Logger().Error("no way to a peer", "peer", peer.Rank, "error", err)
				continue
			}
			p.Peers(runtime.Address{Rank: peer.Rank, Incarnation: peer.Incarnation, At: a})
		}
	})
}

// Died implements control.Handler.
func (m *mediator) Died(d control.Death) {
	m.tell(func(p *runtime.Process) { p.Died(d.Rank, d.Certain, d.How) })
}

// PeerReturned implements control.Handler.
func (m *mediator) PeerReturned(rank int, failure string) {
	m.tell(func(p *runtime.Process) { p.PeerReturned(rank, failure) })
}

// Finished implements control.Handler.
func (m *mediator) Finished() { m.finish(nil) }

// Stop implements control.Handler.
func (m *mediator) Stop(reason string) { m.cancel(fmt.Errorf("%w: %s", ErrAbandoned, reason)) }

// orphanTime is how long an orphan has to come to its end by itself.
const orphanTime = time.Second

// Lost implements control.Handler.
func (m *mediator) Lost(err error) {
	err = fmt.Errorf("%w: %w", ErrAbandoned, err)
	if m.orphan { // who read our output is gone as well: to write must not end us before our time
		signal.Ignore(syscall.SIGPIPE)
	}
	m.cancel(err)
	m.tell(func(p *runtime.Process) { p.End(err) })
	m.finish(err)
	if m.orphan {
		time.AfterFunc(orphanTime, func() { _ = syscall.Kill(os.Getpid(), syscall.SIGKILL) })
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

func (m *mediator) lost() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err
}
