package control

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"
)

// TaskState is what a task does.
type TaskState struct {
	Task    int      `json:"task"`
	Op      string   `json:"op,omitempty"`     // in which it waits
	Number  uint64   `json:"number,omitempty"` // of the operation in its group, or of the message
	Forked  bool     `json:"forked,omitempty"` // the group is not that of all tasks
	For     []int    `json:"for,omitempty"`    // tasks of which something is missing
	Tag     int      `json:"tag,omitempty"`    // of the message
	Seconds float64  `json:"seconds,omitempty"`
	At      []string `json:"at,omitempty"` // where its goroutines are, in the program: calls and lines
}

// ProcessState is what the tasks of a process do, if it has answered.
type ProcessState struct {
	Rank     int         `json:"rank"`
	Answered bool        `json:"answered"`
	Tasks    []TaskState `json:"tasks,omitempty"`
}

// Reporter is a Handler that knows what the tasks of its process do. States is called by a goroutine of its own.
type Reporter interface{ States() []TaskState }

// statesTime is how long processes have to answer.
const statesTime = 2 * time.Second

// survey collects what the processes answer.
type survey struct {
	states  []ProcessState // by rank
	missing int
	done    chan struct{} // closed when nothing is missing
}

// States asks all processes what their tasks do, and returns what those have answered by the end of the context.
func (s *Server) States(ctx context.Context) []ProcessState {
	v := &survey{done: make(chan struct{})}
	s.mu.Lock()
	s.surveys++
	number := s.surveys
	for session := range s.sessions {
		if m := session.member; m != nil && m.session == session {
			v.states = append(v.states, ProcessState{Rank: m.rank})
			v.missing++
		}
	}
	slices.SortFunc(v.states, func(a, b ProcessState) int { return a.Rank - b.Rank })
	if v.missing == 0 {
		close(v.done)
	}
	if s.survey == nil {
		s.survey = map[int]*survey{}
	}
	s.survey[number] = v
	s.tellAll(message{Type: tellStates, Turn: number})
	s.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-v.done:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.survey, number)
	return v.states
}

// stated takes the answer of a process. s.mu is held.
func (s *Server) stated(m *member, said message) {
	v := s.survey[said.Turn]
	if v == nil {
		return
	}
	i := slices.IndexFunc(v.states, func(p ProcessState) bool { return p.Rank == m.rank })
	if i < 0 || v.states[i].Answered {
		return
	}
	p := &v.states[i]
	if err := json.Unmarshal(said.Event, &p.Tasks); err != nil {
		s.log.Warn("control: bad states", "rank", m.rank, "error", err)
		return
	}
	p.Answered = true
	if v.missing--; v.missing == 0 {
		close(v.done)
	}
}

// surveyed answers an observer that asks what the tasks do.
func (s *Server) surveyed(conn net.Conn) {
	ctx, stop := context.WithTimeout(s.ctx, statesTime)
	defer stop()
	text, err := json.Marshal(s.States(ctx))
	if err != nil {
		return
	}
	conn.SetWriteDeadline(time.Now().Add(farewellMax))
	_, _ = conn.Write(message{Type: tellStates, Event: text}.line()) // the observer may have gone
}

// States asks the job in a directory what its tasks do.
func States(ctx context.Context, dir string) (states []ProcessState, err error) {
	conn, err := visit(ctx, dir, message{Type: sayStates})
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	reply, err := readMessage(newLines(conn, statusMax))
	if err == nil {
		err = json.Unmarshal(reply.Event, &states)
	}
	return states, err
}

// state answers the coordinator.
func (c *Client) state(number int) {
	r, ok := c.handler.(Reporter)
	if !ok {
		return
	}
	go func() {
		text, err := json.Marshal(r.States())
		if err == nil && len(text) < sayMax/2 {
			c.say(message{Type: sayStates, Turn: number, Event: text}.line())
		}
	}()
}

// Text says in a line what the task does: where it is, and what it waits for.
func (t *TaskState) Text() string {
	text := fmt.Sprintf("task %d: %s", t.Task, strings.Join(t.At, ", "))
	switch {
	case len(t.At) == 0 && t.Op == "":
		return text + "has returned, or does nothing"
	case len(t.At) > 0 && !strings.Contains(t.At[0], " at "):
		text = fmt.Sprintf("task %d: at %s", t.Task, strings.Join(t.At, ", "))
	}
	if t.Op == "" {
		return text
	}
	what := fmt.Sprintf("%s, operation %d", t.Op, t.Number)
	switch t.Op {
	case "recv":
		what = fmt.Sprintf("recv, message %d with tag %d", t.Number, t.Tag)
	case "recvany":
		what = fmt.Sprintf("recvany with tag %d", t.Tag)
	}
	if t.Forked {
		what += " of a fork or a group"
	}
	waits := fmt.Sprintf("; waits %.1f s", t.Seconds)
	if len(t.For) > 0 {
		waits += " for " + numbered(t.For)
	}
	if len(t.At) > 0 {
		text += "; "
	}
	return text + what + waits
}

// numbered names tasks, as far as a line has room for them.
func numbered(tasks []int) string {
	const most = 8
	var words []string
	for _, t := range tasks[:min(len(tasks), most)] {
		words = append(words, strconv.Itoa(t))
	}
	if len(tasks) > most {
		words = append(words, fmt.Sprintf("and %d others", len(tasks)-most))
	}
	if len(tasks) == 1 {
		return "task " + words[0]
	}
	return "tasks " + strings.Join(words, ", ")
}

// StateLines are the lines of several processes, by task.
func StateLines(states []ProcessState) (lines []string) {
	if len(states) == 0 {
		return []string{"no process has joined: the job begins, or its program does not use Coppice"}
	}
	var all []TaskState
	var silent []string
	for _, p := range states {
		if all = append(all, p.Tasks...); !p.Answered {
			silent = append(silent, fmt.Sprintf("process %d does not answer: it is stopped, or does not run Go code", p.Rank))
		}
	}
	slices.SortStableFunc(all, func(a, b TaskState) int { return a.Task - b.Task })
	for i := range all {
		lines = append(lines, all[i].Text())
	}
	return append(lines, silent...)
}
