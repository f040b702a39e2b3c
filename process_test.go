package coppice_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/internal/launch"
)

// Tests with real processes start this binary, with a word in its environment
// that names the play: a program of one task, which tells the test what it sees.
// The same plays run in Local.
const (
	playVar = "TEST_PLAY"     // its name and arguments, as JSON
	jobVar  = "TEST_PLAY_JOB" // the settings, as JSON
)

var plays = map[string]func(tell func(line), args []string) coppice.Func{
	"wait":    waiting,
	"stream":  streaming,
	"once":    broadcastingOnce,
	"misuse":  misusing,
	"context": ending,
	"many":    manyTasks,
	"leak":    leaking,
	"busy":    busy,
	"again":   again,
	"below":   below,
	"dying":   dying,
	"watch":   watching,

	"agreeing": agreeing,
	"homeless": homeless,
}

// line is what a play tells.
type line struct {
	Rank  int
	What  string
	Kind  string // of an error
	Text  string
	Tasks []int // whom an error names
	Value int
	Pid   int
	At    time.Time
}

// settings are those of a coppice.Job that a test may want.
type settings struct {
	Tasks    int
	Copies   int
	Recovery coppice.Recovery
	Silence  time.Duration
	Kill     []string
}

// reported are the settings of jobs whose survivors get errors.
var reported = settings{Recovery: coppice.Report}

func (s settings) job() *coppice.Job {
	return &coppice.Job{Tasks: s.Tasks, Copies: s.Copies, Recovery: s.Recovery, Silence: s.Silence, Kill: s.Kill}
}

// failure is a line about an error.
func failure(what string, err error) line {
	l := line{What: what, Kind: "well", At: time.Now()}
	if err == nil {
		return l
	}
	l.Kind, l.Text = "other", err.Error()
	for kind, of := range map[string]error{
		"lost": coppice.ErrLost, "moved": coppice.ErrMoved, "mismatch": coppice.ErrMismatch, "unreached": coppice.ErrUnreached,
		"abandoned": coppice.ErrAbandoned, "excluded": coppice.ErrExcluded, "no quorum": coppice.ErrNoQuorum, "canceled": context.Canceled, "deadline": context.DeadlineExceeded,
	} {
		if errors.Is(err, of) {
			l.Kind = kind
		}
	}
	var f *coppice.FailedError
	if errors.As(err, &f) {
		l.Tasks = f.Tasks
	}
	return l
}

// telling gives a play of one task its voice.
func telling(tell func(line), t *coppice.Task) func(line) {
	return func(l line) {
		l.Rank, l.Pid = t.Rank(), os.Getpid()
		if l.At.IsZero() {
			l.At = time.Now()
		}
		tell(l)
	}
}

func TestMain(m *testing.M) {
	if words := os.Getenv(playVar); words != "" {
		os.Exit(perform(words))
	}
	dir, err := os.MkdirTemp("", "c") // short: for the paths of sockets
	if err != nil {
		panic(err)
	}
	os.Setenv("COPPICE_JOBS_DIR", dir)
	code := m.Run()
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		fmt.Println("FAIL: jobs left behind:", left)
		code = 1
	}
	os.RemoveAll(dir)
	os.Remove(dir + commandSuffix)
	os.Exit(code)
}

// perform is the main function of a started process.
func perform(words string) int {
	var play []string
	var s settings
	if err := json.Unmarshal([]byte(words), &play); err != nil {
		panic(err)
	}
	if err := json.Unmarshal([]byte(os.Getenv(jobVar)), &s); err != nil {
		panic(err)
	}
	var mu sync.Mutex
	tell := func(l line) {
		b, err := json.Marshal(l)
		if err != nil {
			panic(err)
		}
		mu.Lock()
		defer mu.Unlock()
		os.Stdout.Write(append(b, '\n'))
	}
	f := plays[play[0]](tell, play[1:])
	if play[0] == "context" && play[1] == "main" {
		coppice.Main(f)
		return 0
	}
	err := s.job().Run(context.Background(), f)
	rank, _ := strconv.Atoi(os.Getenv("COPPICE_RANK"))
	end := failure("end", err)
	end.Rank, end.Pid = rank, os.Getpid()
	tell(end)
	if err != nil {
		return 1
	}
	return 0
}

// script is what a play has told so far.
type script struct {
	mu    sync.Mutex
	b     bytes.Buffer
	lines []line
	more  chan struct{} // closed at the next one
}

func (x *script) Write(b []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.b.Write(b)
	for {
		i := bytes.IndexByte(x.b.Bytes(), '\n')
		if i < 0 {
			return len(b), nil
		}
		var l line
		if json.Unmarshal(x.b.Next(i+1), &l) == nil {
			x.add(l)
		}
	}
}

// add takes a line. The lock is held.
func (x *script) add(l line) {
	x.lines = append(x.lines, l)
	if x.more != nil {
		close(x.more)
		x.more = nil
	}
}

func (x *script) tell(l line) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.add(l)
}

// of returns the lines of a kind.
func (x *script) of(what string) (all []line) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, l := range x.lines {
		if l.What == what {
			all = append(all, l)
		}
	}
	return all
}

// next is closed at the next line.
func (x *script) next() <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.more == nil {
		x.more = make(chan struct{})
	}
	return x.more
}

