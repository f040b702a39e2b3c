package trace_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/coppice-go/coppice/dashboard/trace"
)

// small returns a run of three processes: 0 sends a message to 1, and one to 2, which has crashed.
func small() trace.Trace {
	return trace.Trace{
		Title: "three processes", Note: "run 2 of 5", Command: "coppice sim -P 3",
		Figures: []trace.Figure{{Name: "coloring", Value: "4 steps"}},
		L:       2, O: 1, Start: trace.Never, Color: 4, End: 4, Tree: true,
		Processes: []trace.Process{
			{Parent: -1, From: -1, Died: trace.Never, By: trace.Origin},
			{Parent: 0, Died: trace.Never, Colored: 4, By: trace.Dissemination, Delivered: 4},
			{Parent: 0, From: -1, Colored: trace.Never, Delivered: trace.Never},
		},
		Messages: []trace.Message{
			{To: 1, Ended: 4, Kind: "spread"},
			{To: 2, Sent: 1, Ended: 4, Kind: "spread", Outcome: trace.Lost},
			{From: 1, Sent: 4, Ended: 8, Kind: "left", Correction: true, Names: []int{2}, Detail: "x", Outcome: trace.Ignored},
		},
	}
}

func write(t *testing.T, run trace.Trace) string {
	t.Helper()
	var page bytes.Buffer
	if err := trace.Write(&page, run); err != nil {
		t.Fatal(err)
	}
	return page.String()
}

var (
	data    = regexp.MustCompile(`(?s)<script id="trace" type="application/json">(.*?)</script>`)
	heading = regexp.MustCompile(`(?s)<h1 id="title">(.*?)</h1>`)
)

// read extracts the trace from a page as a browser would: up to the first end of the script.
func read(t *testing.T, page string) trace.Trace {
	t.Helper()
	found := data.FindStringSubmatch(page)
	if found == nil {
		t.Fatalf("no trace in the page:\n%.2000s", page)
	}
	var run trace.Trace
	if err := json.Unmarshal([]byte(found[1]), &run); err != nil {
		t.Fatalf("%v in %.500s", err, found[1])
	}
	return run
}

func TestPageHoldsTheTrace(t *testing.T) {
	want := small()
	if got := read(t, write(t, want)); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v\nwant %+v", got, want)
	}
}

// TestEmptyListsAreLists: the page cannot handle null.
func TestEmptyListsAreLists(t *testing.T) {
	page := write(t, trace.Trace{Processes: []trace.Process{{}}})
	if run := read(t, page); run.Messages == nil || run.Figures == nil {
		t.Errorf("lists are null: %+v", run)
	}
}

// TestNastyTextStaysText: no text ends the script or becomes a tag.
func TestNastyTextStaysText(t *testing.T) {
	for _, nasty := range []string{
		`</script><script>alert(1)</script>`,
		`<!--<script>`,
		`"quoted" & 'quoted' \ back`,
		"line\u2028and\u2029paragraph\x00\n",
		`</title></h1><img src=x onerror=alert(1)>`,
		`{{.Scripts}}`,
	} {
		want := small()
		want.Title, want.Note, want.Command = nasty, nasty, nasty
		want.Figures[0].Name, want.Figures[0].Value = nasty, nasty
		want.Messages[0].Kind, want.Messages[0].Detail = nasty, nasty
		page := write(t, want)
		if got := read(t, page); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %+v", nasty, got)
		}
		plain := write(t, small())
		for _, tag := range []string{"<script", "</script", "<!--", "<img", "</title", "</h1"} {
			if got, want := strings.Count(page, tag), strings.Count(plain, tag); got != want {
				t.Errorf("%q: %d times %s, want %d", nasty, got, tag, want)
			}
		}
		if title := heading.FindStringSubmatch(page); title == nil || strings.ContainsAny(title[1], `<>"`) {
			t.Errorf("%q: heading %q", nasty, title)
		}
	}
}

// TestPageNeedsNothingElse: the page loads nothing from anywhere, and its policy forbids it.
func TestPageNeedsNothingElse(t *testing.T) {
	page := write(t, small())
	if away := regexp.MustCompile(`(?i)https?:|src=|<link|@import|url\(|import\(|fetch\(`).FindString(page); away != "" {
		t.Errorf("the page refers to something else: %s", away)
	}
	if !strings.Contains(page, `default-src 'none'`) {
		t.Error("the page may load things")
	}
	// The page contains every file that belongs to it.
	for _, part := range []string{"function drawDiagram", "function drawTree", "function begin", "const run = JSON.parse", "--correction: #d55e00"} {
		if !strings.Contains(page, part) {
			t.Errorf("the page lacks %q", part)
		}
	}
}

func TestImpossibleTracesAreRefused(t *testing.T) {
	for want, spoil := range map[string]func(*trace.Trace){
		"trace of 501 processes; allowed: up to 500": func(run *trace.Trace) {
			run.Processes = make([]trace.Process, 501)
		},
		"trace of 0 processes; allowed: up to 500": func(run *trace.Trace) { run.Processes = nil },
		"message from 1 to 3 in a trace of 3 processes; allowed: 0 to 2": func(run *trace.Trace) {
			run.Messages[2].To = 3
		},
		"process 1 has parent 3 and was colored by 0 in a trace of 3 processes; allowed: −1 to 2": func(run *trace.Trace) {
			run.Processes[1].Parent = 3
		},
	} {
		run := small()
		spoil(&run)
		var page bytes.Buffer
		if err := trace.Write(&page, run); err == nil || err.Error() != want || page.Len() > 0 {
			t.Errorf("%v and %d bytes, want %s and none", err, page.Len(), want)
		}
	}
}

type full struct{}

var errFull = errors.New("full")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestLostOutputIsReported(t *testing.T) {
	if err := trace.Write(full{}, small()); !errors.Is(err, errFull) {
		t.Errorf("got %v, want %v", err, errFull)
	}
}
