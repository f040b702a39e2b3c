package coppice

import (
	"context"
	"strings"
	"testing"

	"github.com/coppice-go/coppice/internal/control"
)

// TestAPeerWithoutAWayEndsTheTasks: of processes that were started by hand on several hosts, one may tell
// nothing but addresses of its own host. The others would wait for it for ever. One that joins is not missed.
func TestAPeerWithoutAWayEndsTheTasks(t *testing.T) {
	for _, c := range []struct {
		rank int
		want string
	}{
		{1, "process 1: no way to a peer at [unix:/a tls:127.0.0.1:7]; wanted: tls at an address that other hosts reach; set COPPICE_LISTEN there, such as tls:10.0.0.0/8:0"},
		{2, ""},
	} {
		ctx, cancel := context.WithCancelCause(context.Background())
		m := &mediator{cancel: cancel, size: 2}
		m.Peers([]control.Peer{{Rank: c.rank, Incarnation: 1, Host: "another", Addresses: []string{"unix:/a", "tls:127.0.0.1:7"}}})
		got := ""
		if err := context.Cause(ctx); err != nil {
			got = err.Error()
		}
		if got != c.want || strings.Contains(got, "\n") {
			t.Errorf("process %d: %q, want %q", c.rank, got, c.want)
		}
		cancel(nil)
	}
}
