package chaos

import "slices"

// What a lossy crash does to the channels, for Exhaustive.
//
// Without Detect a crash is moved right, to where time passes or the run ends, and the loss with it: until
// then no process receives the messages that will be lost, and the others arrive as before. Where time passes
// only when nothing else can happen, the messages that survive have arrived by then: what is left of the
// channel is what was lost. So a process may end a stretch with messages left, if their senders crash. With
// EagerTimers some of what is left may arrive later, and every cut of the channel is tried. With Detect the
// crash stays where it is, and every cut of every channel is tried there.

// survivors lists what may be left of the inbox at the end of a stretch when the doomed processes crash;
// nothing if the stretch cannot end there.
func (x *explorer[S, M]) survivors(end *point[S, M], doomed uint64) [][]queue[M] {
	switch {
	case x.cfg.EagerTimers && x.cfg.LossyCrashes:
		all := [][]queue[M]{end.inbox}
		for from := range end.inbox {
			if doomed>>from&1 == 1 {
				all = cuts(all, from)
			}
		}
		return all
	case x.cfg.EagerTimers:
		return [][]queue[M]{end.inbox}
	case end.unread&^doomed != 0:
		return nil
	default: // everything is read or lost
		return [][]queue[M]{make([]queue[M], len(end.inbox))}
	}
}

// cuts returns the inboxes with every prefix of what is in from's channel.
func cuts[M any](inboxes [][]queue[M], from int) (all [][]queue[M]) {
	for _, inbox := range inboxes {
		for n := len(inbox[from].items); n >= 0; n-- {
			cut := slices.Clone(inbox)
			cut[from] = queueOf(inbox[from].items[:n:n])
			all = append(all, cut)
		}
	}
	return all
}

// crashed lists what may follow g when a process crashes at the end of a stretch.
func (x *explorer[S, M]) crashed(g *node[S, M], end *point[S, M]) []*node[S, M] {
	to := g.replacing(end.r, nil, nil)
	to.bury(end)
	all := []*node[S, M]{to}
	if !x.cfg.LossyCrashes {
		return all
	}
	for r := range g.procs {
		var next []*node[S, M]
		for _, to := range all {
			for _, inbox := range cuts([][]queue[M]{to.inboxes[r]}, end.r) {
				next = append(next, to.replacing(r, to.procs[r], inbox))
			}
		}
		all = next
	}
	return all
}
