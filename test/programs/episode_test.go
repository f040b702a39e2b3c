package programs_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/coppicetest"
	"github.com/coppice-go/coppice/internal/launch"
	"github.com/coppice-go/coppice/internal/posix"
	"github.com/coppice-go/coppice/test/stage"
)

// episodeTime is how long a job in which processes crash may take. Alone on a machine it takes some
// hundredths of a second; the rest is for a busy one.
const episodeTime = 30 * time.Second

// episode is a job of real processes that plays a role, some of which crash.
type episode struct {
	n    int    // processes
	play string // "": program
	role role
	kill []string // orders, as for coppice run --kill
	own  bool     // they are in the program's settings, not the launcher's
}

func (e episode) String() string {
	p := e.role.Program
	text := fmt.Sprintf("%d processes, %d tasks, seed %d, %d steps", e.n, p.Tasks, p.Seed, len(p.Steps))
	if len(p.Steps) < 10 {
		for _, s := range p.Steps {
			text += fmt.Sprintf(" %s:%d", s.Op, s.Size)
		}
	}
	if len(e.kill) > 0 {
		text += fmt.Sprintf(", kill %v", e.kill)
	}
	if e.own {
		text += " by the processes"
	}
	if len(e.role.Deaths) > 0 {
		text += fmt.Sprintf(", deaths %v", e.role.Deaths)
	}
	return text
}

// again returns the command that runs the same episode once more.
func (e episode) again(local bool) string {
	e.role.Dir = ""
	s := saved{N: e.n, Play: e.play, Role: e.role, Kill: e.kill, Own: e.own, Local: local}
	if p := e.role.Program; reflect.DeepEqual(p, Random(p.Seed, p.Tasks, len(p.Steps))) {
		s.Random, s.Role.Program.Steps = len(p.Steps), nil
	}
	text, err := json.Marshal(s)
	if err != nil {
		panic(err)
	}
	return fmt.Sprintf("%s='%s' go test -count=1 -run '^TestEpisodeAgain$' .", episodeVariable, text)
}

// episodeVariable is the environment variable with an episode that failed, to run it again.
const episodeVariable = "COPPICE_EPISODE"

// saved is an episode as JSON. If Random > 0, its program is the random one of that many steps.
type saved struct {
	N      int
	Play   string `json:",omitempty"`
	Role   role
	Random int      `json:",omitempty"`
	Kill   []string `json:",omitempty"`
	Own    bool     `json:",omitempty"`
	Local  bool     `json:",omitempty"`
}

// readEpisode parses the JSON that again writes.
func readEpisode(text string) (e episode, local bool, err error) {
	var s saved
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return e, false, err
	}
	if p := &s.Role.Program; s.Random > 0 {
		*p = Random(p.Seed, p.Tasks, s.Random)
	}
	return episode{n: s.N, play: s.Play, role: s.Role, kill: s.Kill, own: s.Own}, s.Local, nil
}

func TestEpisodeAgain(t *testing.T) {
	text := os.Getenv(episodeVariable)
	if text == "" {
		t.Skipf("runs one episode again, as a test that has failed printed it: set %s to it", episodeVariable)
	}
	e, local, err := readEpisode(text)
	if err != nil {
		t.Fatal(err)
	}
	c := &crowd{t: t, local: local}
	o := c.play(e)
	t.Logf("killed %v, %d deaths in the function, %v", o.killed, o.deaths, o.took)
}

// TestEpisodesThatWentWrong runs the jobs in which mistakes were found.
func TestEpisodesThatWentWrong(t *testing.T) {
	text, err := os.ReadFile("testdata/episodes.txt")
	if err != nil {
		t.Fatal(err)
	}
	crowds := map[bool]*crowd{false: {t: t}, true: {t: t, local: true}}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		e, local, err := readEpisode(line)
		if err != nil {
			t.Fatal(err)
		}
		crowds[local].play(e)
	}
}

// episodeOutcome says which processes were killed, how many of the program's own deaths happened, and
// what is wrong.
type episodeOutcome struct {
	killed []int // ranks of processes
	deaths int
	took   time.Duration
	err    error
}

