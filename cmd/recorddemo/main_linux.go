// Command recorddemo runs "coppice demo" on a terminal of its own and draws what the terminal shows as an animated SVG:
//
//	go run ./cmd/recorddemo > docs/images/demo.svg
//
// Run it on a quiet machine: the recording has the times of the demo in it. Pauses in which nothing changes are shortened.
package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// shown is the command that a viewer sees being entered.
const shown = "go run ./cmd/coppice demo"

// The terminal, in characters.
const (
	columns = 102
	rows    = 24
)

func main() {
	if err := record(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "recorddemo:", err)
		os.Exit(1)
	}
}

func record(to io.Writer) error {
	dir, err := os.MkdirTemp("", "recorddemo")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	command := dir + "/coppice"
	if out, err := exec.Command("go", "build", "-o", command, "./cmd/coppice").CombinedOutput(); err != nil {
		return fmt.Errorf("building the command: %w\n%s", err, out)
	}
	var film film
	var s screen
	for i := range len(shown) + 1 {
		s.clear()
		s.write([]byte("\x1b[32m$\x1b[0m " + shown[:i]))
		film.add(&s, 40*time.Millisecond)
	}
	s.write([]byte("\n"))
	if err := watch(exec.Command(command, "demo"), &s, &film); err != nil {
		return err
	}
	w := bufio.NewWriter(to)
	film.draw(w)
	return w.Flush()
}

// watch runs a command on a terminal and films it.
func watch(cmd *exec.Cmd, s *screen, f *film) error {
	keeper, terminal, err := openTerminal()
	if err != nil {
		return fmt.Errorf("opening a terminal: %w", err)
	}
	defer keeper.Close()
	cmd.Stdin, cmd.Stdout, cmd.Stderr = terminal, terminal, terminal
	cmd.Env = append(os.Environ(), "TERM=xterm-256color")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("starting the demo: %w", err)
	}
	terminal.Close()
	buffer, last := make([]byte, 1<<16), time.Now()
	for {
		n, err := keeper.Read(buffer)
		now := time.Now()
		if n > 0 {
			f.hold(now.Sub(last))
			s.write(buffer[:n])
			f.add(s, 0)
			last = now
		}
		if errors.Is(err, syscall.EIO) || err == io.EOF { // nobody has the terminal open any more
			break
		}
		if err != nil {
			return fmt.Errorf("reading from the terminal: %w", err)
		}
	}
	if err := cmd.Wait(); err != nil {
		return fmt.Errorf("the demo: %w", err)
	}
	return nil
}

// openTerminal returns both ends of a terminal: the one that reads what is written to the other.
func openTerminal() (keeper, terminal *os.File, err error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, nil, err
	}
	keeper = os.NewFile(uintptr(fd), "/dev/ptmx")
	number, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err == nil {
		err = unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0)
	}
	if err == nil {
		err = unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns})
	}
	if err == nil {
		terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", number), os.O_RDWR|unix.O_NOCTTY, 0)
	}
	if err != nil {
		keeper.Close()
		return nil, nil, err
	}
	return keeper, terminal, nil
}

// screen is what a terminal shows. It knows the few sequences that the demo uses.
type screen struct {
	lines    [rows][]cell
	row, col int
	paint    string // a class of the picture's style, or ""
	rest     []byte // of a sequence that is not complete
}

type cell struct {
	r     rune
	paint string
}

func (s *screen) clear() { *s = screen{} }

func (s *screen) write(b []byte) {
	b = append(s.rest, b...)
	s.rest = nil
	for len(b) > 0 {
		if b[0] == '\x1b' {
			end := bytes.IndexAny(b, "ABCDHJKm")
			if end < 0 {
				s.rest = bytes.Clone(b)
				return
			}
			s.control(strings.TrimPrefix(string(b[1:end]), "["), b[end])
			b = b[end+1:]
			continue
		}
		if b[0] >= 0x80 && !utf8.FullRune(b) {
			s.rest = bytes.Clone(b)
			return
		}
		r, size := utf8.DecodeRune(b)
		s.put(r)
		b = b[size:]
	}
}

func (s *screen) put(r rune) {
	switch r {
	case '\r':
		s.col = 0
	case '\n':
		s.col = 0
		if s.row++; s.row == rows {
			copy(s.lines[:], s.lines[1:])
			s.lines[rows-1] = nil
			s.row--
		}
	default:
		line := &s.lines[s.row]
		for len(*line) <= s.col {
			*line = append(*line, cell{r: ' '})
		}
		(*line)[s.col] = cell{r, s.paint}
		s.col++
	}
}

// paints are the classes of the colors that the demo uses.
var paints = map[string]string{"1": "bold", "2": "faint", "31": "red", "32": "green", "33": "yellow"}

func (s *screen) control(arguments string, kind byte) {
	switch kind {
	case 'A':
		up := 1
		_, _ = fmt.Sscan(arguments, &up)
		s.row = max(0, s.row-up)
	case 'K':
		s.lines[s.row] = nil
	case 'm':
		s.paint = paints[arguments]
	}
}
