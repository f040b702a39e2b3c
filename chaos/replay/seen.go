package replay

// Seen is a set of situations that a process has been in, for observers.
type Seen uint16

// The situations.
const (
	AbortedInParts Seen = 1 << iota // a task leaves an agreed operation of which it has completed a part
)

// Seen is what the process has been in.
func (s *State) Seen() Seen { return s.seen }
