package node

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/extent"
	"github.com/coppice-go/coppice/internal/transport"
	"github.com/coppice-go/coppice/protocol/grant"
	"github.com/coppice-go/coppice/protocol/membership"

	"go.uber.org/goleak"
)

const memory = "memory"

var (
	allKinds    = []string{memory, transport.Shared, transport.Unix, transport.TCP, transport.TLS}
	socketKinds = allKinds[1:]
)

// short returns the amount of work: usual where tests run in full (bash .ci/run full), otherwise fewer.
func short(usual, fewer int) int {
	if extent.Full() {
		return usual
	}
	return fewer
}

// hangTime is how long a test waits for what must happen, even on a busy machine.
const hangTime = 3 * time.Minute

// patience returns a context that bounds whatever would otherwise hang.
func patience(t testing.TB) context.Context {
	t.Helper()
	return patienceOf(t, hangTime)
}

func patienceOf(t testing.TB, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeoutCause(context.Background(), d, errors.New("the test hangs"))
	t.Cleanup(cancel)
	return ctx
}

// witness is a Host that records what its process reports.
type witness struct {
	mu       sync.Mutex
	asked    int
	suspects []string
	fenced   []int
	record   []byte
	wills    func(rank int) []byte
}

func (w *witness) Ask(int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked++
}

func (w *witness) Suspect(rank int, _ uint64, why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.suspects = append(w.suspects, fmt.Sprintf("process %d: %s", rank, why))
}

// said returns the processes that the process suspects, and why.
func (w *witness) said() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.suspects)
}

func (w *witness) Hears(int, uint64) {}

func (w *witness) Record(record []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.record = record
	return nil
}

func (w *witness) Will(_ string, rank int, _ uint64) ([]byte, error) {
	if w.wills == nil {
		return nil, nil
	}
	return w.wills(rank), nil
}

func (w *witness) Fence(rank int, _ uint64, _ string, _ []byte) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fenced = append(w.fenced, rank)
}

func (w *witness) Opened(*membership.View) {}
func (w *witness) Load(int, int64)         {}
func (w *witness) Epoch(uint64)            {}

// job is processes in this program, in memory or joined by sockets.
type job struct {
	t      testing.TB
	kind   string
	ps     []*Process
	hosts  []*witness
	local  *Local
	closed bool
}

// place returns where a process may listen.
func place(dir, kind string, rank int) transport.Place {
	if kind == transport.Unix || kind == transport.Shared {
		return transport.Place{Kind: transport.Unix, Path: filepath.Join(dir, strconv.Itoa(rank))}
	}
	return transport.Place{Kind: kind, Net: netip.MustParsePrefix("127.0.0.0/8")}
}

var testJob, testKey = [16]byte{1, 2, 3}, bytes.Repeat([]byte("k"), 32)

// start makes a job, which ends with the test. No process may be suspected in it.
func start(t testing.TB, kind string, n int, change func(*Config)) *job {
	t.Helper()
	return startWithout(t, kind, n, -1, change)
}

// startWithout is start without one of the processes, unless absent is negative.
func startWithout(t testing.TB, kind string, n, absent int, change func(*Config)) *job {
	t.Helper()
	j := &job{t: t, kind: kind}
	var cfg Config
	if change != nil {
		change(&cfg)
	}
	if kind == memory {
		var err error
		if j.local, err = NewLocal(n, cfg); err != nil {
			t.Fatal(err)
		}
		j.ps = j.local.Processes
		t.Cleanup(j.close)
		return j
	}
	dir, err := os.MkdirTemp("", "rt") // t.TempDir() is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	for r := range n {
		if r == absent {
			j.ps, j.hosts = append(j.ps, nil), append(j.hosts, &witness{})
			continue
		}
		c := cfg
		w := &witness{wills: j.will}
		c.Rank, c.Size, c.Host = r, n, w
		if c.Silence == 0 {
			c.Silence = 10 * time.Minute // a busy machine is not a silent peer, and no beat helps out of a stall
		}
		s := Socket{Job: testJob, Key: testKey, Incarnation: 1, Places: []transport.Place{place(dir, kind, r)}}
		if kind == transport.Shared {
			s.Shares = n
		}
		p, err := New(c, s)
		if err != nil {
			t.Fatal(err)
		}
		j.ps, j.hosts = append(j.ps, p), append(j.hosts, w)
	}
	t.Cleanup(j.close)
	j.introduce()
	return j
}

// will returns what a process has recorded.
func (j *job) will(rank int) []byte {
	w := j.hosts[rank]
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.record
}