func (e episode) scene() (stage.Scene, error) {
	text, err := json.Marshal(e.role)
	s := stage.Scene{N: e.n, Play: []string{cmp.Or(e.play, "program"), string(text)}}
	s.Copies = max(2, e.n-1) // as many may crash one right after the other
	s.Tasks = e.role.Program.Tasks
	s.Kills = e.kill
	if e.own {
		s.Kills, s.Kill = nil, e.kill
	}
	return s, err
}

// inLocal runs the episode in goroutines, which carry out orders only. The tasks that were run again
// count as killed.
func (e episode) inLocal() (o episodeOutcome) {
	e.role.Deaths = nil
	s, err := e.scene()
	if err != nil {
		return episodeOutcome{err: err}
	}
	ctx, cancel := context.WithTimeout(context.Background(), episodeTime)
	defer cancel()
	x := &stage.Script{}
	j := &coppice.Job{Local: e.n, Tasks: s.Tasks, Copies: s.Copies}
	began := time.Now()
	err = j.Run(coppicetest.WithKills(ctx, e.kill...), playing(x.Tell, s.Play[1:]))
	o.took = time.Since(began)
	for _, l := range x.Of("begin") {
		if l.Value > 0 && !slices.Contains(o.killed, l.Rank) {
			o.killed = append(o.killed, l.Rank)
		}
	}
	if err := errors.Join(err, e.digests(x)); err != nil {
		o.err = fmt.Errorf("in Local, %v: %w\n%s\n%s", e, err, e.again(true), attempts(x))
	}
	return o
}

// run runs the episode in processes and checks what they leave behind.
func (e episode) run(t testing.TB) (o episodeOutcome) {
	if len(e.role.Deaths) > 0 {
		dir, err := os.MkdirTemp("", "d")
		if err != nil {
			return episodeOutcome{err: err}
		}
		defer os.RemoveAll(dir)
		defer func() {
			marks, _ := os.ReadDir(dir)
			o.deaths = len(marks)
		}()
		e.role.Dir = dir
	}
	s, err := e.scene()
	if err != nil {
		return episodeOutcome{err: err}
	}
	g := &stage.Stage{N: e.n}
	c := s.Config(t, g)
	c.Timeout = episodeTime
	dir, err := os.MkdirTemp("", "t")
	if err != nil {
		return episodeOutcome{err: err}
	}
	defer os.RemoveAll(dir)
	trace, check := stage.Traced(dir)
	c.Env = append(c.Env, trace)
	plan, err := launch.New(c)
	if err != nil {
		return episodeOutcome{err: err}
	}
	began := time.Now()
	report, err := plan.Run(context.Background())
	o.took = time.Since(began)
	if err != nil {
		o.err = err
		return o
	}
	o.killed = report.Killed
	if err := errors.Join(e.ended(report, g), e.digests(&g.Script), traces(report, g), check()); err != nil {
		o.err = fmt.Errorf("%v: %w\n%s\n%sstandard error: %.6000s", e, err, e.again(false), attempts(&g.Script), stage.Stacks.ReplaceAllString(g.Err.String(), ""))
	}
	return o
}

// attempts lists the tasks that were run again, and where.
func attempts(x *stage.Script) (text string) {
	for _, l := range x.Of("begin") {
		if l.Value > 0 {
			text += fmt.Sprintf("process %d runs task %d again, attempt %d\n", l.Tasks[0], l.Rank, l.Value)
		}
	}
	return text
}

// ended returns what is wrong with the end of a job: every survivor must return from Run in time and
// without an error.
func (e episode) ended(report *launch.Report, g *stage.Stage) (err error) {
	if report.Timeout {
		return fmt.Errorf("the job hangs: %s", report.Cause)
	}
	if report.Exit != 0 {
		err = fmt.Errorf("exit %d: %s", report.Exit, report.Cause)
	}
	ends := map[int]bool{}
	for _, l := range g.Of("end") {
		if ends[l.Rank] = true; l.Kind != "well" {
			err = errors.Join(err, fmt.Errorf("Run at process %d: %s", l.Rank, l.Text))
		}
		if l.Value > 0 {
			err = errors.Join(err, fmt.Errorf("%d goroutines or descriptors are left in process %d", l.Value, l.Rank))
		}
	}
	for r := range e.n {
		if !ends[r] && !slices.Contains(report.Killed, r) {
			err = errors.Join(err, fmt.Errorf("process %d neither returned from Run nor was killed", r))
		}
	}
	return err
}

