package node

import (
	"fmt"
	"runtime/metrics"
	"slices"
	"strings"

	"github.com/coppice-go/coppice/protocol/membership"
)

// Tasks of the dead go to those that have memory for them. A process says how many
// tasks it can own: as many as fit into Config.Memory if all take what its own take on
// average. It tells those who may have to propose the next view, ten times a second if
// that has changed.

// proposersMax is how many processes are told: the lowest that live propose. If they all
// die at once, the next one does not know, and takes what it does not know for plenty.
const proposersMax = 8

// load is what a process has told of itself.
type load struct {
	told  bool
	most  int              // tasks
	view  *membership.View // in which it was told
	bytes int64            // that the log took when it was last looked at; guarded by the hub
}

// tellLoad tells how many tasks the process can own, if there is news.
func (p *Process) tellLoad() {
	if p.cfg.Memory == 0 || !p.replays() || p.engine.Stopped() || p.dead || p.ended != nil {
		return
	}
	v, most := p.view(), p.tasksMax()
	if l := &p.recovery.load; l.told && l.most == most && l.view == v {
		return
	}
	p.recovery.load.told, p.recovery.load.most, p.recovery.load.view = true, most, v
	self := p.self()
	p.limit(self, most)
	if p.cfg.Host != nil {
		p.cfg.Host.Load(most, p.cfg.Memory/int64(max(most, 1)))
	}
	for _, m := range v.Members[:min(len(v.Members), proposersMax)] {
		if m != self {
			p.peerAt(int(m.ID)).tell(envelope{plan: Plan{op: opLoad}, extra: uint64(most)})
		}
	}
}

// toldLoad learns how many tasks another process can own.
func (p *Process) toldLoad(in *incoming) {
	p.limit(in.source.life(), int(min(in.extra, 1<<31-1)))
}

// tasksMax is how many tasks the process can own: those that it has, and as many more
// as have room beside them. One without tasks cannot know.
func (p *Process) tasksMax() int {
	n := int64(len(p.roster.Of(p.cfg.Rank)))
	if n == 0 {
		return 1<<31 - 1
	}
	each := max(p.inUse()/n, 1)
	return int(min(p.cfg.Memory/each, 1<<31-1))
}

// inUse is how much memory the process has in use: what the last garbage collection
// left. Processes that are goroutines of one program share what is not in their logs.
func (p *Process) inUse() int64 {
	sample := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(sample)
	var live int64
	if sample[0].Value.Kind() == metrics.KindUint64 {
		live = int64(sample[0].Value.Uint64())
	}
	if hub := p.hub(); hub != nil {
		return hub.share(p, live)
	}
	return max(live, p.recovery.history.bytes)
}

// share is the part of a process in the memory of the program.
func (l *Local) share(p *Process, live int64) int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := slices.Concat(l.Processes, l.joined)
	p.recovery.load.bytes = p.recovery.history.bytes
	for _, q := range all {
		live -= q.recovery.load.bytes
	}
	return p.recovery.history.bytes + max(live, 0)/int64(len(all))
}

// nobodys is why a view has nobody for a task.
func (p *Process) nobodys(v *membership.View) string {
	why := fmt.Sprintf("view %d has nobody for it", v.Number)
	if p.cfg.Memory > 0 {
		why += fmt.Sprintf(": with more tasks, those that are left would use more than Memory, %d bytes", p.cfg.Memory)
	}
	return why
}

// lostFailure is what a dead rank makes of an operation that needs all. Tasks that were
// lost together, since nobody could run them again, are named together.
func (m *Member) lostFailure(rank int) *Failure {
	f := m.goneFailure("", rank)
	if !m.p.replays() {
		return f
	}
	for r := rank + 1; r < m.Size(); r++ {
		if g := m.goneRank(r); g.Dead && g.Why == m.goneRank(rank).Why {
			f.Tasks = append(f.Tasks, m.taskOf(r))
		}
	}
	if len(f.Tasks) > 1 {
		words := strings.Trim(strings.ReplaceAll(fmt.Sprint(f.Tasks), " ", ", "), "[]")
		f.Text = fmt.Sprintf("tasks %s are dead: %s", words, m.goneRank(rank).Why)
	}
	return f
}
