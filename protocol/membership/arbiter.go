package membership

import "github.com/coppice-go/coppice/protocol"

// A proposer asks an arbiter when it can reach exactly half of a view, such as one of two members. The arbiter names,
// once and for ever, one member, which decides what follows the view with half of its members, itself among them. The
// arbiter names the first member that asks; for each view, one at most. It is any register outside the group that is
// written once, such as a key of etcd.
//
// It is safe for the reason that Paxos is: any two quorums share a member. Half of the members and more than half of
// them share one; two halves share the named one. Nothing else is required of the arbiter, and a group that has none, or
// whose arbiter does not answer, goes by the other rules.

// arbitration is what the arbiter has said of the view in force.
type arbitration uint8

const (
	unasked arbitration = iota
	asking
	granted // this process is named
	denied  // another process is named
	unheard // the arbiter does not answer
)

// half reports whether exactly half of the members of the view in force have answered.
func (s *State) half() bool {
	n := 0
	for _, m := range s.view.Members {
		if s.campaign.answered.has(m.ID) {
			n++
		}
	}
	return 2*n == len(s.view.Members)
}

// patience is how long a proposer waits for answers before it suspects the members that are silent. With half of the answers it
// waits for a quarter of Patience, so that the arbiter can be asked before the other members give up.
func (p *Protocol) patience(s *State) protocol.Time {
	if p.cfg.Arbiter && s.campaign.deciding() && s.anyFailed() && s.half() {
		return p.cfg.Patience / 4
	}
	return p.cfg.Patience
}

// arbitrate asks the arbiter if half of the members cannot be reached, and reports whether the arbiter decides.
func (p *Protocol) arbitrate(s *State) bool {
	if !p.cfg.Arbiter || !s.campaign.deciding() || !s.half() {
		return false
	}
	if s.arbitration == unasked {
		s.arbitration = asking
		s.work(p.write(Letter{Kind: Arbitrate, Who: s.self, Number: s.view.Number}))
	}
	return s.arbitration != unheard
}

// arbitrated handles the arbiter's answer, which the process's own driver passes on.
func (p *Protocol) arbitrated(s *State, from protocol.Rank, l *Letter) {
	if from != s.self.ID || s.stage != inside || l.Number != s.view.Number || s.arbitration != asking {
		return
	}
	switch l.Kind {
	case Granted:
		s.arbitration = granted
	case Denied:
		s.arbitration = denied
	default:
		s.arbitration = unheard
	}
}
