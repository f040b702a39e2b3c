package node

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/coppice-go/coppice/protocol/collective"
)

// DoAgreed carries out an operation that all tasks complete or none.
//
// With replay nobody fails, so tasks need only know that all take part: collective.Parts
// says how they learn it.
//
// Without, any operation may fail at some: it is followed by an agreement.
func (m *Member) DoAgreed(ctx context.Context, c *Call) (Result, error) {
	name, patient := opName(c.Plan.op), m.patient(ctx)
	if !m.p.replays() {
		return m.confirmed(ctx, patient, c, name)
	}
	r, err := m.together(ctx, patient, c, name)
	if err == nil {
		return r, nil
	}
	return Result{}, m.undecided(err, name)
}

// together carries out an operation among tasks that are run again when they die.
func (m *Member) together(ctx, patient context.Context, c *Call, name string) (r Result, err error) {
	if !c.Again {
		err = m.vote(ctx, patient, name)
	}
	if err == nil {
		r, err = m.parts(patient, c, name)
	}
	return r, err
}

// parts carries out an operation, and what it needs before or after.
func (m *Member) parts(ctx context.Context, c *Call, name string) (r Result, err error) {
	root := int(c.Plan.root)
	for i, part := range collective.Parts(ops[c.Plan.op].schedule) {
		call := *c
		switch part {
		case collective.PartUp:
			call = m.upCall(root, c.Sign, name)
		case collective.PartMeet:
			call = Call{Plan: BarrierPlan(), Sign: c.Sign, Name: name}
		case collective.PartDown:
			call = m.downCall(root, c.Sign, name)
		}
		call.Again = call.Again || i > 0
		got, err := m.Do(ctx, &call)
		if err != nil {
			return Result{}, err
		}
		if part == collective.PartItself {
			r = got
		}
	}
	return r, nil
}

// upCall tells the root that all are there.
func (m *Member) upCall(root int, sign uint64, name string) Call {
	return Call{
		Plan:  m.Choose(collective.Reduce, Choice{Root: root, Bytes: 1, Pieces: true, AnyOrder: true}),
		Value: []byte{1}, Sign: sign, Name: name,
		Kind: collective.Kind{Elem: 1, Fold: func(dst, left, _ []byte) ([]byte, error) { return dst[:copy(dst, left)], nil }},
	}
}

// downCall tells all that the root knows it.
func (m *Member) downCall(root int, sign uint64, name string) Call {
	c := Call{
		Plan: m.Choose(collective.Broadcast, Choice{Root: root, Pieces: true, Decides: root == m.rank}),
		Sign: sign, Name: name, Keep: true,
	}
	if root == m.rank {
		c.Value = []byte{}
	}
	return c
}

// undecided is what an operation fails with of which it is not known here that all
// have entered it.
func (m *Member) undecided(err error, name string) error {
	m.p.engine.Lock()
	defer m.p.engine.Unlock()
	switch {
	case m.failedWith(err, ErrAborted):
		m.tellLoose()
		m.passOver()
	case m.ranOut(err):
		m.abandon(name)
		return m.impatience(name)
	}
	m.agreed = 0
	return err
}

// impatience is what a task fails with that cannot wait any longer.
func (m *Member) impatience(name string) *Failure {
	return &Failure{
		Op: name, Tasks: []int{m.task}, Err: ErrAbandoned,
		Text: fmt.Sprintf("task %d has waited for the others for %v after the end of its context", m.task, m.p.cfg.Silence),
	}
}

// failedWith tells whether an operation failed with one of the errors above, and not with the cause of a context, which may be
// one of them, too.
func (m *Member) failedWith(err, what error) bool {
	f, ok := err.(*Failure)
	return ok && f.Err == what && !m.ranOut(err)
}

// ranOut tells whether an error is the end of a wait.
func (m *Member) ranOut(err error) bool {
	ctx := m.patience.ctx
	return ctx != nil && ctx.Err() != nil && errors.Is(err, context.Cause(ctx))
}

// What became of an operation at a task, the worst last.
const (
	didWell = iota
	didAbort
	didRevoke
	didFail
)

// confirmed carries out an operation and has the tasks that live agree on whether all
// have completed it.
func (m *Member) confirmed(ctx, patient context.Context, c *Call, name string) (Result, error) {
	var r Result
	var err error
	if !c.Again {
		err = m.vote(ctx, patient, name)
	}
	if err == nil {
		r, err = m.Do(patient, c)
	}
	if c.Half && err == nil && slices.ContainsFunc(r.Values, func(b []byte) bool { return b == nil }) {
		return r, nil // there is another half
	}
	outcome := byte(didFail)
	switch {
	case err == nil:
		outcome = didWell
	case m.failedWith(err, ErrAborted):
		outcome = didAbort
	case m.failedWith(err, ErrRevoked):
		outcome = didRevoke
	}
	m.p.engine.Lock()
	if err != nil {
		m.tellLoose()
	}
	m.passOver()
	m.p.engine.Unlock()
	a, agreement := m.agree(patient, Call{Sign: c.Sign, Value: []byte{outcome}, Name: name, Again: true, Kind: outcomes})
	switch {
	case agreement != nil:
		return Result{}, agreement
	case a.Value[0] == didWell:
		return r, nil
	case err != nil && a.Value[0] == outcome:
		return Result{}, err
	case a.Value[0] == didAbort:
		return Result{}, &Failure{Op: name, Err: ErrAborted}
	case a.Value[0] == didRevoke:
		return Result{}, &Failure{Op: name, Err: ErrRevoked}
	}
	return Result{}, m.withoutSome(name, a.Failed)
}

// withoutSome is what an operation fails with that others could not complete.
func (m *Member) withoutSome(name string, failed []int) error {
	f := &Failure{Op: name, Err: ErrLost, Text: "it has failed at a task that lives"}
	for _, r := range failed {
		f.Tasks, f.Text = append(f.Tasks, m.taskOf(r)), ""
	}
	return f
}

// outcomes is the kind of data that outcomes are.
var outcomes = collective.Kind{Loose: true, Fold: worst}

func worst(_, left, right []byte) ([]byte, error) {
	if len(left) != 1 || len(right) != 1 {
		return nil, errors.New("an outcome is one byte")
	}
	return []byte{max(left[0], right[0])}, nil
}
