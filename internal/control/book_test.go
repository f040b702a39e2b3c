//go:build unix

package control

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
)

// bookOf is a book in which processes have announced themselves in a random order.
func bookOf(n int, address func(rank int) string) (b addressBook) {
	for _, rank := range rand.New(rand.NewPCG(1, 2)).Perm(n) {
		b.add(Peer{Rank: rank, Incarnation: 1, Addresses: []string{address(rank)}, Host: "here"})
	}
	return b
}

// told hands lines to a client, and returns what its handler heard, by rank.
func told(t *testing.T, lines [][]byte) map[int]Peer {
	t.Helper()
	h := &listening{peers: map[int]Peer{}}
	c := &Client{handler: h, log: slog.New(slog.DiscardHandler)}
	for _, line := range lines {
		var m message
		if err := json.Unmarshal(line, &m); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		if err := c.hear(m); err != nil {
			t.Fatal(err)
		}
	}
	return h.peers
}

// listening notes which peers it was told of, and how often that tasks have returned.
type listening struct {
	silent
	peers    map[int]Peer
	returned [][]int
}

func (l *listening) Peers(peers []Peer) {
	for _, p := range peers {
		l.peers[p.Rank] = p
	}
}

func (l *listening) PeersReturned(ranks []int, _ uint64, _ string) {
	l.returned = append(l.returned, ranks)
}

// What everybody is told of everybody must not grow with the square of their number.
func TestAddressesOfAHostAreToldInFewBytes(t *testing.T) {
	const n = 1000
	b := bookOf(n, func(rank int) string { return fmt.Sprintf("unix:/tmp/coppice-0/job/%d.sock", rank) })
	lines := b.batches(0)
	bytes := 0
	for _, line := range lines {
		bytes += len(line)
	}
	if len(lines) != 1 || bytes > 200 {
		t.Errorf("%d lines with %d bytes for %d processes; want 1, with no more than 200", len(lines), bytes, n)
	}
	if heard := told(t, lines); len(heard) != n || heard[999].Addresses[0] != "unix:/tmp/coppice-0/job/999.sock" || heard[7].Host != "here" {
		t.Errorf("%d processes are known, 999 as %+v", len(heard), heard[999])
	}
}

// To other hosts, addresses differ in their ports as well.
func TestAddressesOfSeveralHostsAreToldInFewBytes(t *testing.T) {
	const n, hosts = 1000, 4
	address := func(rank int) []string {
		host := rank * hosts / n
		return []string{
			fmt.Sprintf("unix:/tmp/coppice-%d/%d.sock", host, rank),
			fmt.Sprintf("tls:198.51.100.%d:%d", host, 64000+rank), fmt.Sprintf("tls:[2001:db8::%d]:%d", host, 64000+rank),
		}
	}
	var b addressBook
	for _, rank := range rand.New(rand.NewPCG(1, 2)).Perm(n) {
		b.add(Peer{Rank: rank, Incarnation: 1, Addresses: address(rank), Host: fmt.Sprint("host", rank*hosts/n)})
	}
	lines := b.batches(0)
	if len(lines) != 1 || len(lines[0]) > 12*n+200*hosts {
		t.Errorf("%d lines, the first of %d bytes, for %d processes; want 1, with two ports a process", len(lines), len(lines[0]), n)
	}
	heard := told(t, lines)
	for rank := range n {
		if !reflect.DeepEqual(heard[rank].Addresses, address(rank)) {
			t.Fatalf("process %d is known as %+v, want %q", rank, heard[rank], address(rank))
		}
	}
}

