package oracle

import (
	"slices"
	"testing"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/agreement"
	"github.com/coppice-go/coppice/protocol/credit"
	"github.com/coppice-go/coppice/protocol/flow"
	"github.com/coppice-go/coppice/protocol/membership"
	"github.com/coppice-go/coppice/protocol/recovery"
)

var (
	ann = membership.Member{ID: 0, Incarnation: 1}
	bob = membership.Member{ID: 1, Incarnation: 1}
)

func place(task protocol.Rank) protocol.Place { return protocol.Place{Group: 1, Task: task} }

// streamTrace returns the trace of a stream of six messages, of which four may be ahead.
func streamTrace(*testing.T) (s script) {
	const window, messages = 4, 6
	out := flow.OutTape{Note: s.tape(ann, "Out", place(0), protocol.Rank(1), 7, window)}
	in := flow.InTape{Note: s.tape(bob, "In", place(1), protocol.Rank(0), 7, window)}
	var gone []uint64
	for range messages {
		if number, now := out.Add(window); now {
			gone = append(gone, number)
		}
	}
	for len(gone) > 0 {
		in.Arrive(gone[0])
		in.Complete(gone[0])
		gone = gone[1:]
		if in.Take(window) {
			out.Credited(in.Tell(), false)
			for number, ok := out.Release(window); ok; number, ok = out.Release(window) {
				gone = append(gone, number)
			}
		}
	}
	return s
}

func TestWhatIsWrongInStreamsIsFound(t *testing.T) {
	if report, err := streamTrace(t).check(t); err != nil || report.Arrivals != 6 || report.Credits != 3 {
		t.Errorf("%+v, %v", report, err)
	}
	of := func(number uint64) func([]any) bool { return func(v []any) bool { return v[0].(uint64) == number } }
	more := func(n uint64) uint64 { return n + 1 }
	cases{
		"a message that should be held":    {other("Add", always, 2, func(now bool) bool { return !now }), "the machine says"},
		"a message that nobody sent":       {other("Arrive", of(6), 0, more), "has not let go"},
		"a message that comes too early":   {without("Release", func(v []any) bool { return v[1].(uint64) == 5 }), "the machine says"},
		"a message that was lost":          {other("Arrive", of(2), 0, more), "comes after message 1"},
		"a message that is not all there":  {without("Complete", of(3)), "which is not complete"},
		"a message that is taken twice":    {twice("Take", always), "which is not complete"},
		"more is taken than the task told": {other("Credited", always, 0, more), "the receiver has taken 2"},
		"credit of an attempt that is gone": {func(_ *testing.T, s script) script {
			again := flow.InTape{Note: s.tape(ann, "In", place(1), protocol.Rank(0), 7, 4)}
			for number := range uint64(5) {
				again.Arrive(number + 1)
			}
			return s
		}, "with a window of 4"},
	}.run(t, streamTrace)
}

// creditTrace returns the trace of a task that sends to another in six operations; after the fourth it leaves
// one without its result.
func creditTrace(*testing.T) (s script) {
	limits := credit.Limits{Operations: 8, Bytes: 100}
	account := func(who membership.Member) *credit.Tape {
		a := credit.Tape{Account: credit.Account{Limits: limits}, Note: s.tape(who, "Account", place(who.ID), nil, limits)}
		a.Fit(2)
		return &a
	}
	a, b := account(ann), account(bob)
	for seq := uint64(1); seq <= 6; seq++ {
		a.Send(1, seq, 10)
		b.Hear(0, seq, 10)
		for _, ok := b.Tell(); ok; _, ok = b.Tell() {
			a.Credited(1, b.Count(), b.Loose())
		}
		if seq == 5 && b.Leave() {
			a.Credited(1, b.Count(), b.Loose())
		}
		b.Completed()
		for _, ok := b.Tell(); ok; _, ok = b.Tell() {
			a.Credited(1, b.Count(), b.Loose())
		}
	}
	if b.Restart(0, false) {
		a.Credited(1, b.Count(), b.Loose())
	}
	return s
}

