package suspicion

import (
	"fmt"

	"github.com/coppice-go/coppice/protocol"
)

// Guard decides which processes of a host are fenced for silence. It has no clock:
// the caller calls Tick about every Every, and Beat for every sign of life.
//
// What it promises, with a silence of S:
//
//   - A process is fenced if it gives no sign of life for S and as long as it may take from
//     one to the next (S/2 and a Tick), unless the kernel says that it works or waits for a
//     processor. For one that is stopped, S counts from when the kernel first says so. So one that is stopped
//     for less than S is not fenced, though that happens again and again, or while it works.
//   - Another process can take over: at least one other process gives signs of life, and the silence of a process counts
//     only while one does. So the last process is never fenced, nor are all at once, nor any process because the whole
//     host stood still. While fewer than half give signs of life, silence counts an eighth: more would be fenced together
//     than a job survives.
//   - A process that took over the tasks of one that was fenced for silence is not fenced for falling silent at the same
//     work, unless a signal has stopped it.
//   - The caller's own stalls have no consequence: a Tick that comes late counts as one that came in time.
//   - No process is silent before Begin: before all could have started.
type Guard struct {
	silence protocol.Time
	last    protocol.Time // when Tick last came
	begun   bool
	members []guarded // by rank
}

// guarded is what a Guard knows of a process.
type guarded struct {
	present bool
	ours    bool          // the caller can kill it
	heard   bool          // since the last Tick
	quiet   protocol.Time // how long it has given no sign of life
	silent  protocol.Time // how much of that counts
	stopped protocol.Time // how long the kernel has said so
	tainted bool          // it does work over which another process fell silent
}

// Evidence is what the kernel says of a silent process.
type Evidence uint8

// The kinds of evidence.
const (
	Unknown Evidence = iota // the kernel does not say
	Working                 // it uses a processor, waits for one, or for a disk, or has run since it was last looked at
	Resting                 // it sleeps, and should have given a sign of life
	Stopped                 // a signal or a debugger has stopped it
)

// String returns the evidence in words.
func (e Evidence) String() string {
	return [...]string{"nothing is known of its state", "it works", "it does nothing", "it is stopped"}[e]
}

// Verdict is a process to be fenced.
type Verdict struct {
	Rank protocol.Rank
	For  protocol.Time // how long it was silent
	Why  string        // one line
}

// NewGuard returns a guard of no process.
func NewGuard(silence protocol.Time, now protocol.Time) *Guard {
	return &Guard{silence: silence, last: now}
}

// Every is how often Tick should be called.
func (g *Guard) Every() protocol.Time { return g.silence / 16 }

// Join adds a process, or its next incarnation. One that is not ours is never fenced,
// but may take over from others.
func (g *Guard) Join(rank protocol.Rank, ours bool) {
	for len(g.members) <= int(rank) {
		g.members = append(g.members, guarded{})
	}
	g.members[rank] = guarded{present: true, ours: ours, heard: true}
}

// at is what is known of a process; one that never joined is unknown.
func (g *Guard) at(rank protocol.Rank) *guarded {
	if int(rank) < len(g.members) {
		return &g.members[rank]
	}
	return &guarded{}
}

// Leave removes a process: it is dead, or has been fenced.
func (g *Guard) Leave(rank protocol.Rank) { *g.at(rank) = guarded{} }

// Begin says that all processes have started, or had the time to.
func (g *Guard) Begin() { g.begun = true }

// Beat is a sign of life.
func (g *Guard) Beat(rank protocol.Rank) { g.at(rank).heard = true }

// Inherit says that a process has taken over tasks of one that was fenced for silence.
func (g *Guard) Inherit(rank protocol.Rank) { g.at(rank).tainted = true }

// Silent returns for how long a process has given no sign of life.
func (g *Guard) Silent(rank protocol.Rank) protocol.Time { return g.at(rank).quiet }

// Counted returns how much of that counts.
func (g *Guard) Counted(rank protocol.Rank) protocol.Time { return g.at(rank).silent }

// Tick returns the processes to be fenced now. It calls inspect for silent processes.
func (g *Guard) Tick(now protocol.Time, inspect func(protocol.Rank) Evidence) (fence []Verdict) {
	passed := min(now-g.last, 2*g.Every()) // more is a stall of the caller
	g.last = now
	healthy, present := 0, 0
	for i := range g.members {
		m := &g.members[i]
		m.quiet += passed
		if m.heard {
			m.heard, m.quiet, m.silent, m.stopped = false, 0, 0, 0
		}
		if m.present {
			present++
		}
		if m.healthy(g.silence) {
			healthy++
		}
	}
	if !g.begun {
		return nil
	}
	if 2*healthy < present { // rather the host stands still, or a user has paused the job
		passed /= 8
	}
	for i := range g.members {
		m := &g.members[i]
		others := healthy
		if m.healthy(g.silence) {
			others--
		}
		if !m.present {
			continue
		}
		if others == 0 { // the first one to come back leaves the others all of their time
			m.silent, m.stopped = 0, 0
			continue
		}
		if m.silent += min(passed, m.quiet); m.silent <= g.usual() || !m.ours {
			continue
		}
		e := inspect(protocol.Rank(i))
		if m.stopped += passed; e != Stopped {
			m.stopped = 0
		}
		if e == Working { // when it has done its work it has some time to say so
			m.silent = min(m.silent, g.limit()-g.silence/4)
		}
		due := m.silent >= g.limit() && !m.tainted
		if e == Stopped { // a stop for less than the silence is excused, whatever the process did before
			due = m.stopped >= g.silence
		}
		if !due {
			continue
		}
		fence = append(fence, Verdict{protocol.Rank(i), m.silent, fmt.Sprintf("silent for %.1fs, and %v", float64(m.silent)/1e9, e)})
	}
	return fence
}

// usual is how long it may take from one sign of life to the next.
func (g *Guard) usual() protocol.Time { return g.silence/2 + g.Every() }

// limit is how long a process may be silent if the kernel says nothing of it.
func (g *Guard) limit() protocol.Time { return g.silence + g.usual() }

// healthy reports whether a process could take over for another.
func (m *guarded) healthy(silence protocol.Time) bool { return m.present && m.quiet < silence }
