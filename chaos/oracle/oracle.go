// Package oracle checks what the machines of a real job have done. A job that is started with
// `coppice run --trace FILE` writes down every step of packages membership and recovery, of all
// its processes (recovery.Line). Check takes the steps again and finds the first that is not as
// it was written, or that breaks one of the rules that these packages ask their caller to keep.
//
// So what the runtime does between the machines is checked, too: that what one process tells
// arrives at the other, as it was and in order.
package oracle

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
	"github.com/coppice-go/coppice/protocol/recovery"
)

// Report says how much was checked.
type Report struct {
	Processes   int `json:"processes"` // lives of processes
	Steps       int `json:"steps"`
	Effects     int `json:"effects"`
	Letters     int `json:"letters"`  // of the membership, sent by one and received by another
	Messages    int `json:"messages"` // of recovery, told by one and received by another
	Views       int `json:"views"`
	Epochs      int `json:"epochs"`      // that were committed
	Adoptions   int `json:"adoptions"`   // tasks that were run again
	Resumptions int `json:"resumptions"` // of them, those that went on from a saved state
	Cut         int `json:"cut"`         // lines that were not written to their end: their processes were killed
}

// Check checks what was written down of one job, in the order in which it was written. The
// error says what is wrong first, and where.
func Check(r io.Reader) (Report, error) {
	c := checker{
		lives: map[membership.Member]*life{}, views: map[uint64][]byte{}, epochs: map[uint64]int64{},
		saved: map[protocol.Rank]uint64{}, lost: map[protocol.Rank]bool{}, adopted: map[attempt]membership.Member{},
	}
	in := bufio.NewReader(r)
	for number := 1; ; number++ {
		line, err := in.ReadBytes('\n')
		if text := bytes.TrimSpace(line); len(text) > 0 {
			var l recovery.Line
			if json.Unmarshal(text, &l) != nil {
				c.Cut++
			} else if err := c.check(&l); err != nil {
				return c.Report, fmt.Errorf("line %d: process %v: %w", number, l.Who, err)
			}
		}
		if errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return c.Report, err
		}
	}
	switch {
	case c.Steps == 0:
		return c.Report, errors.New("there is no step; allowed: a file that coppice run --trace wrote")
	case c.Cut > c.Processes:
		return c.Report, fmt.Errorf("%d lines are cut off, more than there were processes", c.Cut)
	}
	return c.Report, nil
}

type checker struct {
	Report
	lives   map[membership.Member]*life
	views   map[uint64][]byte
	epochs  map[uint64]int64         // balances
	saved   map[protocol.Rank]uint64 // by task: the last epoch
	lost    map[protocol.Rank]bool
	adopted map[attempt]membership.Member
}

// attempt is one to run a task: the view that began it.
type attempt struct {
	task  protocol.Rank
	since uint64
}

// life is a process.
type life struct {
	members
	machine *recovery.Machine
	rings   [][]protocol.Rank // what Config.Ring said in the step that is taken again
	nobodys []string          // the same for Config.Nobodys
	short   bool              // it said too little
	told    map[route][]told
	arrived map[arrival]int // how many of them
	number  int             // of messages that it has told
	coming  map[coming]bool
	drew    []recovery.Key            // values of Once that it knows, in order
	knows   map[membership.Member]int // how many of them another one knows
}

// told is a message.
type told struct {
	recovery.Message
	to     membership.Member // in the view of who told it
	number int
	drew   int    // so many values of Once were known
	epoch  uint64 // was committed: what is of earlier ones is forgotten
}

// route is a way on which messages of one kind stay in order.
type route struct {
	to   protocol.Rank
	kind recovery.Kind
}

// arrival is the end of a route at one life.
type arrival struct {
	at   membership.Member
	kind recovery.Kind
}

// coming is a copy of which the beginning has come.
type coming struct {
	from membership.Member
	key  recovery.Key
}

