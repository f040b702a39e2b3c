package control

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// addressBook is where processes listen, in the order in which they said so. Each
// session has been told a beginning of it.
//
// Everybody is told of everybody, which is n² addresses for a job of n processes. On one
// host they differ only in the rank, so that they are told as a group: a line for
// thousands of processes is hardly longer than one for a single process.
type addressBook struct {
	entries []bookEntry
	timer   *time.Timer // of the next batch
	pending bool
}

// bookEntry is a process, and what it has in common with the others of its group,
// encoded.
type bookEntry struct {
	rank  int
	group string
}

// peerGroup is processes that differ only in their ranks.
type peerGroup struct {
	Ranks       []int    `json:"ranks,omitempty"` // the first and the last of each range, ascending
	Incarnation uint64   `json:"incarnation"`
	Addresses   []string `json:"addresses"` // in which rankMark stands for the rank
	Host        string   `json:"host,omitempty"`
}

// rankMark stands for the rank in an address of a group; no address has it.
const rankMark = "\x00"

// rankPath is how the address of a process that listens in a directory ends.
func rankPath(rank string) string { return "/" + rank + ".sock" }

func (b *addressBook) add(p Peer) {
	g := peerGroup{Incarnation: p.Incarnation, Host: p.Host, Addresses: slices.Clone(p.Addresses)}
	for i, a := range g.Addresses {
		if dir, is := strings.CutSuffix(a, rankPath(strconv.Itoa(p.Rank))); is {
			g.Addresses[i] = dir + rankPath(rankMark)
		}
	}
	group, err := json.Marshal(g)
	if err != nil {
		panic("control: " + err.Error()) // strings and numbers
	}
	b.entries = append(b.entries, bookEntry{p.Rank, string(group)})
}

func (b *addressBook) stop() {
	if b.timer != nil {
		b.timer.Stop()
	}
}

// batchMax bounds the groups of one message in bytes, if they are several.
const batchMax = 512 << 10

// batches are the messages with all entries from one on. Of a rank that is there
// twice the last one counts.
func (b *addressBook) batches(from int) (lines [][]byte) {
	latest := map[int]string{}
	for _, e := range b.entries[from:] {
		latest[e.rank] = e.group
	}
	groups := map[string][]int{}
	for _, rank := range slices.Sorted(maps.Keys(latest)) {
		group := latest[rank]
		ranks := groups[group]
		if last := len(ranks) - 1; last > 0 && ranks[last] == rank-1 {
			ranks[last] = rank
		} else {
			groups[group] = append(ranks, rank, rank)
		}
	}
	var line []byte
	for group, ranks := range groups {
		switch {
		case line == nil:
			line = fmt.Appendf(nil, `{"type":%q,"groups":[`, tellPeers)
		case len(line) > batchMax:
			lines = append(lines, append(line, "]}\n"...))
			line = fmt.Appendf(nil, `{"type":%q,"groups":[`, tellPeers)
		default:
			line = append(line, ',')
		}
		line = append(line, `{"ranks":[`...)
		for i, rank := range ranks {
			if i > 0 {
				line = append(line, ',')
			}
			line = strconv.AppendInt(line, int64(rank), 10)
		}
		line = append(append(line, "],"...), group[1:]...)
	}
	if line != nil {
		lines = append(lines, append(line, "]}\n"...))
	}
	return lines
}

// ungroup returns the processes of groups; false: they are not such as batches makes.
func ungroup(groups []peerGroup) (peers []Peer, ok bool) {
	for _, g := range groups {
		next := 0
		for ranks := range slices.Chunk(g.Ranks, 2) {
			if len(ranks) < 2 || ranks[0] < next || ranks[1] < ranks[0] || ranks[1] >= SizeMax || len(peers)+ranks[1]-ranks[0] >= SizeMax {
				return nil, false
			}
			for rank := ranks[0]; rank <= ranks[1]; rank++ {
				peers = append(peers, g.peer(rank))
			}
			next = ranks[1] + 1
		}
	}
	return peers, true
}

// peer is the process of a rank of the group.
func (g *peerGroup) peer(rank int) Peer {
	addresses := make([]string, len(g.Addresses))
	for i, a := range g.Addresses {
		if dir, is := strings.CutSuffix(a, rankPath(rankMark)); is {
			a = dir + rankPath(strconv.Itoa(rank))
		}
		addresses[i] = a
	}
	return Peer{Rank: rank, Incarnation: g.Incarnation, Addresses: addresses, Host: g.Host}
}
