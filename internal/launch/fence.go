package launch

import (
	"cmp"
	"time"

	"github.com/coppice-go/coppice/internal/control"
)

// suspect is a process that the coordinator takes for dead.
type suspect struct {
	rank int
	life uint64 // 0: the one that runs
	how  string
}

// agentKill returns the function by which the coordinator kills a process on another host;
// nil: there is no other host.
func (j *job) agentKill() func(rank int, incarnation uint64, why string) {
	if j.Hosts == nil {
		return nil
	}
	return func(rank int, incarnation uint64, why string) {
		j.suspect(suspect{rank, incarnation, "fenced: " + why})
	}
}

// hearSuspects ends processes that the coordinator has given up on, and processes of an Abrupt job
// that linger. The coordinator itself kills suspects that have joined on this host.
func (j *job) hearSuspects(e control.Event) {
	if e.Type == control.EventFinished && j.Abrupt {
		time.AfterFunc(cmp.Or(j.Silence, control.SilenceDefault), func() {
			for rank := range j.N + j.Grow {
				j.suspect(suspect{rank: rank, how: "still there when the job was over"})
			}
		})
	}
	certain, ok := e.Attrs["certain"].(bool)
	if e.Type != control.EventDied && e.Type != control.EventLeft || !ok || certain {
		return
	}
	how, _ := e.Attrs["how"].(string)
	life, _ := e.Attrs["incarnation"].(uint64)
	j.suspect(suspect{e.Rank, life, how})
}

func (j *job) suspect(s suspect) { offer(j.suspects, s) } // unless there is one for each rank already

// fence makes sure that a suspect is dead.
func (j *job) fence(s suspect) {
	if j.running[s.rank] == 0 || s.life != 0 && s.life != j.running[s.rank] {
		return
	}
	if j.why[s.rank] == "" {
		j.why[s.rank] = s.how
	}
	j.kill(s.rank)
	j.checkForsaken()
}

// checkForsaken checks whether all running processes are on other hosts and were given up on, and
// the job has finished without them. Then their agents have a moment more to answer, and the launcher does not wait until the
// connection to a lost host times out.
func (j *job) checkForsaken() {
	if j.Hosts == nil || j.forsaken != nil || len(j.running) == 0 || len(j.calling) > 0 || !j.finished() {
		return
	}
	known := j.server.Status()
	for rank := range j.running {
		if known[rank].State != control.Dead {
			return
		}
	}
	j.forsaken = time.After(hangUpTime)
}

// hangUpAll ends the calls to hosts of processes that still run.
func (j *job) hangUpAll() {
	for rank := range j.running {
		if r, ok := j.at[rank].(*remote); ok {
			go r.hangUp()
		}
	}
}
