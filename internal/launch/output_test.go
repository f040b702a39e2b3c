//go:build unix

package launch

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// shown is what a relay shows of these pieces.
func shown(prefix string, pieces ...[]byte) string {
	var b bytes.Buffer
	r := relay{screen: &screen{to: [streams]io.Writer{&b, nil}}, shown: true}
	if prefix != "" {
		r.prefix = []byte(prefix)
	}
	for _, piece := range pieces {
		if err := r.take(piece); err != nil {
			panic(err)
		}
	}
	if err := r.end(); err != nil {
		panic(err)
	}
	return b.String()
}

func TestLinesGetTheirPrefix(t *testing.T) {
	long := strings.Repeat("x", lineMax)
	for _, c := range []struct {
		name, text, want string
	}{
		{"nothing", "", ""},
		{"a line", "a\n", "[3] a\n"},
		{"an empty line", "\n", "[3] \n"},
		{"an unfinished line", "a\nb", "[3] a\n[3] b\n"},
		{"no text", "\x00\xff\r\n\x00", "[3] \x00\xff\r\n[3] \x00\n"},
		{"the longest line", long + "\n", "[3] " + long + "\n"},
		{"a longer line", long + "yy\nz", "[3] " + long + "\n[3] yy\n[3] z\n"},
		{"far too long a line", long + long + "y", "[3] " + long + "\n[3] " + long + "\n[3] y\n"},
	} {
		for _, size := range []int{1, 3, 4096, 1 << 20} {
			var pieces [][]byte
			for rest := []byte(c.text); len(rest) > 0; rest = rest[min(size, len(rest)):] {
				pieces = append(pieces, rest[:min(size, len(rest))])
			}
			if got := shown("[3] ", pieces...); got != c.want {
				t.Errorf("%s in pieces of %d: got %.60q, want %.60q", c.name, size, got, c.want)
			}
		}
	}
}

func TestWithoutPrefixBytesStayAsTheyAre(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		piece := rapid.SliceOfN(rapid.SampledFrom([]byte{'a', '\n', 0, 0xff}), 0, 50)
		pieces := rapid.SliceOf(piece).Draw(t, "pieces")
		if got := shown("", pieces...); got != string(bytes.Join(pieces, nil)) {
			t.Fatalf("got %q", got)
		}
	})
	long := bytes.Repeat([]byte("x"), 3*lineMax+5)
	if got := shown("", long); got != string(long) {
		t.Errorf("%d bytes of a long line became %d", len(long), len(got))
	}
}

func TestWhatIsShownComesInWholeLines(t *testing.T) {
	w := &wholeLines{t: t}
	r := relay{screen: &screen{to: [streams]io.Writer{w, nil}}, shown: true, prefix: []byte("[1] ")}
	for _, piece := range []string{"a", "b\nc", "\n", "d\ne\nf"} {
		if err := r.take([]byte(piece)); err != nil {
			t.Fatal(err)
		}
	}
	if w.writes != 3 {
		t.Errorf("%d writes, want 3", w.writes)
	}
}

type wholeLines struct {
	t      *testing.T
	writes int
}

func (w *wholeLines) Write(b []byte) (int, error) {
	w.writes++
	if !bytes.HasSuffix(b, []byte("\n")) || !bytes.HasPrefix(b, []byte("[1] ")) {
		w.t.Errorf("written: %q", b)
	}
	return len(b), nil
}

func TestLogsHaveEveryByteWhetherShownOrNot(t *testing.T) {
	dir := t.TempDir()
	var b bytes.Buffer
	o := Output{Stdout: &b, Prefix: true, Ranks: []int{1}, LogDir: dir}
	s := &screen{to: [streams]io.Writer{o.Stdout, o.Stderr}}
	for rank := range 2 {
		relays, err := o.newRelays(s, rank, false)
		if err != nil {
			t.Fatal(err)
		}
		for i, text := range []string{"a\nb", "c"} {
			if err := errors.Join(relays[i].take([]byte(text)), relays[i].end()); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, want := range map[string]string{"0.out": "a\nb", "0.err": "c", "1.out": "a\nb", "1.err": "c"} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: %q (%v), want %q", name, got, err, want)
		}
	}
	if want := "[1] a\n[1] b\n"; b.String() != want {
		t.Errorf("shown: %q, want %q", b.String(), want)
	}
}

func TestPrefixesArePaintedWhereAsked(t *testing.T) {
	if got := string(prefix(3, false)); got != "[3] " {
		t.Errorf("plain: %q", got)
	}
	if got := string(prefix(12, true)); got != "\x1b[36m[12]\x1b[0m " {
		t.Errorf("painted: %q", got)
	}
}

// What a process wrote is taken even if it has ended and somebody else holds
// its pipe; what that one writes later is not waited for.
func TestAPipeThatIsHeldOpenIsReadToWhereItsProcessEnded(t *testing.T) {
	var b bytes.Buffer
	slow := make(chan struct{})
	p, to, err := newPipe(func(piece []byte) error {
		<-slow
		b.Write(piece)
		return nil
	}, func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	want := strings.Repeat("0123456789abcdef", 4000) // 64,000 bytes: what a pipe holds
	if _, err := io.WriteString(to, want); err != nil {
		t.Fatal(err)
	}
	p.ended()
	time.AfterFunc(heldOpen+50*time.Millisecond, func() { close(slow) })
	select {
	case <-p.done:
	case <-time.After(time.Minute):
		t.Fatal("the pipe is read for ever")
	}
	if b.String() != want {
		t.Errorf("%d bytes were taken, want %d", b.Len(), len(want))
	}
}

func TestAWriterIsToldThatNobodyReads(t *testing.T) {
	p, to, err := newPipe(func([]byte) error { return io.ErrShortWrite }, func() error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	defer to.Close()
	if _, err := io.WriteString(to, "a"); err != nil {
		t.Fatal(err)
	}
	<-p.done
	if _, err := io.WriteString(to, "b"); err == nil {
		t.Error("a pipe that nobody reads takes bytes")
	}
}
