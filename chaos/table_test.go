package chaos

import (
	"math/rand/v2"

	"github.com/coppice-go/coppice/protocol"
)

// table is a random machine: it looks up what it does in tables, so any dependence on the order of arrivals
// occurs in some of them. Fuel makes it end.
type table struct {
	p, phases, fuel int
	learns          bool    // phases are sets of bits that only grow
	receive         []uint8 // [self][phase][from][msg] → phase
	notify          []uint8 // [self][phase][kind+rank] → phase
	act             []entry // [self][phase]
}

type entry struct {
	kind  protocol.Kind
	to    protocol.Rank
	msg   uint8
	at    protocol.Time
	phase uint8 // afterwards
}

const (
	tableMsgs    = 2
	tableNotices = 8
)

type tableState struct {
	self  protocol.Rank
	phase uint8
	fuel  uint8
}

// newTable draws a machine; kinds are the kinds of its actions.
func newTable(r *rand.Rand, p, phases, fuel int, kinds []protocol.Kind) *table {
	t := &table{p: p, phases: phases, fuel: fuel}
	phase := func() uint8 { return uint8(r.IntN(phases)) }
	for range p * phases * p * tableMsgs {
		t.receive = append(t.receive, phase())
	}
	for range p * phases * tableNotices {
		t.notify = append(t.notify, phase())
	}
	for range p * phases {
		t.act = append(t.act, entry{
			kind: kinds[r.IntN(len(kinds))], to: protocol.Rank(r.IntN(p)), msg: uint8(r.IntN(tableMsgs)),
			at: protocol.Time(1 + r.IntN(3)), phase: phase(),
		})
	}
	return t
}

func (t *table) Init(s *tableState, self protocol.Rank, seed uint64) {
	*s = tableState{self: self, phase: uint8(seed % uint64(t.phases)), fuel: uint8(t.fuel)}
}

func (t *table) at(s *tableState) int { return int(s.self)*t.phases + int(s.phase) }

func (t *table) Receive(s *tableState, _ protocol.Time, from protocol.Rank, m uint8) {
	if t.learns {
		s.phase |= t.receive[(int(s.self)*t.p+int(from))*tableMsgs+int(m)]
		return
	}
	s.phase = t.receive[(t.at(s)*t.p+int(from))*tableMsgs+int(m)]
}

func (t *table) Notify(s *tableState, _ protocol.Time, n protocol.Notice) {
	if t.learns {
		s.phase |= t.notify[int(s.self)*tableNotices+(int(n.Kind)+int(n.Rank))%tableNotices]
		return
	}
	s.phase = t.notify[t.at(s)*tableNotices+(int(n.Kind)+int(n.Rank))%tableNotices]
}

func (t *table) Next(s *tableState, now protocol.Time) protocol.Action[uint8] {
	for s.fuel > 0 {
		e := t.act[t.at(s)]
		switch {
		case e.kind == protocol.Idle:
			return protocol.Action[uint8]{Kind: protocol.Idle}
		case e.kind == protocol.Wait && now < e.at:
			return protocol.Action[uint8]{Kind: protocol.Wait, At: e.at}
		}
		if t.learns {
			s.phase |= e.phase
		} else {
			s.phase = e.phase
		}
		s.fuel--
		if e.kind != protocol.Wait {
			return protocol.Action[uint8]{Kind: e.kind, To: e.to, Msg: e.msg}
		}
	}
	return protocol.Action[uint8]{Kind: protocol.Idle}
}
