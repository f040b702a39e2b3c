package chaos

import (
	"errors"
	"math/bits"
	"os"
	"testing"

	"github.com/coppice-go/coppice/internal/extent"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
)

// gossiped is a dissemination whose outcome is given: the root sends to each process of a set, a bit each,
// and no other process sends. Gossip leaves such a set of g-nodes and the root to correction. Ranks count
// from the root.
type gossiped uint64

func (gossiped) Fit(int) error { return nil }

func (gossiped) Color(*broadcast.Spreading, rank, uint16) {}

func (gossiped) Acknowledge(*broadcast.Spreading, rank, rank) {}

func (g gossiped) Next(s *broadcast.Spreading, self rank, _ now) action {
	if left := g >> (s.Next + 1) << (s.Next + 1); self == 0 && left != 0 {
		s.Next = int32(bits.TrailingZeros64(uint64(left)))
		return action{Kind: protocol.Send, To: rank(s.Next)}
	}
	return action{Kind: protocol.Done}
}

// gNodes is the number of g-nodes.
func (g gossiped) gNodes() int { return 1 + bits.OnesCount64(uint64(g)) }

// afterGossip is the world of a correction that begins when the set and the root have the message; up to all
// other processes are dead from the start.
func afterGossip[C, E any](t *testing.T, p int, set gossiped, crashes int, correction broadcast.Correction[C, E]) Config[broadcast.State[C], broadcast.Message[E]] {
	t.Helper()
	cfg := broadcast.Config{P: p, Spread: set, Synchronized: true, Start: 1}
	proto, err := broadcast.New(cfg, correction)
	if err != nil {
		t.Fatal(err)
	}
	b := Broadcast{Failed: p - 1, Crashes: crashes, Cumulative: true}
	return BroadcastConfig(b, proto, Promise{Crashes: crashes, Gap: p, EndGap: p})
}

var forwardFirst = broadcast.Ring{First: broadcast.ToRight}

// tally sums up explorations.
type tally struct {
	worlds            int
	states, schedules float64
}

func (n *tally) add(r Report) {
	n.worlds++
	n.states += float64(r.States)
	n.schedules += float64(r.Schedules)
}

// TestCheckedCorrectionAfterEveryGossip (Corrected Gossip, Claim 3): under every schedule, for every set of
// g-nodes and every set of dead processes among them and the others, all live processes are reached and all
// correctors end. More than three g-nodes among five or more processes have too many states. Six processes
// take seconds: COPPICE_GRID=1 includes them.
func TestCheckedCorrectionAfterEveryGossip(t *testing.T) {
	most := extent.Of(t, 4, 5)
	if os.Getenv("COPPICE_GRID") != "" {
		most = 6
	}
	for p := 1; p <= most; p++ {
		var n tally
		for set := gossiped(0); set < 1<<p; set += 2 {
			if p > 4 && set.gNodes() > 3 {
				continue
			}
			report, err := Exhaustive(afterGossip(t, p, set, 0, &broadcast.Checked{Ring: forwardFirst}))
			n.add(report)
			if err != nil {
				t.Fatalf("P=%d, g-nodes %b: %v", p, set|1, err)
			}
		}
		t.Logf("P=%d: %d sets of g-nodes, %.3g schedules, %.3g states", p, n.worlds, n.schedules, n.states)
	}
}

// TestFailureProofCorrectionAfterEveryGossip (Claim 4): the same with a crash at any moment, the root's
// included: all live processes deliver, or none. Three g-nodes have a million states and more.
func TestFailureProofCorrectionAfterEveryGossip(t *testing.T) {
	most := extent.Of(t, 3, 4)
	for p := 1; p <= most; p++ {
		var n tally
		for set := gossiped(0); set < 1<<p; set += 2 {
			if set.gNodes() > 2 {
				continue
			}
			report, err := Exhaustive(afterGossip(t, p, set, 1, failureProof1()))
			n.add(report)
			if err != nil {
				t.Fatalf("P=%d, g-nodes %b: %v", p, set|1, err)
			}
		}
		t.Logf("P=%d: %d sets of g-nodes, %.3g schedules, %.3g states", p, n.worlds, n.schedules, n.states)
	}
}

func failureProof1() *broadcast.FailureProof {
	return &broadcast.FailureProof{Ring: forwardFirst, F: 1, Timeout: 20}
}

// TestFailureProofCorrectionDoesNotSurviveOneCrashMore: of four processes, 0 and 1 are g-nodes. 0 crashes
// after a send to 1, then 1 after a send to 2 that names both: 2 delivers, and 3 is never reached. No smaller
// group shows it.
func TestFailureProofCorrectionDoesNotSurviveOneCrashMore(t *testing.T) {
	for p := 2; p <= 4; p++ {
		_, err := Exhaustive(afterGossip(t, p, 0b10, 2, failureProof1()))
		if v := new(Violation); errors.As(err, &v) != (p == 4) {
			t.Errorf("P=%d: %v", p, err)
		}
	}
}

// TestCheckedCorrectionDoesNotSurviveACrash (§III.C): the root alone has the message and crashes after its
// first send. Three processes are the fewest, if deliveries by crashed processes do not count.
func TestCheckedCorrectionDoesNotSurviveACrash(t *testing.T) {
	for p := 1; p <= 3; p++ {
		proto, err := broadcast.New(broadcast.Config{P: p, Spread: gossiped(0), Synchronized: true, Start: 1}, &broadcast.Checked{Ring: forwardFirst})
		if err != nil {
			t.Fatal(err)
		}
		promise := Promise{Crashes: 1, Survivors: true, Gap: p, EndGap: p}
		_, err = Exhaustive(BroadcastConfig(Broadcast{Crashes: 1, Cumulative: true}, proto, promise))
		if v := new(Violation); errors.As(err, &v) != (p == 3) {
			t.Errorf("P=%d: %v", p, err)
		}
	}
}
