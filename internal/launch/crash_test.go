//go:build unix

package launch

import (
	"strings"
	"testing"
)

// TestWhyAProgramCrashedIsHeard: however its lines are cut into pieces, and however long they are.
func TestWhyAProgramCrashedIsHeard(t *testing.T) {
	long := "panic: " + strings.Repeat("x", 2*cryMax)
	for text, want := range map[string]string{
		"panic: no\n":                           "panic: no",
		"panic: no":                             "", // who was killed meanwhile has not said all
		"a panic: no\n":                         "",
		"a\nfatal error: deadlock\n\ngoroutine": "fatal error: deadlock",
		"panic: a\npanic: b\nc\n":               "panic: b",
		long + "\nmore\n":                       long[:cryMax],
	} {
		for size := 1; size < 12; size++ {
			var c lastCry
			for rest := text; rest != ""; {
				n := min(size, len(rest))
				c.take([]byte(rest[:n]))
				rest = rest[n:]
			}
			if got := c.text(); got != want {
				t.Errorf("%.40q in pieces of %d: %q, want %q", text, size, got, want)
			}
		}
	}
}
