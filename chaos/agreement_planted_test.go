package chaos

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// Mistakes that agreements have, planted in the machine's source to see that they
// are found, as those of membership are.

// agreementMistake is one of them; see mistake. wrong(«name») tells whether to go
// wrong.
type agreementMistake struct {
	name     string
	old, new string
	driven   bool   // found where there is no group, whose care hides it otherwise
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
		old:  `case s.retired || m.View < s.view:`,
		new: `case m.View < s.view && m.Kind == Down && s.decision.Decided == 0 && wrong("a decision of an earlier view is taken"):
		s.settled, s.decision = true, m
		return
	case s.retired || m.View < s.view:`,
		driven: true, world: "four in three views", by: []error{errUnbound},
	},
	{
		name: "a contribution of an earlier view is taken",
		old: `	case s.retired || m.View < s.view:
		return
	case m.View > s.view:`,
		new: `	case s.retired || m.View < s.view && !wrong("a contribution of an earlier view is taken"):
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
		name:  "who has returned serves no more",
		old:   `	case s.retired:`,
		new:   `	case s.retired || s.delivered && s.settled && s.told == len(s.came) && wrong("who has returned serves no more"):`,
		world: "four of whom three crash", by: []error{errNoReturn},
	},
	{
		name: "it is retired on return",
		old:  `	s.told++`,
		new: `	if wrong("it is retired on return") {
		s.Retire()
		return s.Next()
	}
	s.told++`,
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

// foundAs tells whether what was found is one of what should be.
func (m *agreementMistake) foundAs(out string) bool {
	for _, err := range m.by {
		if strings.Contains(out, err.Error()) {
			return true
		}
	}
	return false
}

func TestMistakesPlantedInAgreementAreFound(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the tests once more")
	}
	planted := plantInAgreement(t)
	run := func(name, test string) (string, error) {
		cmd := exec.Command(planted, "-test.v", "-test.run", test, "-test.timeout", "2m")
		cmd.Env = append(os.Environ(), mistakeVariable+"="+name)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	for _, m := range agreementMistakes {
		t.Run(m.name, func(t *testing.T) {
			begin := time.Now()
			out, err := run(m.name, m.test())
			var failed *exec.ExitError
			switch {
			case err == nil:
				t.Fatalf("not found in %s\n%s", m.world, out)
			case !errors.As(err, &failed) || !strings.Contains(out, "--- FAIL"):
				t.Fatalf("%v\n%s", err, out)
			case !m.foundAs(out):
				t.Errorf("found, but not as one of: %v\n%s", m.by, out)
			}
			t.Logf("in %.1f s: %s", time.Since(begin).Seconds(), verdictOf(out))
		})
	}
	if out, err := run("none of them", agreementMistakes[1].test()); err != nil {
		t.Errorf("without a mistake: %v\n%s", err, out)
	}
}

// plantInAgreement builds the tests of this package with the mistakes, and returns
// where.
func plantInAgreement(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	machine, err := filepath.Abs("../protocol/agreement")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(filepath.Join(machine, "agreement.go"))
	if err != nil {
		t.Fatal(err)
	}
	source := string(text)
	for _, m := range agreementMistakes {
		if n := strings.Count(source, m.old); n != 1 {
			t.Fatalf("%s: what is to be replaced occurs %d times:\n%s", m.name, n, m.old)
		}
		source = strings.Replace(source, m.old, m.new, 1)
	}
	const planting = "package agreement\n\nimport \"os\"\n\nfunc wrong(name string) bool { return name == os.Getenv(\"" + mistakeVariable + "\") }\n"
	replace := map[string]string{}
	for name, text := range map[string]string{"agreement.go": source, "planted.go": planting} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		replace[filepath.Join(machine, name)] = path
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(dir, "overlay.json")
	if err := os.WriteFile(list, overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "planted.test")
	if out, err := exec.Command("go", "test", "-c", "-overlay", list, "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return program
}
