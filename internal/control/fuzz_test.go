//go:build unix

package control

import (
	"encoding/json"
	"log/slog"
	"net"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/ending"
	"github.com/coppice-go/coppice/protocol/membership"
	"github.com/coppice-go/coppice/protocol/suspicion"
)

// silent is a handler that does nothing.
type silent struct{}

func (silent) Peers([]Peer)                        {}
func (silent) Died(Death)                          {}
func (silent) HeardOf(int, bool, time.Duration)    {}
func (silent) Alive(int)                           {}
func (silent) PeersReturned([]int, uint64, string) {}
func (silent) AllKnow()                            {}
func (silent) Finished(uint64, string)             {}
func (silent) Stop(string)                         {}
func (silent) Lost(error)                          {}

// mute is a coordinator of three processes and of one that may join, without a
// directory; it hears what the first of them says.
func mute(t *testing.T) (*Server, *session) {
	cfg := ServerConfig{Size: 3, Grow: 1, Silence: time.Hour, Logger: slog.New(slog.DiscardHandler)}
	s := &Server{
		cfg: cfg, log: cfg.Logger, done: make(chan struct{}),
		sessions: map[*session]bool{}, observers: map[*session]bool{}, processes: map[*process]bool{},
		events: newMailbox[Event](eventsRoom), guard: suspicion.NewGuard(protocol.Time(cfg.Silence), 0),
		ending: ending.New(membership.First(cfg.Size, nil)),
	}
	for rank := range cfg.Size + cfg.Grow {
		s.members = append(s.members, newMember(rank, 0))
	}
	var first *session
	for rank := range cfg.Size {
		conn, other := net.Pipe()
		t.Cleanup(func() { conn.Close(); other.Close() })
		m := newMember(rank, 1)
		m.joined = true
		m.session = newSession(m, conn, conn, sessionRoom)
		s.members[rank], s.sessions[m.session] = m, true
		if rank == 0 {
			first = m.session
		}
	}
	return s, first
}

// FuzzLines hands lines to a coordinator, as one of its processes might, and to a
// process, as its coordinator might; what is an event comes back as it was, and so does
// an order to kill.
func FuzzLines(f *testing.F) {
	for _, m := range []message{
		{Type: sayAnnounce, Addresses: []string{"unix:/x"}, Host: "h", Pid: 1},
		{Type: sayReturned, View: 1, Why: "x", Report: true},
		{Type: sayResumed, View: 2},
		{Type: sayAsk, Rank: 1},
		{Type: saySuspect, Rank: 1, Incarnation: 1},
		{Type: sayFence, Rank: 2, Incarnation: 1, Proof: []byte{1}},
		{Type: sayLoad, Tasks: 3, Bytes: 9},
		{Type: sayBye, Record: []byte("x")},
		{Type: sayEvent, Event: json.RawMessage(`{"time":"2026-01-02T03:04:05Z","type":"view","number":2,"members":[[0,1],[3,1]],"owners":[0,0,3],"opened":true}`)},
		{Type: tellPeers, Groups: []peerGroup{{Ranks: []int{0, 1, 3, 3}, Ports: []uint16{7, 8, 9}, Incarnation: 1, Addresses: []string{"x:\x00", "y/\x00.sock"}}}},
		{Type: tellDied, Rank: 1, Incarnation: 1, Certain: true, Record: []byte{1}},
		{Type: tellReturned, Ranks: []int{1, 2}, Turn: 1},
		{Type: tellFinished},
		{Type: tellStop},
		{Type: tellClosing},
	} {
		f.Add(string(m.line()))
		f.Add(string(m.line()) + string(m.line()))
	}
	f.Add(`{"time":"2026-01-02T03:04:05Z","type":"x","rank":1,"a":18446744073709551615}`)
	f.Add("3@reduce#2/3+half")
	f.Add("0@150ms")
	f.Fuzz(func(t *testing.T, text string) {
		s, c := mute(t)
		client := &Client{place: Place{Rank: 0, Incarnation: 1}, handler: silent{}, log: s.log}
		for line := range strings.Lines(text) {
			var m message
			if json.Unmarshal([]byte(line), &m) == nil {
				s.hear(c, m)
				_ = client.hear(m)
			}
			ParseView([]byte(line))
			eventAgain(t, line)
		}
		s.Status()
		if k, err := ParseKill(text); err == nil && (k.Task < 0 || k.After < 0 || k.Op != "" && k.Seq < 1 || k.Half && k.Step < 1) {
			t.Errorf("%q is %+v", text, k)
		}
	})
}

// eventAgain wants what was read as an event to be the same when it is written and read.
func eventAgain(t *testing.T, line string) {
	var e, again Event
	if json.Unmarshal([]byte(line), &e) != nil {
		return
	}
	b, err := e.line()
	if err != nil {
		return // too long, or of a year that cannot be written
	}
	if err := json.Unmarshal(b, &again); err != nil {
		t.Errorf("%q was written as %q: %v", line, b, err)
		return
	}
	e.Rank = max(e.Rank, -1)
	if !e.Time.Equal(again.Time) {
		t.Errorf("%q: %v, then %v", line, e.Time, again.Time)
	}
	if e.Time = again.Time; !reflect.DeepEqual(e, again) {
		t.Errorf("%q: %+v, then %+v", line, e, again)
	}
}
