//go:build unix

package control_test

import (
	"context"
	"net"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/control"
)

// TestSeedIsListenedAtWithoutItsName: a server of names that does not answer holds nobody up.
func TestSeedIsListenedAtWithoutItsName(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	before := net.DefaultResolver
	defer func() { net.DefaultResolver = before }()
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}}
	defer cancel() // for the goroutine that still waits for an answer
	began := time.Now()
	l, err := control.ListenDoor(t.Context(), "steps-0.steps:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("after %v", took)
	}
}
