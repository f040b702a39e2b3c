package replay

import (
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/collective"
)

// Corrected operations. Where the tasks of the dead are run again, all inputs come, in the end, and nobody is told
// of a death: but more ways than one lead to a result, and what is sent on some of them comes when nobody waits for
// it any more.

// corrected are the ways to carry out corrected operations.
func corrected(tasks int) (all []*Plan, err error) {
	if all, err = casts(tasks); err != nil {
		return nil, err
	}
	for _, op := range []collective.Op{collective.Reduce, collective.AllReduce} {
		for _, a := range []collective.Algorithm{collective.Corrected, collective.CorrectedFlat} {
			for failures := 1; failures <= 2; failures++ {
				for root := range protocol.Rank(tasks) {
					p, err := scheduled(collective.Spec{Op: op, Algorithm: a, P: tasks, Root: root, Spans: 1, Failures: failures})
					if err != nil {
						return nil, err
					}
					all = append(all, p)
				}
			}
		}
	}
	return all, nil
}
