package swim_test

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hashicorp/memberlist"
	"go.uber.org/goleak"

	"github.com/coppice-go/coppice/internal/detect"
	"github.com/coppice-go/coppice/internal/detect/swim"
	"github.com/coppice-go/coppice/internal/extent"
	"github.com/coppice-go/coppice/internal/posix"
)

// silence is long enough for a machine that is busy with other work.
const silence = 2 * time.Second

var jobKey = bytes.Repeat([]byte("k"), 32)

// memberVariable turns this binary into a member that a test can stop from outside. Its value is the
// address to meet.
const memberVariable = "SWIM_TEST_MEETS"

func TestMain(m *testing.M) {
	if peer := os.Getenv(memberVariable); peer != "" {
		beMember(peer)
		return
	}
	extent.SideBySide(8)
	exit := m.Run()
	err := goleak.Find()
	for end := time.Now().Add(2 * silence); err != nil && time.Now().Before(end); { // a last probe may still wait
		err = goleak.Find()
	}
	if err != nil && exit == 0 {
		fmt.Println(err)
		exit = 1
	}
	os.Exit(exit)
}

// beMember runs a member of rank 9 until standard input ends.
func beMember(peer string) {
	d, err := swim.Start(config(9, 3, new(witness)))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	d.Meet(peer)
	fmt.Println("here")
	_, _ = io.Copy(io.Discard, os.Stdin)
	_ = d.Close()
}

// witness records what a detector reported.
type witness struct {
	mu      sync.Mutex
	alive   []string
	suspect []string
	last    map[string]bool // whether the member is alive, by the last report
}

func (w *witness) Alive(rank int, incarnation uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.alive = append(w.alive, w.note(rank, incarnation, true))
}

func (w *witness) Suspect(rank int, incarnation uint64, _ string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.suspect = append(w.suspect, w.note(rank, incarnation, false))
}

func (w *witness) note(rank int, incarnation uint64, lives bool) (member string) {
	if w.last == nil {
		w.last = map[string]bool{}
	}
	member = fmt.Sprintf("%d.%d", rank, incarnation)
	w.last[member] = lives
	return member
}

func (w *witness) told() (alive, suspect []string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.alive), slices.Clone(w.suspect)
}

// lives reports whether a member is alive, by the last report.
func (w *witness) lives(member string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.last[member]
}

func config(rank int, incarnation uint64, w *witness) detect.Outside {
	return detect.Outside{
		Rank: rank, Incarnation: incarnation, Bind: "127.0.0.1:0",
		Key: jobKey, Silence: silence, Suspect: w.Suspect, Alive: w.Alive,
	}
}