// Groups or not, everybody hears what was announced last.
func TestGroupsHaveTheAddressesThatWereAnnounced(t *testing.T) {
	var b addressBook
	want := map[int]Peer{}
	for i, p := range []Peer{
		{Rank: 1, Incarnation: 1, Addresses: []string{"unix:/d/1.sock"}, Host: "a"},
		{Rank: 2, Incarnation: 1, Addresses: []string{"unix:/d/2.sock"}, Host: "b"}, // another host
		{Rank: 3, Incarnation: 2, Addresses: []string{"unix:/d/3.sock"}, Host: "a"}, // another life
		{Rank: 4, Incarnation: 1, Addresses: []string{"unix:/d/4.sock"}, Host: "a"},
		{Rank: 5, Incarnation: 1, Addresses: []string{"unix:/d/15.sock"}, Host: "a"}, // not by its rank
		{Rank: 15, Incarnation: 1, Addresses: []string{"unix:/d/15.sock", "tls:10.0.0.1:7015"}, Host: "a"},
		{Rank: 16, Incarnation: 1, Addresses: []string{"unix:/d/16.sock", "tls:10.0.0.1:7016"}, Host: "a"},
		{Rank: 18, Incarnation: 1, Addresses: []string{"unix:/d/18.sock", "tls:10.0.0.1:07018", "tls:10.0.0.1:70180", "7018", "tls:"}, Host: "a"}, // no ports
		{Rank: 17, Incarnation: 1, Addresses: []string{}},
		{Rank: 4, Incarnation: 2, Addresses: []string{"unix:/e/4.sock"}, Host: "a"}, // again
		{Rank: 0, Incarnation: 1, Addresses: []string{"unix:/d/0.sock"}, Host: "a"},
	} {
		b.add(p)
		want[p.Rank] = p
		if got := told(t, b.batches(0)); !reflect.DeepEqual(got, want) {
			t.Fatalf("after %d announcements: %+v, want %+v", i+1, got, want)
		}
	}
	if got := told(t, b.batches(9)); len(got) != 2 || got[4].Incarnation != 2 {
		t.Errorf("what is new: %+v", got)
	}
	if lines := b.batches(len(b.entries)); lines != nil {
		t.Errorf("nothing is new: %q", lines)
	}
}

// A book of many hosts goes out in lines that are not too long.
func TestBatchesAreBounded(t *testing.T) {
	const n = SizeMax
	b := bookOf(n, func(rank int) string {
		return fmt.Sprintf("tls:%s-%d.example.org:7000", strings.Repeat("name", 50), rank)
	})
	lines := b.batches(0)
	for _, line := range lines {
		if len(line) > batchMax+200 {
			t.Errorf("a line of %d bytes", len(line))
		}
	}
	if heard := told(t, lines); len(heard) != n || len(lines) < 2 {
		t.Errorf("%d of %d processes are known, from %d lines", len(heard), n, len(lines))
	}
}

// Processes that return together are heard of together: what that means is looked at
// once, not once for each of them.
func TestReturnsAreHeardTogether(t *testing.T) {
	h := &listening{}
	c := &Client{handler: h}
	ranks := []int{1, 2, 3, 5, 8}
	for range 2 { // told again, they are no news
		if err := c.hear(message{Type: tellReturned, Ranks: ranks, Incarnation: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if !reflect.DeepEqual(h.returned, [][]int{ranks}) {
		t.Errorf("heard %v, want %v once", h.returned, ranks)
	}
}

func TestBadGroupsAreRefused(t *testing.T) {
	for _, ranks := range [][]int{{1}, {2, 1}, {-1, 0}, {0, 5, 5, 6}, {0, SizeMax}, {0, 1, 2}} {
		if peers, ok := ungroup([]peerGroup{{Ranks: ranks}}); ok {
			t.Errorf("ranks %v: %d peers", ranks, len(peers))
		}
	}
	for _, ports := range [][]uint16{nil, {1, 2, 3}, {1, 2, 3, 4, 5}} {
		g := peerGroup{Ranks: []int{0, 1}, Ports: ports, Addresses: []string{"tls:a" + portMark, "tls:b" + portMark}}
		if peers, ok := ungroup([]peerGroup{g}); ok {
			t.Errorf("ports %v: %d peers", ports, len(peers))
		}
	}
	all := peerGroup{Ranks: []int{0, SizeMax - 1}}
	if _, ok := ungroup([]peerGroup{all, all}); ok {
		t.Error("more processes than a job can have")
	}
}
