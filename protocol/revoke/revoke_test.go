package revoke

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/coppice-go/coppice/internal/explore"
	"github.com/coppice-go/coppice/internal/extent"
	"github.com/coppice-go/coppice/internal/plant"
	"github.com/coppice-go/coppice/protocol"
)

// The tests let one member or several revoke a group while any number of members die. What dead members have sent may be
// lost. Every member opens the views in order, when it comes to it, and joins the group at any time. Of groups of up to
// three every schedule is taken; of larger ones, in which not all are neighbours, random ones.

const ranksMax = 9

// member is one of the group.
type member struct {
	state State
	dead  bool
	view  int // the latest that it has opened
}

// world is the group. To say the word twice on a link is to say it once.
type world struct {
	ranks   int
	members [ranksMax]member
	words   [ranksMax][ranksMax]bool // on the way
	views   []set                    // the live members in each
	revokes int                      // that may come
	deaths  int
}

// set is a set of ranks.
type set uint16

func (s set) has(r int) bool { return s>>r&1 == 1 }

func newWorld(ranks, revokes, deaths int) *world {
	return &world{ranks: ranks, views: []set{1<<ranks - 1}, revokes: revokes, deaths: deaths}
}

func (w *world) clone() *world {
	c := *w
	c.views = slices.Clone(w.views)
	return &c
}

func (w *world) key() string { return fmt.Sprint(*w) }

// flood passes the word on, if there is reason to.
func (w *world) flood(r int) {
	m := &w.members[r]
	if !m.state.Floods() {
		return
	}
	var live []protocol.Rank
	for o := range w.ranks {
		if w.views[m.view].has(o) {
			live = append(live, protocol.Rank(o))
		}
	}
	for _, to := range Told(protocol.Rank(r), live) {
		w.words[r][to] = !w.members[to].dead
	}
}

func (w *world) revoke(r int) {
	if w.members[r].state.Revoke() {
		w.flood(r)
	}
}

// living returns the live members.
func (w *world) living() (s set) {
	for r := range w.ranks {
		if !w.members[r].dead {
			s |= 1 << r
		}
	}
	return s
}

// steps lists what may happen next.
func (w *world) steps() (all []func(*world)) {
	living := w.living()
	for r := range w.ranks {
		m := &w.members[r]
		for to := range w.ranks {
			if w.words[r][to] {
				all = append(all, func(w *world) {
					w.words[r][to] = false
					w.revoke(to)
				})
			}
			if w.words[r][to] && m.dead {
				all = append(all, func(w *world) { w.words[r][to] = false }) // it is lost
			}
		}
		if !m.dead {
			all = append(all, w.stepsOf(r)...)
		}
	}
	if last := w.views[len(w.views)-1]; last != living {
		all = append(all, func(w *world) { w.views = append(w.views, living) })
	}
	if w.deaths > 0 || w.revokes > 0 {
		all = append(all, func(w *world) { w.deaths, w.revokes = 0, 0 })
	}
	return all
}

// stepsOf lists what a member may do next.
func (w *world) stepsOf(r int) (all []func(*world)) {
	m := &w.members[r]
	if !m.state.joined {
		all = append(all, func(w *world) {
			w.members[r].state.Join()
			w.flood(r)
		})
	}
	if m.state.joined && !m.state.Revoked() && w.revokes > 0 {
		all = append(all, func(w *world) {
			w.revokes--
			w.revoke(r)
		})
	}
	if m.view < len(w.views)-1 {
		all = append(all, func(w *world) {
			w.members[r].view++
			w.flood(r)
		})
	}
	if w.deaths > 0 {
		all = append(all, func(w *world) {
			w.deaths--
			w.members[r].dead = true
			for o := range w.ranks {
				w.words[o][r] = false
			}
		})
	}
	return all
}

// ended checks a world in which nothing more happens.
func (w *world) ended() string {
	knows, ignorant := set(0), set(0)
	for r := range w.ranks {
		switch m := &w.members[r]; {
		case m.dead:
		case m.state.Revoked():
			knows |= 1 << r
		default:
			ignorant |= 1 << r
		}
	}
	if knows != 0 && ignorant != 0 {
		return fmt.Sprintf("%b know that the group is revoked, %b never hear of it", knows, ignorant)
	}
	return ""
}

var every = explore.World[*world, string]{
	Steps: (*world).steps, Clone: (*world).clone, Key: (*world).key, Wrong: func(w *world, end bool) string {
		if end {
			return w.ended()
		}
		return ""
	},
	Text: func(w *world) string { return fmt.Sprintf("%+v", w) },
}

// TestEverySchedule checks that all live members hear of it, or none does.
func TestEverySchedule(t *testing.T) {
	for ranks := 1; ranks <= 3; ranks++ {
		every.Every(t, newWorld(ranks, 2, ranks-1))
	}
}

// TestRandomSchedules does the same in larger groups.
func TestRandomSchedules(t *testing.T) {
	runs := extent.Of(t, 10_000, 200_000)
	first := plant.Seed()
	for seed := first; seed < first+uint64(runs); seed++ {
		ranks := 4 + int(seed%(ranksMax-3))
		random := rand.New(rand.NewPCG(seed, 0))
		w := newWorld(ranks, 1+random.IntN(2), random.IntN(ranks))
		for {
			steps := w.steps()
			if len(steps) == 0 {
				break
			}
			steps[random.IntN(len(steps))](w)
		}
		if wrong := w.ended(); wrong != "" {
			t.Fatalf("=> %s (%d ranks; replay: runs 1, seed %d)\n%+v", wrong, ranks, seed, w)
		}
	}
}
