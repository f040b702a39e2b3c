package replay_test

// Mistakes in leaving. See planted_test.go.

// The errors that reveal them.
const (
	notWhereItIs  = "a process departs, and what a task has saved is not where it should be"
	adoptedAlive  = "a task is adopted that a live process owns"
	givenToLeaver = "a process that leaves is given a task, though another one stays"
)

var leavingMistakes = []mistake{
	{
		name: "copies at those who leave are enough", file: "recovery/leaving.go",
		old: `	return min(m.cfg.Copies, all), min(m.cfg.Copies, stay)
`,
		new: `	if wrong("copies at those who leave are enough") {
		stay = 0
	}
	return min(m.cfg.Copies, all), min(m.cfg.Copies, stay)
`,
		found: "five of whom two leave and one dies",
	},
	{
		name: "who leaves does not wait for who needs it", file: "recovery/leaving.go",
		old:   `	case m.spared():`,
		new:   `	case m.spared() || len(m.tasks) == 0 && wrong("who leaves does not wait for who needs it"):`,
		found: "four of whom three leave", by: notWhereItIs,
	},
	{
		name: "who leaves does not wait for the next Save", file: "recovery/leaving.go",
		old:   `		if owner == m.self.ID || owner >= 0 &&`,
		new:   `		if owner == m.self.ID && !wrong("who leaves does not wait for the next Save") || owner >= 0 && owner != m.self.ID &&`,
		found: "four of whom two leave", by: adoptedAlive,
	},
	{
		name: "the beginning of a copy is enough", file: "recovery/leaving.go",
		old:   `		if m.find(c.Task) != nil {`,
		new:   `		if m.find(c.Task) != nil && !wrong("the beginning of a copy is enough") {`,
		found: "four of whom three leave", by: notWhereItIs,
	},
	{
		name: "who runs a task again does not wait for words before it spares", file: "recovery/leaving.go",
		old:   `!m.tasks[i].first() && !m.Heard() {`,
		new:   `!m.tasks[i].first() && !m.Heard() && !wrong("who runs a task again does not wait for words before it spares") {`,
		found: "four of whom three leave", by: notWhereItIs,
	},
	{
		name: "who was spared in an earlier view departs", file: "recovery/leaving.go",
		old: `			s = m.spares[id]
`,
		new: `			if s = m.spares[id]; s.view > 0 && wrong("who was spared in an earlier view departs") {
				s.view = m.view.Number
			}
`,
		found: "four of whom three leave", by: notWhereItIs,
	},
	{
		name: "who leaves does not wait until those that stay know what is committed", file: "recovery/leaving.go",
		old:   `s.last < epoch)`,
		new:   `s.last < epoch && !wrong("who leaves does not wait until those that stay know what is committed"))`,
		found: "five of whom two leave and one dies", by: notWhereItIs,
	},
	{
		name: "tasks of the dead go to who leaves", file: "membership/owners.go",
		old: `		i := least(load, most)
`,
		new: `		for j, m := range members {
			if wrong("tasks of the dead go to who leaves") {
				most[j] = limit.any(m)
			}
		}
		i := least(load, most)
`,
		found: "five of whom two leave and one dies", by: givenToLeaver,
	},
	{
		name: "a view that says who leaves moves tasks", file: "membership/leaving.go",
		old: `	return next.left(leaving).owned(v, v.Owners)`,
		new: `	if moved := balance(v.Owners, v.Members, next.left(leaving).limits(nil)); moved != nil && wrong("a view that says who leaves moves tasks") {
		return next.owned(v, moved)
	}
	next.Leaving = nil
	return next.left(leaving).owned(v, v.Owners)`,
		found: "four of whom two leave", by: adoptedAlive,
	},
}