// digests returns an error if a task has not ended, or if an attempt's digests differ from the serial
// ones. In Local a crashed task may still report: its errors do not count.
func (e episode) digests(x *stage.Script) (err error) {
	want := e.role.Program.Serial()
	seen, attempt := make([]bool, len(want)), make([]int, len(want))
	for _, l := range x.Of("begin") {
		attempt[l.Rank] = max(attempt[l.Rank], l.Value)
	}
	for _, l := range x.Of("digests") {
		switch {
		case l.Kind != "well" && l.Value < attempt[l.Rank]:
			continue
		case strings.Contains(l.Text, "every task has returned"):
			// This attempt began when the job was over, and ended for that reason: the task had ended
			// well before, or it is missing below.
			continue
		case l.Kind != "well":
			err = errors.Join(err, fmt.Errorf("task %d, attempt %d: %s", l.Rank, l.Value, l.Text))
		case l.Text != words(want[l.Rank]):
			err = errors.Join(err, fmt.Errorf("task %d, attempt %d: wrong from %s on", l.Rank, l.Value, e.differs(l.Text, want[l.Rank])))
		}
		seen[l.Rank] = true
	}
	for task, seen := range seen {
		if !seen {
			err = errors.Join(err, fmt.Errorf("task %d has not ended", task))
		}
	}
	return err
}

// differs returns the first step after which digests are wrong.
func (e episode) differs(text string, want []uint64) string {
	got := strings.Fields(text)
	for i := range want {
		if i >= len(got) || got[i] != strconv.FormatUint(want[i], 36) {
			return fmt.Sprintf("step %d, %+v,", i, e.role.Program.Steps[i])
		}
	}
	return "the end"
}

// traces returns an error if a job has left processes or its directory behind.
func traces(report *launch.Report, g *stage.Stage) (err error) {
	for _, t := range report.Tasks {
		if t.PID > 0 && posix.Kill(t.PID, 0) == nil {
			err = errors.Join(err, fmt.Errorf("process %d, pid %d, is left", t.Rank, t.PID))
		}
	}
	for _, l := range g.Of("begin") {
		if _, e := os.Stat(l.Text); e == nil || !strings.Contains(l.Text, "/") {
			return errors.Join(err, fmt.Errorf("the directory %q of the job is left", l.Text))
		}
	}
	return err
}

// crowd runs episodes, several at a time.
type crowd struct {
	t     testing.TB
	local bool // in goroutines

	mu       sync.Mutex
	ran      int
	kills    int // processes killed
	unreach  int // episodes whose first order never triggered
	failures int
	slowest  time.Duration
}

// slowTime is the time from which an episode is logged as slow.
const slowTime = 2 * time.Second

// failuresMax is how many failing episodes are worth reading.
const failuresMax = 20

// crowdSize is how many jobs run at once: their processes mostly wait for each other.
const crowdSize = 4

// play runs an episode and counts its outcome.
func (c *crowd) play(e episode) episodeOutcome {
	var o episodeOutcome
	if c.local {
		o = e.inLocal()
	} else {
		o = e.run(c.t)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ran++
	c.kills += len(o.killed)
	c.slowest = max(c.slowest, o.took)
	if o.took > slowTime {
		c.t.Logf("%v: took %v: %s", e, o.took, e.again(c.local))
	}
	if len(e.kill) > 0 && len(o.killed) == 0 {
		c.unreach++
	}
	if o.err != nil {
		if c.failures++; c.failures <= failuresMax {
			c.t.Errorf("%v", o.err)
		}
	}
	return o
}

// enough reports whether more episodes would add nothing new.
func (c *crowd) enough(most int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.ran >= most || c.failures > failuresMax
}

// conclude logs the totals.
func (c *crowd) conclude() {
	c.t.Helper()
	c.t.Logf("%d jobs, %d processes killed, %d orders not reached, %d failures; the slowest took %v of %v",
		c.ran, c.kills, c.unreach, c.failures, c.slowest.Round(time.Millisecond), episodeTime)
}
