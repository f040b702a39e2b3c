package launch

import (
	"syscall"
	"time"

	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/internal/detect"
	"github.com/coppice-go/coppice/internal/posix"
)

// firstIncarnation is the incarnation of every process that a launcher starts with the job.
const firstIncarnation = 1

// local is the station of the processes on this host. A process may start
// another one that joins the job in its place (sh, go run). Then the other one runs the
// task, and what the launcher started is a wrapper.
type local struct {
	server *control.Server
	crew   *crew
	ranks  map[int]*process
}

// startLocal starts processes here.
func (j *job) startLocal(orders []order) (*local, error) {
	l := &local{server: j.server, crew: newCrew(orders), ranks: map[int]*process{}}
	j.dog.watch(l.crew)
	if err := l.crew.start(); err != nil {
		return nil, err
	}
	for i, p := range l.crew.procs {
		l.ranks[orders[i].rank] = p
		l.server.Started(orders[i].rank, orders[i].life, p.pid)
	}
	l.crew.watch(l.linger, func(e ending) {
		l.server.Exited(e.rank, e.life, e.status.String(), control.Will{})
		j.end(e)
	})
	return l, nil
}

// wrapped returns the process that joined in the place of the one that was
// started, if it is alive: its pidfd, which the caller closes.
func (l *local) wrapped(rank int) (pidfd int, ok bool) {
	pid := l.joined(rank)
	if pid == 0 || pid == l.ranks[rank].pid {
		return -1, false
	}
	pidfd, err := detect.OpenPidfd(pid)
	if err != nil {
		return -1, false
	}
	if l.joined(rank) != pid { // it may have ended before, and another process may have its pid
		posix.Close(pidfd)
		return -1, false
	}
	return pidfd, true
}

// joined returns the pid of the process of a rank that joined and is not known to be dead; 0:
// there is none.
func (l *local) joined(rank int) (pid int) {
	s := l.server.Status()[rank]
	if s.State == control.Dead {
		return 0
	}
	return s.Pid
}

// linger waits while a process lives whose wrapper has exited.
func (l *local) linger(rank int) {
	pidfd, ok := l.wrapped(rank)
	if !ok {
		return
	}
	defer posix.Close(pidfd)
	for !detect.ExitedPidfd(pidfd) { // rare: wrappers wait for what they wrap
		time.Sleep(5 * time.Millisecond)
	}
}

func (l *local) signal(s syscall.Signal) { l.crew.signal(s) }

func (l *local) kill(rank int) {
	if pidfd, ok := l.wrapped(rank); ok {
		defer posix.Close(pidfd)
		_ = detect.KillPidfd(pidfd, syscall.SIGKILL) // a process that is gone needs none
		return
	}
	l.ranks[rank].kill()
}

func (l *local) fence(f control.Fence) { l.kill(f.Rank) } // the coordinator of this host has checked what proves it

func (l *local) close() { l.crew.close() }

func (l *local) where(rank int) (pid int, host string) { return l.ranks[rank].pid, "" }