func (c *checker) check(l *recovery.Line) error {
	c.Steps++
	q := c.lives[l.Who]
	if q == nil {
		q = &life{told: map[route][]told{}, arrived: map[arrival]int{}, coming: map[coming]bool{}, knows: map[membership.Member]int{}}
		c.lives[l.Who] = q
		c.Processes++
	}
	switch {
	case l.Members != nil:
		if err := c.checkMembers(q, l.Who, *l.Members); err != nil {
			return fmt.Errorf("membership: %s: %w", l.Members.Call, err)
		}
	case l.Step != nil:
		if err := c.checkRecovery(q, l); err != nil {
			return fmt.Errorf("%s: %w", l.Call, err)
		}
	}
	return nil
}

func (c *checker) checkRecovery(q *life, l *recovery.Line) error {
	if (q.machine == nil) != (l.Call == recovery.CallNew) {
		return errTwice
	}
	if err := c.allowed(q, l); err != nil {
		return err
	}
	if err := q.again(*l.Step); err != nil {
		return err
	}
	for i := range l.Came.Effects {
		c.Effects++
		if err := c.effect(q, l.Who, &l.Came.Effects[i]); err != nil {
			return err
		}
	}
	return nil
}

// again takes a step again, and compares what comes of it.
func (q *life) again(s recovery.Step) error {
	want := s.Came
	if s.Call == recovery.CallNew {
		s.Config.Ring = func(*membership.View, membership.Member) []protocol.Rank { return next(q, &q.rings) }
		s.Config.Nobodys = func(*membership.View) string { return next(q, &q.nobodys) }
	}
	q.rings, q.nobodys, q.short = want.Rings, want.Nobodys, false
	s.Came = recovery.Outcome{}
	s.Take(&q.machine)
	if q.short || len(q.rings)+len(q.nobodys) > 0 {
		return errors.New("another number of questions about the ring, or about who is lost")
	}
	s.Came.Rings, s.Came.Nobodys = want.Rings, want.Nobodys
	a, _ := json.Marshal(want)
	b, _ := json.Marshal(s.Came)
	if !bytes.Equal(a, b) {
		return fmt.Errorf("what came of it was %s; the machine says %s", a, b)
	}
	return nil
}

// next takes the first of the answers that were written down.
func next[T any](q *life, answers *[]T) (first T) {
	if len(*answers) == 0 {
		q.short = true
		return first
	}
	first, *answers = (*answers)[0], (*answers)[1:]
	return first
}

// allowed reports what the caller of a machine has done wrong.
func (c *checker) allowed(q *life, l *recovery.Line) error {
	switch l.Call {
	case recovery.CallOpened:
		if v := q.machine.View(); v != nil && l.View.Number <= v.Number {
			return fmt.Errorf("view %d comes after view %d", l.View.Number, v.Number)
		}
		text, _ := json.Marshal(l.View)
		if q.protocol != nil && !bytes.Equal(text, q.opened) {
			return fmt.Errorf("view %d is %s; the membership opened %s", l.View.Number, text, q.opened)
		}
		if other, ok := c.views[l.View.Number]; ok && !bytes.Equal(text, other) {
			return fmt.Errorf("view %d is %s; to another process it is %s", l.View.Number, text, other)
		} else if !ok {
			c.Views++
			c.views[l.View.Number] = text
		}
	case recovery.CallReceive:
		return c.arrives(q, l)
	case recovery.CallComing:
		q.coming[coming{*l.From, *l.Key}] = true
	case recovery.CallDrew:
		q.drew = append(q.drew, *l.Key)
	case recovery.CallSave:
		c.saved[l.Tasks[0]] = max(c.saved[l.Tasks[0]], l.Epoch)
	case recovery.CallResumed:
		if epoch, _, known := q.machine.Resume(l.Tasks[0]); !known || epoch != l.Epoch {
			return fmt.Errorf("task %d goes on from epoch %d; the machine says %d, known: %t", l.Tasks[0], l.Epoch, epoch, known)
		}
		c.Resumptions++
	}
	return nil
}

