package replay_test

// Mistakes that moves invite. See planted_test.go.

// How they come to light.
const (
	goesOn = "a process goes on with a task that is another's"
	twice  = "a task is adopted that a live process owns"
)

var moveMistakes = []mistake{
	{
		name: "tasks move before all have saved", file: "moves.go",
		old:   `	epoch, ok := e.sweep.Complete()`,
		new:   `	epoch, ok := s.completeOr("tasks move before all have saved")`,
		found: "two that move", by: twice,
	},
	{
		name: "the root commits what it asks a view for", file: "moves.go",
		old: `		j.members.Balance(&s.members, epoch)
`,
		new: `		j.members.Balance(&s.members, epoch)
		if wrong("the root commits what it asks a view for") {
			e.sweep.Hold(false)
		}
`,
		found: "two that move",
	},
	{
		name: "a task goes on where it was", file: "process.go",
		old:   `		if s.find(to) != nil {`,
		new:   `		if s.find(to) != nil && !(v.Owners[to] != s.self && wrong("a task goes on where it was")) {`,
		found: "two that move", by: goesOn,
	},
	{
		name: "copies are handed over only for the dead", file: "copy.go",
		old:   `moved(before, s.view, r.Task) {`,
		new:   `moved(before, s.view, r.Task) && !(s.view.Has(ownerOf(before, r.Task)) && wrong("copies are handed over only for the dead")) {`,
		found: "four that move", by: givenUp,
	},
	{
		name: "the view that moves tasks does not commit", file: "epoch.go",
		old: `	s.epochs.sweep.Commit(s.view.Epoch)
`,
		new: `	if !wrong("the view that moves tasks does not commit") {
		s.epochs.sweep.Commit(s.view.Epoch)
	}
`,
		found: "four that move",
	},
	{
		name: "what tasks of one process send each other is not logged", file: "process.go",
		old:   `	if j.moves && f.Epoch == 0 {`,
		new:   `	if j.moves && f.Epoch == 0 && !wrong("what tasks of one process send each other is not logged") {`,
		found: "two that move", by: noEnd,
	},
	{
		name: "a task that comes back is not sent again what it was sent", file: "moves.go",
		old:   `	if s.view.Owners[number] != s.self {`,
		new:   `	if s.view.Owners[number] != s.self || wrong("a task that comes back is not sent again what it was sent") {`,
		found: "three that are given tasks back", by: noEnd, seed: 15011801544576902918,
	},
}

// moveHelp is what they need.
const moveHelp = `
func (s *State) completeOr(name string) (uint64, bool) {
	e := &s.epochs
	if epoch, ok := e.sweep.Complete(); ok || !wrong(name) || !e.sweep.hold {
		return epoch, ok
	}
	return e.committed + 1, e.wish <= e.committed
}

func ownerOf(v *membership.View, task protocol.Rank) membership.Member {
	if v == nil {
		return membership.Member{}
	}
	m, _ := v.Find(v.Owners[task])
	return m
}
`