func TestWhatIsWrongInCreditIsFound(t *testing.T) {
	if report, err := creditTrace(t).check(t); err != nil || report.Credits < 4 {
		t.Errorf("%+v, %v", report, err)
	}
	cases{
		"bytes that need a grant": {other("Send", always, 3, func(free bool) bool { return !free }), "the machine says"},
		"a task that was not told": {func(t *testing.T, s script) script {
			return without("Credited", always)(t, without("Tell", always)(t, s))
		}, "was not told before"},
		"a task that is told too much":   {twice("Tell", always), "the machine says"},
		"an operation that is forgotten": {without("Completed", always), "the machine says"},
		"something that nobody sent":     {other("Hear", always, 1, func(seq uint64) uint64 { return seq + 1 }), "has sent nothing after operation 1"},
		"a credit that nobody told":      {other("Credited", always, 1, func(n uint64) uint64 { return n + 1 }), "which it has not"},
		"a result that was not left":     {without("Leave", always), "which it has not"},
	}.run(t, creditTrace)
}

// agreementTrace returns the trace of three tasks, of which the last dies; the others agree without it.
func agreementTrace(t *testing.T) (s script) {
	t.Helper()
	first := membership.First(3, []protocol.Rank{0, 1, 2})
	second := membership.NewView(2, first.Members[:2], first.Members[2:], []protocol.Rank{0, 1, -1})
	second.Since = []uint64{1, 1, 1}
	all := []protocol.Rank{0, 1, 2}
	var parts [2]agreement.Tape[struct{}]
	for i := range parts {
		who := first.Members[i]
		cfg := recovery.Config{First: first}
		rules := recovery.NewTape(&cfg, who, s.tape(who, "Recovery", cfg, who))
		p := &parts[i]
		p.Init(who.ID, all, 8)
		p.Note = s.tape(who, "Agreements", place(who.ID), nil, 3, i, 8)
		p.NewView(1, all)
		p.Call()
		p.Begin(1, []byte{byte(i)})
		rules.Opened(second, false)
		p.NewView(2, all[:2])
	}
	for decided := 0; decided < 2; {
		for i := range parts {
			switch a := parts[i].Next(1); a.Kind {
			case protocol.Send:
				parts[a.To].Hear(1)
				parts[a.To].Receive(1, protocol.Rank(i), a.Msg)
			case protocol.Work:
				parts[i].Folded(1, slices.Repeat([]byte{9}, 2*40))
			case protocol.Deliver:
				decided++
			}
		}
	}
	return s
}

func TestWhatIsWrongInAgreementsIsFound(t *testing.T) {
	if report, err := agreementTrace(t).check(t); err != nil || report.Decisions != 2 {
		t.Errorf("%+v, %v", report, err)
	}
	does := func(k protocol.Kind) func([]any) bool {
		return func(v []any) bool { return v[1].(agreement.Action).Kind == k }
	}
	cases{
		"a decision that is another": {other("Next", does(protocol.Deliver), 1, func(a agreement.Action) agreement.Action {
			a.Msg.Value = []byte{8}
			return a
		}), "the machine says"},
		"a contribution that was lost":   {without("Receive", always), "the machine says"},
		"a contribution that came twice": {twice("Receive", always), "or once more"},
		"a contribution that is another": {other("Receive", always, 2, func(m agreement.Message) agreement.Message {
			m.Value = []byte{7}
			return m
		}), "which has not sent it"},
		"a view that is not open": {without("Opened", always), "is not open"},
		"a view that came before": {twice("NewView", always), "comes after view 1"},
		"a view that is said to be another": {other("NewView", func(v []any) bool { return v[0].(uint64) == 2 }, 1, func(r []protocol.Rank) []protocol.Rank {
			return r[:1]
		}), "ranks [0] are said to be in"},
		"a task that has forgotten what it returned": {func(_ *testing.T, s script) script {
			members := []membership.Member{bob}
			third := membership.NewView(3, members, []membership.Member{ann}, []protocol.Rank{-1, 1, -1})
			third.Since = []uint64{1, 1, 1}
			i := slices.IndexFunc(s, func(l *membership.Line[any]) bool { return l.Who == bob && l.Call == "Opened" })
			opened := *s[i]
			opened.Values = []any{third, false}
			s = append(s, &opened)
			again := agreement.Tape[struct{}]{}
			again.Init(1, []protocol.Rank{0, 1, 2}, 8)
			again.Note = s.tape(bob, "Agreements", place(1), nil, 3, 1, 8)
			again.NewView(3, []protocol.Rank{1})
			again.Call()
			again.Begin(1, []byte{1})
			again.Next(1)
			return s
		}, "rank 1 returns in view 2"},
	}.run(t, agreementTrace)
}
