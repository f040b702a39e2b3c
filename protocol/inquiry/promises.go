package inquiry

import "slices"

// Promises are the corrections of one operation that a task got without the value. A correction does not carry a large
// value: its sender has the value, which most likely is on its way to the task along the tree. If it does not come, the
// task asks for it. M is a correction; the operation's machine gets it when the value is here.
//
// The caller's duties: Ask when the value has not come for a while, and when a death or a view becomes known; Restart when
// a view runs a rank again; Came when the value is here. From then on the caller adds nothing, and asks no rank.
type Promises[M any] struct {
	All   []Promise[M] // in the order in which they came
	Asked int          // for how many of them the sender was asked
}

// Promise is a correction that came without the value.
type Promise[M any] struct {
	From    int
	Message M
}

// Ask lists the ranks that are to be asked now.
func (p *Promises[M]) Ask(yield func(to int) bool) {
	for p.Asked < len(p.All) {
		p.Asked++
		if !yield(p.All[p.Asked-1].From) {
			return
		}
	}
}

// Restart notes that a rank is run again. ask reports that the rank must be asked again: the question went to an earlier
// attempt, or to the process of that, if the correction of this attempt came before the view.
func (p *Promises[M]) Restart(rank int) (ask bool) {
	return slices.ContainsFunc(p.All[:p.Asked], func(q Promise[M]) bool { return q.From == rank })
}

// Came notes that the value is here. It returns the corrections, which it forgets.
func (p *Promises[M]) Came() (all []Promise[M]) {
	all = p.All
	p.All, p.Asked = p.All[:0], 0
	return all
}
