// The detector that localized views ask for, made from one that reports every death to every process, once: for
// simulated runs.

package membership

import (
	"fmt"
	"slices"

	"github.com/coppice-go/coppice/protocol"
)

// LocalWatched is a Localized with its detector's memory: it reports a death to the machine when the machine watches the
// dead process, even if that is later.
type LocalWatched struct {
	machine protocol.Protocol[LocalState, LocalMessage]
	members *Localized
	mortal  []protocol.Rank // in rising order
	may     []uint64        // bitmap of the same
}

// localMortal is how many processes may die in a run.
const localMortal = 128

// LocalWatchedState is the state of a process and of its detector.
type LocalWatchedState struct {
	LocalState
	heard [localMortal / 64]uint64 // which of the mortal are dead
}

// Watched adds a detector's memory. In a run only the mortal may die.
func (l *Localized) Watched(mortal ...protocol.Rank) (*LocalWatched, error) {
	if len(mortal) > localMortal {
		return nil, fmt.Errorf("%d processes may die; allowed: %d", len(mortal), localMortal)
	}
	w := &LocalWatched{machine: l, members: l, mortal: slices.Clone(mortal)}
	slices.Sort(w.mortal)
	if n := len(mortal); n > 0 {
		w.may = make([]uint64, w.mortal[n-1]/64+1)
	}
	for _, r := range w.mortal {
		w.may[r/64] |= 1 << (r % 64)
	}
	return w, nil
}

// Init implements protocol.Protocol.
func (w *LocalWatched) Init(s *LocalWatchedState, self protocol.Rank, seed uint64) {
	s.heard = [localMortal / 64]uint64{}
	w.machine.Init(&s.LocalState, self, seed)
}

// Receive implements protocol.Protocol.
func (w *LocalWatched) Receive(s *LocalWatchedState, now protocol.Time, from protocol.Rank, m LocalMessage) {
	w.machine.Receive(&s.LocalState, now, from, m)
	w.tell(s, now)
}

// Notify implements protocol.Protocol.
func (w *LocalWatched) Notify(s *LocalWatchedState, now protocol.Time, n protocol.Notice) {
	if n.Kind == protocol.Death {
		if i, ok := slices.BinarySearch(w.mortal, n.Rank); ok {
			s.heard[i/64] |= 1 << (i % 64)
		}
	} else {
		w.machine.Notify(&s.LocalState, now, n)
	}
	w.tell(s, now)
}

// Next implements protocol.Protocol.
func (w *LocalWatched) Next(s *LocalWatchedState, now protocol.Time) protocol.Action[LocalMessage] {
	for {
		a := w.machine.Next(&s.LocalState, now)
		news := w.tell(s, now)
		if !news || a.Kind != protocol.Idle && a.Kind != protocol.Wait {
			return a
		}
	}
}

// tell reports to the machine the dead processes among those it watches, until there is none.
func (w *LocalWatched) tell(s *LocalWatchedState, now protocol.Time) (news bool) {
	if s.heard == [localMortal / 64]uint64{} {
		return false
	}
	dead := func(r protocol.Rank) bool {
		if int(r/64) >= len(w.may) || w.may[r/64]>>(r%64)&1 == 0 {
			return false
		}
		i, _ := slices.BinarySearch(w.mortal, r)
		return s.heard[i/64]>>(i%64)&1 != 0
	}
	for {
		r, ok := w.members.watched(&s.LocalState, dead)
		if !ok {
			return news
		}
		news = true
		w.machine.Notify(&s.LocalState, now, protocol.Notice{Kind: protocol.Death, Rank: r})
	}
}
