package launch

import (
	"cmp"
	"time"

	"github.com/coppice-go/coppice/internal/control"
)

// agentKill returns the function by which the coordinator has a process on another host killed;
// nil: there is no other host.
func (j *job) agentKill() func(control.Fence) {
	if j.Hosts == nil {
		return nil
	}
	return j.suspect
}

// hearSuspects ends processes that the coordinator has given up on, and processes of an Abrupt job
// that linger. The coordinator itself kills suspects that have joined on this host.
func (j *job) hearSuspects(e control.Event) {
	if e.Type == control.EventFinished && j.Abrupt {
		time.AfterFunc(cmp.Or(j.Silence, control.SilenceDefault), func() {
			for rank := range j.N + j.Grow {
				j.suspect(control.Fence{Rank: rank, Why: "still there when the job was over"})
			}
		})
	}
	certain, ok := e.Attrs["certain"].(bool)
	if e.Type != control.EventDied && e.Type != control.EventLeft || !ok || certain {
		return
	}
	how, _ := e.Attrs["how"].(string)
	life, _ := e.Attrs["incarnation"].(uint64)
	j.suspect(control.Fence{Rank: e.Rank, Incarnation: life, Why: how})
}

func (j *job) suspect(f control.Fence) { offer(j.suspects, f) } // unless there is one for each rank already

// fence makes sure that a suspect is dead. Incarnation 0: the process has outlived the run, which its launcher ends.
func (j *job) fence(f control.Fence) {
	if j.running[f.Rank] == 0 || f.Incarnation != 0 && f.Incarnation != j.running[f.Rank] {
		return
	}
	if j.why[f.Rank] == "" && f.Proof == nil { // with a proof, the agent may refuse; if it does not, the coordinator knows
		j.why[f.Rank] = f.Why
	}
	switch at := j.at[f.Rank]; {
	case at == nil: // its station has not begun
	case f.Incarnation == 0:
		at.kill(f.Rank)
	default:
		at.fence(f)
	}
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
