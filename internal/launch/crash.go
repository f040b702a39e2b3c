package launch

import (
	"bytes"
	"strings"
	"sync/atomic"
)

// lastCry is why a Go program crashed: the first line that it writes to standard
// error when it does.
type lastCry struct {
	rest []byte // an unfinished line
	line atomic.Pointer[string]
}

// cryMax is how much of a line is kept.
const cryMax = 512

// cries are the beginnings of such lines.
var cries = []string{"panic: ", "fatal error: "}

// take examines the next output of a process.
func (c *lastCry) take(b []byte) {
	for len(b) > 0 {
		part, rest, whole := bytes.Cut(b, []byte("\n"))
		b = rest
		if room := cryMax - len(c.rest); room > 0 {
			c.rest = append(c.rest, part[:min(len(part), room)]...)
		}
		if whole {
			c.hear(string(c.rest))
			c.rest = c.rest[:0]
		}
	}
}

func (c *lastCry) hear(line string) {
	for _, cry := range cries {
		if strings.HasPrefix(line, cry) {
			line = strings.TrimSuffix(line, " [recovered, repanicked]")
			c.line.Store(&line)
		}
	}
}

// text returns the last such line; "": there is none.
func (c *lastCry) text() string {
	if line := c.line.Load(); line != nil {
		return *line
	}
	return ""
}
