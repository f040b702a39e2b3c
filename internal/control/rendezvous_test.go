//go:build unix

package control_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/control"
)

// board is a rendezvous in memory, which processes of this test register at.
type board struct {
	mu    sync.Mutex
	doors []control.Door
	ranks map[int]uint64
}

// entry is the registration of one process.
type entry struct {
	*board
	who  control.Registrant
	rank int
}

// enter registers a process and draws the lowest free rank.
func (b *board) enter(_ context.Context, who control.Registrant) (control.Rendezvous, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	e := &entry{b, who, who.Rank}
	for rank := 0; e.rank < 0; rank++ {
		if b.ranks[rank] == 0 {
			e.rank = rank
			b.ranks[rank] = who.Life
		}
	}
	b.doors = append(b.doors, control.Door{Address: who.Door, Host: who.Host})
	return e, nil
}

func (e *entry) Rank() int { return e.rank }

func (e *entry) Redraw(context.Context) (int, error) { return e.rank, nil }

func (e *entry) Doors() (all []control.Door) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, d := range e.doors {
		d.Own = d.Address == e.who.Door
		all = append(all, d)
	}
	return all
}

func (e *entry) Name(context.Context, [16]byte, uint64, control.Identity) (bool, error) {
	return false, errors.ErrUnsupported
}

func (e *entry) Close() {}

// TestPlacesOfARendezvous: ranks are drawn or given, and the name of the job is part of the key, the addresses of the service are not.
func TestPlacesOfARendezvous(t *testing.T) {
	b := &board{ranks: map[int]uint64{}}
	control.RegisterRendezvous("board", b.enter)
	const key = " COPPICE_KEY=0123456789abcdef"
	for vars, want := range map[string]string{
		"COPPICE_SIZE=4":                        "rank -1 of 4+16, local 0 of 1, by hand",
		"COPPICE_SIZE=40":                       "rank -1 of 40+40, local 0 of 1, by hand",
		"COPPICE_SIZE=4 COPPICE_GROW=2":         "rank -1 of 4+2, local 0 of 1, by hand",
		"COPPICE_SIZE=1 COPPICE_GROW=0":         "rank -1 of 1+0, local 0 of 1, by hand",
		"COPPICE_SIZE=4 COPPICE_RANK=3":         "rank 3 of 4+0, local 0 of 1, by hand",
		"COPPICE_SIZE=4 COPPICE_RANK=0":         "rank 0 of 4+0, local 0 of 1, by hand",
		"COPPICE_SIZE=4 JOB_COMPLETION_INDEX=2": "rank 2 of 4+0, local 0 of 1, by hand",
		"PMI_RANK=1 PMI_SIZE=2 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2 COPPICE_JOB=x": "rank 1 of 2+0, local 1 of 2, mpirun",
	} {
		p, err := find(split(vars + " COPPICE_RENDEZVOUS=board://a:1,b/job" + key))
		if err != nil {
			t.Errorf("%s: %v", vars, err)
			continue
		}
		got := fmt.Sprintf("rank %d of %d+%d, local %d of %d, %s", p.Rank, p.Size, p.Grow, p.LocalRank, p.LocalSize, p.How)
		if got != want || p.Host || !p.Spread() {
			t.Errorf("%s: %s, hosts %v, spread %v; want %s", vars, got, p.Host, p.Spread(), want)
		}
	}
	place := func(url string) control.Place {
		p, err := find(split("COPPICE_SIZE=2 COPPICE_RENDEZVOUS=" + url + key))
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	one, same, other := place("board://a:1,b/job"), place("board://b/job"), place("board://a:1,b/another")
	if one.Dir != same.Dir || !bytes.Equal(one.Key, same.Key) {
		t.Error("directory or key depend on the addresses")
	}
	if one.Dir == other.Dir || bytes.Equal(one.Key, other.Key) {
		t.Error("two jobs have the same directory or key")
	}
}

// TestRendezvousThatIsNotThere: a program that lacks the module says which.
func TestRendezvousThatIsNotThere(t *testing.T) {
	for scheme, want := range map[string]string{
		"etcd":  `COPPICE_RENDEZVOUS is set, but the program does not import github.com/coppice-go/coppice/etcd; add import _ "github.com/coppice-go/coppice/etcd" to it, or set COPPICE_COORDINATOR instead`,
		"etcds": "does not import github.com/coppice-go/coppice/etcd",
		"zk":    `COPPICE_RENDEZVOUS begins with "zk://"; allowed: `,
	} {
		_, err := find(split("COPPICE_SIZE=2 COPPICE_KEY=0123456789abcdef COPPICE_RENDEZVOUS=" + scheme + "://a:1/job"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", scheme, err)
		}
	}
}

// TestProcessesMeetAtDoors: processes of as many hosts find each other at the doors that are registered. The first that comes gathers the
// others; doors of processes that are gone hold nobody up for long.
func TestProcessesMeetAtDoors(t *testing.T) {
	const size = 3
	b := &board{ranks: map[int]uint64{}, doors: []control.Door{{Address: "127.0.0.1:1", Host: "gone"}}}
	control.RegisterRendezvous("board", b.enter)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var wg sync.WaitGroup
	var mu sync.Mutex
	ranks, jobs := map[int]bool{}, map[[16]byte]bool{}
	var clients []*control.Client
	for i := range size {
		vars := split(fmt.Sprintf("COPPICE_SIZE=%d COPPICE_KEY=0123456789abcdef COPPICE_RENDEZVOUS=board://127.0.0.1:1/%s", size, t.Name()))
		jobsDir, err := os.MkdirTemp("/tmp", "coppice-test") // short, for sockets
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(jobsDir) })
		vars["COPPICE_JOBS_DIR"] = jobsDir
		p, err := find(vars)
		if err != nil {
			t.Fatal(err)
		}
		p.HostID = fmt.Sprint("host ", i)
		wg.Go(func() {
			c, w, err := control.Join(ctx, p, newRecorder(), nil)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				t.Error(err)
				return
			}
			ranks[w.Place.Rank], jobs[w.Place.Job] = true, true
			clients = append(clients, c)
			if w.Size != size || w.Grow != 16 || w.Joins {
				t.Errorf("size %d, grows by %d, joins %v", w.Size, w.Grow, w.Joins)
			}
		})
	}
	began := time.Now()
	wg.Wait()
	if len(ranks) != size || len(jobs) != 1 {
		t.Errorf("%d ranks, %d jobs", len(ranks), len(jobs))
	}
	t.Logf("after %v", time.Since(began))
	for _, c := range clients {
		wg.Go(c.Close)
	}
	wg.Wait()
}
