package logp_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-go/coppice/logp"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/broadcast"
	"github.com/coppice-go/coppice/protocol/collective"

	"pgregory.net/rapid"
)

// naiveRoute returns a message's route, in the simplest way: how long after its send it reaches the first
// station, and whether that is the switch; −1 if it goes straight.
func naiveRoute(net logp.Network, from, to protocol.Rank) (at protocol.Time, toSwitch bool) {
	switch {
	case net.Torus != logp.Torus{}:
		return net.O + protocol.Time(len(walk(net.Torus, from, to)))*net.L, false
	case net.Switch == logp.Switch{}:
		return -1, false
	}
	return net.O, true
}

// walk goes from one rank of a torus to another, a hop at a time, by breadth-first
// search.
func walk(t logp.Torus, from, to protocol.Rank) []protocol.Rank {
	place := func(x, y, z int) protocol.Rank {
		return protocol.Rank((x+t.X)%t.X + t.X*((y+t.Y)%t.Y) + t.X*t.Y*((z+t.Z)%t.Z))
	}
	back := map[protocol.Rank]protocol.Rank{from: from}
	for queue := []protocol.Rank{from}; len(queue) > 0; queue = queue[1:] {
		r := queue[0]
		x, y, z := int(r)%t.X, int(r)/t.X%t.Y, int(r)/(t.X*t.Y)
		for _, next := range []protocol.Rank{place(x+1, y, z), place(x-1, y, z), place(x, y+1, z), place(x, y-1, z), place(x, y, z+1), place(x, y, z-1)} {
			if _, seen := back[next]; !seen {
				back[next] = r
				queue = append(queue, next)
			}
		}
	}
	var path []protocol.Rank
	for r := to; r != from; r = back[r] {
		path = append(path, r)
	}
	return path
}

func TestTorusHopsAreTheShortestWalk(t *testing.T) {
	for _, torus := range []logp.Torus{{1, 1, 1}, {4, 1, 1}, {2, 3, 4}, {5, 2, 3}, {8, 8, 2}} {
		for from := range protocol.Rank(torus.X * torus.Y * torus.Z) {
			for to := range protocol.Rank(torus.X * torus.Y * torus.Z) {
				if got, want := torus.Hops(from, to), len(walk(torus, from, to)); got != want {
					t.Fatalf("%v: %d hops from %d to %d, want %d", torus, got, from, to, want)
				}
			}
		}
	}
	midplane := logp.Torus{X: 8, Y: 8, Z: 8}
	for _, c := range []struct{ a, b, want int }{
		{0, 1, 1},
		{0, 7, 1},    // around
		{0, 8, 1},    // one in y
		{0, 64, 1},   // one in z
		{0, 4, 4},    // opposite
		{0, 292, 12}, // 4 + 4 + 4
		{9, 511, 5},  // (1,1,0) and (7,7,7): 2 + 2 + 1
	} {
		if got := midplane.Hops(protocol.Rank(c.a), protocol.Rank(c.b)); got != c.want {
			t.Errorf("%d to %d: %d hops, want %d", c.a, c.b, got, c.want)
		}
	}
}

// arrivals runs a protocol of letters and returns what is received when, sorted.
func arrivals(t *testing.T, l protocol.Protocol[int, int], net logp.Network) []string {
	t.Helper()
	e, err := logp.NewEngine(l, net)
	if err != nil {
		t.Fatal(err)
	}
	var first []string
	for range 2 { // the engine forgets the first run
		var got received
		e.Observe(logp.Observer[int]{Received: got.note})
		if _, err := e.Run(1, logp.Faults{}); err != nil {
			t.Fatal(err)
		}
		slices.SortFunc(got, func(a, b string) int {
			if len(a[:strings.Index(a, ":")]) != len(b[:strings.Index(b, ":")]) {
				return strings.Index(a, ":") - strings.Index(b, ":")
			}
			return strings.Compare(a, b)
		})
		if first != nil && !slices.Equal(first, got) {
			t.Errorf("the second run: %q, the first: %q", got, first)
		}
		first = got
	}
	return first
}

