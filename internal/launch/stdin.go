package launch

import (
	"io"
	"os"
)

// stdin is what the processes read: one of them reads the launcher's standard input,
// the others nothing.
type stdin struct {
	none *os.File
	one  *os.File // nil: no process reads
	ours bool     // one was opened here
}

// newStdin prepares input for processes. A process in its own group may
// not read the terminal (the kernel would stop it), so the launcher reads it, as
// long as it is in the foreground itself.
func newStdin(input *os.File) (*stdin, error) {
	none, err := os.Open(os.DevNull)
	if err != nil {
		return nil, err
	}
	s := &stdin{none: none, one: input}
	if input == nil {
		return s, nil
	}
	switch is, terminal := foreground(input); {
	case !terminal:
		return s, nil
	case !is:
		s.one = nil
		return s, nil
	}
	from, to, err := os.Pipe()
	if err != nil {
		none.Close()
		return nil, err
	}
	s.one, s.ours = from, true
	go func() { // until the user ends the input, or the launcher ends
		defer to.Close()
		_, _ = io.Copy(to, input)
	}()
	return s, nil
}

// of returns what a process reads.
func (s *stdin) of(reads bool) *os.File {
	if reads && s.one != nil {
		return s.one
	}
	return s.none
}

// close closes the files; the processes have theirs.
func (s *stdin) close() {
	s.none.Close()
	if s.ours {
		s.one.Close()
	}
}
