//go:build unix

package control_test

import (
	"fmt"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/control"
)

// BenchmarkMeet lets processes join until all know each other.
func BenchmarkMeet(b *testing.B) {
	for _, n := range []int{8, 32, 128} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				meet(b, n)
			}
		})
	}
}

// BenchmarkDeathNotice kills a process again and again and tells when the others,
// processes of their own, are told: the one of the lowest rank, and the last. How
// the process ended a launcher says at once, or when it comes to it.
func BenchmarkDeathNotice(b *testing.B) {
	for name, late := range map[string]time.Duration{"named at once": 0, "named late": 5 * time.Millisecond} {
		b.Run(name, func(b *testing.B) { noticeDeaths(b, late) })
	}
}

func noticeDeaths(b *testing.B, late time.Duration) {
	const watchers = 8
	s := serve(b, control.ServerConfig{Size: watchers + 1})
	var others []*actor
	for rank := range watchers {
		others = append(others, start(b, "clock", s.Place(rank, 1).Vars()))
	}
	for _, a := range others {
		a.lines.expect(b, "joined")
	}
	var first, last []time.Duration
	incarnation := uint64(0)
	for b.Loop() {
		incarnation++
		victim := start(b, "work", s.Place(watchers, incarnation).Vars())
		s.Started(watchers, incarnation, victim.cmd.Process.Pid)
		victim.lines.expect(b, "joined")
		time.Sleep(10 * time.Millisecond) // until all have heard of it
		began := time.Now()
		victim.signal(b, syscall.SIGKILL)
		time.Sleep(late)
		victim.cmd.Wait()
		s.Exited(watchers, incarnation, "killed by SIGKILL", control.Will{})
		told := make([]time.Duration, watchers)
		for i, a := range others {
			var rank, of, at int64
			fmt.Sscanf(a.lines.expect(b, fmt.Sprintf("died %d %d ", watchers, incarnation)), "died %d %d %d", &rank, &of, &at)
			told[i] = time.Unix(0, at).Sub(began)
		}
		first, last = append(first, told[0]), append(last, slices.Max(told))
	}
	for name, all := range map[string][]time.Duration{"lowest": first, "last": last} {
		slices.Sort(all)
		b.ReportMetric(float64(all[len(all)/2].Nanoseconds())/1e3, name+"-median-µs")
		b.ReportMetric(float64(all[len(all)*9/10].Nanoseconds())/1e3, name+"-p90-µs")
	}
}

// counter waits for so many peers.
type counter struct {
	left int
	all  chan struct{}
}

func (c *counter) Peers(peers []control.Peer) {
	if c.left -= len(peers); c.left == 0 {
		close(c.all)
	}
}
func (c *counter) Died(control.Death)                  {}
func (c *counter) Alive(int)                           {}
func (c *counter) HeardOf(int, bool, time.Duration)    {}
func (c *counter) PeersReturned([]int, uint64, string) {}
func (c *counter) AllKnow()                            {}
func (c *counter) Finished(uint64, string)             {}
func (c *counter) Stop(string)                         {}
func (c *counter) Lost(error)                          {}

func meet(b *testing.B, n int) {
	b.StopTimer()
	dir, err := control.MakeDir(os.Getenv)
	if err != nil {
		b.Fatal(err)
	}
	s, err := control.Serve(control.ServerConfig{Dir: dir, Size: n})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	clients := make([]*control.Client, n)
	b.StartTimer()
	var wg sync.WaitGroup
	for rank := range n {
		wg.Go(func() {
			h := &counter{left: n, all: make(chan struct{})}
			c, _, err := control.Join(b.Context(), s.Place(rank, 1), h, nil)
			if err != nil {
				b.Error(err)
				return
			}
			clients[rank] = c
			c.Announce([]string{fmt.Sprintf("%s/%d.sock", dir, rank)}, "here")
			<-h.all
		})
	}
	wg.Wait()
	b.StopTimer()
	for _, c := range clients {
		if c != nil {
			c.Close()
		}
	}
	b.StartTimer()
}
