package launch

import (
	"fmt"
	"maps"
	"slices"
	"syscall"
	"time"

	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/internal/posix"
)

// Processes that die may be started again, as the next incarnation of their rank. The
// others need not wait for that: they continue, and a view admits the new process. The launcher
// starts a process again only while others run, and not for ever:
//
//   - in all at most RespawnMax times;
//   - after a pause, if it is not the first time and the previous life was short, each
//     time twice as long;
//   - once, if the process has ended with an error code: a faulty program fails
//     again. A failure that a task returned is final.

// Respawn says when processes that die are started again.
type Respawn string

// The values of Respawn; "" is RespawnNever.
const (
	RespawnNever  Respawn = "never"
	RespawnAuto   Respawn = "auto" // if that is estimated to be better (choice.go)
	RespawnAlways Respawn = "always"
)

// UnmarshalText reads the name of a value.
func (r *Respawn) UnmarshalText(text []byte) error {
	*r = Respawn(text)
	return r.check(RespawnAuto, RespawnAlways, RespawnNever)
}

func (r Respawn) check(allowed ...Respawn) error {
	if !slices.Contains(allowed, r) {
		return fmt.Errorf("respawn %q; allowed: %s, %s, %s", string(r), RespawnAuto, RespawnAlways, RespawnNever)
	}
	return nil
}

func (p *Plan) respawns() bool { return p.Respawn == RespawnAuto || p.Respawn == RespawnAlways }

func (p *Plan) checkRespawn() error {
	if p.RespawnMax < 0 {
		return fmt.Errorf("at most %d processes respawned; allowed: 1 or more", p.RespawnMax)
	}
	if p.RespawnMax == 0 {
		p.RespawnMax = p.N
	}
	return p.Respawn.check("", RespawnAuto, RespawnAlways, RespawnNever)
}

// Times of respawning.
const (
	lifeMin  = 10 * time.Second // a shorter life counts as short
	pauseMin = 100 * time.Millisecond
	pauseMax = 10 * time.Second
)

// pause returns how long to wait after a number of short lives in a row.
func pause(short int) time.Duration {
	if short == 0 {
		return 0
	}
	return min(pauseMin<<min(short-1, 10), pauseMax)
}

// Respawned is a process that was started again.
type Respawned struct {
	Rank  int     `json:"rank"`
	Why   string  `json:"why"`
	Host  string  `json:"host,omitempty"` // "": here
	After float64 `json:"after_ms"`       // from the previous death to the start
}

// fallen is a process that has died and may be started again.
type fallen struct {
	life    uint64
	died    time.Time
	due     time.Time // not before
	waits   bool      // until the tasks have saved: before that, a new process would be of no use
	crashed bool      // it ended by itself, with an error code
	how     string    // how it ended, in words
}

// comebacks is the history of a rank that died before.
type comebacks struct {
	began   time.Time // when the last one was started; zero: none was
	short   int       // how many in a row were short
	crashes int       // how many were started after an end with an error code
}

// respawner starts the dead processes of a job again.
type respawner struct {
	fallen map[int]*fallen
	lives  map[int]*comebacks // by rank
	count  int                // how many were started, or are about to be
	stirs  chan struct{}      // of capacity one: something may have to be done
	clock  clock
}

func newRespawner() respawner {
	return respawner{fallen: map[int]*fallen{}, lives: map[int]*comebacks{}, stirs: make(chan struct{}, 1), clock: newClock()}
}

func (r *respawner) of(rank int) *comebacks {
	if r.lives[rank] == nil {
		r.lives[rank] = &comebacks{}
	}
	return r.lives[rank]
}

// stir makes the goroutine that oversees the job look after the dead soon.
func (r *respawner) stir() { offer(r.stirs, struct{}{}) }

// fall records a process that has ended, if it has died.
func (j *job) fall(e ending) {
	byItself := e.lost == "" && e.status.Signal == 0
	if !j.respawns() || j.ending() || byItself && e.status.Exit == 0 {
		return
	}
	c := j.again.of(e.rank)
	if c.short++; c.began.IsZero() || e.at.Sub(c.began) >= lifeMin {
		c.short = 0
	}
	f := &fallen{life: e.life, died: e.at, due: e.at.Add(pause(c.short)), how: "died"}
	if f.crashed = byItself && !j.signalled(e); f.crashed {
		f.how = fmt.Sprintf("ended with exit code %d", e.status.Exit)
	}
	j.again.fallen[e.rank] = f
	time.AfterFunc(time.Until(f.due), j.again.stir)
}

