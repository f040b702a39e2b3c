package oracle

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
	"github.com/coppice-go/coppice/protocol/recovery"
)

// recovered is what all processes have done in recovery.
type recovered struct {
	views   map[uint64]*membership.View
	epochs  map[uint64]int64         // balances
	saved   map[protocol.Rank]uint64 // by task: the last epoch
	lost    map[protocol.Rank]bool
	adopted map[attempt]membership.Member
}

// attempt identifies an attempt to run a task by the view that began it.
type attempt struct {
	task  protocol.Rank
	since uint64
}

// rules is a process's part in recovery.
type rules struct {
	*recovery.Machine
	*life
	last    string            // the call before
	rings   [][]protocol.Rank // answers of Config.Ring in the next call
	nobodys []string          // answers of Config.Nobodys in the next call
	sent    map[route][]sentMessage
	arrived map[arrival]int // how many messages have arrived
	number  int             // of messages that the process has sent
	coming  map[coming]bool
	drew    []recovery.Key            // values of Once that it knows, in order
	knows   map[membership.Member]int // how many of them another process knows
}

// sentMessage is a message that a process has sent.
type sentMessage struct {
	recovery.Message
	to     membership.Member // in the sender's view
	number int
	drew   int    // values of Once known to the sender
	epoch  uint64 // the epoch committed then; what is of earlier ones is forgotten
}

// route is a path on which messages of one kind stay in order.
type route struct {
	to   protocol.Rank
	kind recovery.Kind
}

// arrival is the end of a route at one life.
type arrival struct {
	at   membership.Member
	kind recovery.Kind
}

// coming is a copy whose beginning has come.
type coming struct {
	from membership.Member
	key  recovery.Key
}

// Recovery begins the machine.
func (q *life) Recovery(cfg *recovery.Config, self membership.Member) *rules {
	if q.rules != nil {
		q.c.fail("a process begins twice")
	}
	r := &rules{life: q, sent: map[route][]sentMessage{}, arrived: map[arrival]int{}, coming: map[coming]bool{}, knows: map[membership.Member]int{}}
	cfg.Ring = func(*membership.View, membership.Member) []protocol.Rank { return next(r, &r.rings) }
	cfg.Nobodys = func(*membership.View) string { return next(r, &r.nobodys) }
	r.Machine = recovery.New(cfg, self)
	q.rules, q.c.views[cfg.First.Number] = r, cfg.First
	return r
}

// Ring records an answer of Config.Ring.
func (r *rules) Ring(all []protocol.Rank) { r.rings = append(r.rings, all) }

// Nobodys records an answer of Config.Nobodys.
func (r *rules) Nobodys(why string) { r.nobodys = append(r.nobodys, why) }

// next takes the first of the recorded answers.
func next[T any](r *rules, answers *[]T) (first T) {
	if len(*answers) == 0 {
		r.c.fail("the machine asks about the ring, or about who is lost, which it did not before")
		return first
	}
	first, *answers = (*answers)[0], (*answers)[1:]
	return first
}

// before checks that the call before asked for everything that it asked for when it was recorded.
func (r *rules) before(call string) {
	if answer := r.last == "Ring" || r.last == "Nobodys"; !answer && len(r.rings)+len(r.nobodys) > 0 {
		r.c.fail("the machine has not asked about the ring, or about who is lost, in %s, which it did before", r.last)
	}
	r.last = call
}

// Opened checks that all processes open the same views, in order.
func (r *rules) Opened(v *membership.View, hold bool) {
	if last := r.View(); last != nil && v.Number <= last.Number {
		r.c.fail("view %d comes after view %d", v.Number, last.Number)
	}
	text, _ := json.Marshal(v)
	if m := r.members; m != nil && !bytes.Equal(text, m.opened) {
		r.c.fail("view %d is %s; the membership opened %s", v.Number, text, m.opened)
	}
	if other, _ := json.Marshal(r.c.views[v.Number]); r.c.views[v.Number] == nil {
		r.c.Views++
		r.c.views[v.Number] = v
	} else if !bytes.Equal(text, other) {
		r.c.fail("view %d is %s; to another process it is %s", v.Number, text, other)
	}
	r.Machine.Opened(v, hold)
}

// Coming records that the beginning of a copy has come.
func (r *rules) Coming(from membership.Member, k recovery.Key) {
	r.coming[coming{from, k}] = true
	r.Machine.Coming(from, k)
}

// Drew records a value of Once.
func (r *rules) Drew(k recovery.Key) {
	r.drew = append(r.drew, k)
	r.Machine.Drew(k)
}

// Save records a Save.
func (r *rules) Save(number protocol.Rank, epoch uint64, balance int64) {
	r.c.saved[number] = max(r.c.saved[number], epoch)
	r.Machine.Save(number, epoch, balance)
}

