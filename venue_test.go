package coppice_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/internal/node"
	"github.com/coppice-go/coppice/internal/transport"
)

// venue is where a program runs in this process: n processes of the library, in
// memory or joined by sockets, with any ownership of tasks.
type venue struct {
	kind  string
	n     int
	owner []int32 // nil: one task a process
}

const inMemory = "memory"

var venueKinds = []string{inMemory, transport.Unix, transport.TCP}

func (v venue) String() string {
	return fmt.Sprintf("%s, %d processes, owners %v", v.kind, v.n, v.owner)
}

// venues has one of every kind for p tasks: some with a process for each, some
// with an ownership drawn at random.
func venues(p int, rng *rand.Rand) (all []venue) {
	for _, kind := range venueKinds {
		v := venue{kind: kind, n: p}
		if rng.IntN(2) == 0 {
			v.n = 1 + rng.IntN(p)
			for range p {
				v.owner = append(v.owner, int32(rng.IntN(v.n)))
			}
		}
		all = append(all, v)
	}
	return all
}

// start makes the processes.
func (v venue) start(t testing.TB) (ps []*node.Process, closes func()) {
	t.Helper()
	cfg := node.Config{Owner: v.owner, Logger: slog.New(slog.DiscardHandler)}
	if v.kind == inMemory {
		l, err := node.NewLocal(v.n, cfg)
		if err != nil {
			t.Fatal(err)
		}
		return l.Processes, l.Close
	}
	dir, err := os.MkdirTemp("", "v")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Silence = 10 * time.Minute // a busy machine is not a silent peer
	var all []node.Address
	for r := range v.n {
		at := transport.Place{Kind: v.kind, Net: netip.MustParsePrefix("127.0.0.0/8")}
		if v.kind == transport.Unix {
			at = transport.Place{Kind: v.kind, Path: filepath.Join(dir, strconv.Itoa(r))}
		}
		cfg.Rank, cfg.Size = r, v.n
		p, err := node.New(cfg, node.Socket{Job: [16]byte{7}, Key: bytes.Repeat([]byte("k"), 32), Incarnation: 1, Places: []transport.Place{at}})
		if err != nil {
			t.Fatal(err)
		}
		ps = append(ps, p)
		all = append(all, node.Address{Rank: r, Incarnation: 1, At: p.Endpoint().Addresses()[0]})
	}
	for _, p := range ps {
		p.Peers(all...)
	}
	return ps, func() {
		var wg sync.WaitGroup
		for _, p := range ps {
			wg.Go(func() { _ = p.Close() })
		}
		wg.Wait()
		os.RemoveAll(dir)
	}
}

// run runs the program of every task.
func (v venue) run(t testing.TB, ctx context.Context, f coppice.Func) error {
	t.Helper()
	ps, closes := v.start(t)
	defer closes()
	log := slog.New(slog.DiscardHandler)
	var mu sync.Mutex
	var errs []error
	var all sync.WaitGroup
	for r, p := range ps {
		var own sync.WaitGroup
		failure := ""
		for _, rank := range p.Tasks() {
			own.Go(func() {
				err := f(ctx, coppice.NewTask(p.World(rank), log))
				text := ""
				if err != nil {
					err = fmt.Errorf("task %d: %w", rank, err)
					text = err.Error()
				}
				p.Returned(rank, text)
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
				if text != "" {
					failure = text
				}
			})
		}
		all.Go(func() {
			own.Wait()
			_ = p.Settle(ctx)
			for q := range ps {
				if q != r {
					ps[q].PeersReturned([]int{r}, 1, failure)
				}
			}
		})
	}
	all.Wait()
	return errors.Join(errs...)
}