func TestMessagesOnTorusTravelByHops(t *testing.T) {
	// A ring of six. 3 sends first and is three hops from 0; 1, one hop away, sends
	// to 2 first, then to 0, and is there before it, and so is 5, around the other way.
	l := letters{0: {}, 1: {{2, 1}, {0, 1}}, 2: {}, 3: {{0, 1}}, 4: {}, 5: {{4, 1}, {4, 1}, {0, 7}}}
	want := []string{
		"7: 1 bytes from 1 to 2",  // 0 + 1 + 5 + 1
		"7: 1 bytes from 5 to 4",  // …
		"8: 1 bytes from 1 to 0",  // 1 + 7
		"8: 1 bytes from 5 to 4",  // 1 + 7
		"9: 7 bytes from 5 to 0",  // 2 + 7
		"17: 1 bytes from 3 to 0", // 0 + 1 + 3·5 + 1
	}
	if got := arrivals(t, l, logp.Network{P: 6, L: 5, O: 1, Torus: logp.Torus{X: 6, Y: 1, Z: 1}}); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

func TestSwitchHandlesOneMessageAtATime(t *testing.T) {
	// All send at 0 and reach the switch at 1.
	l := letters{0: {{1, 1}}, 1: {{2, 1}}, 2: {{3, 1}}, 3: {{0, 1}}}
	for _, c := range []struct {
		net  logp.Network
		want []string
	}{
		{
			logp.Network{P: 4, L: 5, O: 1},
			[]string{"7: 1 bytes from 0 to 1", "7: 1 bytes from 1 to 2", "7: 1 bytes from 2 to 3", "7: 1 bytes from 3 to 0"},
		},
		{ // one after the other, in the order of ranks
			logp.Network{P: 4, L: 5, O: 1, Switch: logp.Switch{Packet: 3}},
			[]string{"7: 1 bytes from 0 to 1", "10: 1 bytes from 1 to 2", "13: 1 bytes from 2 to 3", "16: 1 bytes from 3 to 0"},
		},
	} {
		if got := arrivals(t, l, c.net); !slices.Equal(got, c.want) {
			t.Errorf("%+v:\n%q, want\n%q", c.net, got, c.want)
		}
	}
}

// pensive is letters on which receivers work as long as the letters are long.
type pensive struct{ letters }

func (pensive) Computing(_ protocol.Rank, m int) protocol.Time { return protocol.Time(m) }

func TestReceiversComputeBeforeMessagesTakeEffect(t *testing.T) {
	// The second letter to 0 waits until the first is finished, the one to 2 waits for none.
	l := pensive{letters{0: {}, 1: {{0, 10}}, 2: {{0, 4}}, 3: {{2, 0}}}}
	want := []string{"4: 0 bytes from 3 to 2", "14: 10 bytes from 1 to 0", "19: 4 bytes from 2 to 0"}
	if got := arrivals(t, l, logp.Network{P: 4, L: 2, O: 1}); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	// The same where a switch comes before it, and with a time for each byte.
	want = []string{"6: 0 bytes from 3 to 2", "23: 10 bytes from 1 to 0", "31: 4 bytes from 2 to 0"}
	if got := arrivals(t, l, logp.Network{P: 4, L: 2, O: 1, PerByte: 1, Switch: logp.Switch{Packet: 1}}); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestRoutedEngineEqualsNaiveSimulation runs any broadcast under any faults on
// toruses and switches.
func TestRoutedEngineEqualsNaiveSimulation(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		spec, net := drawSpec(t)
		if rapid.Bool().Draw(t, "torus") {
			net.Torus = logp.Torus{X: rapid.IntRange(1, 5).Draw(t, "X"), Y: rapid.IntRange(1, 4).Draw(t, "Y")}
			net.Torus.Z = (net.P + net.Torus.X*net.Torus.Y - 1) / (net.Torus.X * net.Torus.Y)
		} else {
			net.Switch = logp.Switch{
				Packet: protocol.Time(rapid.IntRange(1, 5).Draw(t, "packet")),
			}
		}
		built, err := spec.Build()
		if err != nil {
			t.Skip("a broadcast that cannot be built; another one is drawn:", err)
		}
		faults := drawFaults(t, net.P, spec.Root)
		seed := rapid.Uint64().Draw(t, "seed")
		switch p := built.(type) {
		case *broadcast.Plain:
			compare(t, p, net, seed, faults)
		case *broadcast.Delays:
			compare(t, p, net, seed, faults)
		case *broadcast.Provers:
			compare(t, p, net, seed, faults)
		}
	})
}