// signalled reports whether an exit code is that of a wrapper whose process was ended by
// a signal.
func (j *job) signalled(e ending) bool {
	joined := j.server.Status()[e.rank].Pid
	wrapper := joined != 0 && joined != j.report.Tasks[j.entry[e.rank]].PID
	return wrapper && posix.SignalName(syscall.Signal(e.status.Exit-128)) != ""
}

// raise starts the processes again whose time has come. The coordinator must know that they
// are dead: it may not have received their last messages, or not know what became of a
// lost host.
func (j *job) raise() {
	if j.ending() || j.finished() {
		clear(j.again.fallen)
		return
	}
	for _, rank := range slices.Sorted(maps.Keys(j.again.fallen)) {
		f := j.again.fallen[rank]
		switch {
		case j.running[rank] != 0: // another request has started it (coppice join)
			delete(j.again.fallen, rank)
		case len(j.running) == 0 || f.waits && !j.again.clock.saves() || time.Now().Before(f.due) || !j.server.Departed(rank, f.life):
		default:
			delete(j.again.fallen, rank)
			j.succeed(rank, f)
		}
	}
}

// finished reports whether the job has finished: all tasks have returned.
func (j *job) finished() bool { return closed(j.server.Done()) }

// succeed starts the next life of a rank, if it should.
func (j *job) succeed(rank int, f *fallen) {
	if j.server.Status()[rank].Failure != "" {
		return
	}
	what := fmt.Sprintf("process %v %s", control.Identity{uint64(rank), f.life}, f.how)
	respawn, why := j.judge(rank, f)
	switch {
	case respawn:
	case f.waits:
		j.again.fallen[rank] = f
		j.notice("%s: not respawned yet: %s", what, why)
		return
	default:
		j.notice("%s: not respawned: %s", what, why)
		return
	}
	j.again.count++
	request := j.called[rank]
	request.Count, request.Rank = 1, rank
	j.join(joinCall{JoinRequest: request, revive: true, answer: func(a joinReply) {
		if a.err != nil {
			j.again.count--
			j.notice("%s: not respawned: %v", what, a.err)
			return
		}
		c := j.again.of(rank)
		if c.began = time.Now(); f.crashed {
			c.crashes++
		}
		r := Respawned{Rank: rank, Why: why, Host: a.joined[0].Host, After: float64(c.began.Sub(f.died).Microseconds()) / 1000}
		j.report.Respawned = append(j.report.Respawned, r)
		on := ""
		if r.Host != "" {
			on = " on " + r.Host
		}
		j.notice("%s: respawned%s: %s", what, on, why)
	}})
}

// judge decides whether a dead process is started again, or whether that has to wait, and
// returns why.
func (j *job) judge(rank int, f *fallen) (respawn bool, why string) {
	f.waits = false
	switch {
	case f.crashed && j.again.of(rank).crashes > 0:
		return false, "it has ended with an error code again"
	case j.again.count >= j.RespawnMax:
		return false, fmt.Sprintf("%d have been, and no more are allowed", j.again.count)
	case j.Respawn == RespawnAlways:
		return true, "--respawn always"
	}
	s := j.situation()
	respawn, why = s.choose()
	f.waits = !respawn && !s.saves
	return respawn, why
}

// situation returns the situation of the job now.
func (j *job) situation() situation {
	s := situation{
		tasks: j.N, live: len(j.running), ran: time.Since(j.began),
		start: j.again.clock.start(), saves: j.again.clock.saves(), save: j.again.clock.save(),
	}
	if v := j.server.View(); v != nil && v.Owners != nil {
		s.tasks = len(v.Owners)
	}
	s.alone = !slices.ContainsFunc(j.server.Status(), func(s control.Status) bool { return s.Pid != 0 })
	room := j.server.Room()
	s.full = room.Known && room.Orphans > room.Free
	before, _ := s.busiest()
	s.state = room.Each * int64(before)
	return s
}