// Resumed checks that a task may go on from this epoch.
func (r *rules) Resumed(number protocol.Rank, epoch uint64) {
	if may, _, known := r.Resume(number); !known || may != epoch {
		r.c.fail("task %d goes on from epoch %d; the machine says %d, known: %t", number, epoch, may, known)
	}
	r.c.Resumptions++
	r.Machine.Resumed(number, epoch)
}

// Receive takes a message off its route. Copies may overtake each other. Messages of other kinds must come in
// order, but a process that begins may have missed some.
func (r *rules) Receive(by membership.Member, msg recovery.Message) {
	copies := msg.Kind == recovery.Keep || msg.Kind == recovery.Have
	if from := r.c.lives[by]; from == nil || from.rules == nil {
		r.c.fail("%v comes from process %v, which has not begun", msg, by)
	} else if !copies || !msg.Key.Backup() { // backups may be declined, and most are sent without the machine
		r.arrives(from.rules, by, msg, copies)
	}
	r.Machine.Receive(by, msg)
}

func (r *rules) arrives(from *rules, by membership.Member, msg recovery.Message, copies bool) {
	r.c.Messages++
	who := r.who
	way, end := route{who.ID, msg.Kind}, arrival{who, msg.Kind}
	all := from.sent[way]
	n, begun := from.arrived[end]
	at := slices.IndexFunc(all[n:], func(t sentMessage) bool { return t.Message == msg && (!copies || t.to == who) })
	switch {
	case at < 0:
		r.c.fail("%v comes from process %v, which has not sent it", msg, by)
		return
	case begun && at > 0:
		r.c.fail("%v comes from process %v, but not %v, which it sent before", msg, by, all[n])
		return
	}
	t := all[n+at]
	if copies {
		from.sent[way] = slices.Delete(all, at, at+1)
		delete(r.coming, coming{by, msg.Key})
	} else {
		from.arrived[end] = n + at + 1
	}
	if msg.Kind == recovery.Word {
		for _, h := range from.sent[route{who.ID, recovery.Have}] {
			if h.to == who && h.number < t.number && !h.Key.Backup() && !r.coming[coming{by, h.Key}] && !r.dropped(h.Key, 0) {
				r.c.fail("%v comes from process %v, but not the %v, which it sent before", msg, by, h.Key)
			}
		}
	}
	from.informs(r, by, t)
}

// dropped reports whether a key's copies have been dropped, since a later epoch is committed here or, as of
// the message, at its sender.
func (r *rules) dropped(k recovery.Key, there uint64) bool {
	return 0 < k.Epoch && k.Epoch < max(r.Committed(), there)
}

// informs fails if the sender of a message knew a value of Once that the receiver does not know. A Kept
// message does not depend on any value.
func (r *rules) informs(to *rules, by membership.Member, t sentMessage) {
	if t.Kind == recovery.Kept {
		return
	}
	for who := to.who; r.knows[who] < t.drew; r.knows[who]++ {
		if k := r.drew[r.knows[who]]; !to.Drawn(k) && !to.dropped(k, t.epoch) {
			r.c.fail("%v comes from process %v, which knew of the %v; the receiver does not", t.Message, by, k)
			return
		}
	}
}

// Effects records the effects that the machine demands.
func (r *rules) Effects() []recovery.Effect {
	all := r.Machine.Effects()
	for i := range all {
		r.effect(&all[i])
	}
	return all
}

func (r *rules) effect(e *recovery.Effect) {
	r.c.Effects++
	switch e.Act {
	case recovery.Tell, recovery.SendCopy:
		way := route{e.To, e.Msg.Kind}
		var to membership.Member
		if v := r.View(); v != nil {
			to, _ = v.Find(e.To)
		}
		r.number++
		r.sent[way] = append(r.sent[way], sentMessage{e.Msg, to, r.number, len(r.drew), r.Committed()})
	case recovery.Lose:
		r.c.lost[e.Task] = true
	case recovery.Adopt:
		r.c.Adoptions++
		a := attempt{e.Task, e.Epoch}
		if other, ok := r.c.adopted[a]; ok {
			r.c.fail("task %d is run again since view %d, by process %v too", e.Task, e.Epoch, other)
		}
		r.c.adopted[a] = r.who
	case recovery.Commit:
		if balance, ok := r.c.epochs[e.Epoch]; ok && balance != e.Balance {
			r.c.fail("epoch %d is committed with a balance of %d; elsewhere of %d", e.Epoch, e.Balance, balance)
		} else if !ok {
			r.c.Epochs++
			r.c.epochs[e.Epoch] = e.Balance
		}
		for i := range r.View().Owners {
			if task := protocol.Rank(i); r.c.saved[task] < e.Epoch && !r.c.lost[task] {
				r.c.fail("epoch %d is committed, which task %d has not saved", e.Epoch, task)
			}
		}
	}
}
