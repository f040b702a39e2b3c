package control

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"time"
)

// Event is a line of the event stream. Its JSON is one object: time, type,
// rank (if it is about one) and the attributes beside them.
type Event struct {
	Time  time.Time
	Type  string
	Rank  int            // −1: about no rank
	Attrs map[string]any // values that JSON can carry; numbers come back as json.Number
}

// The types of the coordinator's own events; the package comment has their
// attributes.
const (
	EventJob         = "job"
	EventStarted     = "started"
	EventJoined      = "joined"
	EventAnnounced   = "announced"
	EventBroken      = "broken"
	EventSuspected   = "suspected"
	EventUnreachable = "unreachable"
	EventFenced      = "fenced"
	EventSpared      = "spared"
	EventDied        = "died"
	EventReturned    = "returned"
	EventResumed     = "resumed"
	EventLeft        = "left"
	EventFinished    = "finished"
	EventStop        = "stop"
	EventView        = "view"      // a process's: it has opened one
	EventEpoch       = "epoch"     // a process's: all tasks have saved one
	EventTaken       = "taken"     // a process's: it continues with what an earlier run has stored
	EventRehearsed   = "rehearsed" // a process's: how often its tasks were rehearsed since it said so last, and how many of these were stopped
	EventLost        = "lost"      // a process's: a task cannot be run again
	EventRefused     = "refused"   // a process's: it cannot do what the launcher's settings say
	EventStatus      = "status"
	EventEnd         = "end"
)

// eventMax bounds an event in bytes, viewMax an event that reports a view, eventsKept how
// many events a newcomer can still see.
const (
	eventMax   = 16 << 10
	viewMax    = sayMax / 2
	eventsKept = 10_000
)

// MarshalJSON writes the event as one flat object.
func (e Event) MarshalJSON() ([]byte, error) {
	flat := make(map[string]any, len(e.Attrs)+3)
	maps.Copy(flat, e.Attrs)
	flat["time"], flat["type"] = e.Time, e.Type
	delete(flat, "rank")
	if e.Rank >= 0 {
		flat["rank"] = e.Rank
	}
	return json.Marshal(flat)
}

// UnmarshalJSON reads what MarshalJSON wrote.
func (e *Event) UnmarshalJSON(b []byte) error {
	fixed := struct {
		Time time.Time `json:"time"`
		Type string    `json:"type"`
		Rank *int      `json:"rank"`
	}{}
	if err := json.Unmarshal(b, &fixed); err != nil {
		return err
	}
	if fixed.Type == "" {
		return errors.New("event without a type")
	}
	*e = Event{Time: fixed.Time, Type: fixed.Type, Rank: -1}
	if fixed.Rank != nil {
		e.Rank = *fixed.Rank
	}
	exact := json.NewDecoder(bytes.NewReader(b))
	exact.UseNumber() // a checksum must not become a float
	if err := exact.Decode(&e.Attrs); err != nil {
		return err
	}
	for _, name := range []string{"time", "type", "rank"} {
		delete(e.Attrs, name)
	}
	return nil
}

// line returns the event as it goes over a connection.
func (e Event) line() ([]byte, error) {
	b, err := json.Marshal(e)
	if err != nil {
		return nil, err
	}
	most := eventMax
	if e.Type == EventView {
		most = viewMax
	}
	if len(b) > most {
		return nil, fmt.Errorf("event of %d bytes; allowed: up to %d", len(b), most)
	}
	return append(b, '\n'), nil
}
