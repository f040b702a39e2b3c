package node

import (
	"context"
	"testing"

	"github.com/coppice-go/coppice/internal/transport"
)

// TestNothingStaysOfEpochs: nothing stays of copies that came in pieces, nor of released forks.
func TestNothingStaysOfEpochs(t *testing.T) {
	j := start(t, transport.Unix, 3, func(c *Config) { c.Adopt = func(_, _, _ int) {} })
	j.each(func(m *Member) (err error) {
		for range 5 {
			if m, err = m.Save(context.Background(), Saving{State: make([]byte, 1<<20)}); err != nil {
				return err
			}
			m.Fork().Release()
		}
		return nil
	})
	for r, p := range j.ps {
		p.engine.Lock()
		if copies, forks := len(p.recovery.epochs.copies), len(p.groups.releases.kept); copies > 3 || forks > 1 {
			t.Errorf("process %d keeps %d copies, and %d released forks", r, copies, forks)
		}
		p.engine.Unlock()
	}
}
