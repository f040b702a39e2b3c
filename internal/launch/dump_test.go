//go:build unix

package launch

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// quitDump is what a Go program prints at SIGQUIT, in short: own goroutines in its own code, of so many frames each,
// between others.
func quitDump(own, frames int) string {
	var b strings.Builder
	b.WriteString("before\nSIGQUIT: quit\nPC=0x47 m=0 sigcode=0\n\ngoroutine 0 gp=0x1 m=0 mp=0x2 [idle]:\nruntime.futex()\n\tfutex.s:1\n\n")
	b.WriteString("goroutine 1 [select]:\ngithub.com/coppice-go/coppice.(*Job).Run(0x1)\n\tjob.go:1\nmain.main()\n\tmain.go:1\n\n")
	for i := range own {
		fmt.Fprintf(&b, "goroutine %d [sync.Cond.Wait]:\n%s", 100+i, strings.Repeat("runtime.gopark()\n\tproc.go:1 +0x1 fp=0x1\n", 9))
		b.WriteString("github.com/coppice-go/coppice.Recv[...](0x1)\n\trecv.go:1 +0x2 fp=0x1 sp=0x2\n")
		for f := range frames {
			fmt.Fprintf(&b, "main.f%d()\n\tmain.go:%d\n", f, f)
		}
		b.WriteString("\n")
	}
	b.WriteString("goroutine 150 [select]:\ngithub.com/coppice-go/coppice.runJoined.func3()\n\tjoin.go:1\n\n")
	for i := range 30 {
		fmt.Fprintf(&b, "goroutine %d [IO wait]:\ngithub.com/coppice-go/coppice/internal/node.read()\n\tread.go:1\n\n", 200+i)
	}
	return b.String() + "rax 0x0\nrbx 0x1\n"
}

// dumped is what is shown of a text on standard error.
func dumped(t *testing.T, text string, late, logged bool) string {
	t.Helper()
	var b bytes.Buffer
	struck := make(chan struct{})
	if late {
		close(struck)
	}
	o := Output{Stderr: &b, Prefix: true}
	if logged {
		o.LogDir = t.TempDir()
	}
	relays, err := o.newRelays(&screen{to: [streams]io.Writer{nil, &b}, late: struck}, 3, false)
	if err != nil {
		t.Fatal(err)
	}
	for rest := text; rest != ""; rest = rest[min(7, len(rest)):] {
		if err := relays[stderr].take([]byte(rest[:min(7, len(rest))])); err != nil {
			t.Fatal(err)
		}
	}
	for _, r := range relays {
		if err := r.end(); err != nil {
			t.Fatal(err)
		}
	}
	if logged {
		if whole, err := os.ReadFile(filepath.Join(o.LogDir, "3.err")); err != nil || string(whole) != text {
			t.Errorf("the log has %d of %d bytes, %v", len(whole), len(text), err)
		}
		return strings.ReplaceAll(b.String(), o.LogDir, "DIR")
	}
	return b.String()
}

// TestDumpsAreShort: after the time-out the program's own goroutines are shown, a few of them, and where the others are.
func TestDumpsAreShort(t *testing.T) {
	one := "[3] before\n[3] SIGQUIT: quit\n[3] goroutine 100 [sync.Cond.Wait]:\n[3] github.com/coppice-go/coppice.Recv[...](0x1)\n[3] \trecv.go:1 +0x2\n[3] main.f0()\n[3] \tmain.go:0\n"
	if got, want := dumped(t, quitDump(1, 1), true, false), one+"[3] … 122 more lines: coppice run --log-dir DIR keeps them\n"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got, want := dumped(t, quitDump(1, 1), true, true), one+"[3] … 122 more lines: all are in DIR/3.err\n"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := dumped(t, quitDump(50, 40), true, false); strings.Count(got, "\n") != 2+stacksShown*stackLinesShown+1 {
		t.Errorf("got\n%s", got)
	}
	if got := dumped(t, quitDump(0, 0), true, false); !strings.Contains(got, "[3] goroutine 1 [select]:\n") || strings.Count(got, "\n") != 2+3+1 {
		t.Errorf("none is the program's: got\n%s", got)
	}
	if got := dumped(t, "SIGQUIT: quit\n\ngoroutine 7 [running]:\nmain.f", true, false); got != "[3] SIGQUIT: quit\n[3] goroutine 7 [running]:\n[3] main.f\n" {
		t.Errorf("cut short: got %q", got)
	}
}

// TestOtherLinesAreShownWhole: those of who was not asked by the time-out, and those that are no dump.
func TestOtherLinesAreShownWhole(t *testing.T) {
	for text, late := range map[string]bool{quitDump(9, 40): false, strings.Repeat("a line\n\n", 500): true} {
		want := "[3] " + strings.ReplaceAll(strings.TrimSuffix(text, "\n"), "\n", "\n[3] ") + "\n"
		if got := dumped(t, text, late, false); got != want {
			t.Errorf("late %v: %d bytes, want %d", late, len(got), len(want))
		}
	}
}
