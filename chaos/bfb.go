package chaos

import (
	"fmt"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
)

// BFBConfig returns the world in which p must keep its promise: it has a detector, and the root survives. Use
// it to attack a changed BFB.
func BFBConfig(b Broadcast, p *broadcast.BFB) Config[broadcast.BFBState, broadcast.BFBMessage] {
	return bfbConfig[broadcast.BFBState](b, p, p.Root())
}

func bfbConfig[S any](b Broadcast, p protocol.Protocol[S, broadcast.BFBMessage], root protocol.Rank) Config[S, broadcast.BFBMessage] {
	return Config[S, broadcast.BFBMessage]{
		Protocol: p, P: b.Spec.P, Crashes: b.Crashes, LossyCrashes: b.LossyCrashes,
		Reorder: b.Reorder, EagerTimers: b.EagerTimers, ExtraNext: b.ExtraNext,
		KeepGoing: b.KeepGoing, Progress: b.Progress, StatesMax: b.StatesMax,
		Detect:   true,
		MayCrash: func(r protocol.Rank) bool { return r != root },
		Vary: func(s *Setup[S, broadcast.BFBMessage]) {
			if b.Failed > 0 {
				s.FailUpTo(b.Failed, root)
			}
		},
		Check: func(w *World[S, broadcast.BFBMessage]) error { return checkBFB(w, root) },
	}
}

// checkBFB demands that every live process has delivered once and rests, the root with Done.
func checkBFB[S any](w *World[S, broadcast.BFBMessage], root protocol.Rank) error {
	for r := range protocol.Rank(w.P()) {
		delivered, rest := len(w.Delivered(r)), w.Rest(r)
		switch {
		case delivered > 1:
			return fmt.Errorf("p%d delivered %d times", r, delivered)
		case !w.Alive(r):
		case delivered == 0:
			return fmt.Errorf("p%d lives and did not deliver", r)
		case r == root && rest != Done:
			return fmt.Errorf("p%d, the root, does not come to an end", r)
		case rest != Idle && rest != Done:
			return fmt.Errorf("p%d does not come to rest", r)
		}
	}
	return nil
}