// TestSwitchHandlesMessagesThatChangeNothing: gossip that comes too late is only counted if it occupies no
// port, but it does occupy a switch.
func TestSwitchHandlesMessagesThatChangeNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		net := logp.Network{P: 30, L: 2, O: 1, NoQueue: true, Switch: logp.Switch{Packet: 2}}
		built, err := (broadcast.Spec{P: net.P, L: net.L, O: net.O, Tree: "gossip:9", Correction: "none"}).Build()
		if err != nil {
			t.Fatal(err)
		}
		compare(t, built.(*broadcast.Plain), net, rapid.Uint64().Draw(t, "seed"), logp.Faults{})
	})
}

// TestPlainNetworksAreWrittenAsBefore: experiments name what they have simulated by
// the network's JSON.
func TestPlainNetworksAreWrittenAsBefore(t *testing.T) {
	text, err := json.Marshal(logp.Network{P: 4, L: 2, O: 1})
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"P":4,"L":2,"O":1,"G":0,"PerByte":0,"NoQueue":false,"Detect":0,"Until":0}`; string(text) != want {
		t.Errorf("%s, want %s", text, want)
	}
}

func TestImpossibleRoutesAreRefused(t *testing.T) {
	for _, c := range []struct {
		net  logp.Network
		want string
	}{
		{logp.Network{Torus: logp.Torus{X: 2, Y: 2, Z: 1}}, "allowed: a node for each"},
		{logp.Network{Torus: logp.Torus{X: 8, Y: 1}}, "allowed: 1 or more each way"},
		{logp.Network{Torus: logp.Torus{X: -8, Y: -1, Z: 1}}, "allowed: 1 or more each way"},
		{logp.Network{Torus: logp.Torus{X: 1 << 21, Y: 1, Z: 1}}, "up to 2^20"},
		{logp.Network{Torus: logp.Torus{X: 8, Y: 1, Z: 1}, Switch: logp.Switch{Packet: 1}}, "allowed: one of them"},
		{logp.Network{Switch: logp.Switch{Packet: -1}}, "allowed: 1 to 2^30, or 0"},
	} {
		c.net.P, c.net.O = 8, 1
		if err := c.net.Check(); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%+v: %v, want %q", c.net, err, c.want)
		}
	}
}

// TestHostsShareALink: messages of one host to others leave one after the other, those within a host do not wait.
func TestHostsShareALink(t *testing.T) {
	gather := collective.Spec{Op: collective.Gather, Algorithm: collective.Flat}
	for _, c := range []struct {
		first    []protocol.Rank
		size     int64
		time     protocol.Time
		crossing int64
	}{
		// o, L, o; the second message leaves G later, the link of host 1 is busy.
		{[]protocol.Rank{0, 1}, 1, 1 + 10 + 100 + 1, 2},
		// The 4 further bytes keep the link, and the port of the receiver, busy for 3 each.
		{[]protocol.Rank{0, 1}, 5, 1 + (10 + 12) + 100 + 1 + 12, 10},
		// The receiver's link takes one after the other, too.
		{[]protocol.Rank{0, 1, 2}, 1, 1 + 100 + 10 + 1, 2},
		// Within the host the receiver's port alone makes the second wait.
		{[]protocol.Rank{0}, 1, 1 + 5 + 10 + 1, 0},
		{[]protocol.Rank{0}, 5, 1 + 5 + (10 + 4) + 1 + 4, 0},
	} {
		net := logp.Network{P: 3, L: 100, O: 1, G: 10, PerByte: 3, Hosts: &logp.Hosts{First: c.first, L: 5, PerByte: 1}}
		r, err := logp.Collective(gather, c.size, 1, net)
		if err != nil || r.Time != c.time || r.Crossing != c.crossing {
			t.Errorf("hosts that begin with %v, %d bytes: time %d, %d bytes between hosts, %v; want %d, %d", c.first, c.size, r.Time, r.Crossing, err, c.time, c.crossing)
		}
	}
	for _, first := range [][]protocol.Rank{{}, {1}, {0, 0}, {0, 3}} {
		if (logp.Network{P: 3, O: 1, Hosts: &logp.Hosts{First: first}}).Check() == nil {
			t.Errorf("hosts that begin with %v of 3", first)
		}
	}
}