// introduce passes the addresses of all processes to all.
func (j *job) introduce() {
	var all []Address
	for r, p := range j.ps {
		if p != nil {
			all = append(all, Address{Rank: r, Incarnation: 1, At: p.Endpoint().Addresses()[0]})
		}
	}
	for _, p := range j.ps {
		if p != nil {
			p.Peers(all...)
		}
	}
}

// close ends the job, in bounded time.
func (j *job) close() {
	j.t.Helper()
	if j.closed {
		return
	}
	j.closed = true
	done := make(chan error, len(j.ps))
	if j.local != nil {
		j.local.Close()
	} else {
		for _, p := range j.ps {
			go func() {
				if p == nil {
					done <- nil
				} else {
					done <- p.Close()
				}
			}()
		}
		for range j.ps {
			select {
			case err := <-done:
				if err != nil {
					j.t.Errorf("close: %v", err)
				}
			case <-time.After(20 * time.Second):
				j.t.Fatalf("close hangs:\n%s", stacks())
			}
		}
	}
	for r, w := range j.hosts {
		w.mu.Lock()
		if len(w.suspects) > 0 {
			j.t.Errorf("process %d suspects %q", r, w.suspects)
		}
		w.mu.Unlock()
	}
}

// each runs do for every task at once and reports errors.
func (j *job) each(do func(m *Member) error) {
	j.t.Helper()
	if err := each(j.ps, do); err != nil {
		j.t.Fatal(err)
	}
}

func each(ps []*Process, do func(m *Member) error) error {
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for _, p := range ps {
		for _, task := range p.Tasks() {
			wg.Go(func() {
				if err := do(p.World(task)); err != nil {
					mu.Lock()
					errs = append(errs, fmt.Errorf("task %d: %w", task, err))
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	return errors.Join(errs...)
}

// leavesNothing checks at the end of the test that it left no goroutine and no descriptor. Call it
// first.
func leavesNothing(t testing.TB) {
	t.Helper()
	ignore := goleak.IgnoreCurrent()
	before := descriptors(t)
	t.Cleanup(func() {
		goleak.VerifyNone(t, ignore)
		if after := descriptors(t); after > before {
			t.Errorf("%d descriptors are open, %d before", after, before)
		}
	})
}

// descriptors counts open descriptors.
func descriptors(t testing.TB) int {
	t.Helper()
	r, w, err := os.Pipe() // so that the poller of package os is among them
	if err != nil {
		t.Fatal(err)
	}
	_, _ = r.Close(), w.Close()
	all, err := os.ReadDir("/dev/fd")
	if err != nil {
		t.Fatal(err)
	}
	return len(all)
}

// pattern fills b with bytes that depend on their position and on seed.
func pattern(b []byte, seed uint64) []byte {
	x := seed*0x9e3779b97f4a7c15 + 1
	i := 0
	for ; i+8 <= len(b); i += 8 {
		x = x*6364136223846793005 + 1442695040888963407
		binary.LittleEndian.PutUint64(b[i:], x)
	}
	for ; i < len(b); i++ {
		b[i] = byte(x >> (8 * (i % 8)))
	}
	return b
}

// message returns the i-th message of a stream.
func message(size int, seed uint64) []byte { return pattern(make([]byte, size), seed) }

// checkMessage returns what is wrong with a message.
func checkMessage(got []byte, size int, seed uint64) error {
	if len(got) != size {
		return fmt.Errorf("message %#x has %d bytes, want %d", seed, len(got), size)
	}
	if want := message(size, seed); !bytes.Equal(got, want) {
		at := 0
		for got[at] == want[at] {
			at++
		}
		return fmt.Errorf("message %#x of %d bytes differs from byte %d on", seed, size, at)
	}
	return nil
}

func broadcastCall(plan Plan, root int, value []byte) *Call {
	return &Call{Plan: plan.WithRoot(root), Value: value, Sign: 5, Type: "bytes"}
}

func mustPlan(t testing.TB, tree, correction string) Plan {
	t.Helper()
	plan, err := BroadcastPlan(part(t, tree), part(t, correction), 0)
	if err != nil {
		t.Fatal(err)
	}
	return plan
}

// part reads a tree or a correction: a name, or a name and a number with a colon between them.
func part(t testing.TB, text string) (p Part) {
	t.Helper()
	name, digits, found := strings.Cut(text, ":")
	p.Name = name
	if found {
		var err error
		if p.Number, err = strconv.Atoi(digits); err != nil {
			t.Fatal(err)
		}
	}
	return p
}

// dice returns a source of its own, so that runs differ; it logs the seed.
func dice(t testing.TB) *rand.Rand {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// whole returns the grant of a message that came in one piece.
func whole() (in grant.In) {
	in.Came()
	return in
}
