package main

import (
	"bufio"
	"encoding/json"
	"os"

	"github.com/vbauerster/mpb/v8/cwriter"
)

// console is where a command writes to.
type console struct {
	stdout, stderr *os.File
	colour         bool // standard output shows colours
	bars           bool // standard error shows progress
}

func newConsole(stdout, stderr *os.File) *console {
	terminal := func(f *os.File) bool {
		return os.Getenv("TERM") != "dumb" && cwriter.IsTerminal(int(f.Fd()))
	}
	return &console{
		stdout: stdout,
		stderr: stderr,
		colour: terminal(stdout) && os.Getenv("NO_COLOR") == "",
		bars:   terminal(stderr),
	}
}

// print hands write a buffered standard output and reports what did not get
// there.
func (c *console) print(write func(*bufio.Writer)) error {
	w := bufio.NewWriterSize(c.stdout, 1<<16)
	write(w)
	return w.Flush()
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
