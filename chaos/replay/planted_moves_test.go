package replay_test

// Mistakes in moves of tasks. See planted_test.go.

// The errors that reveal them.
const (
	goesOn = "a process goes on with a task that is another's"
)

var moveMistakes = []mistake{
	{
		name: "a task is run again, though a log was given up", file: "recovery/moves.go",
		old:   `	if m.logless {`,
		new:   `	if m.logless && !wrong("a task is run again, though a log was given up") {`,
		found: "a swarm that gives up logs", by: noEnd,
	},
	{
		name: "who joins is not told of lost tasks", file: "recovery/aborts.go",
		old:   `			for _, l := range m.lost {`,
		new:   `			for _, l := range m.lostUnless("who joins is not told of lost tasks") {`,
		found: "a swarm that gives up logs", by: noEnd,
	},
	{
		name: "tasks move before all have saved", file: "recovery/machine.go",
		old:   `	if epoch, ok := m.sweep.Complete(); ok`,
		new:   `	if epoch, ok := m.completeOr("tasks move before all have saved"); ok`,
		found: "two that move",
	},
	{
		name: "the root commits what it asks a view for", file: "recovery/machine.go",
		old: `		m.do(Effect{Act: Move, Epoch: epoch})
`,
		new: `		m.do(Effect{Act: Move, Epoch: epoch})
		if wrong("the root commits what it asks a view for") {
			m.Hold(false)
		}
`,
		found: "two that move",
	},
	{
		name: "a task goes on where it was", file: "recovery/moves.go",
		old: `			m.do(Effect{Act: GiveUp, Task: number})
`,
		new: `			if owner == m.self.ID || !wrong("a task goes on where it was") {
				m.do(Effect{Act: GiveUp, Task: number})
			}
`,
		found: "two that move", by: goesOn,
	},
	{
		name: "copies are handed over only for the dead", file: "recovery/copies.go",
		old:   `moved(before, m.view, r.Task) {`,
		new:   `moved(before, m.view, r.Task) && !(m.view.Has(ownerOf(before, r.Task)) && wrong("copies are handed over only for the dead")) {`,
		found: "four that move", by: givenUp,
	},
	{
		name: "the view that moves tasks does not commit", file: "recovery/machine.go",
		old: `	m.sweep.Commit(v.Epoch)
`,
		new: `	if !wrong("the view that moves tasks does not commit") {
		m.sweep.Commit(v.Epoch)
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
		name: "a task that comes back is not sent again what it was sent", file: "recovery/moves.go",
		old:   `			if owner == m.self.ID {`,
		new:   `			if owner == m.self.ID && !wrong("a task that comes back is not sent again what it was sent") {`,
		found: "three that are given tasks back", by: noEnd,
	},
}
