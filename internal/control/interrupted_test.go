//go:build unix

package control_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/control"
)

// TestWhoIsInterruptedWhileItJoinsSaysSo: not that there is no coordinator.
func TestWhoIsInterruptedWhileItJoinsSaysSo(t *testing.T) {
	s := serve(t, control.ServerConfig{Size: 1})
	for name, change := range map[string]func(*control.Place){
		"at once":        func(*control.Place) {},
		"while it tries": func(p *control.Place) { p.Key = make([]byte, 32) }, // until the time is up
	} {
		p := s.Place(0, 1)
		change(&p)
		ctx, cancel := context.WithCancelCause(t.Context())
		interrupt := func() { cancel(errors.New("interrupted")) }
		if name == "at once" {
			interrupt()
		}
		timer := time.AfterFunc(20*time.Millisecond, interrupt)
		if _, _, err := control.Join(ctx, p, newRecorder(), nil); err == nil || err.Error() != "join as rank 0: interrupted" {
			t.Errorf("%s: %v", name, err)
		}
		timer.Stop()
	}
}
