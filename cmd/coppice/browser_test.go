package main

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"html"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/coppice-go/coppice/dashboard/trace"
)

// The pages of --trace in a real browser: Chromium, without a window. They are
// used as a reader would, by scripts in testdata/trace that write what they saw
// into the page.

var screenshots = flag.String("screenshots", "", "folder for pictures of the pages, taken by TestBrowser")

// browser is Chromium's command. Without COPPICE_BROWSER the test is skipped:
// starting browsers takes a while, and not everybody has one.
func browser(t *testing.T) string {
	t.Helper()
	if os.Getenv("COPPICE_BROWSER") == "" {
		t.Skip("starts a browser; to run it: COPPICE_BROWSER=1 go test -run Browser ./cmd/coppice, or bash .ci/run integration")
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	t.Fatal("needs Chromium; on Debian: bash .ci/install-browser")
	return ""
}

// visit opens a page and returns what the browser prints.
func visit(t *testing.T, browser, page string, flags ...string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	profile, err := os.MkdirTemp("", "browser")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(profile) // may fail: the browser's children end after it
	args := []string{"--headless", "--disable-gpu", "--hide-scrollbars", "--user-data-dir=" + profile}
	if os.Geteuid() == 0 { // Chromium's sandbox refuses root; the page is our own
		args = append(args, "--no-sandbox")
	}
	c := exec.CommandContext(ctx, browser, append(append(args, flags...), "file://"+page)...)
	var stderr bytes.Buffer
	c.Stderr = &stderr
	out, err := c.Output()
	if err != nil {
		t.Fatalf("%s: %v\n%s", page, err, stderr.Bytes())
	}
	return out
}

var report = regexp.MustCompile(`(?s)<pre id="seen">(.*?)</pre>`)

// drive opens a page with a script of ours at its end and reads its report.
func drive(t *testing.T, browser, page, script string, seen any, flags ...string) {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	driven := filepath.Join(t.TempDir(), "driven.html")
	with := strings.NewReplacer("<head>", "<head>\n"+ourScript(t, "frames.js"), "</body>", ourScript(t, script)+"</body>")
	if err := writeFile(driven, with.Replace(string(text))); err != nil {
		t.Fatal(err)
	}
	out := visit(t, browser, driven, append(flags, "--dump-dom")...)
	found := report.FindSubmatch(out)
	if found == nil {
		t.Fatalf("%s reports nothing:\n%.3000s", script, out[max(0, len(out)-3000):])
	}
	if err := json.Unmarshal([]byte(html.UnescapeString(string(found[1]))), seen); err != nil {
		t.Fatalf("%v in %s", err, found[1])
	}
}

func ourScript(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "trace", name))
	if err != nil {
		t.Fatal(err)
	}
	return "<script>\n" + string(text) + "</script>\n"
}

// pageOf runs coppice sim with --trace and returns the page and what it shows.
func pageOf(t *testing.T, flags string) (page string, shows trace.Trace) {
	t.Helper()
	page = filepath.Join(t.TempDir(), "run.html")
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	if exit := run(append(strings.Fields("sim "+flags), "--trace", page), null, null); exit != 0 {
		t.Fatalf("coppice sim %s: exit code %d", flags, exit)
	}
	return page, readPage(t, page)
}

// sight is what drive.js saw.
type sight struct {
	Errors           []string
	Recorded         string
	Title, Figures   string
	Command          string
	Drawn            int
	Dark             bool
	Paper            string
	Colours          map[string]int
	Legend, Nameless []string
	Tree             struct{ Drawn, Spread int }
	Steps            []struct {
		Drawn, Slider int
		Moment        string
	}
	AfterBack, AfterSlider int
	PlayLabel              string
	PlayedTo, PlayedOut    float64
	Zoomed, Fitted         [2]float64
	ZoomedTime             [2]float64
	ZoomedRanks            [2]float64
	InAndOut               [2]float64
	Dragged, Moved         int
	ChosenByDrag           int
	Chosen, Unchosen       string
	Rows, Faded, Full      int
	ChosenByKey            int
	Tip                    string
	TipAfter               bool
	Slipped                float64
}

var pages = []struct{ name, flags string }{
	{"gossip-10", "-P 10 -L 1 --tree gossip:4 --queue=false"},
	{"binomial-16", "-P 16 --failed 2,5"},
	{"in-order-64", "-P 64 --order in-order --failed 1"},
	{"checked-500", "-P 500 --faults 2% --runs 100"},
	{"deaths", "-P 12 --failed 3 --die 1@6 --die 4#1 --sync overlapped --correction failure-proof:1"},
	{"acknowledged", "-P 9 --failed 8 --tree kary:2 --correction ack"},
	{"alone", "-P 1"},
}

