package control

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// addressBook says where processes listen, in the order in which they announced it. Each
// session has received a prefix of it.
//
// Every process learns the address of every other, which is n² addresses for a job of n processes. On one
// host they differ only in the rank, and for other hosts in the port, so they are sent as a group: a line for
// thousands of processes is hardly longer than one for a single process, but for the ports.
type addressBook struct {
	entries []bookEntry
}

// bookEntry is a process, and what it has in common with the others of its group.
type bookEntry struct {
	rank  int
	group peerGroup // without ranks
	ports []uint16  // for the marks in the addresses
	key   string    // tells it from other groups
}

// peerGroup is a set of processes that differ only in their ranks and ports.
type peerGroup struct {
	Ranks       []int    `json:"ranks,omitempty"` // the first and the last of each range, ascending
	Ports       []uint16 `json:"ports,omitempty"` // of the addresses that end with portMark, rank by rank
	Incarnation uint64   `json:"incarnation"`
	Addresses   []string `json:"addresses"` // in which rankMark stands for the rank
	Host        string   `json:"host,omitempty"`
}

// rankMark stands for the rank in an address of a group; no address has it.
const rankMark = "\x00"

// portMark stands for the port at the end of an address of a group; no address ends with it.
const portMark = ":" + rankMark

// cutPort separates an address from the port at its end.
func cutPort(address string) (before string, port uint16, is bool) {
	i := strings.LastIndexByte(address, ':')
	n, err := strconv.ParseUint(address[i+1:], 10, 16)
	if i < 0 || err != nil || strconv.FormatUint(n, 10) != address[i+1:] {
		return address, 0, false
	}
	return address[:i], uint16(n), true
}

// rankPath returns how the address of a process that listens in a directory ends.
func rankPath(rank string) string { return "/" + rank + ".sock" }

func (b *addressBook) add(p Peer) {
	g := peerGroup{Incarnation: p.Incarnation, Host: p.Host, Addresses: slices.Clone(p.Addresses)}
	var ports []uint16
	for i, a := range g.Addresses {
		if dir, is := strings.CutSuffix(a, rankPath(strconv.Itoa(p.Rank))); is {
			g.Addresses[i] = dir + rankPath(rankMark)
		} else if before, port, is := cutPort(a); is {
			g.Addresses[i], ports = before+portMark, append(ports, port)
		}
	}
	b.entries = append(b.entries, bookEntry{p.Rank, g, ports, fmt.Sprintf("%d %q %q", g.Incarnation, g.Host, g.Addresses)})
}

// batchMax bounds the groups of one message in bytes, if they are several.
const batchMax = 512 << 10

// batches returns the messages with all entries from one on. If a rank occurs
// twice, the last entry counts.
func (b *addressBook) batches(from int) (lines [][]byte) {
	latest := map[int]bookEntry{}
	for _, e := range b.entries[from:] {
		latest[e.rank] = e
	}
	groups := map[string]*peerGroup{}
	for _, rank := range slices.Sorted(maps.Keys(latest)) {
		e := latest[rank]
		g := groups[e.key]
		if g == nil {
			g = new(e.group)
			groups[e.key] = g
		}
		if last := len(g.Ranks) - 1; last > 0 && g.Ranks[last] == rank-1 {
			g.Ranks[last] = rank
		} else {
			g.Ranks = append(g.Ranks, rank, rank)
		}
		g.Ports = append(g.Ports, e.ports...)
	}
	next, bytes := message{Type: tellPeers}, 0
	for key, g := range groups {
		if bytes > batchMax {
			lines = append(lines, next.line())
			next.Groups, bytes = nil, 0
		}
		next.Groups = append(next.Groups, *g)
		bytes += len(key) + 8*len(g.Ranks) + 6*len(g.Ports) + 64 // about: 64 for the names of fields
	}
	if next.Groups != nil {
		lines = append(lines, next.line())
	}
	return lines
}

// ungroup returns the processes of groups; false: batches does not make such groups.
func ungroup(groups []peerGroup) (peers []Peer, ok bool) {
	for _, g := range groups {
		next, ports := 0, g.Ports
		for ranks := range slices.Chunk(g.Ranks, 2) {
			if len(ranks) < 2 || ranks[0] < next || ranks[1] < ranks[0] || ranks[1] >= SizeMax || len(peers)+ranks[1]-ranks[0] >= SizeMax {
				return nil, false
			}
			for rank := ranks[0]; rank <= ranks[1]; rank++ {
				p, rest, ok := g.peer(rank, ports)
				if !ok {
					return nil, false
				}
				peers, ports = append(peers, p), rest
			}
			next = ranks[1] + 1
		}
		if len(ports) > 0 {
			return nil, false
		}
	}
	return peers, true
}

// peer returns the process of a rank of the group, whose ports come first, and the other ports; false: there are too few.
func (g *peerGroup) peer(rank int, ports []uint16) (p Peer, rest []uint16, ok bool) {
	addresses := make([]string, len(g.Addresses))
	for i, a := range g.Addresses {
		if dir, is := strings.CutSuffix(a, rankPath(rankMark)); is {
			a = dir + rankPath(strconv.Itoa(rank))
		} else if before, is := strings.CutSuffix(a, portMark); is {
			if len(ports) == 0 {
				return p, nil, false
			}
			a, ports = before+":"+strconv.Itoa(int(ports[0])), ports[1:]
		}
		addresses[i] = a
	}
	return Peer{Rank: rank, Incarnation: g.Incarnation, Addresses: addresses, Host: g.Host}, ports, true
}
