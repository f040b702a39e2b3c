package launch

import (
	"bytes"
	"fmt"
	"regexp"
)

// dump shortens what a Go program prints of its goroutines when the timeout asks for them: most of them belong to the
// library, hundreds of lines a process. It shows a few stacks, each from the program's function or operation
// on, and says how many lines it leaves out.
type dump struct {
	begun  bool
	stack  [][]byte // what may be shown of the current stack
	lines  int      // lines of it so far
	own    bool     // it has reached a frame of the program
	waits  bool     // it only waits for the tasks, which have their own stacks
	first  [][]byte // the first stack, in case none is the program's
	shown  int      // stacks
	hidden int      // lines
}

const (
	stacksShown     = 3
	stackLinesShown = 16
)

// What lines of a dump begin with.
var (
	dumpBegins  = []byte("SIGQUIT: ")
	stackBegins = []byte("goroutine ")
	idleBegins  = []byte("goroutine 0 ")
	runFrame    = []byte("github.com/coppice-go/coppice.(*Job).Run(")
	ownFrame    = regexp.MustCompile(`^(main\.|github\.com/coppice-go/coppice\.[A-Z])`) // the program, or its call of the library
)

// take takes a line and returns the lines to show now.
func (d *dump) take(line []byte) (show [][]byte) {
	if !d.begun {
		d.begun = bytes.HasPrefix(line, dumpBegins)
		return [][]byte{line}
	}
	begins := bytes.HasPrefix(line, stackBegins)
	if begins || len(bytes.TrimSpace(line)) == 0 {
		show = d.endStack()
	}
	switch {
	case len(bytes.TrimSpace(line)) == 0:
		return show
	case d.lines == 0 && !begins: // the registers
		d.hidden++
		return show
	}
	d.lines++
	if !d.own && ownFrame.Match(line) {
		d.own = true
		d.hidden += len(d.stack) - 1
		d.stack = d.stack[:1] // how the library waits is of no interest
	}
	d.waits = d.waits || bytes.HasPrefix(line, runFrame)
	if len(d.stack) == stackLinesShown {
		d.hidden++
		return show
	}
	line, _, _ = bytes.Cut(bytes.TrimSuffix(line, []byte("\n")), []byte(" fp=")) // what follows makes sense only to a debugger
	d.stack = append(d.stack, append(bytes.Clone(line), '\n'))
	return show
}

// endStack returns the current stack, if it is shown.
func (d *dump) endStack() (show [][]byte) {
	switch {
	case d.own && !d.waits && d.shown < stacksShown:
		d.shown++
		show = d.stack
	case d.first == nil && d.lines > 0 && !bytes.HasPrefix(d.stack[0], idleBegins):
		d.first = d.stack
		d.hidden += len(d.stack)
	default:
		d.hidden += len(d.stack)
	}
	d.stack, d.lines, d.own, d.waits = nil, 0, false, false
	return show
}

// end returns the last lines: how much is hidden, and where it is.
func (d *dump) end(where string) (show [][]byte) {
	if !d.begun {
		return nil
	}
	show = d.endStack()
	if d.shown == 0 && len(show) == 0 {
		show, d.hidden = d.first, d.hidden-len(d.first)
	}
	if d.hidden > 0 {
		show = append(show, fmt.Appendf(nil, "… %d more lines: %s\n", d.hidden, where))
	}
	return show
}
