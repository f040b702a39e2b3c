package replay_test

// Mistakes in epochs. See planted_test.go.

// The errors that reveal them.
const (
	otherEpoch = "a task goes on from another epoch than others"
	givenUp    = "a task is given up, though somebody has its state"
)

var epochMistakes = []mistake{
	{
		name: "a task has saved before there are copies", file: "recovery/epochs.go",
		old:   `!m.Enough(Key{Task: t.number, Epoch: t.to}) {`,
		new:   `!m.Enough(Key{Task: t.number, Epoch: t.to}) && !wrong("a task has saved before there are copies") {`,
		found: "three that save",
	},
	{
		name: "what is stored waits for copies", file: "recovery/copies.go",
		old:   `(r.stored || m.reaches(`,
		new:   `(r.stored && !wrong("what is stored waits for copies") || m.reaches(`,
		found: "a swarm that stores", by: noEnd,
	},
	{
		name: "a file is written under the epoch before", file: "epoch.go",
		old:   `		j.files[c.Key] = c`,
		new:   `		k := c.Key; if wrong("a file is written under the epoch before") { k.Epoch-- }; j.files[k] = c`,
		found: "a swarm that stores",
	},
	{
		name: "the sweep counts what was said in another view", file: "recovery/sweep.go",
		old: `	if m.View < s.view {
`,
		new: `	if m.View < s.view && !wrong("the sweep counts what was said in another view") {
`,
		found: "three that save",
	},
	{
		name: "that an epoch is committed counts before the view that moves tasks", file: "recovery/sweep.go",
		old: `	if m.View > s.view {
`,
		new: `	if !m.Up && wrong("that an epoch is committed counts before the view that moves tasks") {
		s.learn(m.Committed, m.Balance)
	}
	if m.View > s.view {
`,
		found: "four that move",
	},
	{
		name: "what was saved in another view counts", file: "recovery/sweep.go",
		old: `	s.first, s.known, s.saved = false, false, 0
`,
		new: `	s.first, s.known = false, false
	if !wrong("what was saved in another view counts") {
		s.saved = 0
	}
`,
		found: "three that save",
	},
	{
		name: "a task that is run again does not hold its process back", file: "recovery/epochs.go",
		old:   `		if m.IsLost(t.number) {`,
		new:   `		if m.IsLost(t.number) || len(m.tasks) > 1 && !t.first() && t.at == 0 && t.to == 0 && wrong("a task that is run again does not hold its process back") {`,
		found: "three that save",
	},
	{
		name: "who is run again resumes at the latest state that is here", file: "recovery/epochs.go",
		old:   `	return m.committed, m.Holds(k), true`,
		new:   `	return m.stateOf(k)`,
		found: "three that save",
	},
	{
		name: "an older state takes the place of one that is lost", file: "recovery/epochs.go",
		old: `bool { return 0 < epoch && epoch < m.committed }`,
		new: `bool { // see stateOf
	return 0 < epoch && epoch < m.committed && !wrong("an older state takes the place of one that is lost")
}`,
		found: "three with a copy each", by: otherEpoch,
	},
	{
		name: "who is run again does not ask what is committed in this view", file: "recovery/epochs.go",
		old:   `	case !m.sweep.Known():`,
		new:   `	case !m.sweep.Known() && !wrong("who is run again does not ask what is committed in this view"):`,
		found: "three that save", by: otherEpoch,
	},
	{
		name: "the log is dropped at Save", file: "epoch.go",
		old: `	t.saving = true
`,
		new: `	t.saving = true
	if wrong("the log is dropped at Save") {
		t.drop(t.epoch + 1)
	}
`,
		found: "three that save", by: noEnd,
	},
	{
		name: "the copies before are dropped at Save", file: "recovery/epochs.go",
		old: `		t.to, t.balance = epoch, balance
`,
		new: `		t.to, t.balance = epoch, balance
		if wrong("the copies before are dropped at Save") {
			m.copies = slices.DeleteFunc(m.copies, func(r replica) bool { return r.Epoch > 0 && r.Epoch <= t.at })
		}
`,
		found: "three that save",
	},
	{
		name: "the log of the first epoch is dropped", file: "epoch.go",
		old:   `return 0 < l.epoch && l.epoch < epoch })`,
		new:   `return (0 < l.epoch || wrong("the log of the first epoch is dropped")) && l.epoch < epoch })`,
		found: "two that save", by: noEnd,
	},
	{
		name: "the values of the first epoch are dropped", file: "recovery/epochs.go",
		old: `	m.drop(false)
`,
		new: `	if m.drop(false); wrong("the values of the first epoch are dropped") {
		m.copies = slices.DeleteFunc(m.copies, func(r replica) bool { return r.Epoch == 0 })
	}
`,
		found: "three with values",
	},
	{
		name: "copies are not made again", file: "recovery/copies.go",
		old: `	m.spread(r)
`,
		new: `	if r.complete == 0 || !wrong("copies are not made again") {
		m.spread(r)
	}
`,
		found: "the neighbours first",
	},
	{
		name: "a new owner does not make copies again", file: "recovery/copies.go",
		old:   `	if t.first() || m.Heard() {`,
		new:   `	if t.first() || m.Heard() && !(r.Name == 0 && r.Epoch <= m.committed && wrong("a new owner does not make copies again")) {`,
		found: "one death after the other",
	},
	{
		name: "a state is given up before all have said their word", file: "recovery/epochs.go",
		old:   `	case !m.Told(k):`,
		new:   `	case !m.Told(k) && !wrong("a state is given up before all have said their word"):`,
		found: "four of whom one crashes that save", by: givenUp,
	},
	{
		name: "a value is drawn before all have said their word", file: "recovery/copies.go",
		old:   `	case !m.Told(k):`,
		new:   `	case !m.Told(k) && !wrong("a value is drawn before all have said their word"):`,
		found: "four of whom one crashes that save",
	},
	{
		name: "a value is used before there are copies", file: "recovery/copies.go",
		old:   `		if m.enough(r) &&`,
		new:   `		if (m.enough(r) || wrong("a value is used before there are copies")) &&`,
		found: "three with values",
	},
	{
		name: "a value that was handed over is used before there are copies", file: "recovery/copies.go",
		old: `	case r != nil:
`,
		new: `	case r != nil && !t.first() && wrong("a value that was handed over is used before there are copies"):
		return Here
	case r != nil:
`,
		found: "three with values",
	},
	{
		name: "a value that is lost is drawn anew", file: "recovery/copies.go",
		old:   `	case m.Drawn(k):`,
		new:   `	case m.Drawn(k) && !wrong("a value that is lost is drawn anew"):`,
		found: "four whose values are lost", by: otherBits,
	},
	{
		name: "who is told of a value does not pass it on", file: "recovery/copies.go",
		old:   `	return m.drawn[told:]`,
		new:   `	return m.drawnHere(m.drawn[told:])`,
		found: "four whose values are lost", by: otherBits,
	},
	{
		name: "a value that was handed over is returned, and nobody is told", file: "effect.go",
		old: `		s.rules.Drew(k)
`,
		new: `		if t.first || !wrong("a value that was handed over is returned, and nobody is told") {
			s.rules.Drew(k)
		}
`,
		found: "four whose values are lost", seed: 12399269210566745218,
	},
	{
		name: "a copy that is on its way is given up", file: "recovery/copies.go",
		old:   `	return m.Heard() && !slices.`,
		new:   `	return m.Heard() && wrong("a copy that is on its way is given up") || m.Heard() && !slices.`,
		found: "three that save",
	},
	{
		name: "a copy is awaited whose sender is dead", file: "recovery/machine.go",
		old:   `bool { return !v.Has(c.from) })`,
		new:   `bool { return !v.Has(c.from) && !wrong("a copy is awaited whose sender is dead") })`,
		found: "four of whom one crashes that save", by: noEnd,
	},
	{
		name: "copies are not handed over", file: "recovery/copies.go",
		old:   `m.view.Owners[r.Task] == to &&`,
		new:   `m.view.Owners[r.Task] == to && !wrong("copies are not handed over") &&`,
		found: "three that save", by: givenUp,
	},
	{
		name: "who resumes does not number operations anew", file: "epoch.go",
		old: `	t.count, t.balance = 0, 0
`,
		new: `	if t.balance = 0; t.first || !wrong("who resumes does not number operations anew") {
		t.count = 0
	}
`,
		found: "two that save",
	},
	{
		name: "messages are not counted anew", file: "epoch.go",
		old: `	t.epoch, t.saving = epoch, false
`,
		new: `	defer func(b int64) {
		if wrong("messages are not counted anew") {
			t.balance = b
		}
	}(t.balance)
	t.epoch, t.saving = epoch, false
`,
		found: "three that save often",
	},
}

