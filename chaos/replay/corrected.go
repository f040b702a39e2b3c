package replay

import (
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/collective"
)

// Corrected operations. Where the tasks of crashed processes are run again, all inputs come in the end, and
// no process is notified of a crash: but more than one way leads to a result, and messages on some of them
// come when no task waits for them anymore.

// corrected returns the ways to carry out corrected operations.
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
