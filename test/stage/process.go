// Package stage starts jobs of real processes for tests and collects what they report.
//
// A test package registers its programs in Plays and has Main as its TestMain: the processes of a job
// are the test binary itself.
package stage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/chaos/oracle"
	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/internal/extent"
	"github.com/coppice-go/coppice/internal/launch"
	"github.com/coppice-go/coppice/internal/plant"
	"github.com/coppice-go/coppice/internal/posix"
	"github.com/coppice-go/coppice/internal/watch"
)

// Tests with real processes start this binary with an environment variable that names the play: a
// program of one task, which reports to the test what it sees. The same plays run in Local.
const (
	playVar = "TEST_PLAY"     // its name and arguments, as JSON
	JobVar  = "TEST_PLAY_JOB" // the settings, as JSON
)

// Plays are the programs that tests run, by name: each test package has its own.
var Plays = map[string]func(tell func(Line), args []string) coppice.Func{}

// Line is one report of a play.
type Line struct {
	Rank  int
	What  string
	Kind  string // of an error
	Text  string
	Tasks []int // the tasks that an error names
	Value int
	Pid   int
	At    time.Time
}

// Settings are what a test may set of a job.
type Settings struct {
	Tasks    int
	Copies   int
	Recovery coppice.Recovery
	Silence  time.Duration
	Kill     []string // points at which processes kill themselves
}

func (s Settings) Job() *coppice.Job {
	return &coppice.Job{Tasks: s.Tasks, Copies: s.Copies, Recovery: s.Recovery, Silence: s.Silence}
}

// Context is that of a job with these settings.
func (s Settings) Context() context.Context {
	return watch.WithKills(context.Background(), s.Kill...)
}

// Failure returns a line that reports an error.
func Failure(what string, err error) Line {
	l := Line{What: what, Kind: "well", At: time.Now()}
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

// Telling returns a function that adds the task's rank, process and time to lines and passes them to
// tell.
func Telling(tell func(Line), t *coppice.Task) func(Line) {
	return func(l Line) {
		l.Rank, l.Pid = t.Rank(), os.Getpid()
		if l.At.IsZero() {
			l.At = time.Now()
		}
		tell(l)
	}
}

// Main is the main function of a test package: it runs the tests or, in a process that they started, a
// play.
func Main(m *testing.M) {
	if words := os.Getenv(playVar); words != "" {
		os.Exit(perform(words))
	}
	posix.DefaultInterrupt()
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

// perform is the main function of a process that a test started.
func perform(words string) int {
	var play []string
	var s Settings
	if err := json.Unmarshal([]byte(words), &play); err != nil {
		panic(err)
	}
	if err := json.Unmarshal([]byte(os.Getenv(JobVar)), &s); err != nil {
		panic(err)
	}
	var mu sync.Mutex
	tell := func(l Line) {
		b, err := json.Marshal(l)
		if err != nil {
			panic(err)
		}
		mu.Lock()
		defer mu.Unlock()
		os.Stdout.Write(append(b, '\n'))
	}
	f := Plays[play[0]](tell, play[1:])
	if play[0] == "context" && play[1] == "main" {
		coppice.Main(f)
		return 0
	}
	err := s.Job().Run(s.Context(), f)
	rank, _ := strconv.Atoi(os.Getenv("COPPICE_RANK"))
	end := Failure("end", err)
	end.Rank, end.Pid = rank, os.Getpid()
	tell(end)
	if err != nil {
		return 1
	}
	return 0
}

// Script holds what a play has reported so far.
type Script struct {
	mu    sync.Mutex
	b     bytes.Buffer
	Lines []Line
	more  chan struct{} // closed at the next line
}

func (x *Script) Write(b []byte) (int, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.b.Write(b)
	for {
		i := bytes.IndexByte(x.b.Bytes(), '\n')
		if i < 0 {
			return len(b), nil
		}
		var l Line
		if json.Unmarshal(x.b.Next(i+1), &l) == nil {
			x.add(l)
		}
	}
}

// add adds a line. The caller holds the lock.
func (x *Script) add(l Line) {
	x.Lines = append(x.Lines, l)
	if x.more != nil {
		close(x.more)
		x.more = nil
	}
}

func (x *Script) Tell(l Line) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.add(l)
}

// Of returns the lines of a kind.
func (x *Script) Of(what string) (all []Line) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, l := range x.Lines {
		if l.What == what {
			all = append(all, l)
		}
	}
	return all
}

// Next returns a channel that is closed at the next line.
func (x *Script) Next() <-chan struct{} {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.more == nil {
		x.more = make(chan struct{})
	}
	return x.more
}

// Await waits for n lines of a kind.
func (x *Script) Await(t testing.TB, what string, n int) []Line {
	t.Helper()
	late := time.After(PatienceTime)
	for {
		next := x.Next() // before the look, or it misses a line between the two
		if all := x.Of(what); len(all) >= n {
			return all
		}
		select {
		case <-next:
		case <-late:
			t.Fatalf("%d × %q in %v", n, what, x.Lines)
		}
	}
}

// PatienceTime is how long a test waits for what must happen, even on a busy machine; with a planted
// mistake, it may well not happen.
var PatienceTime = patience()

func patience() time.Duration {
	if m := os.Getenv(plant.Variable); m != "" && m != plant.None {
		return 5 * time.Second
	}
	return 2 * time.Minute
}

// Stage holds the processes of a play.
type Stage struct {
	Script
	N      int
	Err    bytes.Buffer
	cancel context.CancelFunc
	report *launch.Report
	failed error
	Over   chan struct{}
}

