package chaos

import (
	"fmt"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
)

// Many is a group, to attack, in which several broadcasts run at once: each live process must deliver each of
// them exactly once.
type Many struct {
	// Spec describes every one of the broadcasts. Its correction must reach all processes: checked.
	Spec broadcast.Spec

	// Roots start one broadcast each, at any moment; a rank may come several times. They do not fail.
	Roots []protocol.Rank

	// Failed is how many of the other processes, at most, are dead from the start.
	Failed int

	Reorder, ExtraNext, KeepGoing bool // as in Config
	Progress                      func(runs int)
}

type (
	manyState   = broadcast.ManyState[broadcast.Walk]
	manyMessage = broadcast.Tagged[broadcast.Message[broadcast.None]]
)

// Random runs the broadcasts under random schedules.
func (m Many) Random(seed uint64, runs, workers int) (Report, error) {
	built, err := m.Spec.Build()
	if err != nil {
		return Report{}, err
	}
	each, ok := built.(*broadcast.Plain)
	if !ok || m.Spec.Correction != "checked" || m.Spec.Synchronized {
		return Report{}, fmt.Errorf("chaos: many broadcasts with %s; allowed: overlapped checked", m.Spec.Correction)
	}
	p, err := broadcast.NewMany(each, 0)
	if err != nil {
		return Report{}, err
	}
	return Random(m.config(p), seed, runs, workers)
}

func (m Many) config(p protocol.Protocol[manyState, manyMessage]) Config[manyState, manyMessage] {
	var inputs []Input
	for _, r := range m.Roots {
		inputs = append(inputs, Input{Rank: r, Notice: protocol.Notice{Kind: protocol.Begin}})
	}
	return Config[manyState, manyMessage]{
		Protocol: p, P: m.Spec.P, Inputs: inputs, Reorder: m.Reorder, ExtraNext: m.ExtraNext, KeepGoing: m.KeepGoing, Progress: m.Progress,
		Vary:  func(s *Setup[manyState, manyMessage]) { s.FailUpTo(m.Failed, m.Roots...) },
		Check: m.check,
	}
}

func (m Many) check(w *World[manyState, manyMessage]) error {
	begun := map[broadcast.ID]bool{}
	next := map[protocol.Rank]uint64{}
	for _, r := range m.Roots {
		begun[broadcast.ID{Root: r, Seq: next[r]}] = true
		next[r]++
	}
	for r := range protocol.Rank(w.P()) {
		got := map[broadcast.ID]bool{}
		for _, d := range w.Delivered(r) {
			switch id := d.Msg.ID; {
			case !begun[id]:
				return fmt.Errorf("p%d delivered %+v, which nobody began", r, id)
			case got[id]:
				return fmt.Errorf("p%d delivered %+v twice", r, id)
			default:
				got[id] = true
			}
		}
		if w.Alive(r) && len(got) < len(begun) {
			return fmt.Errorf("p%d delivered %d of %d broadcasts", r, len(got), len(begun))
		}
	}
	return nil
}