func TestBrowserShowsTheRun(t *testing.T) {
	chromium := browser(t)
	for _, c := range pages {
		t.Run(c.name, func(t *testing.T) {
			page, shows := pageOf(t, c.flags)
			var got sight
			drive(t, chromium, page, "drive.js", &got, "--virtual-time-budget=600000", "--window-size=1200,800", "--blink-settings=preferredColorScheme=1")
			if len(got.Errors) > 0 || got.Recorded != "" {
				t.Fatalf("errors on the page: %q %q", got.Errors, got.Recorded)
			}
			checkLook(t, got, shows)
			checkSteps(t, got, shows)
			if len(shows.Processes) > 1 {
				checkHands(t, got, shows)
			}
			if *screenshots != "" {
				for scheme, number := range map[string]string{"dark": "0", "light": "1"} {
					visit(t, chromium, page, "--window-size=1200,720", "--blink-settings=preferredColorScheme="+number,
						"--screenshot="+filepath.Join(*screenshots, c.name+"-"+scheme+".png"))
				}
			}
		})
	}
}

// checkLook: the title, the figures, every message, the colours.
func checkLook(t *testing.T, got sight, shows trace.Trace) {
	t.Helper()
	if got.Title != shows.Title || got.Command != shows.Command || got.Drawn != len(shows.Messages) || got.Dark || got.Paper != "#ffffff" || len(got.Nameless) > 0 {
		t.Errorf("title %q, command %q, %d messages, dark %v, without a name %q; want %q, %q, %d", got.Title, got.Command, got.Drawn, got.Dark, got.Nameless,
			shows.Title, shows.Command, len(shows.Messages))
	}
	var figures strings.Builder
	for _, f := range shows.Figures {
		figures.WriteString(f.Name + f.Value)
	}
	if got.Figures != figures.String() {
		t.Errorf("figures %q, want %q", got.Figures, figures.String())
	}
	has := func(text string, is func(trace.Message) bool) {
		t.Helper()
		want := false
		for _, m := range shows.Messages {
			want = want || is(m)
		}
		if slices.Contains(got.Legend, text) != want {
			t.Errorf("legend %q; %q belongs there: %v", got.Legend, text, want)
		}
	}
	has("dissemination", func(m trace.Message) bool { return m.Kind == "spread" })
	has("correction", func(m trace.Message) bool { return m.Kind == "left" || m.Kind == "right" })
	has("acknowledgement", func(m trace.Message) bool { return m.Kind == "ack" })
	has("message to a dead process", func(m trace.Message) bool { return m.Outcome == trace.Lost })
	// Among many processes lines are thin, and no pixel has the full colour.
	if few := len(shows.Processes) < 400; few && (got.Colours["correction"] > 50) != (shows.Start != trace.Never) {
		t.Errorf("pixels %v, correction starts at %d", got.Colours, shows.Start)
	}
	if got.Colours["spread"] < 10 || got.Colours["paper"] < 100000 || got.Tree.Spread < 5 {
		t.Errorf("pixels %v, in the tree %v", got.Colours, got.Tree)
	}
}

// checkSteps: at each moment the messages sent before it, by keys, by the slider
// and by playing.
func checkSteps(t *testing.T, got sight, shows trace.Trace) {
	t.Helper()
	before := func(now int) (n int) {
		for _, m := range shows.Messages {
			if m.Sent < now {
				n++
			}
		}
		return n
	}
	if len(got.Steps) != shows.End+1 {
		t.Fatalf("%d steps, want %d", len(got.Steps), shows.End+1)
	}
	for now, step := range got.Steps {
		colored, live := standing(shows, now)
		says := fmt.Sprintf("t = %d: %d of %d live colored", now, colored, live)
		if step.Slider != now || step.Drawn != before(now) || !strings.HasPrefix(step.Moment, says) {
			t.Errorf("step %d: %+v, want %d messages and %q", now, step, before(now), says)
		}
	}
	if shows.End == 0 {
		return
	}
	if got.AfterBack != shows.End-1 || got.AfterSlider != before(1) {
		t.Errorf("one step back at %d, the slider at 1 shows %d messages; want %d, %d", got.AfterBack, got.AfterSlider, shows.End-1, before(1))
	}
	if got.PlayLabel != "Pause" || got.PlayedTo <= 0 || got.PlayedTo >= float64(shows.End) || got.PlayedOut != float64(shows.End) {
		t.Errorf("playing: button %q, at %v after half a second, at %v in the end; want the end at %d", got.PlayLabel, got.PlayedTo, got.PlayedOut, shows.End)
	}
}

