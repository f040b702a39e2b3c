package replay_test

// Mistakes that epochs invite. See planted_test.go.

// How they come to light.
const (
	otherEpoch = "a task goes on from another epoch than others"
	givenUp    = "a task is given up, though somebody has its state"
)

var epochMistakes = []mistake{
	{
		name: "a task has saved before there are copies", file: "epoch.go",
		old:   `	if t.saving && s.enough(`,
		new:   `	if t.saving && s.enoughOr("a task has saved before there are copies", `,
		found: "three that save",
	},
	{
		name: "the sweep counts what was said in another view", file: "sweep.go",
		old: `	case m.View < s.view:
	case m.View > s.view:
		s.keep(from, m)
`,
		new: `	case m.View < s.view && !wrong("the sweep counts what was said in another view"):
	case m.View > s.view:
		s.keep(from, m)
`,
		found: "three that save",
	},
	{
		name: "what was saved in another view counts", file: "sweep.go",
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
		name: "a task that is run again does not hold its process back", file: "epoch.go",
		old: `		epoch = min(epoch, s.savedBy(t))
`,
		new: `		if len(s.tasks) > 1 && !t.first && t.epoch == 0 && wrong("a task that is run again does not hold its process back") {
			continue
		}
		epoch = min(epoch, s.savedBy(t))
`,
		found: "three that save",
	},
	{
		name: "who is run again resumes at the latest state that is here", file: "epoch.go",
		old:   `	r := s.copy(t.number, epoch, 0)`,
		new:   `	r := s.stateOf(t.number, epoch)`,
		found: "three that save",
	},
	{
		name: "an older state takes the place of one that is lost", file: "epoch.go",
		old: `func (e *epochs) dropped(epoch uint64) bool { return 0 < epoch &&`,
		new: `func (e *epochs) dropped(epoch uint64) bool { // see stateOf
	return 0 < epoch && !wrong("an older state takes the place of one that is lost") &&`,
		found: "three with a copy each", by: otherEpoch,
	},
	{
		name: "who is run again does not ask what is committed in this view", file: "epoch.go",
		old: `		if !s.epochs.sweep.Known() {
`,
		new: `		if !s.epochs.sweep.Known() && !wrong("who is run again does not ask what is committed in this view") {
`,
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
		name: "the copies before are dropped at Save", file: "epoch.go",
		old: `	s.store(t.state())
`,
		new: `	if wrong("the copies before are dropped at Save") {
		s.dropCopies(t)
	}
	s.store(t.state())
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
		name: "the values of the first epoch are dropped", file: "epoch.go",
		old:   `bool { return e.dropped(r.Epoch) })`,
		new:   `bool { return e.dropped(r.Epoch) || r.Epoch == 0 && wrong("the values of the first epoch are dropped") })`,
		found: "three with values",
	},
	{
		name: "copies are not made again", file: "copy.go",
		old: `		s.spreadCopy(r)
`,
		new: `		if r.complete == 0 || !wrong("copies are not made again") {
			s.spreadCopy(r)
		}
`,
		found: "the neighbours first",
	},
	{
		name: "a new owner does not make copies again", file: "copy.go",
		old: `		if t == nil || !t.first && !heard {
`,
		new: `		if t == nil || !t.first && (!heard || r.Key == 0 && r.Epoch <= s.epochs.committed && wrong("a new owner does not make copies again")) {
`,
		found: "one death after the other",
	},
	{
		name: "a state is given up before all have said their word", file: "epoch.go",
		old:   `	case s.heard():`,
		new:   `	case s.heard() || wrong("a state is given up before all have said their word"):`,
		found: "four of whom one crashes that save", by: givenUp,
	},
	{
		name: "a value is drawn before all have said their word", file: "copy.go",
		old: `	switch {
	case !t.first && !s.heard():
`,
		new: `	if r == nil && !t.first && !s.heard() && wrong("a value is drawn before all have said their word") {
		t.draw(protocol.Mix(t.view, uint64(t.op)))
		return true
	}
	switch {
	case !t.first && !s.heard():
`,
		found: "four of whom one crashes that save",
	},
	{
		name: "a value is used before there are copies", file: "copy.go",
		old:   `	case !s.enough(r):`,
		new:   `	case !s.enoughOr("a value is used before there are copies", r):`,
		found: "three with values",
	},
	{
		name: "a value that was handed over is used before there are copies", file: "copy.go",
		old: `	key := uint64(t.count) + 1
`,
		new: `	key := uint64(t.count) + 1
	if r := s.copy(t.number, t.epoch, key); r != nil && !t.first && wrong("a value that was handed over is used before there are copies") {
		t.draw(r.digest)
		return true
	}
`,
		found: "three with values", seed: 5449741894505600313,
	},
	{
		name: "a value that is lost is drawn anew", file: "copy.go",
		old:   `	case r == nil && s.hasDrawn(`,
		new:   `	case r == nil && !wrong("a value that is lost is drawn anew") && s.hasDrawn(`,
		found: "four whose values are lost", by: otherBits,
	},
	{
		name: "who is told of a value does not pass it on", file: "process.go",
		old:   `			a.Msg.Drawn = s.epochs.drawn`,
		new:   `			a.Msg.Drawn = s.drawnHere()`,
		found: "four whose values are lost", by: otherBits,
	},
	{
		name: "a value that was handed over is returned, and nobody is told", file: "copy.go",
		old: `	s.noteDrawn([]*Copy{r.Copy})
`,
		new: `	if t.first || !wrong("a value that was handed over is returned, and nobody is told") {
		s.noteDrawn([]*Copy{r.Copy})
	}
`,
		found: "four whose values are lost", by: otherBits,
	},
	{
		name: "copies are not handed over", file: "copy.go",
		old:   `		if s.view.Owners[r.Task] == to &&`,
		new:   `		if s.view.Owners[r.Task] == to && !wrong("copies are not handed over") &&`,
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

// epochHelp is what they need.
const epochHelp = `
func (s *State) stateOf(task protocol.Rank, epoch uint64) *replica {
	r, later := s.copy(task, epoch, 0), s.copy(task, epoch+1, 0)
	switch {
	case later != nil && wrong("who is run again resumes at the latest state that is here"):
		return later
	case r == nil && s.heard() && wrong("an older state takes the place of one that is lost"):
		return s.copy(task, epoch-1, 0)
	}
	return r
}

func (s *State) enoughOr(name string, r *replica) bool { return wrong(name) || s.enough(r) }

func (s *State) drawnHere() (all []*Copy) {
	for _, c := range s.epochs.drawn {
		if s.find(c.Task) != nil || !wrong("who is told of a value does not pass it on") {
			all = append(all, c)
		}
	}
	return all
}

func (s *State) dropCopies(t *task) {
	var left []replica
	for _, r := range s.epochs.copies {
		if r.Epoch == 0 || r.Epoch > t.epoch {
			left = append(left, r)
		}
	}
	s.epochs.copies = left
}
`
