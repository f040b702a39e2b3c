package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

// recordingVariable names the picture that TestRecordDemo draws, from the root of the repository on.
const recordingVariable = "COPPICE_RECORDING"

// recordedCommand is the command that a viewer sees being entered.
const recordedCommand = "go run ./cmd/coppice demo"

// The terminal, in characters.
const (
	screenColumns = 102
	screenRows    = 24
)

// TestRecordDemo runs "coppice demo" on a terminal and draws what that shows as an animated SVG. Pauses in which
// nothing changes are shortened.
func TestRecordDemo(t *testing.T) {
	name := os.Getenv(recordingVariable)
	if name == "" {
		t.Skipf("the recording has the times of the demo in it; on a quiet machine: %s=docs/images/demo.svg", recordingVariable)
	}
	command := filepath.Join(t.TempDir(), "coppice")
	if out, err := exec.Command("go", "build", "-o", command, ".").CombinedOutput(); err != nil {
		t.Fatalf("building the command: %v\n%s", err, out)
	}
	var film film
	var s screen
	for i := range len(recordedCommand) + 1 {
		s = screen{}
		s.write([]byte("\x1b[32m$\x1b[0m " + recordedCommand[:i]))
		film.add(&s, 40*time.Millisecond)
	}
	s.write([]byte("\n"))
	recordOn(t, exec.Command(command, "demo"), &s, &film)
	var picture bytes.Buffer
	film.draw(&picture)
	if err := os.WriteFile(filepath.Join(checkout, name), picture.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestFilmShowsWhatTheTerminalShows: text in its place and color, drawn once for as long as it stays.
func TestFilmShowsWhatTheTerminalShows(t *testing.T) {
	var film film
	var s screen
	for _, written := range []string{"one\nt", "wo \xe2\x9c", "\x93\n", "\x1b[1A\x1b[2K\x1b[31mthree\x1b[0m <4\n"} {
		s.write([]byte(written))
		film.add(&s, time.Second)
	}
	var picture strings.Builder
	film.draw(&picture)
	for _, want := range []string{">one<", ">two ✓<", ">t<", `class="red">three</tspan>`, "> &lt;4<"} {
		if strings.Count(picture.String(), want) != 1 {
			t.Errorf("%q is not once in\n%s", want, picture.String())
		}
	}
}

// recordOn runs a command on a terminal and films it.
func recordOn(t *testing.T, cmd *exec.Cmd, s *screen, f *film) {
	t.Helper()
	end, keeper := terminal(t)
	if err := unix.IoctlSetWinsize(int(keeper.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: screenRows, Col: screenColumns}); err != nil {
		t.Fatal(err)
	}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = end, end, end
	cmd.Env = append(os.Environ(), "TERM=xterm-256color")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	end.Close()
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
			t.Fatal(err)
		}
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
}

// screen is what a terminal shows. It knows the few sequences that the demo uses.
type screen struct {
	lines    [screenRows][]cell
	row, col int
	paint    string // a class of the picture's style, or ""
	rest     []byte // of a sequence that is not complete
}

type cell struct {
	r     rune
	paint string
}

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
		if s.row++; s.row == screenRows {
			copy(s.lines[:], s.lines[1:])
			s.lines[screenRows-1] = nil
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
