package launch

import (
	"errors"
	"io"
	"os"
	"time"

	"github.com/coppice-go/coppice/internal/posix"
)

const (
	// heldOpen is how long a pipe is read after its process has ended, if another
	// process holds the other end.
	heldOpen = 100 * time.Millisecond
	// pipeMax is the most that Linux keeps in a pipe of an ordinary user.
	pipeMax = 1 << 20
)

// pipe reads one stream of one process.
type pipe struct {
	from *os.File
	done chan struct{} // closed when everything was read
}

// newPipe passes what is written to the returned file to take; it calls end
// after the last of it. If take fails, the pipe is closed, as it
// would be for a process that writes to a reader that is gone.
func newPipe(take func([]byte) error, end func() error) (*pipe, *os.File, error) {
	from, to, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	p := &pipe{from: from, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		defer from.Close()
		defer end()
		p.read(take)
	}()
	return p, to, nil
}

func (p *pipe) read(take func([]byte) error) {
	buf := make([]byte, 16<<10)
	for {
		n, err := p.from.Read(buf)
		if n > 0 && take(buf[:n]) != nil {
			return
		}
		if errors.Is(err, os.ErrDeadlineExceeded) {
			p.drain(buf, take)
			return
		}
		if err != nil {
			return
		}
	}
}

// ended says that the process has ended: what it wrote is in the pipe, and
// the pipe does not wait for output of others.
func (p *pipe) ended() {
	_ = p.from.SetReadDeadline(time.Now().Add(heldOpen)) // a closed pipe needs none
}

// drain reads what is in the pipe and does not wait for more.
func (p *pipe) drain(buf []byte, take func([]byte) error) {
	raw, err := p.from.SyscallConn()
	if err != nil || p.from.SetReadDeadline(time.Time{}) != nil {
		return
	}
	for taken := 0; taken < pipeMax; {
		n, err := 0, io.EOF
		failed := raw.Read(func(fd uintptr) bool {
			n, err = posix.Read(int(fd), buf)
			return true
		})
		if failed != nil || err != nil || n <= 0 || take(buf[:n]) != nil {
			return
		}
		taken += n
	}
}
