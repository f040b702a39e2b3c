package membership

import (
	"slices"

	"github.com/coppice-go/coppice/protocol"
)

// nobody owns a task whose owner is gone and that nobody has adopted.
const nobody protocol.Rank = -1

// assign returns who owns which task among these members: whoever did, if it is
// still in. The others are orphans. With adopt they go, in order, each to the
// member that then owns the fewest tasks, the lowest of several; otherwise to
// nobody. It is a function of its arguments: whoever proposes the same change
// proposes the same owners.
func assign(owners []protocol.Rank, members []Member, adopt bool) []protocol.Rank {
	if owners == nil {
		return nil
	}
	next := slices.Clone(owners)
	load := make([]int, len(members))
	for t, o := range next {
		if i, in := slices.BinarySearchFunc(members, o, func(m Member, id protocol.Rank) int { return int(m.ID) - int(id) }); in {
			load[i]++
		} else {
			next[t] = nobody
		}
	}
	if !adopt || len(members) == 0 {
		return next
	}
	for t, o := range next {
		if o != nobody {
			continue
		}
		least := 0
		for i, n := range load {
			if n < load[least] {
				least = i
			}
		}
		load[least]++
		next[t] = members[least].ID
	}
	return next
}