func start(t *testing.T, cfg detect.Outside, peers ...string) *swim.Detector {
	t.Helper()
	d, err := swim.Start(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	for _, peer := range peers {
		d.Meet(peer)
	}
	return d
}

// group starts n members that all know each other when it returns.
func group(t *testing.T, n int) ([]*swim.Detector, []*witness) {
	t.Helper()
	var ds []*swim.Detector
	var ws []*witness
	for rank := range n {
		w := new(witness)
		var peers []string
		if rank > 0 {
			peers = []string{ds[0].Address()}
		}
		ds, ws = append(ds, start(t, config(rank, 1, w), peers...)), append(ws, w)
	}
	allLive(t, ws)
	return ds, ws
}

// allLive returns when all members but some know that all of them live: on a loaded machine a live
// member may be suspected for a while.
func allLive(t *testing.T, ws []*witness, but ...int) {
	t.Helper()
	for rank, w := range ws {
		for other := range ws {
			if name := fmt.Sprintf("%d.1", other); other != rank && !slices.Contains(but, other) && !slices.Contains(but, rank) {
				eventually(t, fmt.Sprintf("%s lives for %d", name, rank), func() bool { return w.lives(name) })
			}
		}
	}
}

func eventually(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(100 * silence); !is(); time.Sleep(10 * time.Millisecond) { // a starved detector doubts itself, and is slow
		if time.Now().After(end) {
			t.Fatalf("%s: not within %v", what, 100*silence)
		}
	}
}

func TestTheSilentOneIsSuspectedByAllAndNobodyElse(t *testing.T) {
	t.Parallel()
	const n, silent = 8, 5
	ds, ws := group(t, n)
	time.Sleep(silence)
	allLive(t, ws)
	began := time.Now()
	if err := ds[silent].Close(); err != nil {
		t.Fatal(err)
	}
	for rank, w := range ws {
		if rank != silent {
			eventually(t, fmt.Sprintf("%d suspects 5.1", rank), func() bool { return !w.lives("5.1") })
		}
	}
	t.Logf("suspected by all after %.1f times the silence", float64(time.Since(began))/float64(silence))
	time.Sleep(silence)
	allLive(t, ws, silent)
	for rank, w := range ws {
		if rank != silent && w.lives("5.1") { // it reports nothing after Close
			t.Errorf("5.1 lives again for %d", rank)
		}
	}
}

func TestALaterIncarnationIsAnotherMember(t *testing.T) {
	t.Parallel()
	ds, ws := group(t, 5)
	if err := ds[4].Close(); err != nil {
		t.Fatal(err)
	}
	again := start(t, config(4, 2, new(witness)))
	again.Meet(ds[0].Address())
	for _, w := range ws[:4] {
		eventually(t, "4.1 is suspected", func() bool { return !w.lives("4.1") })
		eventually(t, "4.2 lives", func() bool {
			alive, _ := w.told()
			return slices.Contains(alive, "4.2")
		})
	}
}

// A process that the kernel has stopped does not answer, though its sockets still exist; when it
// continues, it refutes the suspicion.
func TestAStoppedProcessIsSuspectedUntilItGoesOn(t *testing.T) {
	t.Parallel()
	ds, ws := group(t, 5)
	child := exec.Command(os.Args[0])
	child.Env = append(os.Environ(), memberVariable+"="+ds[0].Address())
	in, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = child.Process.Signal(posix.SIGCONT)
		_ = in.Close()
		_ = child.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "here\n" {
		t.Fatalf("the member said %q, %v", line, err)
	}
	for _, w := range ws {
		eventually(t, "9.3 lives", func() bool { return w.lives("9.3") })
	}
	if err := child.Process.Signal(posix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	for _, w := range ws {
		eventually(t, "9.3 is suspected", func() bool { return !w.lives("9.3") })
	}
	if err := child.Process.Signal(posix.SIGCONT); err != nil {
		t.Fatal(err)
	}
	for _, w := range ws {
		eventually(t, "9.3 lives again", func() bool { return w.lives("9.3") })
	}
}

// knock joins with a plain memberlist member and returns how many others it met.
func knock(t *testing.T, name string, key []byte, at string) (met int) {
	t.Helper()
	cfg := memberlist.DefaultLocalConfig()
	cfg.Name, cfg.SecretKey = name, key
	cfg.BindAddr, cfg.BindPort, cfg.AdvertisePort = "127.0.0.1", 0, 0
	cfg.LogOutput = io.Discard
	m, err := memberlist.Create(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Shutdown()
	_, err = m.Join([]string{at})
	if met = m.NumMembers() - 1; err != nil && met > 0 {
		t.Errorf("met %d in spite of %v", met, err)
	}
	time.Sleep(silence / 2) // for what it may say by packets
	return met
}

func TestStrangersAreRefused(t *testing.T) {
	t.Parallel()
	ds, ws := group(t, 5)
	for what, key := range map[string][]byte{
		"no key":              nil,
		"another key":         bytes.Repeat([]byte("x"), 32),
		"the job's key as is": jobKey,
	} {
		if met := knock(t, "7.1", key, ds[0].Address()); met > 0 {
			t.Errorf("a stranger with %s met %d", what, met)
		}
	}
	// A process of our kind, but of another job.
	w := new(witness)
	cfg := config(7, 1, w)
	cfg.Key = bytes.Repeat([]byte("j"), 32)
	start(t, cfg, ds[0].Address())
	time.Sleep(silence)
	if alive, _ := w.told(); len(alive) > 0 {
		t.Errorf("a process of another job sees %v", alive)
	}
	for rank, w := range ws {
		if alive, _ := w.told(); slices.Contains(alive, "7.1") {
			t.Errorf("%d was told of %v alive", rank, alive)
		}
	}
}

func TestABadConfigurationIsRefused(t *testing.T) {
	for _, c := range []struct {
		breaks func(*detect.Outside)
		want   string
	}{
		{func(c *detect.Outside) { c.Bind = "" }, "allowed: IP:PORT"},
		{func(c *detect.Outside) { c.Bind = "localhost:0" }, "allowed: IP:PORT"},
		{func(c *detect.Outside) { c.Bind = "0.0.0.0:0" }, "allowed: IP:PORT, the IP one of this host"},
		{func(c *detect.Outside) { c.Bind = "192.0.2.1:0" }, "detection by SWIM at 192.0.2.1:0"},
		{func(c *detect.Outside) { c.Rank = -1 }, "rank -1; allowed: 0 to"},
		{func(c *detect.Outside) { c.Rank = 1 << 20 }, "rank 1048576; allowed: 0 to 1048575"},
		{func(c *detect.Outside) { c.Key = nil }, "key of 0 bytes; allowed: 16 or more"},
		{func(c *detect.Outside) { c.Silence = time.Millisecond }, "silence of 1ms; allowed: 500ms or more"},
		{func(c *detect.Outside) { c.Suspect = nil }, "allowed: functions Suspect and Alive"},
		{func(c *detect.Outside) { c.Alive = nil }, "allowed: functions Suspect and Alive"},
	} {
		cfg := config(0, 1, new(witness))
		c.breaks(&cfg)
		d, err := swim.Start(cfg)
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("error %v, want one line with %q", err, c.want)
		}
		if d != nil {
			_ = d.Close()
		}
	}
}

func TestNothingIsLeftAfterClose(t *testing.T) {
	ignore := goleak.IgnoreCurrent()
	d := start(t, config(0, 1, new(witness)), "127.0.0.1:1", "127.0.0.1:2") // nobody listens there
	for range 100 {
		d.Meet("127.0.0.1:3") // more than can wait
	}
	d.Meet("no address")
	began := time.Now()
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(began); took > silence {
		t.Errorf("it took %v", took)
	}
	goleak.VerifyNone(t, ignore)
	if err := d.Close(); err != nil {
		t.Errorf("closed again: %v", err)
	}
	cfg := config(0, 2, new(witness))
	cfg.Bind = d.Address()
	if again := start(t, cfg); again.Address() != cfg.Bind {
		t.Errorf("at %s, want %s", again.Address(), cfg.Bind)
	}
}
