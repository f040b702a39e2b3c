// Package floor is the lower bound that a change of view is compared with: n Go processes, all
// connected to each other by plain Unix sockets, of which one is killed. Every survivor sees the broken
// connection, exchanges one byte with all others and passes a barrier (dissemination: Hensgen, Finkel,
// Manber, 1988). That is the minimum after which all know that all know: nothing is agreed, recorded or
// numbered, and a second crash would hang it. Its API may change.
package floor

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/coppice-go/coppice/bench/clock"
)

// Each message between processes is one byte.
const (
	exchange = 0x01
	barrier  = 0x80 // plus the round
)

// event is a byte that arrived, or the end of a connection.
type event struct {
	from int
	said byte
	end  bool
}

// process is one of n.
type process struct {
	rank  int
	conns []net.Conn // by rank; nil: itself
	news  chan event
}

// Run is process rank of n that meet in a directory. It writes a line when it is connected to all, then
// one when it notices a crash and one when it is done, by the common clock. It stays until in ends, so
// that its own end disturbs no other process.
func Run(dir string, rank, n int, in io.Reader, out io.Writer) error {
	if n < 2 || rank < 0 || rank >= n {
		return fmt.Errorf("process %d of %d; allowed: 2 or more processes, counted from 0", rank, n)
	}
	p := &process{rank: rank, conns: make([]net.Conn, n), news: make(chan event, 64*n)}
	if err := p.connect(dir); err != nil {
		return err
	}
	for from, c := range p.conns {
		if c != nil {
			go p.read(from, c)
		}
	}
	ended := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, in)
		close(ended)
	}()
	if _, err := fmt.Fprintln(out, "ready"); err != nil {
		return err
	}
	result := make(chan error, 1)
	go func() { result <- p.survive(out) }()
	select {
	case err := <-result:
		if err != nil {
			return err
		}
		<-ended
	case <-ended:
	}
	return nil
}

func socket(dir string, rank int) string { return filepath.Join(dir, strconv.Itoa(rank)) }

// connectTime is how long a process waits for the others to start.
const connectTime = 30 * time.Second

// connect dials all lower ranks and accepts all higher ones.
func (p *process) connect(dir string) error {
	l, err := net.Listen("unix", socket(dir, p.rank))
	if err != nil {
		return err
	}
	defer l.Close()
	end := time.Now().Add(connectTime)
	_ = l.(*net.UnixListener).SetDeadline(end)
	for to := range p.rank {
		c, err := dial(socket(dir, to), end)
		if err != nil {
			return err
		}
		if _, err := c.Write([]byte{byte(p.rank), byte(p.rank >> 8)}); err != nil {
			return err
		}
		p.conns[to] = c
	}
	for range len(p.conns) - 1 - p.rank {
		c, err := l.Accept()
		if err != nil {
			return err
		}
		var name [2]byte
		if _, err := io.ReadFull(c, name[:]); err != nil {
			return err
		}
		from := int(name[0]) | int(name[1])<<8
		if from <= p.rank || from >= len(p.conns) || p.conns[from] != nil {
			return fmt.Errorf("process %d was called by %d", p.rank, from)
		}
		p.conns[from] = c
	}
	return nil
}

// dial connects to a process that may not listen yet.
func dial(path string, end time.Time) (net.Conn, error) {
	for {
		c, err := net.Dial("unix", path)
		if err == nil || time.Now().After(end) {
			return c, err
		}
		time.Sleep(time.Millisecond)
	}
}

// read forwards what arrives from one other process.
func (p *process) read(from int, c net.Conn) {
	bytes := make([]byte, 64)
	for {
		n, err := c.Read(bytes)
		for _, b := range bytes[:n] {
			p.news <- event{from: from, said: b}
		}
		if err != nil {
			p.news <- event{from: from, end: true}
			return
		}
	}
}

// survive waits for a crash, exchanges bytes with all survivors, passes a barrier with them and writes
// the times.
func (p *process) survive(out io.Writer) error {
	heard := map[byte]int{} // how often each byte was received
	dead := -1
	until := func(is func() bool) error {
		for !is() {
			e := <-p.news
			switch {
			case !e.end:
				heard[e.said]++
			case dead >= 0:
				return fmt.Errorf("process %d is gone after %d", e.from, dead)
			default:
				dead = e.from
			}
		}
		return nil
	}
	if err := until(func() bool { return dead >= 0 }); err != nil {
		return err
	}
	noticed := clock.Now()
	var alive []int // ranks, in order
	self := 0       // this process's place among them
	for r := range p.conns {
		if r == p.rank {
			self = len(alive)
		}
		if r != dead {
			alive = append(alive, r)
		}
	}
	for _, r := range alive {
		if err := p.say(r, exchange); err != nil {
			return err
		}
	}
	if err := until(func() bool { return heard[exchange] == len(alive)-1 }); err != nil {
		return err
	}
	for round := 0; 1<<round < len(alive); round++ {
		token := byte(barrier | round)
		if err := p.say(alive[(self+1<<round)%len(alive)], token); err != nil {
			return err
		}
		if err := until(func() bool { return heard[token] > 0 }); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(out, noticed, clock.Now())
	return err
}

func (p *process) say(to int, what byte) error {
	if to == p.rank {
		return nil
	}
	_, err := p.conns[to].Write([]byte{what})
	if errors.Is(err, os.ErrClosed) {
		return fmt.Errorf("process %d is gone as well", to)
	}
	return err
}
