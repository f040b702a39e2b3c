package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	"github.com/vbauerster/mpb/v8/cwriter"
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
