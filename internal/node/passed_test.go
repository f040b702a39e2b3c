package node

import (
	"testing"

	"github.com/coppice-go/coppice/internal/transport"
)

// A process still has to forward what was sent through a task that has returned: it does not reuse that
// memory before.
func TestMemoryPassedOnToATaskThatHasReturned(t *testing.T) {
	ctx := patience(t)
	j := start(t, transport.Unix, 4, nil)
	plan := mustPlan(t, "kary:1", "none") // 0 → 1 → 2 → 3
	for r, p := range j.ps {
		if r == 2 {
			p.Returned(2, "")
		} else {
			p.PeersReturned([]int{2}, 1, "")
		}
	}
	err := each([]*Process{j.ps[0], j.ps[1], j.ps[3]}, func(m *Member) error {
		for i := range uint64(50) {
			const size = 300 << 10
			c := broadcastCall(plan, 0, nil)
			if m.Rank() == 0 {
				c.Value = message(size, i)
			}
			c.Copies = true
			got, err := m.Do(ctx, c)
			if err != nil {
				return err
			}
			if err := checkMessage(got.Value, size, i); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}
