package control

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net"
	"os"
	"slices"
	"time"

	"github.com/coppice-go/coppice/internal/wire"
)

// emit publishes an event of the coordinator itself, with its attributes in
// pairs. s.mu is held.
func (s *Server) emit(kind string, rank int, pairs ...any) {
	attrs := make(map[string]any, len(pairs)/2)
	for i := 0; i+1 < len(pairs); i += 2 {
		attrs[pairs[i].(string)] = pairs[i+1]
	}
	s.publish(Event{Time: time.Now(), Type: kind, Rank: rank, Attrs: attrs})
}

// publish puts an event into the stream. s.mu is held.
func (s *Server) publish(e Event) {
	line, err := e.line()
	if err != nil {
		s.log.Warn("control: event dropped", "type", e.Type, "rank", e.Rank, "error", err)
		return
	}
	if s.past = append(s.past, line); len(s.past) > eventsKept {
		s.past = s.past[1:]
	}
	if s.cfg.Events != nil && !s.events.put(e, len(line)) && !s.closing {
		s.log.Warn("control: event dropped: they are not read", "type", e.Type)
	}
	for o := range s.observers {
		o.tell(line)
	}
}

// reportEvents passes events to the function that the configuration names.
func (s *Server) reportEvents() {
	for range s.events.filled {
		events, last := s.events.take()
		for _, e := range events {
			s.cfg.Events(e)
		}
		if last {
			return
		}
	}
}

// observe serves an observer: the past events, the status, and then each event as it happens.
func (s *Server) observe(conn, raw net.Conn) {
	lines := newLines(conn, sayMax)
	conn.SetReadDeadline(time.Now().Add(handshakeMax))
	m, err := readMessage(lines)
	conn.SetReadDeadline(time.Time{})
	switch {
	case err == nil && m.Type == sayWatch:
	case err == nil && m.Type == sayProbe:
		s.probed(conn)
		return
	case err == nil && m.Type == sayStates:
		s.surveyed(conn)
		return
	case err == nil && m.Type == sayRecall:
		s.recalled(m)
		return
	case err == nil && m.Type == sayJoin:
		s.answer(conn, m.Request)
		return
	default:
		return
	}
	o := newSession(nil, conn, raw, 0)
	if !s.addObserver(o) {
		return
	}
	for lines.Scan() { // the observer sends nothing more: this waits for its end
	}
	close(o.heardAll)
	s.mu.Lock()
	delete(s.observers, o)
	s.mu.Unlock()
}

func (s *Server) addObserver(o *session) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing || len(s.observers) >= observersMax {
		return false
	}
	now := map[string]any{
		"members": s.present(), "former": s.former(), "view": s.view,
		"size": s.cfg.Size, "pid": os.Getpid(), "began": s.began, "command": s.cfg.Command, // the event that had these may be forgotten
	}
	line, err := json.Marshal(Event{Time: time.Now(), Type: EventStatus, Rank: -1, Attrs: now})
	if err != nil {
		return false
	}
	past := append(slices.Clone(s.past), append(line, '\n'))
	for _, line := range past {
		o.out.bytes += len(line)
	}
	o.out.things, o.out.room = past, o.out.bytes+observerRoom
	o.out.signal()
	s.observers[o] = true
	s.wg.Go(o.write)
	return true
}

// speak connects to a coordinator as an observer, and says what the observer wants.
func speak(ctx context.Context, address string, key []byte, wants message) (net.Conn, wire.Identity, error) {
	conn, peer, err := shake(ctx, address, key, wire.Identity{From: observerID, To: coordinatorID}, limits{})
	if err != nil {
		return nil, peer, err
	}
	conn.SetWriteDeadline(time.Now().Add(seedTry))
	if _, err := conn.Write(wants.line()); err != nil {
		conn.Close()
		return nil, peer, err
	}
	return conn, peer, nil
}

// statusMax bounds a line of the event stream: the status of a million ranks.
const statusMax = 256 << 20

// Watch yields the events of the job in a directory: the known past,
// an event of type "status", and then each event until the job ends. An
// error is the last that it yields.
func Watch(ctx context.Context, dir string) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		err := watch(ctx, dir, func(e Event) bool { return yield(e, nil) })
		if err != nil && ctx.Err() == nil {
			yield(Event{Rank: -1}, fmt.Errorf("job in %s: %w", dir, err))
		}
	}
}

func watch(ctx context.Context, dir string, yield func(Event) bool) error {
	conn, err := visit(ctx, dir, message{Type: sayWatch})
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	lines := newLines(conn, statusMax)
	for lines.Scan() {
		var e Event
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return err
		}
		if !yield(e) || e.Type == EventEnd {
			return nil
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return io.ErrUnexpectedEOF
}
