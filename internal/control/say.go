package control

import (
	"maps"
	"os"
	"strings"
	"time"
)

// Announce reports where this process listens and on which host it is.
func (c *Client) Announce(addresses []string, host string) {
	name, _ := os.Hostname() // for people: it may be missing
	line := message{Type: sayAnnounce, Addresses: addresses, Host: host, Name: name, Pid: os.Getpid()}.line()
	c.mu.Lock()
	c.announce, c.hostID = line, host
	c.mu.Unlock()
	c.say(line)
}

// Returned reports that all tasks that this process owns in a view have returned:
// without an error, or with a failure, which is final. Call it again for every later view, as
// soon as that holds there too. With report, this job adopts no tasks, and the
// dead do not delay its end.
func (c *Client) Returned(view uint64, failure string, report bool) {
	line := message{Type: sayReturned, View: view, Why: brief(failure), Report: report}.line()
	c.mu.Lock()
	defer c.mu.Unlock()
	if view >= c.resumed {
		c.standing = line
	}
	c.say(line)
}

// Resumed reports that this process has adopted tasks in a view: it no longer counts as
// returned. The job's end does not depend on it, since a return in an earlier view
// does not count in one that removed a process.
func (c *Client) Resumed(view uint64) {
	line := message{Type: sayResumed, View: view}.line()
	c.mu.Lock()
	defer c.mu.Unlock()
	if view >= c.resumed {
		c.standing, c.resumed = line, view
	}
	c.say(line)
}

// textMax bounds a text in a message, in bytes.
const textMax = 4096

// brief cuts a text that is too long for a message.
func brief(text string) string {
	if len(text) <= textMax {
		return text
	}
	return strings.ToValidUTF8(text[:textMax], "") + "…"
}

// Ask asks whether a rank is alive, because the link to it broke. If it is dead, the
// handler is notified at once.
func (c *Client) Ask(rank int) { c.say(message{Type: sayAsk, Rank: rank}.line()) }

// Suspect reports a silent process. If the process is on the coordinator's host, the coordinator looks
// itself, and notifies the handler if it is alive.
func (c *Client) Suspect(rank int, incarnation uint64, why string) {
	c.say(message{Type: saySuspect, Rank: rank, Incarnation: incarnation, Why: brief(why)}.line())
}

// Hears asks whether the coordinator hears a process. The handler gets the answer.
func (c *Client) Hears(rank int, incarnation uint64) {
	c.say(message{Type: sayHears, Rank: rank, Incarnation: incarnation}.line())
}

// Fence asks the coordinator to kill a process that this one suspects. The proof is a letter of the membership: a Fence of a
// majority, upon which the coordinator kills the suspect; a Fence of the last two, upon which it kills the suspect if
// that is silent, and the process of the higher rank if it hears both, which may be this one; or a Wish, upon which it
// does what it would do by itself. The handler is notified of the death when it is certain.
func (c *Client) Fence(rank int, incarnation uint64, why string, proof []byte) {
	c.say(message{Type: sayFence, Rank: rank, Incarnation: incarnation, Why: brief(why), Proof: proof}.line())
}

// Emit puts an event into the event stream, under this process's rank. It drops an event that
// is too large, or for which there is no room. It never drops an opened view,
// but sends one that is too large without its owners.
func (c *Client) Emit(e Event) {
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	line, err := e.line()
	if err != nil && e.Type == EventView && e.Attrs["owners"] != nil {
		e.Attrs = maps.Clone(e.Attrs)
		delete(e.Attrs, "owners")
		line, err = e.line()
	}
	if err != nil {
		c.log.Warn("control: event dropped", "type", e.Type, "error", err)
		return
	}
	said := message{Type: sayEvent, Event: line[:len(line)-1]}.line()
	if e.Type == EventView {
		if v := ParseView(line); v != nil {
			c.sayView(v, said)
			return
		}
	}
	if !c.out.put(said, len(said)) {
		c.log.Warn("control: event dropped: too many wait", "type", e.Type)
	}
}

// sayView reports a view that this process has opened: the job's end may wait for it.
func (c *Client) sayView(v *View, line []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if v.Number > c.viewed {
		c.view, c.viewed = line, v.Number
	}
	c.say(line)
}

// say queues a line that is never dropped: it does not count against the room.
func (c *Client) say(line []byte) { c.out.put(line, 0) }
