package inquiry

import "slices"

// Promises are the corrections of one operation that a task got without the value. A correction does not carry a
// value that is large: whoever sends one has the value, which most likely is on its way to the task along the tree. If
// it does not come, the task asks for it. M is a correction; the operation's machine gets it when the value is here.
//
// The caller's duties: Ask when the value has not come for a while, and when a death or a view becomes known; Restart
// when a view has a rank run again; Came when the value is here. From then on it adds nothing, and asks nobody.
type Promises[M any] struct {
	all   []promise[M]
	asked int // so many of them
}

type promise[M any] struct {
	from    int
	message M
}

// Add takes a correction that came without the value.
func (p *Promises[M]) Add(from int, message M) { p.all = append(p.all, promise[M]{from, message}) }

// Counts returns how many corrections there are, and for how many of them the sender was asked.
func (p *Promises[M]) Counts() (promised, asked int) { return len(p.all), p.asked }

// Ask lists the ranks that are to be asked now.
func (p *Promises[M]) Ask(yield func(to int) bool) {
	for p.asked < len(p.all) {
		p.asked++
		if !yield(p.all[p.asked-1].from) {
			return
		}
	}
}

// Restart says that a rank is run again; ask: it is to be asked again. The question went to an earlier attempt, or to
// the process of that, if the correction of this attempt came before the view.
func (p *Promises[M]) Restart(rank int) (ask bool) {
	return slices.ContainsFunc(p.all[:p.asked], func(q promise[M]) bool { return q.from == rank })
}

// All lists the corrections, in the order in which they came.
func (p *Promises[M]) All(yield func(from int, message M) bool) {
	for _, q := range p.all {
		if !yield(q.from, q.message) {
			return
		}
	}
}

// Came says that the value is here. It lists the corrections, and forgets them.
func (p *Promises[M]) Came(yield func(from int, message M) bool) {
	p.All(yield)
	p.Reset()
}

// Reset forgets all, in the memory that there is.
func (p *Promises[M]) Reset() {
	clear(p.all)
	p.all, p.asked = p.all[:0], 0
}

// Clone returns a copy that shares nothing that changes.
func (p *Promises[M]) Clone() Promises[M] { return Promises[M]{slices.Clone(p.all), p.asked} }
