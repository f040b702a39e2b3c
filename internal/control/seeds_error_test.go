package control

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/coppice-go/coppice/internal/wire"
)

// TestWhatACoordinatorAnsweredSaysMost: more than that a connection broke or that no process listens, and these more than that the time was up.
func TestWhatACoordinatorAnsweredSaysMost(t *testing.T) {
	for err, want := range map[error]int{
		context.DeadlineExceeded:                                    0,
		&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}:         1,
		fmt.Errorf("at a:1: %w", io.EOF):                            1,
		&net.OpError{Op: "read", Err: syscall.ECONNRESET}:           1,
		fmt.Errorf("%w: %w", wire.ErrUnanswered, io.EOF):            2,
		fmt.Errorf("refused: %w", wire.ErrStranger):                 2,
		errors.Join(io.EOF, fmt.Errorf("%w: rank 3", wire.Crossed)): 2,
		errors.New("refused: the job has no such rank"):             2,
	} {
		if got := weight(err); got != want {
			t.Errorf("weight(%v) = %d, want %d", err, got, want)
		}
	}
}

// TestErrorsOfSeedsAreOneLine: what is wrong with which, each once, and what to do.
func TestErrorsOfSeedsAreOneLine(t *testing.T) {
	turned := fmt.Errorf("%w: EOF", wire.ErrUnanswered)
	nowhere := &net.DNSError{Err: "no such host", Name: "b", IsNotFound: true}
	refused := fmt.Errorf("dial: %w", syscall.ECONNREFUSED)
	slurm := Place{SeedsFrom: "SLURM_STEP_NODELIST", KeyFile: "/shared/.coppice/key", Node: "n1"}
	for _, c := range []struct {
		place    Place
		errs     []error
		want     string
		hopeless bool
	}{
		{slurm, []error{turned, turned}, "at a:1, b:1: turned away: it has another key, or is ending: EOF; if nodes do not share /shared/.coppice/key (this is n1), set COPPICE_KEY_FILE to a file that they do; if another program has the port, set another with COPPICE_PORT", true},
		{Place{}, []error{turned, refused}, "at a:1: turned away: it has another key, or is ending: EOF; at b:1: dial: connection refused; if the key (COPPICE_KEY_FILE or COPPICE_KEY) is not the same on all hosts, make it so; if another program has the port, set another with COPPICE_COORDINATOR", false},
		{slurm, []error{nowhere, nowhere}, "SLURM_STEP_NODELIST names a, b, but that does not resolve on this node; allowed: names that do, or COPPICE_COORDINATOR=ADDRESS:PORT,… of some nodes", true},
		{Place{}, []error{nowhere, nowhere}, "at a:1, b:1: lookup b: no such host", false},
		{slurm, []error{refused, nil}, "at a:1: dial: connection refused", false},
	} {
		e := &seedsError{place: c.place}
		e.add("a:1", c.errs[0])
		e.add("b:1", c.errs[1])
		var j seedJudge
		if hopeless := j.hopeless(e); hopeless != c.hopeless || e.Error() != c.want || strings.Contains(e.Error(), "\n") {
			t.Errorf("%v, %v\nwant %s, %v", e, hopeless, c.want, c.hopeless)
		}
		if c.errs[1] != nil && !errors.Is(e, c.errs[1]) {
			t.Errorf("%v is not %v", e, c.errs[1])
		}
	}
}

// TestStrangersThatAreGoneAreNoHope: a process with another key that has given up is not one that is yet to come.
func TestStrangersThatAreGoneAreNoHope(t *testing.T) {
	var j seedJudge
	look := func(errs ...error) (bool, string) {
		e := &seedsError{}
		for i, err := range errs {
			e.add(fmt.Sprintf("s%d", i), err)
		}
		return j.hopeless(e), e.Error()
	}
	if hopeless, _ := look(wire.ErrStranger, syscall.ECONNREFUSED); hopeless {
		t.Error("nobody has come to one of them yet")
	}
	if hopeless, _ := look(syscall.ECONNREFUSED, wire.ErrStranger); !hopeless {
		t.Error("strangers were at both")
	}
	hopeless, text := look(syscall.ECONNREFUSED, syscall.ECONNREFUSED)
	if !hopeless || !strings.Contains(text, "stranger") {
		t.Errorf("%v, %s", hopeless, text)
	}
	if hopeless, _ := look(nil, syscall.ECONNREFUSED); hopeless {
		t.Error("one of the job is there now")
	}
}
