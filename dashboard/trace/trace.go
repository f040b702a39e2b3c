// Package trace draws one run of a broadcast as the papers do: a diagram of processes and time, with
// every message, in one HTML file that needs nothing else: no network, no server. The orientation is
// that of Figure 5 of Corrected Trees: processes from top to bottom in the order of the ring, time from
// left to right, sending and receiving as bars. Its API may change.
//
// A Trace is plain data; its source need not be a simulator. Times are whole numbers of steps, and −1
// where something did not happen.
package trace

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
)

// ProcessesMax is the largest group that can be drawn legibly.
const ProcessesMax = 500

// Never is the time of an event that did not happen.
const Never = -1

// Trace is one run.
type Trace struct {
	Title   string   `json:"title"`          // the configuration, in one line
	Note    string   `json:"note,omitempty"` // which run of many this is
	Command string   `json:"command"`        // repeats the run
	Figures []Figure `json:"figures"`        // the results of the run

	L     int  `json:"L"`
	O     int  `json:"o"`
	Root  int  `json:"root"`
	Start int  `json:"start"` // of the first correction message
	Color int  `json:"color"` // the last live process is colored
	End   int  `json:"end"`   // nothing happens any more
	Tree  bool `json:"tree"`  // dissemination follows the parents of the processes

	Processes []Process `json:"processes"` // by rank, which is their order on the ring
	Messages  []Message `json:"messages"`  // in the order of Sent
}

// Figure is a result and its name.
type Figure struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// Process is what happened to one process.
type Process struct {
	Parent    int   `json:"parent"` // in the tree, −1: none
	Died      int   `json:"died"`   // 0: crashed before the start
	Colored   int   `json:"colored"`
	By        Cause `json:"by,omitempty"` // what colored it
	From      int   `json:"from"`         // the process that colored it, −1: none
	Delivered int   `json:"delivered"`
}

// Cause is what colors a process.
type Cause string

// The causes.
const (
	Origin        Cause = "origin" // it is the root
	Dissemination Cause = "dissemination"
	Correction    Cause = "correction"
)

// Message is one message. It occupies its sender from Sent to Sent+O and arrives at Sent+O+L. If it is
// taken or ignored, it occupies its receiver for the last O steps before Ended; if it is lost, it just
// ends there.
type Message struct {
	From       int     `json:"from"`
	To         int     `json:"to"`
	Sent       int     `json:"sent"`
	Ended      int     `json:"ended"`
	Kind       string  `json:"kind"`                 // spread, ack, left, right, sos
	Correction bool    `json:"correction,omitempty"` // counted as correction
	Names      []int   `json:"names,omitempty"`      // correctors it names besides its sender
	Detail     string  `json:"detail,omitempty"`     // what else it says
	Outcome    Outcome `json:"outcome,omitempty"`
}

// Outcome is what happens to a message.
type Outcome string

// The outcomes.
const (
	Taken   Outcome = ""        // its receiver takes it
	Ignored Outcome = "ignored" // its receiver has finished
	Lost    Outcome = "lost"    // its receiver has crashed
)

// Check returns an error if the trace cannot be drawn.
func (t *Trace) Check() error {
	p := len(t.Processes)
	if p < 1 || p > ProcessesMax {
		return fmt.Errorf("trace of %d processes; allowed: up to %d", p, ProcessesMax)
	}
	for _, m := range t.Messages {
		if m.From < 0 || m.From >= p || m.To < 0 || m.To >= p {
			return fmt.Errorf("message from %d to %d in a trace of %d processes; allowed: 0 to %d", m.From, m.To, p, p-1)
		}
	}
	for r, q := range t.Processes {
		if q.Parent < -1 || q.Parent >= p || q.From < -1 || q.From >= p {
			return fmt.Errorf("process %d has parent %d and was colored by %d in a trace of %d processes; allowed: −1 to %d", r, q.Parent, q.From, p, p-1)
		}
	}
	return nil
}

var (
	//go:embed page.html
	page string
	//go:embed page.css
	style string
	//go:embed model.js
	modelScript string
	//go:embed diagram.js
	diagramScript string
	//go:embed tree.js
	treeScript string
	//go:embed controls.js
	controlsScript string

	layout = template.Must(template.New("trace").Parse(page))
)

// Write writes the page.
func Write(w io.Writer, t Trace) error {
	if err := t.Check(); err != nil {
		return err
	}
	if t.Messages == nil { // null is no list
		t.Messages = []Message{}
	}
	if t.Figures == nil {
		t.Figures = []Figure{}
	}
	// Marshal escapes <, > and &, so nothing in the data ends the script.
	data, err := json.Marshal(t)
	if err != nil {
		return err
	}
	return layout.Execute(w, map[string]any{
		"Title":   t.Title,
		"Style":   template.CSS(style),
		"Data":    template.JS(data),
		"Scripts": template.JS(modelScript + diagramScript + treeScript + controlsScript),
	})
}
