package chaos

import (
	"cmp"
	"strings"

	"github.com/coppice-go/coppice/internal/plant"
)

// Mistakes in agreements, planted in the machine's source to check that the tests find them, as for
// membership.

// agreementMistake is one of them; see mistake. In new, wrong("name") reports whether to go wrong.
type agreementMistake struct {
	name     string
	file     string // default agreement.go
	old, new string
	driven   bool   // found without a group, whose care otherwise hides it
	world    string // of agreementWorlds or, if driven, drivenWorlds
	by       []error
}

var agreementMistakes = []agreementMistake{
	{
		name:  "the root decides before all have contributed",
		old:   `func(m Message) bool { return m.Kind == 0 }):`,
		new:   `func(m Message) bool { return m.Kind == 0 }) && !(s.at == 0 && s.folded > 0 && wrong("the root decides before all have contributed")):`,
		world: "four of whom three crash", by: []error{errInvalid},
	},
	{
		name: "a decision of an earlier view is taken",
		old:  `case m.View < s.view:`,
		new: `case m.View < s.view && m.Kind == Down && s.decision.Decided == 0 && wrong("a decision of an earlier view is taken"):
		s.settled, s.decision = true, m
		return
	case m.View < s.view:`,
		driven: true, world: "four in three views", by: []error{errUnbound},
	},
	{
		name: "a contribution of an earlier view is taken",
		old: `	case m.View < s.view:
		return
	case m.View > s.view:`,
		new: `	case m.View < s.view && !wrong("a contribution of an earlier view is taken"):
		return
	case m.View > s.view:`,
		driven: true, world: "four in three views", by: []error{errInvalid, errUnbound},
	},
	{
		name:   "messages of later views are dropped",
		old:    `s.hold(from, m)`,
		new:    `if !wrong("messages of later views are dropped") { s.hold(from, m) }`,
		driven: true, world: "three in two views", by: []error{errNoReturn},
	},
	{
		name: "a decision is not contributed in the next view",
		old: `	case s.decision.Decided != 0:
		return s.decided(Up)`,
		new: `	case s.decision.Decided != 0 && !wrong("a decision is not contributed in the next view"):
		return s.decided(Up)`,
		world: "four of whom three crash", by: []error{errUnbound, errInvalid},
	},
	{
		name: "the root decides anew what was decided",
		old: `	if s.decision.Decided != 0 {
		return
	}
	s.decision =`,
		new: `	if s.decision.Decided != 0 && !wrong("the root decides anew what was decided") {
		return
	}
	s.decision =`,
		world: "four of whom three crash", by: []error{errUnbound, errInvalid},
	},
	{
		name: "who has failed is judged locally",
		old:  `		return Action{Kind: protocol.Deliver, Msg: s.decided(Down)}`,
		new: `		if wrong("who has failed is judged locally") {
			s.decision.Failed = s.missing()
		}
		return Action{Kind: protocol.Deliver, Msg: s.decided(Down)}`,
		world: "four of whom three crash", by: []error{ErrClaims, errInvalid},
	},
	{
		name: "values are combined as they come",
		old: `		if k < 0 || s.came[k].Kind != 0 {
			return
		}
`,
		new: `		if k >= 0 && wrong("values are combined as they come") {
			k = slices.IndexFunc(s.came, func(m Message) bool { return m.Kind == 0 })
		}
		if k < 0 || s.came[k].Kind != 0 {
			return
		}
`,
		world: "four of whom three crash", by: []error{errInvalid},
	},
	{
		name: "the decision is forgotten on return",
		old:  `	before := s.held`,
		new: `	if s.delivered && wrong("the decision is forgotten on return") {
		s.decision = Message{}
	}
	before := s.held`,
		world: "four of whom three crash", by: []error{errUnbound, errReturnsAgain},
	},
	{
		name: "who has returned serves no more",
		old:  `	s.at = slices.Index(s.live, s.self)`,
		new: `	s.at = slices.Index(s.live, s.self)
	if s.delivered && wrong("who has returned serves no more") {
		s.at = -1
	}`,
		world: "four of whom three crash", by: []error{errNoReturn},
	},
	{
		name: "an agreement is forgotten on return", file: "series.go",
		old: `s.open = slices.Clone(s.open[first:])`,
		new: `if wrong("an agreement is forgotten on return") { first++ }
		s.open = slices.Clone(s.open[first:])`,
		world: "four of whom three crash", by: []error{errNoReturn},
	},
	{
		name: "no agreement is ever forgotten", file: "series.go",
		old: `first, _ := s.search(i.Number)`,
		new: `first, _ := s.search(i.Number)
		if wrong("no agreement is ever forgotten") { first = 0 }`,
		world: "four of whom three crash", by: []error{errKept},
	},
	{
		name: "what comes before the call is dropped", file: "series.go",
		old:   `i != nil || number <= s.called || number > s.called+s.ahead {`,
		new:   `i != nil || number <= s.called || number > s.called+s.ahead || wrong("what comes before the call is dropped") {`,
		world: "four of whom three crash", by: []error{errNoReturn},
	},
	{
		name: "what was heard before the call is forgotten", file: "series.go",
		old: `	return s.at(s.called)`,
		new: `	if n, ok := s.search(s.called); ok && wrong("what was heard before the call is forgotten") {
		s.open = slices.Delete(slices.Clone(s.open), n, n+1)
	}
	return s.at(s.called)`,
		world: "four of whom three crash", by: []error{errNoReturn},
	},
	{
		name: "an agreement begins without the view", file: "series.go",
		old:   `	if s.view > 0 {`,
		new:   `	if s.view > 0 && (s.view == 1 || !wrong("an agreement begins without the view")) {`,
		world: "four of whom three crash", by: []error{errNoReturn},
	},
	{
		name: "an agreement that was not called has no new view", file: "series.go",
		old: `	for _, i := range s.open {
		i.NewView(number, members)`,
		new: `	for _, i := range s.open {
		if i.Number > s.called && wrong("an agreement that was not called has no new view") { continue }
		i.NewView(number, members)`,
		world: "four of whom three crash", by: []error{errNoReturn},
	},
	{
		name:  "a new view is not begun anew",
		old:   `s.working, s.raised, s.settled, s.told = false, false, false, 0`,
		new:   `s.working, s.raised, s.settled, s.told = false, s.raised && wrong("a new view is not begun anew"), false, 0`,
		world: "four of whom three crash", by: []error{errNoReturn},
	},
	{
		name: "what is half combined is kept",
		old:  `s.came, s.sum, s.folded = make([]Message, s.children()), s.value, 0`,
		new: `kept := s.sum
	s.came, s.sum, s.folded = make([]Message, s.children()), s.value, 0
	if wrong("what is half combined is kept") {
		s.sum = kept
	}`,
		world: "four of whom three crash", by: []error{errInvalid},
	},
	{
		name: "work of an earlier view is taken",
		old: `	case s.stale > 0:
		s.stale--`,
		new: `	case s.stale > 0 && !wrong("work of an earlier view is taken"):
		s.stale--`,
		driven: true, world: "four in three views", by: []error{errInvalid, errUnbound},
	},
	{
		name:  "votes to abort are not passed on",
		old:   `return s.abort || slices`,
		new:   `return s.abort || !wrong("votes to abort are not passed on") && slices`,
		world: "four suspected and voting to abort", by: []error{errInvalid},
	},
	{
		name: "a late vote changes what was decided",
		old:  `func (s *State) Cancel() { s.begun, s.abort = true, true }`,
		new: `func (s *State) Cancel() {
	s.begun, s.abort = true, true
	if s.decision.Decided != 0 && wrong("a late vote changes what was decided") {
		s.decision.Abort, s.decision.Value = true, nil
	}
}`,
		driven: true, world: "five with votes to abort", by: []error{errUnbound, errInvalid},
	},
}

func (m *agreementMistake) test() string {
	outer := "TestAgreementKeepsItsPromises"
	if m.driven {
		outer = "TestAgreementDrivenDirectlyKeepsItsPromises"
	}
	return "^" + outer + "$/^" + strings.ReplaceAll(m.world, " ", "_") + "$"
}

func gardenOfAgreement() *plant.Garden {
	garden := &plant.Garden{
		Machine: "../protocol/agreement", Package: "agreement", Healthy: agreementMistakes[1].test(),
		Tests: []string{"agreement_planted_test.go", "agreement_test.go", "agreement_driven_test.go"},
	}
	for _, m := range agreementMistakes {
		one := plant.Mistake{Name: m.name, File: cmp.Or(m.file, "agreement.go"), Old: m.old, New: m.new, Test: m.test()}
		for _, err := range m.by {
			one.By = append(one.By, err.Error())
		}
		garden.Mistakes = append(garden.Mistakes, one)
	}
	return garden
}
