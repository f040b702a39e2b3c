package swim

import (
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/coppice-go/coppice/internal/detect"
	"github.com/hashicorp/memberlist"
)

// news holds the changes of members that run has not yet reported. memberlist holds its own lock when
// it calls, so news never reports from within such a call: one entry for each process, its last change,
// waits for the goroutine that reports it.
type news struct {
	self  string
	tells detect.Outside

	mu      sync.Mutex
	changed sync.Cond
	fresh   map[process]state
	order   []process // the keys of fresh, in order of arrival
	over    bool
}

type process struct {
	rank        int
	incarnation uint64
}

type state bool

const (
	alive state = true
	gone  state = false
)

func newNews(cfg detect.Outside) *news {
	n := &news{
		self: name(cfg.Rank, cfg.Incarnation), tells: cfg,
		fresh: map[process]state{},
	}
	n.changed.L = &n.mu
	return n
}

// NotifyAlive implements memberlist.AliveDelegate. It rejects peers without a valid name.
func (n *news) NotifyAlive(peer *memberlist.Node) error {
	_, _, err := parseName(peer.Name)
	return err
}

// NotifyJoin implements memberlist.EventDelegate.
func (n *news) NotifyJoin(m *memberlist.Node) { n.note(m.Name, alive) }

// NotifyUpdate implements memberlist.EventDelegate. Members have nothing to update.
func (n *news) NotifyUpdate(*memberlist.Node) {}

// NotifyLeave implements memberlist.EventDelegate. No member announces that it leaves: this is the end
// of a suspicion that was not refuted.
func (n *news) NotifyLeave(m *memberlist.Node) { n.note(m.Name, gone) }

func (n *news) note(member string, is state) {
	if member == n.self {
		return
	}
	rank, incarnation, err := parseName(member)
	if err != nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	p := process{rank, incarnation}
	if _, waits := n.fresh[p]; !waits {
		n.order = append(n.order, p)
	}
	n.fresh[p] = is
	n.changed.Signal()
}

// next waits for the next change to report.
func (n *news) next() (p process, is state, ok bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for len(n.order) == 0 && !n.over {
		n.changed.Wait()
	}
	if n.over {
		return p, is, false
	}
	p, n.order = n.order[0], n.order[1:]
	is = n.fresh[p]
	delete(n.fresh, p)
	return p, is, true
}

// why is all that is known about a suspect: memberlist does not say which member probed it.
const why = "no answer to probes, neither directly nor through others nor over TCP, and no denial"

// run reports changes until stop.
func (n *news) run() {
	for {
		p, is, ok := n.next()
		switch {
		case !ok:
			return
		case is == alive:
			n.tells.Alive(p.rank, p.incarnation)
		default:
			n.tells.Suspect(p.rank, p.incarnation, why)
		}
	}
}

func (n *news) stop() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.over = true
	n.changed.Signal()
}

// name returns the member name of a process. A later incarnation is another member, so that nothing
// said about one holds for the other.
func name(rank int, incarnation uint64) string {
	return strconv.Itoa(rank) + "." + strconv.FormatUint(incarnation, 10)
}

// parseName reads a name. Each process has exactly one name: parseName rejects other spellings of the
// same numbers.
func parseName(text string) (rank int, incarnation uint64, err error) {
	left, right, _ := strings.Cut(text, ".")
	rank, errRank := strconv.Atoi(left)
	incarnation, errIncarnation := strconv.ParseUint(right, 10, 64)
	if errRank != nil || errIncarnation != nil || rank < 0 || rank >= rankMax || name(rank, incarnation) != text {
		return 0, 0, fmt.Errorf("member %q; allowed: RANK.INCARNATION", text)
	}
	return rank, incarnation, nil
}