// await waits for so many lines of a kind.
func (x *script) await(t testing.TB, what string, n int) []line {
	t.Helper()
	late := time.After(patienceTime)
	for {
		next := x.next() // before the look, or a line between the two is missed
		if all := x.of(what); len(all) >= n {
			return all
		}
		select {
		case <-next:
		case <-late:
			t.Fatalf("%d × %q in %v", n, what, x.lines)
		}
	}
}

// patienceTime is how long a test waits for what must happen, on a busy machine as well.
const patienceTime = 2 * time.Minute

// stage is where a play takes place: its processes.
type stage struct {
	script
	n      int
	err    bytes.Buffer
	cancel context.CancelFunc
	report *launch.Report
	failed error
	over   chan struct{}
}

// scene is a play in n processes.
type scene struct {
	n int
	settings
	play  []string
	kills []string // for the launcher
	wrap  bool     // in a shell that goes on afterwards
	grow  int      // so many may join

	respawn launch.Respawn
}

// stacks are the lines of goroutines that are not ours.
var stacks = regexp.MustCompile(`(?m)^(\t.*|r\w\w +0x.*|(runtime|syscall|sync|internal|main|testing|time|os)[/.(].*|goroutine .*\[(GC|force|final|chan recei|sync|select|IO|semac|sleep).*|)\n`)

// begin starts the processes. They are killed when the test ends.
func (s scene) begin(t testing.TB) *stage {
	t.Helper()
	g := &stage{n: s.n, over: make(chan struct{})}
	plan, err := launch.New(s.config(t, g))
	if err != nil {
		t.Fatal(err)
	}
	var ctx context.Context
	ctx, g.cancel = context.WithCancel(context.Background())
	go func() {
		defer close(g.over)
		g.report, g.failed = plan.Run(ctx)
	}()
	t.Cleanup(func() {
		g.cancel()
		<-g.over
		if t.Failed() {
			t.Logf("%v: told %v\nstandard error: %s", s.play, g.lines, stacks.ReplaceAllString(g.err.String(), ""))
		}
	})
	return g
}

func (s scene) config(t testing.TB, g *stage) launch.Config {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := launch.Config{
		N: s.n, Program: self, Env: s.env(), StdinRank: -1, Timeout: patienceTime,
		Output: launch.Output{Stdout: &g.script, Stderr: &g.err},
	}
	if s.wrap {
		c.Program, c.Args = "sh", []string{"-c", self + "; true"}
	}
	c.Silence, c.Grow, c.Respawn = s.Silence, s.grow, s.respawn
	for _, text := range s.kills {
		k, err := control.ParseKill(text)
		if err != nil {
			t.Fatal(err)
		}
		c.Kills = append(c.Kills, k)
	}
	return c
}

// env is what tells a process what to play.
func (s scene) env() []string {
	play, err1 := json.Marshal(s.play)
	job, err2 := json.Marshal(s.settings)
	if err := errors.Join(err1, err2); err != nil {
		panic(err)
	}
	return []string{playVar + "=" + string(play), jobVar + "=" + string(job)}
}

// end waits until the job has ended by itself.
func (g *stage) end(t testing.TB) *launch.Report {
	t.Helper()
	select {
	case <-g.over:
	case <-time.After(patienceTime + 10*time.Second):
		t.Fatal("the launcher does not end")
	}
	if g.failed != nil {
		t.Fatal(g.failed)
	}
	if g.report.Timeout {
		t.Fatalf("the job hangs: %s", g.report.Cause)
	}
	return g.report
}

// pids returns the process of each rank, once all have told of themselves.
func (g *stage) pids(t testing.TB, what string) map[int]int {
	t.Helper()
	pids := map[int]int{}
	for _, l := range g.await(t, what, g.n) {
		pids[l.Rank] = l.Pid
	}
	return pids
}

// local runs the scene in Local and returns what was told.
func (s scene) local(t testing.TB) (*script, error) {
	t.Helper()
	x := &script{}
	j := s.job()
	j.Local = s.n
	ended := make(chan error, 1)
	go func() { ended <- j.Run(context.Background(), plays[s.play[0]](x.tell, s.play[1:])) }()
	select {
	case err := <-ended:
		return x, err
	case <-time.After(patienceTime):
		x.mu.Lock()
		defer x.mu.Unlock()
		t.Fatalf("%v hangs in Local: told %v", s.play, x.lines)
		return nil, nil
	}
}

// real runs the scene in processes, to its end.
func (s scene) real(t testing.TB) (*script, *launch.Report) {
	t.Helper()
	g := s.begin(t)
	report := g.end(t)
	return &g.script, report
}

// ranks of lines, in order.
func ranks(lines []line) (all []int) {
	for _, l := range lines {
		all = append(all, l.Rank)
	}
	slices.Sort(all)
	return all
}

// without lists the ranks below n but for some.
func without(n int, some ...int) (all []int) {
	for r := range n {
		if !slices.Contains(some, r) {
			all = append(all, r)
		}
	}
	return all
}

// short is fewer in short mode.
func short(usual, fewer int) int {
	if testing.Short() {
		return fewer
	}
	return usual
}

// needs skips a test if a command is missing.
func needs(t testing.TB, command, how string) string {
	t.Helper()
	path, err := exec.LookPath(command)
	if err != nil {
		t.Skipf("%s is not installed: %s", command, how)
	}
	return path
}

func number(word string) int {
	n, err := strconv.Atoi(word)
	if err != nil {
		panic(err)
	}
	return n
}
