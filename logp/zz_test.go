package logp_test

import (
	"testing"

	"github.com/coppice-go/coppice/protocol"
)

func TestZZ(t *testing.T) {
	for p := 4; p <= 6; p++ {
		for _, l := range []protocol.Time{1, 0, 2, 4, 8, 16} {
			t.Log(p, l, breaks(t, 1, paperNet(p, l, 1)))
		}
	}
}
