package control_test

import (
	"fmt"
	"os"
	"sync"
	"testing"

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
func (c *counter) Died(control.Death)       {}
func (c *counter) PeerReturned(int, string) {}
func (c *counter) Finished()                {}
func (c *counter) Stop(string)              {}
func (c *counter) Lost(error)               {}

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