// machineHelp is source code that mistakes in the machine need.
const machineHelp = `
func (m *Machine) stateOf(k Key) (epoch uint64, here, known bool) {
	later, older := Key{Task: k.Task, Epoch: k.Epoch + 1}, Key{Task: k.Task, Epoch: k.Epoch - 1}
	switch {
	case m.Holds(later) && wrong("who is run again resumes at the latest state that is here"):
		return later.Epoch, true, true
	case !m.Holds(k) && m.Holds(older) && wrong("an older state takes the place of one that is lost"):
		return older.Epoch, true, true
	}
	return k.Epoch, m.Holds(k), true
}

func (m *Machine) drawnHere(owed []Key) []Key {
	return slices.DeleteFunc(slices.Clone(owed), func(k Key) bool {
		return m.find(k.Task) == nil && wrong("who is told of a value does not pass it on")
	})
}

func (m *Machine) noteUnless(name string, op Op) {
	view := m.view
	if wrong(name) {
		m.view = nil
	}
	m.note(op)
	m.view = view
}

func (m *Machine) heardAs(name string, t *task) bool {
	if !wrong(name) {
		return m.Heard()
	}
	for _, o := range m.view.Members {
		if o.ID != m.self.ID && (int(o.ID) >= len(m.words) || m.words[o.ID] < t.since) {
			return false
		}
	}
	return true
}

func (m *Machine) recordsUnless(name string) []Op {
	if wrong(name) {
		return nil
	}
	return m.records
}

func (m *Machine) lostUnless(name string) []loss {
	if wrong(name) {
		return nil
	}
	return m.lost
}

func (m *Machine) completeOr(name string) (uint64, bool) {
	if epoch, ok := m.sweep.Complete(); ok || !wrong(name) || !m.sweep.hold {
		return epoch, ok
	}
	return m.committed + 1, m.wish <= m.committed
}

func ownerOf(v *membership.View, task protocol.Rank) membership.Member {
	if v == nil {
		return membership.Member{}
	}
	m, _ := v.Find(v.Owners[task])
	return m
}
`
