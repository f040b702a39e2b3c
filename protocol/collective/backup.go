package collective

import "slices"

// Backups of reductions (the thesis's Algorithm 4). What a task has combined is kept by another
// process, and a task that is run again takes it from there. Backups are of programs with one segment.

// Keeper returns the rank whose process keeps what a step combines: the rank from which the task has received last. That
// rank is done, mostly. Keeper returns false if there is none.
func (g *Program) Keeper(step int) (r Rank, ok bool) {
	for i := step - 1; i >= 0; i-- {
		if g.Steps[i].Kind == RecvStep {
			return g.Steps[i].Peer, true
		}
	}
	return 0, false
}

// Spared reports whether a step need not combine anything: there is a backup of what it makes, or
// nothing but a step that need not either uses it.
func (g *Program) Spared(step int, backed func(step int) bool) bool {
	if backed(step) {
		return true
	}
	at := g.Steps[step].Slots[0]
	for i := step + 1; i < len(g.Steps); i++ {
		switch st := &g.Steps[i]; {
		case st.Kind == FoldStep && st.Slots[0] == at, st.Kind == FoldStep && st.With[0] == at && !st.Keep:
			return g.Spared(i, backed)
		case slices.Contains(st.Slots, at), slices.Contains(st.With, at):
			return false
		}
	}
	return false
}
