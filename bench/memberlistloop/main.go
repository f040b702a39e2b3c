// Command memberlistloop measures the time from the crash of one of n members of hashicorp/memberlist
// until all others have removed it, with its preset for local networks, and prints it in microseconds.
//
//	memberlistloop N
//
// All members are in this one process, which favours memberlist: no member waits for a process to be
// scheduled, and all share one heap. A crash is a member whose sockets are closed without notice.
//
// It is a program of its own, not part of the command coppice, because memberlist and its dependencies
// would take as long to build as much of that command.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/hashicorp/memberlist"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "memberlistloop:", err)
		os.Exit(1)
	}
}

// Bounds, and how long a group is left alone before one member crashes.
const (
	membersMin = 3
	membersMax = 4096
	joinTime   = time.Minute
	removeTime = 2 * time.Minute
	settleTime = time.Second
)

func run(args []string) error {
	if len(args) != 1 {
		return errors.New("want N, the number of members")
	}
	n, err := strconv.Atoi(args[0])
	if err != nil || n < membersMin || n > membersMax {
		return fmt.Errorf("%q members, allowed: %d to %d", args[0], membersMin, membersMax)
	}
	took, err := measure(n)
	if err == nil {
		_, err = fmt.Println(float64(took) / float64(time.Microsecond))
	}
	return err
}

// witness records when the victim is removed. memberlist calls one of its methods at a time.
type witness struct {
	victim  string
	removed chan time.Time
}

func (w *witness) NotifyJoin(*memberlist.Node)   {}
func (w *witness) NotifyUpdate(*memberlist.Node) {}

func (w *witness) NotifyLeave(m *memberlist.Node) {
	if m.Name == w.victim {
		w.removed <- time.Now()
	}
}

func measure(n int) (time.Duration, error) {
	w := &witness{victim: name(n / 2), removed: make(chan time.Time, 2*n)}
	members, err := gather(n, w)
	defer func() {
		for _, m := range members {
			_ = m.Shutdown()
		}
	}()
	if err != nil {
		return 0, err
	}
	time.Sleep(settleTime)
	began := time.Now()
	if err := members[n/2].Shutdown(); err != nil {
		return 0, err
	}
	var last time.Time
	late := time.After(removeTime)
	for removed := range n - 1 {
		select {
		case at := <-w.removed:
			if at.After(last) {
				last = at
			}
		case <-late:
			return 0, fmt.Errorf("%d of %d have removed the dead within %v", removed, n-1, removeTime)
		}
	}
	return last.Sub(began), nil
}

// gather starts n members that all know each other when it returns.
func gather(n int, w *witness) (members []*memberlist.Memberlist, err error) {
	for i := range n {
		cfg := memberlist.DefaultLocalConfig()
		cfg.Name = name(i)
		cfg.BindAddr, cfg.BindPort, cfg.AdvertisePort = "127.0.0.1", 0, 0
		cfg.LogOutput = io.Discard
		cfg.Events = w
		m, err := memberlist.Create(cfg)
		if err != nil {
			return members, err
		}
		members = append(members, m)
	}
	// Twice: a member that gossip has not told of the later ones hears of them the second time, instead
	// of within the next half minute.
	for range 2 {
		for _, m := range members {
			if _, err := m.Join([]string{members[0].LocalNode().Address()}); err != nil {
				return members, err
			}
		}
	}
	end := time.Now().Add(joinTime)
	for _, m := range members {
		for m.NumMembers() < n {
			if time.Now().After(end) {
				return members, fmt.Errorf("not all %d members know each other within %v", n, joinTime)
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	return members, nil
}

func name(i int) string { return "member" + strconv.Itoa(i) }
