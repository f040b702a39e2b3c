package main

import (
	"fmt"
	"io"
	"os"
	"time"
)

// progress shows what is being measured: on a terminal in one line that is overwritten, with the time
// left; elsewhere in a line for each batch.
type progress struct {
	w        io.Writer
	terminal bool
	began    time.Time
	all      int // work in jobs, of all batches
	done     int
	at, of   int // batches begun, and of how many
	current  batch
}

// newProgress returns the progress of batches that are measured in this many rounds.
func newProgress(w io.Writer, all []batch, rounds int) *progress {
	p := &progress{w: w, terminal: isTerminal(w), began: time.Now(), of: len(all)}
	for _, b := range all {
		p.all += rounds * len(b.sides()) * len(b)
	}
	return p
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

// begin records that a batch is next.
func (p *progress) begin(b batch) {
	p.at++
	p.current = b
	if p.terminal {
		p.draw(time.Now())
	} else {
		fmt.Fprintf(p.w, "%d/%d %s\n", p.at, p.of, b)
	}
}

// launched records that one more launch of the batch is over.
func (p *progress) launched() {
	p.done += len(p.current)
	if p.terminal {
		p.draw(time.Now())
	}
}

func (p *progress) draw(now time.Time) {
	text := fmt.Sprintf("%d/%d %s", p.at, p.of, p.current)
	if p.done > 0 {
		spent := now.Sub(p.began)
		left := time.Duration(float64(spent) * float64(p.all-p.done) / float64(p.done))
		text += ", left: " + left.Round(time.Second).String()
	}
	fmt.Fprint(p.w, "\r\x1b[K", text)
}

// clear removes the line before something else is written.
func (p *progress) clear() {
	if p.terminal {
		fmt.Fprint(p.w, "\r\x1b[K")
	}
}