// Scene is a play in n processes.
type Scene struct {
	N int
	Settings
	Play  []string
	Kills []string // for the launcher
	Wrap  bool     // in a shell that goes on afterwards
	Grow  int      // how many processes may join

	Respawn launch.Respawn
}

// Stacks matches the lines of goroutines that are not ours.
var Stacks = regexp.MustCompile(`(?m)^(\t.*|r\w\w +0x.*|(runtime|syscall|sync|internal|main|testing|time|os)[/.(].*|goroutine .*\[(GC|force|final|chan recei|sync|select|IO|semac|sleep).*|)\n`)

// Begin starts the processes and kills them when the test ends.
func (s Scene) Begin(t testing.TB) *Stage {
	t.Helper()
	g := &Stage{N: s.N, Over: make(chan struct{})}
	trace, check := Traced(t.TempDir())
	config := s.Config(t, g)
	config.Env = append(config.Env, trace)
	plan, err := launch.New(config)
	if err != nil {
		t.Fatal(err)
	}
	var ctx context.Context
	ctx, g.cancel = context.WithCancel(context.Background())
	go func() {
		defer close(g.Over)
		g.report, g.failed = plan.Run(ctx)
	}()
	t.Cleanup(func() {
		g.cancel()
		<-g.Over
		if err := check(); err != nil {
			t.Error(err)
		}
		if t.Failed() {
			t.Logf("%v: told %v\nstandard error: %s", s.Play, g.Lines, Stacks.ReplaceAllString(g.Err.String(), ""))
		}
	})
	return g
}

func (s Scene) Config(t testing.TB, g *Stage) launch.Config {
	t.Helper()
	words := s.program(t)
	c := launch.Config{
		N: s.N, Program: words[0], Args: words[1:], Env: s.Env(), StdinRank: -1, Timeout: PatienceTime,
		Output: launch.Output{Stdout: &g.Script, Stderr: &g.Err},
	}
	c.Silence, c.Grow, c.Respawn = s.Silence, s.Grow, s.Respawn
	for _, text := range s.Kills {
		k, err := control.ParseKill(text)
		if err != nil {
			t.Fatal(err)
		}
		c.Kills = append(c.Kills, k)
	}
	return c
}

// Env returns the environment that selects the play of a process.
func (s Scene) Env() []string {
	play, err1 := json.Marshal(s.Play)
	job, err2 := json.Marshal(s.Settings)
	if err := errors.Join(err1, err2); err != nil {
		panic(err)
	}
	return []string{playVar + "=" + string(play), JobVar + "=" + string(job)}
}

// Traced returns the variable that makes a job's processes record their steps, and a function that
// checks the record after the job. If a step is wrong, the error names the file that holds them.
func Traced(dir string) (variable string, check func() error) {
	name := filepath.Join(dir, "trace")
	return control.VarTrace + "=" + name, func() error {
		f, err := os.Open(name)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // no process has reached its first step
		} else if err != nil {
			return err
		}
		defer f.Close()
		if _, err := oracle.Check(f); err != nil {
			kept := filepath.Join(os.TempDir(), fmt.Sprintf("trace-%d", time.Now().UnixNano()))
			return fmt.Errorf("the trace of the job, kept as %s: %w", kept, errors.Join(err, os.Rename(name, kept)))
		}
		return nil
	}
}

// End waits until the job has ended by itself.
func (g *Stage) End(t testing.TB) *launch.Report {
	t.Helper()
	select {
	case <-g.Over:
	case <-time.After(PatienceTime + 10*time.Second):
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

// Pids returns the process number of each rank, once all ranks have reported it.
func (g *Stage) Pids(t testing.TB, what string) map[int]int {
	t.Helper()
	pids := map[int]int{}
	for _, l := range g.Await(t, what, g.N) {
		pids[l.Rank] = l.Pid
	}
	return pids
}

// Local runs the scene in Local and returns its reports.
func (s Scene) Local(t testing.TB) (*Script, error) {
	t.Helper()
	x := &Script{}
	j := s.Job()
	j.Local = s.N
	ended := make(chan error, 1)
	go func() { ended <- j.Run(s.Context(), Plays[s.Play[0]](x.Tell, s.Play[1:])) }()
	select {
	case err := <-ended:
		return x, err
	case <-time.After(PatienceTime):
		x.mu.Lock()
		defer x.mu.Unlock()
		t.Fatalf("%v hangs in Local: told %v", s.Play, x.Lines)
		return nil, nil
	}
}

// Real runs the scene in processes, to its end.
func (s Scene) Real(t testing.TB) (*Script, *launch.Report) {
	t.Helper()
	g := s.Begin(t)
	report := g.End(t)
	return &g.Script, report
}

// Ranks returns the ranks of lines, in order.
func Ranks(lines []Line) (all []int) {
	for _, l := range lines {
		all = append(all, l.Rank)
	}
	slices.Sort(all)
	return all
}

// Without lists the ranks below n, except some.
func Without(n int, some ...int) (all []int) {
	for r := range n {
		if !slices.Contains(some, r) {
			all = append(all, r)
		}
	}
	return all
}

// Short returns usual where tests run in full (bash .ci/run full), and fewer elsewhere.
func Short(usual, fewer int) int {
	if extent.Full() {
		return usual
	}
	return fewer
}

func Number(word string) int {
	n, err := strconv.Atoi(word)
	if err != nil {
		panic(err)
	}
	return n
}
