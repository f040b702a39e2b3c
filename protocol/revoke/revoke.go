// Package revoke spreads the word that a group is revoked. The runtime and the tests of this package
// run it. Its API may change.
//
// Where dead processes stay dead, a task that cannot go on revokes the group: all that the others call there fails, too.
// The word goes along the binomial graph of the live members of the latest view (Angskun, Bosilca, Dongarra, ISPA 2007):
// at distances of 1, 2, 4 … to both sides. A member that hears it for the first time passes it on, and again in every
// view, whose graph has no dead members. In the last view no member dies, and its graph is connected: so all its live
// members hear the word if one of them has. It costs 2 log₂ n messages for each member and view, and log₂ n steps.
//
// The caller's duties: live members hear what live members send; all live members open all views, in order; and a word
// that comes before the task has joined the group is passed on, too.
package revoke

import (
	"slices"

	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/topology"
)

// State is what a member of a group knows.
type State struct {
	joined  bool
	revoked bool
}

// Revoked reports whether the group is revoked.
func (s *State) Revoked() bool { return s.revoked }

// Floods reports whether the member passes the word on, now and whenever it opens a view: it knows the members, and that
// the group is revoked.
func (s *State) Floods() bool { return s.joined && s.revoked }

// Join says that the task has joined the group. Floods says what follows.
func (s *State) Join() { s.joined = true }

// Revoke says that the group is revoked, by this task or another one. It returns true if that is news.
// Floods says what follows.
func (s *State) Revoke() (news bool) {
	news, s.revoked = !s.revoked, true
	return news
}

// Told lists the ranks, of those that live, to which a rank passes the word.
func Told(self protocol.Rank, live []protocol.Rank) (ranks []protocol.Rank) {
	at := slices.Index(live, self)
	if at < 0 {
		return nil
	}
	graph := topology.BinomialGraph(len(live))
	for i := range graph.Degree() {
		for _, to := range []int{graph.Out(at, i), graph.In(at, i)} {
			if r := live[to]; r != self && !slices.Contains(ranks, r) {
				ranks = append(ranks, r)
			}
		}
	}
	return ranks
}
