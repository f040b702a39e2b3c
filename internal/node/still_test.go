package node

import (
	"testing"
)

// TestNobodyWaitsForOneThatStandsStill: what is sent to it is there when it goes on.
func TestNobodyWaitsForOneThatStandsStill(t *testing.T) {
	stands, goes := make(chan struct{}), make(chan struct{})
	job, err := NewLocal(2, Config{Kills: []Kill{{Task: 0, Op: "send", Seq: 1, Still: func() {
		close(stands)
		<-goes
	}}}})
	if err != nil {
		t.Fatal(err)
	}
	defer job.Close()
	const messages = 100
	here, there := job.Processes[0].World(0), job.Processes[1].World(1)
	done := make(chan error, 1)
	go func() {
		err := here.Send(t.Context(), 1, 0, 1, []byte("late"))
		for i := range messages {
			if err == nil {
				var r Result
				if r, err = here.Recv(t.Context(), 1, 0, 1, "byte"); err == nil && r.Value[0] != byte(i) {
					t.Errorf("message %d is %d", i, r.Value[0])
				}
			}
		}
		done <- err
	}()
	<-stands
	for i := range messages { // it would wait here for ever
		if err := there.Send(t.Context(), 0, 0, 1, []byte{byte(i)}); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case err := <-done:
		t.Fatalf("it has gone on: %v", err)
	default:
	}
	close(goes)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	if r, err := there.Recv(t.Context(), 0, 0, 1, "byte"); err != nil || string(r.Value) != "late" {
		t.Errorf("%q, %v", r.Value, err)
	}
}
