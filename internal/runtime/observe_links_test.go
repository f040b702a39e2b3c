package runtime

import "testing"

// A process that has lost most of its connections waits longer before it reports its peers.
func TestLinkPatience(t *testing.T) {
	for _, c := range []struct{ up, down, want int }{
		{up: 7, down: 1, want: 4},
		{up: 4, down: 4, want: 4},
		{up: 3, down: 4, want: 12},
		{up: 0, down: 7, want: 12},
		{up: 0, down: 1, want: 4}, // of two processes one has to go
	} {
		if got := linkPatience(c.up, c.down); int(got) != c.want {
			t.Errorf("%d up, %d down: %d silences, want %d", c.up, c.down, got, c.want)
		}
	}
}
