package node

import (
	"slices"
	"time"
)

// Waiting is what a task waits for in an operation.
type Waiting struct {
	Task   int
	Op     string
	Number uint64        // of the operation in its group, or of the message
	Forked bool          // the group is a fork, or smaller than all
	For    []int         // tasks of which something is missing; with several, as far as this process knows
	Tag    int           // of the message
	Since  time.Duration // in steps of some 100 ms
}

// Waiting returns the tasks of this process, and what those wait for that wait.
func (p *Process) Waiting() (tasks []int, all []Waiting) {
	p.engine.Lock()
	defer p.engine.Unlock()
	tasks = p.roster.Of(p.cfg.Rank)
	for m := range p.groups.all() {
		for o := range m.ops.all() {
			if !o.waits() || o.left || o.w == nil {
				continue
			}
			w := Waiting{Task: m.task, Op: opName(o.plan.op), Number: o.seq, Forked: m.group != world, Since: waitedFor(o.patrols)}
			for _, r := range o.awaits() {
				if int(r) != m.rank {
					w.For = append(w.For, m.taskOf(int(r)))
				}
			}
			slices.Sort(w.For)
			w.For = slices.Compact(w.For)
			all = append(all, w)
		}
		var several Waiting
		for key, s := range m.in {
			switch {
			case !s.wanted || s.head() != nil:
			case s.any != nil:
				several = Waiting{
					Task: m.task, Op: "recvany", Forked: m.group != world, For: append(several.For, m.taskOf(key.rank)), Tag: int(key.tag), Since: waitedFor(s.patrols),
				}
			default:
				all = append(all, Waiting{
					Task: m.task, Op: "recv", Number: s.flow.Taken() + 1, Forked: m.group != world, For: []int{m.taskOf(key.rank)},
					Tag: int(key.tag), Since: waitedFor(s.patrols),
				})
			}
		}
		if several.For != nil {
			slices.Sort(several.For)
			all = append(all, several)
		}
	}
	return tasks, all
}

// waitedFor is how long something waits that so many patrols have seen.
func waitedFor(patrols int) time.Duration { return time.Duration(patrols) * time.Duration(patrolEvery) }
