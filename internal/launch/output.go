package launch

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
)

// Output says what happens to the output of the processes.
type Output struct {
	Stdout, Stderr io.Writer // where it is shown; nil: nowhere
	Prefix         bool      // each line is shown as [RANK] line
	PaintStdout    bool      // whether that prefix is colored on Stdout
	PaintStderr    bool      // and on Stderr
	Ranks          []int     // only these ranks are shown; nil: all
	LogDir         string    // also write the output to RANK.out and RANK.err in this directory, byte for byte; "": no
}

// The streams of a process.
const (
	stdout = iota
	stderr
	streams
)

// lineMax bounds how much of an unfinished line is kept; a longer line is broken.
const lineMax = 64 << 10

// screen is where the lines of all processes meet.
type screen struct {
	mu    sync.Mutex
	to    [streams]io.Writer    // nil: nowhere
	late  <-chan struct{}       // closed when the timeout expires; nil: never
	broke atomic.Pointer[error] // the first failure to write; a writer may block for ever
}

// write shows a text that no other text interrupts.
func (s *screen) write(stream int, text []byte) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.to[stream] == nil || len(text) == 0 {
		return nil
	}
	_, err := s.to[stream].Write(text)
	s.fail(err)
	return err
}

// isLate reports whether the timeout has expired.
func (s *screen) isLate() bool { return closed(s.late) }

// fail records an error, if there is one.
func (s *screen) fail(err error) {
	if err != nil {
		s.broke.CompareAndSwap(nil, &err)
	}
}

// failure returns the first failure to show or log something.
func (s *screen) failure() error {
	if err := s.broke.Load(); err != nil {
		return *err
	}
	return nil
}

// relay takes one stream of one process, shows its complete lines and writes its
// log. One goroutine uses it.
type relay struct {
	screen *screen
	shown  bool // whether it is shown there
	stream int
	prefix []byte // nil: bytes are shown as they are, and none is added
	log    *os.File
	cry    *lastCry // nil: the stream is not standard error
	dump   dump     // of goroutines, after the timeout

	rest []byte // an unfinished line
	text []byte // the text to show next
}

// newRelays makes the relays of one process; again: its rank had one before, and the relays append to
// its logs.
func (o *Output) newRelays(s *screen, rank int, again bool) (relays [streams]*relay, err error) {
	how := os.O_WRONLY | os.O_CREATE | os.O_TRUNC
	if again {
		how = os.O_WRONLY | os.O_CREATE | os.O_APPEND
	}
	shown := o.Ranks == nil || slices.Contains(o.Ranks, rank)
	for i, name := range [streams]string{"out", "err"} {
		r := &relay{screen: s, shown: shown && s.to[i] != nil, stream: i}
		if relays[i] = r; i == stderr {
			r.cry = &lastCry{}
		}
		if o.Prefix {
			r.prefix = prefix(rank, i == stdout && o.PaintStdout || i == stderr && o.PaintStderr)
		}
		if o.LogDir != "" {
			if r.log, err = os.OpenFile(filepath.Join(o.LogDir, strconv.Itoa(rank)+"."+name), how, 0o666); err != nil {
				return relays, errors.Join(err, closeLogs(relays))
			}
		}
	}
	return relays, nil
}

func closeLogs(relays [streams]*relay) error {
	var errs []error
	for _, r := range relays {
		if r != nil && r.log != nil {
			errs = append(errs, r.log.Close())
			r.log = nil
		}
	}
	return errors.Join(errs...)
}

// colours are the colors of the ranks, in turn: readable on dark and light backgrounds.
var colours = [...]int{36, 33, 32, 35, 34, 31, 96, 93, 92, 95, 94, 91}

func prefix(rank int, paint bool) []byte {
	if !paint {
		return fmt.Appendf(nil, "[%d] ", rank)
	}
	return fmt.Appendf(nil, "\x1b[%dm[%d]\x1b[0m ", colours[rank%len(colours)], rank)
}

// take takes the next output of the process.
func (r *relay) take(b []byte) error {
	if r.cry != nil {
		r.cry.take(b)
	}
	var logged error
	if r.log != nil {
		_, logged = r.log.Write(b)
		r.screen.fail(logged)
	}
	if !r.shown {
		return logged
	}
	r.text = r.text[:0]
	for len(b) > 0 {
		end := bytes.IndexByte(b, '\n')
		switch room := lineMax - len(r.rest); {
		case end >= 0 && end <= room:
			r.line(r.rest, b[:end+1])
			r.rest, b = r.rest[:0], b[end+1:]
		case len(b) > room:
			r.line(r.rest, b[:room])
			r.breakLine()
			r.rest, b = r.rest[:0], b[room:]
		default:
			r.rest, b = append(r.rest, b...), nil
		}
	}
	return errors.Join(logged, r.screen.write(r.stream, r.text))
}

// line adds a line, or a part of one, to the text to show next.
func (r *relay) line(parts ...[]byte) {
	if r.stream == stderr && r.screen.isLate() {
		for _, line := range r.dump.take(bytes.Join(parts, nil)) {
			r.add(line)
		}
		return
	}
	r.add(parts...)
}

func (r *relay) add(parts ...[]byte) {
	r.text = append(r.text, r.prefix...)
	for _, part := range parts {
		r.text = append(r.text, part...)
	}
}

// breakLine ends a line that the process did not end.
func (r *relay) breakLine() {
	if r.prefix != nil && !r.dump.begun {
		r.text = append(r.text, '\n')
	}
}

// end shows the last, unfinished line, or the end of a dump, and closes the log.
func (r *relay) end() error {
	var shown, closed error
	if r.shown {
		r.text = r.text[:0]
		if len(r.rest) > 0 {
			r.line(r.rest)
			r.breakLine()
			r.rest = nil
		}
		where := "coppice run --log-dir DIR keeps them"
		if r.log != nil {
			where = "all are in " + r.log.Name()
		}
		for _, line := range r.dump.end(where) {
			r.add(line)
		}
		if len(r.text) > 0 { // the screen may be blocked
			shown = r.screen.write(r.stream, r.text)
		}
	}
	if r.log != nil {
		closed = r.log.Close()
		r.screen.fail(closed)
		r.log = nil
	}
	return errors.Join(shown, closed)
}
