//go:build unix

package control_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/internal/wire"
)

func TestWatchTellsPastPresentAndFuture(t *testing.T) {
	descriptors(t)
	s := serve(t, control.ServerConfig{Size: 2})
	clients, notes := crew(t, s, 2)
	var types []string
	for e, err := range control.Watch(t.Context(), s.Place(0, 1).Dir) {
		if err != nil {
			t.Fatal(err)
		}
		types = append(types, e.Type)
		switch {
		case e.Type == control.EventStatus:
			if members := e.Attrs["members"].([]any); len(members) != 2 || members[1].(map[string]any)["state"] != "present" {
				t.Errorf("%v", e.Attrs)
			}
			clients[0].Emit(control.Event{Type: "view", Rank: 7, Attrs: map[string]any{"number": uint64(12345678901234567891)}})
		case e.Type == "view":
			if e.Rank != 0 || e.Attrs["number"] != json.Number("12345678901234567891") || time.Since(e.Time) > time.Minute {
				t.Errorf("%+v", e)
			}
			clients[0].Returned(0, "", true)
			clients[1].Returned(0, "badly", true)
		case e.Type == control.EventReturned && e.Rank == 1 && e.Attrs["failure"] != "badly":
			t.Errorf("%+v", e)
		case e.Type == control.EventFinished:
			go s.Close()
		}
	}
	if types[0] != "job" || types[len(types)-1] != "end" {
		t.Errorf("%q", types)
	}
	past := slices.Sorted(slices.Values(types[1:slices.Index(types, "status")]))
	if want := []string{"announced", "announced", "joined", "joined"}; !slices.Equal(past, want) {
		t.Errorf("%q", past)
	}
	notes[0].expect(t, "finished")
}

// TestJobsAreTold: which job it is its coordinator says, however much has happened since it began.
func TestJobsAreTold(t *testing.T) {
	began := time.Now()
	s := serve(t, control.ServerConfig{Size: 1, Command: "./pi " + strings.Repeat("é", 10_000)})
	c, _ := join(t, s.Place(0, 1))
	for range 10_000 {
		c.Emit(control.Event{Type: "noise"})
	}
	about, err := control.Describe(t.Context(), s.Place(0, 1).Dir)
	if err != nil || about.Pid != os.Getpid() || about.Began.Before(began) || about.Began.After(time.Now()) {
		t.Errorf("%+v, %v", about, err)
	}
	if len(about.Command) > 1010 || !strings.HasPrefix(about.Command, "./pi éé") || !strings.HasSuffix(about.Command, "éé…") {
		t.Errorf("%d bytes of command: %.20s", len(about.Command), about.Command)
	}
}

func TestWatchEndsWithItsContextAndWithItsReader(t *testing.T) {
	s := serve(t, control.ServerConfig{Size: 1})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	n := 0
	for _, err := range control.Watch(ctx, s.Place(0, 1).Dir) {
		if err != nil {
			t.Error(err)
		}
		if n++; n == 2 {
			cancel()
		}
	}
	for range control.Watch(t.Context(), s.Place(0, 1).Dir) {
		break
	}
	for _, err := range control.Watch(t.Context(), t.TempDir()) {
		if err == nil || !strings.HasPrefix(err.Error(), "job in ") {
			t.Error(err)
		}
	}
}

// TestPastIsBounded: the last 10,000 events are kept, in order.
func TestPastIsBounded(t *testing.T) {
	s := serve(t, control.ServerConfig{Size: 1})
	c, _ := join(t, s.Place(0, 1))
	const n = 10_500
	for i := range n {
		c.Emit(control.Event{Type: "tick", Attrs: map[string]any{"i": i}})
	}
	last, seen := -1, 0
	for e, err := range control.Watch(t.Context(), s.Place(0, 1).Dir) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Type != "tick" {
			continue
		}
		i := number(t, e)
		if last >= 0 && i != last+1 {
			t.Fatalf("%d after %d", i, last)
		}
		last, seen = i, seen+1
		if i == n-1 {
			break
		}
	}
	if seen > n {
		t.Error(seen)
	}
	first := -1
	for e := range control.Watch(t.Context(), s.Place(0, 1).Dir) {
		if e.Type == "tick" && first < 0 {
			first = number(t, e)
		}
		if e.Type == control.EventStatus {
			break
		}
	}
	if first != n-10_000 {
		t.Errorf("the past begins with %d", first)
	}
}

func number(t *testing.T, e control.Event) int {
	t.Helper()
	i, err := e.Attrs["i"].(json.Number).Int64()
	if err != nil {
		t.Fatal(err)
	}
	return int(i)
}

// TestSlowObserverIsDropped: it neither blocks the job nor fills the memory.
func TestSlowObserverIsDropped(t *testing.T) {
	descriptors(t)
	s := serve(t, control.ServerConfig{Size: 1})
	conn := open(t, s)
	if _, err := wire.Connect(conn, s.Place(0, 1).Key, nil, wire.Identity{From: ^uint32(1), To: ^uint32(0)}); err != nil {
		t.Fatal(err)
	}
	io.WriteString(conn, `{"type":"watch"}`+"\n")
	c, r := join(t, s.Place(0, 1))
	text := strings.Repeat("x", 10_000)
	for range 600 { // 6 MB, in steps that the client has room for
		c.Emit(control.Event{Type: "noise", Attrs: map[string]any{"text": text}})
	}
	c.Returned(0, "", true)
	r.expect(t, "finished")
	conn.SetReadDeadline(time.Now().Add(patience))
	n, err := io.Copy(io.Discard, conn)
	if n > 5<<20 || err != nil && !strings.Contains(err.Error(), "reset") {
		t.Errorf("%d bytes, %v", n, err)
	}
}

func TestEventsComeBack(t *testing.T) {
	for _, e := range []control.Event{
		{Time: time.Unix(1, 5).UTC(), Type: "x", Rank: -1, Attrs: map[string]any{}},
		{Time: time.Unix(1, 5).UTC(), Type: "y", Rank: 0, Attrs: map[string]any{"a": "b", "c": []any{json.Number("1")}}},
	} {
		b, err := json.Marshal(e)
		if err != nil {
			t.Fatal(err)
		}
		var back control.Event
		if err := json.Unmarshal(b, &back); err != nil || !reflect.DeepEqual(e, back) {
			t.Errorf("%s: %+v, %v", b, back, err)
		}
	}
	var e control.Event
	if err := json.Unmarshal([]byte(`{"rank":3}`), &e); err == nil {
		t.Error("an event without a type")
	}
}

func ExampleEvent_MarshalJSON() {
	b, err := json.Marshal(control.Event{
		Time: time.Unix(0, 0).UTC(), Type: control.EventDied, Rank: 3,
		Attrs: map[string]any{"certain": true, "how": "killed by SIGKILL", "incarnation": 1},
	})
	fmt.Println(string(b), err)
	// Output: {"certain":true,"how":"killed by SIGKILL","incarnation":1,"rank":3,"time":"1970-01-01T00:00:00Z","type":"died"} <nil>
}