// arrives takes a message off its route. Copies may overtake each other; of other kinds the
// next one must come, but a process that begins may have missed some.
func (c *checker) arrives(q *life, l *recovery.Line) error {
	from := c.lives[*l.From]
	if from == nil {
		return fmt.Errorf("%v comes from process %v, which has not begun", l.Msg, l.From)
	}
	copies := l.Msg.Kind == recovery.Keep || l.Msg.Kind == recovery.Have
	if copies && l.Msg.Key.Backup() {
		return nil // it may be declined, and most are sent without the machine
	}
	c.Messages++
	way, end := route{l.Who.ID, l.Msg.Kind}, arrival{l.Who, l.Msg.Kind}
	all := from.told[way]
	n, begun := from.arrived[end]
	at := slices.IndexFunc(all[n:], func(t told) bool { return t.Message == *l.Msg && (!copies || t.to == l.Who) })
	switch {
	case at < 0:
		return fmt.Errorf("%v comes from process %v, which has not told it", l.Msg, l.From)
	case begun && at > 0:
		return fmt.Errorf("%v comes from process %v, but not %v, which it told before", l.Msg, l.From, all[n])
	}
	t := all[n+at]
	if copies {
		from.told[way] = slices.Delete(all, at, at+1)
		delete(q.coming, coming{*l.From, l.Msg.Key})
	} else {
		from.arrived[end] = n + at + 1
	}
	if l.Msg.Kind == recovery.Word {
		for _, h := range from.told[route{l.Who.ID, recovery.Have}] {
			if h.to == l.Who && h.number < t.number && !h.Key.Backup() && !q.coming[coming{*l.From, h.Key}] && !q.dropped(h.Key, 0) {
				return fmt.Errorf("%v comes from process %v, but not the %v, which it sent before", l.Msg, l.From, h.Key)
			}
		}
	}
	return from.informed(q, l, t)
}

// dropped reports whether nothing is kept under a key any more, since a later epoch is committed
// here, or as it was where the message comes from.
func (q *life) dropped(k recovery.Key, there uint64) bool {
	return 0 < k.Epoch && k.Epoch < max(q.machine.Committed(), there)
}

// informed reports a value of Once that was known to who told a message, and is not to who
// receives it. That a copy is kept does not depend on any.
func (q *life) informed(by *life, l *recovery.Line, t told) error {
	if l.Msg.Kind == recovery.Kept {
		return nil
	}
	for ; q.knows[l.Who] < t.drew; q.knows[l.Who]++ {
		k := q.drew[q.knows[l.Who]]
		if !by.machine.Drawn(k) && !by.dropped(k, t.epoch) {
			return fmt.Errorf("%v comes from process %v, which knew of the %v; the receiver does not", l.Msg, l.From, k)
		}
	}
	return nil
}

// effect takes note of what a machine wants done.
func (c *checker) effect(q *life, who membership.Member, e *recovery.Effect) error {
	switch e.Act {
	case recovery.Tell, recovery.SendCopy:
		r := route{e.To, e.Msg.Kind}
		var to membership.Member
		if v := q.machine.View(); v != nil {
			to, _ = v.Find(e.To)
		}
		q.number++
		q.told[r] = append(q.told[r], told{e.Msg, to, q.number, len(q.drew), q.machine.Committed()})
	case recovery.Lose:
		c.lost[e.Task] = true
	case recovery.Adopt:
		c.Adoptions++
		a := attempt{e.Task, e.Epoch}
		if other, ok := c.adopted[a]; ok {
			return fmt.Errorf("task %d is run again since view %d, by process %v too", e.Task, e.Epoch, other)
		}
		c.adopted[a] = who
	case recovery.Commit:
		if balance, ok := c.epochs[e.Epoch]; ok && balance != e.Balance {
			return fmt.Errorf("epoch %d is committed with a balance of %d; elsewhere of %d", e.Epoch, e.Balance, balance)
		} else if !ok {
			c.Epochs++
			c.epochs[e.Epoch] = e.Balance
		}
		for i := range q.machine.View().Owners {
			if task := protocol.Rank(i); c.saved[task] < e.Epoch && !c.lost[task] {
				return fmt.Errorf("epoch %d is committed, which task %d has not saved", e.Epoch, task)
			}
		}
	}
	return nil
}
