package doctor

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// session is a conversation with a host.
type session struct {
	cmd     *exec.Cmd
	in      io.WriteCloser
	stderr  lastLine
	greeted chan struct{} // closed when it has greeted
	answers chan answer   // closed when the command has ended
	ended   error         // how it ended, when answers is closed
}

// call starts the command that talks.
func call(words []string) (*session, error) {
	s := &session{cmd: exec.Command(words[0], words[1:]...), greeted: make(chan struct{}), answers: make(chan answer, 1)}
	s.cmd.WaitDelay = time.Second // a process that inherited its output delays nothing
	s.cmd.Stderr = &s.stderr
	from, to := io.Pipe()
	s.cmd.Stdout = to
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		err := s.cmd.Wait()
		to.CloseWithError(errors.Join(err, io.EOF))
	}()
	go s.listen(from)
	return s, nil
}

// listen passes on the answers of the host.
func (s *session) listen(from *io.PipeReader) {
	defer close(s.answers)
	lines := newLines(from)
	for lines.Scan() && lines.Text() != greeting {
	}
	if lines.Err() == nil {
		close(s.greeted)
	}
	for lines.Scan() {
		var a answer
		if err := json.Unmarshal(lines.Bytes(), &a); err != nil {
			s.ended = fmt.Errorf("it says %.80q: %w", lines.Text(), err)
			s.kill()
			break
		}
		s.answers <- a
	}
	if s.ended == nil {
		s.ended = lines.Err()
	}
	_, _ = io.Copy(io.Discard, from)
}

func (s *session) kill() { _ = s.cmd.Process.Kill() }

// ask waits for the answer to a request, or without a request for the greeting, up to a limit. After an error the session is over.
func (s *session) ask(ctx context.Context, limit time.Duration, r *request) (a answer, err error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	defer context.AfterFunc(ctx, s.kill)() // ends a command that hangs, too
	if r == nil {
		select {
		case <-s.greeted:
			return a, nil
		case <-s.answers:
			return a, s.why(ctx, limit)
		}
	}
	line, err := json.Marshal(r)
	if err != nil {
		return a, err
	}
	_, _ = s.in.Write(append(line, '\n')) // if that fails, the command has ended
	a, ok := <-s.answers
	if !ok {
		return a, s.why(ctx, limit)
	}
	return a, nil
}

// why returns why a session has ended too early.
func (s *session) why(ctx context.Context, limit time.Duration) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%w: no answer within %v", errSilent, limit)
	}
	text := strings.TrimSuffix(strings.ReplaceAll(fmt.Sprint(s.ended), "\n", ": "), ": EOF")
	if last := s.stderr.text(); last != "" {
		text += ": " + last
	}
	if exit := (*exec.ExitError)(nil); errors.As(s.ended, &exit) && exit.ExitCode() == notFound {
		return fmt.Errorf("%w: %s", errNoCommand, text)
	}
	return errors.New(text)
}

// notFound is a shell's exit code for a command that does not exist.
const notFound = 127

var (
	errSilent    = errors.New("silent")
	errNoCommand = errors.New("no such command")
)

// close ends the command, and waits for that.
func (s *session) close() {
	_ = s.in.Close()
	late := time.AfterFunc(time.Second, s.kill)
	defer late.Stop()
	for range s.answers { // until it is closed
	}
}

// lastLine keeps the last line that was written.
type lastLine struct {
	mu   sync.Mutex
	kept string
}

func (l *lastLine) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept += string(b)
	l.kept = l.kept[max(0, len(l.kept)-4096):]
	return len(b), nil
}

func (l *lastLine) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	all := strings.Split(strings.TrimSpace(l.kept), "\n")
	return strings.TrimSpace(all[len(all)-1])
}
