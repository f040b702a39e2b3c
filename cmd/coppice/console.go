package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/vbauerster/mpb/v8"
	"github.com/vbauerster/mpb/v8/cwriter"
	"github.com/vbauerster/mpb/v8/decor"
)

// console is where a command writes to.
type console struct {
	stdout, stderr *os.File
	colour         bool // standard output shows colours
	bars           bool // standard error shows progress
}

func newConsole(stdout, stderr *os.File) *console {
	return &console{
		stdout: stdout,
		stderr: stderr,
		colour: isTerminal(stdout) && os.Getenv("NO_COLOR") == "",
		bars:   isTerminal(stderr),
	}
}

func isTerminal(f *os.File) bool {
	return os.Getenv("TERM") != "dumb" && cwriter.IsTerminal(int(f.Fd()))
}

// print hands write a buffered standard output and reports what did not get
// there.
func (c *console) print(write func(*bufio.Writer)) error {
	w := bufio.NewWriterSize(c.stdout, 1<<16)
	write(w)
	return w.Flush()
}

// show prints a report: as a JSON document, or for people.
func (c *console) show(asJSON bool, report any, write func(*bufio.Writer)) error {
	if asJSON {
		return c.printJSON(report)
	}
	return c.print(write)
}

// showOrRefuse prints a report, unless there was something wrong with the input.
func (c *console) showOrRefuse(asJSON bool, report interface{ write(*bufio.Writer) }, wrong error) error {
	if wrong != nil {
		return badInput{wrong}
	}
	return c.show(asJSON, report, report.write)
}

// notice shows a line of the launcher.
func (c *console) notice(line string) { fmt.Fprintln(c.stderr, "coppice:", line) }

// newTable aligns columns to the right; each cell ends with a tab.
func newTable(w io.Writer) *tabwriter.Writer {
	return tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
}

// newList aligns columns to the left.
func newList(w io.Writer) *tabwriter.Writer { return tabwriter.NewWriter(w, 0, 0, 2, ' ', 0) }

// tabulate writes a table: a head, and a line for each of a list.
func tabulate[R any](table *tabwriter.Writer, head string, rows []R, line func(R) string) {
	fmt.Fprintln(table, head)
	for _, r := range rows {
		fmt.Fprintln(table, line(r))
	}
	table.Flush()
}

// printJSON prints a document.
func (c *console) printJSON(v any) error {
	e := json.NewEncoder(c.stdout)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

// A paint is how a piece of text looks on a terminal, as an ANSI code.
type paint string

const (
	bold   paint = "1"
	faint  paint = "2"
	red    paint = "31"
	green  paint = "32"
	yellow paint = "33"
	cyan   paint = "36"
)

// in paints a text, if this is a terminal.
func (c *console) in(p paint, text string) string {
	if !c.colour {
		return text
	}
	return "\x1b[" + string(p) + "m" + text + "\x1b[0m"
}

// Progress is on standard error, with the time that is left: a bar on a terminal, if the work takes longer than patience;
// elsewhere, for work that may take hours, a plain line every plainInterval.
const (
	patience      = time.Second
	plainInterval = time.Minute
	barInterval   = 100 * time.Millisecond
)

// timed does some work, shows how many of its runs are done, as it tells, and returns how many seconds it took.
func (c *console) timed(runs int, work func(done func(runs int)) error) (seconds float64, err error) {
	began := time.Now()
	done, text := counted("runs", runs)
	stop := func() {}
	if runs > 1 {
		stop = c.progress(0, text)
	}
	err = work(done)
	stop()
	return time.Since(began).Seconds(), err
}

// schedules shows how many of so many schedules of one of several protocols are done, on no terminal in plain lines.
func (c *console) schedules(protocol string, i, protocols, total int) (done func(int), stop func()) {
	done, count := counted("schedules", total)
	return done, c.progress(plainInterval, func() (string, float64) {
		line, share := count()
		line = protocol + ": " + line
		if protocols > 1 {
			line = fmt.Sprintf("%d of %d, %s", i+1, protocols, line)
		}
		return line, share
	})
}

// counted says how many of so many are done, as any goroutine tells it, and how long the others may take.
func counted(what string, total int) (done func(int), text func() (line string, share float64)) {
	began := time.Now()
	var so atomic.Int64
	return func(n int) { so.Store(int64(n)) }, func() (string, float64) {
		line := fmt.Sprintf("%d of %d %s", so.Load(), total, what)
		share := float64(so.Load()) / float64(total)
		if share > 0 {
			line += ", " + timeLeft(began, share)
		}
		return line, share
	}
}

// timeLeft says how long work may still take of which a share is done.
func timeLeft(began time.Time, share float64) string {
	return "left: " + time.Duration(float64(time.Since(began))*(1-share)/share).Round(time.Second).String()
}

// progress shows what text says, a line and the share of the work that is done, until stop is called: as a bar, or as
// lines at an interval. If that is 0, there are no lines.
func (c *console) progress(plain time.Duration, text func() (string, float64)) (stop func()) {
	if !c.bars && plain == 0 {
		return func() {}
	}
	end, ended := make(chan struct{}), make(chan struct{})
	over := func(after time.Duration) bool {
		select {
		case <-end:
			return true
		case <-time.After(after):
			return false
		}
	}
	go func() {
		defer close(ended)
		for !c.bars && !over(plain) {
			line, _ := text()
			fmt.Fprintln(c.stderr, "coppice:", line)
		}
		if c.bars && !over(patience) {
			c.bar(text, over)
		}
	}()
	return func() {
		close(end)
		<-ended
	}
}

// bar draws until it is over.
func (c *console) bar(text func() (string, float64), over func(after time.Duration) bool) {
	const full = 1000
	bars := mpb.New(mpb.WithOutput(c.stderr), mpb.WithWidth(30))
	bar := bars.AddBar(full,
		mpb.BarRemoveOnComplete(),
		mpb.PrependDecorators(decor.Any(func(decor.Statistics) string {
			line, _ := text()
			return line + " "
		})),
		mpb.AppendDecorators(decor.Percentage()),
	)
	for !over(barInterval) {
		_, share := text()
		bar.SetCurrent(min(int64(share*full), full-1))
	}
	bar.Abort(true)
	bars.Wait()
}
