package node

import (
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/detect"
)

// A process beats in the page before another process of its host learns of it. Otherwise the other one
// would wait for messages, which processes of one host do not send each other, and suspect a healthy
// process.
func TestProcessBeatsBeforeItIsKnown(t *testing.T) {
	page, err := detect.OpenPage(t.TempDir(), 2)
	if err != nil {
		t.Fatal(err)
	}
	defer page.Close()
	var seen []*observation
	for rank := range 2 {
		p, err := newProcess(Config{Rank: rank, Size: 2, Incarnation: 1, HostName: "here", Silence: time.Second})
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, p.observe(Socket{Page: page, Incarnation: 1})) // its goroutines do not run yet
	}
	for rank, o := range seen {
		if s := o.know(1-rank, "here", 1, seen[1-rank].sign(1-rank).at); !s.here {
			t.Errorf("process %d does not look for the beats of process %d in the page", rank, 1-rank)
		}
	}
}