// standing counts the live processes at a moment, and of them the colored.
func standing(shows trace.Trace, now int) (colored, live int) {
	for _, p := range shows.Processes {
		if p.Died != trace.Never && p.Died <= now {
			continue
		}
		live++
		if p.Colored != trace.Never && p.Colored <= now {
			colored++
		}
	}
	return colored, live
}

// checkHands: zoom, drag, choice and hover.
func checkHands(t *testing.T, got sight, shows trace.Trace) {
	t.Helper()
	near := func(what string, got [2]float64, times, ranks float64) {
		t.Helper()
		if d := got[0] - times; d > 0.01 || d < -0.01 {
			t.Errorf("%s: times by %v, want %v", what, got[0], times)
		}
		if d := got[1] - ranks; d > 0.01 || d < -0.01 {
			t.Errorf("%s: processes by %v, want %v", what, got[1], ranks)
		}
	}
	const wheel = 0.607 // e^(−½)
	near("wheel", got.Zoomed, wheel, wheel)
	if got.Slipped > 1 {
		t.Errorf("wheel: what was under the pointer is %v pixels away", got.Slipped)
	}
	near("key 0", got.Fitted, 1, 1)
	near("wheel with Shift", got.ZoomedTime, wheel, 1)
	near("wheel with Alt", got.ZoomedRanks, 1, wheel)
	near("in and out", got.InAndOut, 1, 1)
	if got.Dragged != -40 || got.Moved != 20 || got.ChosenByDrag != -1 {
		t.Errorf("dragged by %d, then moved to %d, chosen %d; want −40, 20, none", got.Dragged, got.Moved, got.ChosenByDrag)
	}
	rows := 0
	for _, m := range shows.Messages {
		if m.From == 1 || m.To == 1 {
			rows++
		}
	}
	if !strings.HasPrefix(got.Chosen, "Process 1") || got.Rows != rows || got.Unchosen != "" || got.ChosenByKey != 0 {
		t.Errorf("chosen %.40q with %d messages, then %q, by keys %d; want process 1 with %d, nothing, 0", got.Chosen, got.Rows, got.Unchosen, got.ChosenByKey, rows)
	}
	if float64(got.Faded) > 0.7*float64(got.Full) {
		t.Errorf("%d pixels in full colour with a process chosen, %d without", got.Faded, got.Full)
	}
	first := shows.Messages[0]
	if want := fmt.Sprintf("%d → %d: dissemination", first.From, first.To); !strings.HasPrefix(got.Tip, want) || !got.TipAfter {
		t.Errorf("hover shows %q, hidden afterwards: %v; want %q", got.Tip, got.TipAfter, want)
	}
}

// TestBrowserDark: the page follows the reader's preference.
func TestBrowserDark(t *testing.T) {
	chromium := browser(t)
	page, _ := pageOf(t, pages[1].flags)
	var got sight
	drive(t, chromium, page, "drive.js", &got, "--virtual-time-budget=600000", "--blink-settings=preferredColorScheme=0")
	if !got.Dark || got.Recorded != "" || got.Paper != "#14171b" || got.Colours["paper"] < 100000 || got.Colours["correction"] < 50 {
		t.Errorf("dark %v on %s, pixels %v, error %q", got.Dark, got.Paper, got.Colours, got.Recorded)
	}
}

// TestBrowserIsFluid: 500 processes are drawn in a small multiple of the time
// that their bare lines take, one by one.
func TestBrowserIsFluid(t *testing.T) {
	chromium := browser(t)
	page, shows := pageOf(t, "-P 500 --faults 2%")
	var got struct {
		Whole, Bare float64
		Drawn       int
		Recorded    string
	}
	drive(t, chromium, page, "race.js", &got, "--window-size=1200,800")
	t.Logf("everything %.1f ms, bare lines %.1f ms", got.Whole, got.Bare)
	if got.Recorded != "" || got.Drawn != len(shows.Messages) || got.Drawn < 2000 {
		t.Errorf("%d messages drawn, want %d; error %q", got.Drawn, len(shows.Messages), got.Recorded)
	}
	if !(got.Whole > 0 && got.Bare > 0 && got.Whole < 15*got.Bare) {
		t.Errorf("everything takes %.1f ms, more than 15 times the %.1f ms of its bare lines", got.Whole, got.Bare)
	}
}
