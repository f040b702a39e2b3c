//go:build unix

package control_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/protocol"
)

// Real processes: this test binary, started again with a role.

// play is what a started process does.
func play(role string) int {
	switch role {
	case "launch":
		return launch()
	case "scribe":
		return scribe()
	}
	p, err := control.FromEnvironment(os.Getenv)
	if err != nil {
		fmt.Println("error", err)
		return 2
	}
	if role == "last words" {
		return lastWords(p)
	}
	if p.Host {
		s, complete, err := control.Host(p, control.ServerConfig{Silence: silenceOf()})
		if err != nil {
			fmt.Println("error", err)
			return 2
		}
		defer s.Close()
		p = complete
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	r := newSpeaker()
	r.clock = role == "clock"
	c, _, err := control.Join(ctx, p, r, nil)
	if err != nil {
		fmt.Println("error", err)
		return 2
	}
	defer c.Close()
	c.Announce([]string{fmt.Sprintf("%d.sock", p.Rank)}, "here")
	fmt.Println("joined")
	switch role {
	case "return":
		c.Returned(0, "", true)
	case "record":
		if err := leaveRecord(c, p.Rank); err != nil {
			fmt.Println("error", err)
			return 2
		}
		fmt.Println("recorded")
	case "vanish":
		os.Exit(5)
	case "fence": // the other one of two
		suspect, self := protocol.Rank(1-p.Rank), protocol.Rank(p.Rank)
		c.Fence(1-p.Rank, 1, "no frames", proof{n: 3, by: self, suspect: suspect, promised: []protocol.Rank{self}, dead: []protocol.Rank{2}}.bytes())
	}
	select {
	case <-r.over:
		return 0
	case <-time.After(patience):
		return 3
	}
}

// silenceOf is the silence that the environment asks for; 0: the usual.
func silenceOf() time.Duration {
	d, _ := time.ParseDuration(os.Getenv("CONTROL_TEST_SILENCE"))
	return d
}

// launch serves a job of two processes until it is killed.
func launch() int {
	dir, err := control.MakeDir(os.Getenv)
	if err != nil {
		return 2
	}
	s, err := control.Serve(control.ServerConfig{Dir: dir, Size: 2, Silence: silenceOf()})
	if err != nil {
		return 2
	}
	fmt.Printf("serves %s %x\n", dir, s.Place(0, 1).Job)
	time.Sleep(patience)
	return 0
}

// speaker is a handler that says what it is told.
type speaker struct {
	over  chan struct{}
	once  sync.Once
	known int
	clock bool // it says when
}

func newSpeaker() *speaker { return &speaker{over: make(chan struct{})} }

func (s *speaker) Peers(peers []control.Peer) {
	s.known += len(peers)
	fmt.Println("peers", s.known)
}

func (s *speaker) Died(d control.Death) {
	if s.clock {
		fmt.Println("died", d.Rank, d.Incarnation, time.Now().UnixNano(), d.How)
		return
	}
	fmt.Println("died", d.Rank, d.Incarnation, d.Certain, d.How)
}

func (s *speaker) Alive(int)                           {}
func (s *speaker) HeardOf(int, bool, time.Duration)    {}
func (s *speaker) PeersReturned([]int, uint64, string) {}
func (s *speaker) Stop(reason string)                  { fmt.Println("stop", reason) }
func (s *speaker) AllKnow()                            {}
func (s *speaker) Finished(uint64, string) {
	fmt.Println("finished")
	s.once.Do(func() { close(s.over) })
}

func (s *speaker) Lost(err error) { fmt.Println("lost", err); s.once.Do(func() { close(s.over) }) }

// actor is a started process and what it says.
type actor struct {
	cmd   *exec.Cmd
	lines *recorder
	read  chan struct{}
}

// start starts a process with these variables beside a bare environment.
func start(t testing.TB, role string, vars []string, command ...string) *actor {
	t.Helper()
	if len(command) == 0 {
		command = []string{os.Args[0]}
	}
	a := &actor{cmd: exec.Command(command[0], command[1:]...), lines: newRecorder(), read: make(chan struct{})}
	a.cmd.Env = append([]string{"CONTROL_TEST_ROLE=" + role, "PATH=" + os.Getenv("PATH"), control.VarParent + "=" + os.Getenv(control.VarParent), "SELF=" + os.Args[0]}, vars...)
	a.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	a.cmd.Stderr = os.Stderr
	out, err := a.cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := a.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go a.listen(out)
	t.Cleanup(func() {
		syscall.Kill(-a.cmd.Process.Pid, syscall.SIGKILL)
		<-a.read
		a.cmd.Wait()
	})
	return a
}

func (a *actor) listen(out io.Reader) {
	defer close(a.read)
	for lines := bufio.NewScanner(out); lines.Scan(); {
		a.lines.note("%s", lines.Text())
	}
	a.lines.note("end")
}

// run starts a process for a rank of a server, as a launcher would.
func run(t testing.TB, s *control.Server, rank int, command ...string) *actor {
	t.Helper()
	a := start(t, "work", s.Place(rank, 1).Vars(), command...)
	s.Started(rank, 1, a.cmd.Process.Pid)
	return a
}

func (a *actor) signal(t testing.TB, sig syscall.Signal) {
	t.Helper()
	if err := a.cmd.Process.Signal(sig); err != nil {
		t.Fatal(err)
	}
}

func TestKillIsToldToAllOthersAtOnce(t *testing.T) {
	descriptors(t)
	const processes, watchers = 8, 4 // those of this process measure
	s := serve(t, control.ServerConfig{Size: processes + watchers})
	var notes []*recorder
	for rank := range watchers {
		c, r := join(t, s.Place(rank, 1))
		c.Announce(nil, "here")
		notes = append(notes, r)
	}
	var actors []*actor
	for rank := watchers; rank < processes+watchers; rank++ {
		actors = append(actors, run(t, s, rank))
	}
	for _, r := range notes {
		r.awaitPeers(t, processes+watchers)
	}
	named := 0
	for i, victim := range actors[:processes-2] {
		rank := watchers + i
		began := time.Now()
		victim.signal(t, syscall.SIGKILL)
		if i > 0 { // the launcher says how, but not of the first
			victim.cmd.Wait()
			s.Exited(rank, 1, "killed by SIGKILL", control.Will{})
		}
		var slowest time.Duration
		var note string
		for _, r := range notes {
			note = r.expect(t, fmt.Sprintf("died %d.1 true ", rank))
			slowest = max(slowest, r.timeOf(note).Sub(began))
		}
		t.Logf("%v from the kill to the last of %d notices: %s", slowest, len(notes), note)
		for _, a := range actors[processes-2:] {
			a.lines.expect(t, fmt.Sprintf("died %d 1 true ", rank))
		}
		if strings.HasSuffix(note, "killed by SIGKILL") {
			named++
		}
		if how := s.Status()[rank].How; i > 0 && how != "killed by SIGKILL" {
			t.Errorf("rank %d: in the end it is %q", rank, how)
		}
	}
	if named == 0 { // a notice waits for it, though no more than 2 ms
		t.Error("no death was named in time")
	}
}

// TestDeathOfAChildIsNamedByTheKernel: nobody need wait for the launcher to say it.
func TestDeathOfAChildIsNamedByTheKernel(t *testing.T) {
	s := serve(t, control.ServerConfig{Size: 3})
	_, notes := join(t, s.Place(0, 1))
	a := run(t, s, 1)
	a.lines.expect(t, "joined")
	a.signal(t, syscall.SIGKILL)
	notes.expect(t, "died 1.1 true killed by SIGKILL")
	// The number of a process that is not ours to wait for tells nothing.
	wrapped := run(t, s, 2, "sh", "-c", `CONTROL_TEST_ROLE=vanish "$SELF"; kill -STOP $$`)
	wrapped.lines.expect(t, "joined")
	notes.expect(t, "died 2.1 true")
}

// TestDeathComesBeforeTheFailureThatFollowsFromIt: others may learn of a death before the coordinator does.
func TestDeathComesBeforeTheFailureThatFollowsFromIt(t *testing.T) {
	s := serve(t, control.ServerConfig{Size: 2})
	_, notes := join(t, s.Place(0, 1))
	a := run(t, s, 1)
	a.lines.expect(t, "joined")
	s.FailAfter(0, func() {
		a.signal(t, syscall.SIGKILL)
		a.cmd.Wait()
	})
	notes.expect(t, "died 1.1 true")
	if all := s.Status(); !all[1].DiedAt.Before(all[0].FailedAt) {
		t.Errorf("it has died at %v, after another one had failed at %v", all[1].DiedAt, all[0].FailedAt)
	}
}

func TestExitCodeOfAChildIsNamedByTheKernel(t *testing.T) {
	for range 5 {
		s := serve(t, control.ServerConfig{Size: 2})
		_, notes := join(t, s.Place(0, 1))
		known := filepath.Join(t.TempDir(), "known")
		a := start(t, "vanish", s.Place(1, 1).Vars(), "sh", "-c", "until [ -e "+known+` ]; do :; done; exec "$SELF"`)
		s.Started(1, 1, a.cmd.Process.Pid)
		if err := os.WriteFile(known, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		notes.expect(t, "died 1.1 true exited with 5")
	}
}

// TestEndWaitsForHowTheDeadEnded: others may have taken the tasks over and returned before
// the launcher says that their owner exited with 0, which fails the job.
func TestEndWaitsForHowTheDeadEnded(t *testing.T) {
	defer control.NoStatus()()
	for name, noticed := range map[string]bool{"the coordinator knows first": false, "the others know first": true} {
		t.Run(name, func(t *testing.T) {
			seen := newRecorder()
			s := serve(t, control.ServerConfig{Size: 2, Events: func(e control.Event) { seen.note("%s %d", e.Type, e.Rank) }})
			c, notes := join(t, s.Place(0, 1))
			c.Announce(nil, "here")
			a := start(t, "work", s.Place(1, 1).Vars(), "sh", "-c", `"$SELF" & wait`) // sh waits for it, as a launcher might
			a.lines.expect(t, "joined")
			notes.awaitPeers(t, 2)
			pid := s.Status()[1].Pid
			s.Started(1, 1, pid)
			die := func() {
				syscall.Kill(pid, syscall.SIGKILL)
				notes.expect(t, "died 1.1 true exited")
			}
			if !noticed {
				die()
			}
			c.Emit(view(2, [][2]uint64{{0, 1}}, []int{0, 0}))
			c.Returned(2, "", false)
			c.Emit(control.Event{Type: "tick"})
			seen.expect(t, "tick")
			if noticed {
				die()
			}
			select {
			case <-s.Done():
				t.Error("the job ended before it was known how process 1 had")
			default:
			}
			s.Exited(1, 1, "exited with 0", control.Will{})
			notes.expect(t, "finished")
			if quit := s.Status()[1].Quit; !slices.Equal(quit, []int{1}) {
				t.Errorf("process 1 has left the tasks %v, want 1", quit)
			}
		})
	}
}

func (r *recorder) timeOf(note string) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.times[note]
}

// TestWrapperIsNotTheProcess: the one that made the handshake is, and its death
// is certain while the wrapper lives on.
func TestWrapperIsNotTheProcess(t *testing.T) {
	s := serve(t, control.ServerConfig{Size: 2})
	_, notes := join(t, s.Place(0, 1))
	a := run(t, s, 1, "sh", "-c", `"$SELF" & wait; kill -STOP $$`)
	a.lines.expect(t, "joined")
	pid := s.Status()[1].Pid
	if pid == 0 || pid == a.cmd.Process.Pid {
		t.Fatalf("process %d, wrapper %d", pid, a.cmd.Process.Pid)
	}
	syscall.Kill(pid, syscall.SIGKILL)
	notes.expect(t, "died 1.1 true")
	if err := a.cmd.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("the wrapper: %v", err)
	}
}

func TestPauseOfASecondHarmsNobody(t *testing.T) {
	t.Parallel()
	s := serve(t, control.ServerConfig{Size: 2, Silence: 3 * time.Second})
	c, notes := join(t, s.Place(0, 1))
	a := run(t, s, 1)
	a.lines.expect(t, "joined")
	for range 3 {
		a.signal(t, syscall.SIGSTOP)
		time.Sleep(time.Second)
		c.Suspect(1, 1, "silence") // a third of it is no reason
		time.Sleep(20 * time.Millisecond)
		a.signal(t, syscall.SIGCONT)
		time.Sleep(100 * time.Millisecond)
	}
	if notes.has("died 1.1 true") || a.lines.has("end") {
		t.Errorf("%q, %q", notes.notes, a.lines.notes)
	}
}

// TestStoppedProcessIsFenced: not before it has been silent for long enough, whoever
// suspects it.
func TestStoppedProcessIsFenced(t *testing.T) {
	t.Parallel()
	const silence = time.Second
	for name, suspect := range map[string]bool{"by the coordinator": false, "by a peer": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, control.ServerConfig{Size: 2, Silence: silence})
			c, notes := join(t, s.Place(0, 1))
			a := run(t, s, 1)
			a.lines.expect(t, "joined")
			a.signal(t, syscall.SIGSTOP)
			began := time.Now()
			if suspect {
				time.Sleep(silence / 2)
				c.Suspect(1, 1, "no frames")
				notes.expect(t, "alive 1")
			}
			note := notes.expect(t, "died 1.1 true fenced: silent for ")
			took := notes.timeOf(note).Sub(began)
			t.Logf("after %v: %s", took, note)
			if took < silence*3/4 {
				t.Errorf("took %v", took)
			}
			if !strings.Contains(note, "it is stopped") {
				t.Error(note)
			}
		})
	}
}

// launched is a job of a launcher and two processes.
func launched(t *testing.T, silence string) (dir string, vars []string, launcher *actor, processes []*actor) {
	t.Helper()
	launcher = start(t, "launch", []string{"CONTROL_TEST_SILENCE=" + silence})
	dir, job, _ := strings.Cut(strings.TrimPrefix(launcher.lines.expect(t, "serves "), "serves "), " ")
	t.Cleanup(func() { os.RemoveAll(dir) })
	vars = []string{"COPPICE_DIR=" + dir, "COPPICE_JOB=" + job, "COPPICE_SIZE=2"}
	for rank := range 2 {
		processes = append(processes, start(t, "work", append(vars, fmt.Sprint("COPPICE_RANK=", rank))))
	}
	for _, a := range processes {
		a.lines.expect(t, "peers 2")
	}
	return dir, vars, launcher, processes
}

// TestPauseOfAllIsForgiven: when the coordinator itself was paused, it has no
// right to call others silent.
func TestPauseOfAllIsForgiven(t *testing.T) {
	t.Parallel()
	_, _, launcher, processes := launched(t, "600ms")
	for _, all := range [][]*actor{{launcher, processes[0], processes[1]}, {launcher}} {
		for _, a := range all {
			a.signal(t, syscall.SIGSTOP)
		}
		time.Sleep(1500 * time.Millisecond)
		for _, a := range all { // the coordinator first: it sees the silence
			a.signal(t, syscall.SIGCONT)
			time.Sleep(time.Millisecond)
		}
		time.Sleep(400 * time.Millisecond)
	}
	for _, a := range processes {
		if a.lines.has("died") || a.lines.has("lost") || a.lines.has("end") {
			t.Errorf("%q", a.lines.notes)
		}
	}
}

// TestKilledLauncherIsLost: its processes learn at once, and the last to leave
// removes the directory.
func TestKilledLauncherIsLost(t *testing.T) {
	dir, vars, launcher, others := launched(t, "")
	began := time.Now()
	launcher.signal(t, syscall.SIGKILL)
	for _, a := range others {
		a.lines.expect(t, "lost coordinator at "+dir)
	}
	t.Logf("lost %v after the launcher was killed", time.Since(began))
	for _, a := range others {
		a.lines.expect(t, "end")
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", dir, err)
	}
	late := start(t, "work", append(vars, "COPPICE_RANK=0"))
	late.lines.expect(t, "error COPPICE_DIR: ")
}

// vars are those of a rank that mpirun started.
func vars(name string, rank, size int) []string {
	return []string{
		name, fmt.Sprintf("OMPI_COMM_WORLD_RANK=%d", rank), fmt.Sprintf("OMPI_COMM_WORLD_SIZE=%d", size),
	}
}

// dirOf is the directory of such a job.
func dirOf(t *testing.T, vars []string) string {
	t.Helper()
	p, err := control.FromEnvironment(func(name string) string {
		for _, v := range vars {
			if value, ok := strings.CutPrefix(v, name+"="); ok {
				return value
			}
		}
		if name == control.VarParent { // where directories are made; nothing else of ours
			return os.Getenv(name)
		}
		return ""
	})
	if err != nil {
		t.Fatal(err)
	}
	return p.Dir
}

func TestJoinModeSurvivesLeftovers(t *testing.T) {
	name := "PMIX_NAMESPACE=leftovers-" + filepath.Base(t.TempDir()) + fmt.Sprint(os.Getpid())
	dir := dirOf(t, vars(name, 0, 3))
	job := func(ranks ...int) (actors []*actor) {
		for _, rank := range ranks {
			actors = append(actors, start(t, "work", vars(name, rank, 3)))
		}
		return actors
	}
	// Rank 0 comes last; all meet.
	old := job(2, 1)
	time.Sleep(20 * time.Millisecond)
	old = append(old, job(0)...)
	for _, a := range old {
		a.lines.expect(t, "joined")
	}
	oldKey := read(t, dir, "key")
	// One is stopped, so it is still there when the job's next run begins; the
	// coordinator is killed, and who has taken its place.
	sleeper, survivor, host := old[0], old[1], old[2]
	sleeper.signal(t, syscall.SIGSTOP)
	for !stopped(t, sleeper) { // on a busy machine it goes on for a while
		time.Sleep(time.Millisecond)
	}
	began := time.Now()
	host.signal(t, syscall.SIGKILL)
	survivor.lines.expect(t, "died 0 1 true")
	t.Logf("in another's hands %v after the coordinator was killed", time.Since(began))
	survivor.signal(t, syscall.SIGKILL)
	survivor.lines.expect(t, "end")

	next := job(1, 2)
	time.Sleep(20 * time.Millisecond) // they find the old key and the old socket
	next = append(next, job(0)...)
	for _, a := range next {
		a.lines.expect(t, "joined")
	}
	if bytes.Equal(oldKey, read(t, dir, "key")) {
		t.Error("the old key is still in use")
	}
	sleeper.signal(t, syscall.SIGCONT)
	sleeper.lines.expect(t, "lost ")
	sleeper.lines.expect(t, "end")
	for _, a := range next {
		if a.lines.has("died") || a.lines.has("lost") {
			t.Errorf("%q", a.lines.notes)
		}
	}
	// A second coordinator is told of the first.
	double := job(0)[0]
	double.lines.expect(t, "error coordinator: another one is at work in "+dir)
	for _, a := range next {
		a.signal(t, syscall.SIGKILL)
		a.lines.expect(t, "end")
	}
	// The last run ends well and leaves nothing.
	var last []*actor
	for rank := range 3 {
		last = append(last, start(t, "return", vars(name, rank, 3)))
	}
	for _, a := range last {
		a.lines.expect(t, "finished")
		a.lines.expect(t, "end")
	}
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", dir, err)
	}
}

// stopped reports whether all threads of a process stand still.
func stopped(t *testing.T, a *actor) bool {
	t.Helper()
	threads, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", a.cmd.Process.Pid))
	if err != nil || len(threads) == 0 {
		return true // there is no such file on this system
	}
	for _, name := range threads {
		if stat, err := os.ReadFile(name); err == nil && !bytes.Contains(stat, []byte(") T ")) {
			return false
		}
	}
	return true
}

func read(t *testing.T, dir, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestAloneNeedsNothing(t *testing.T) {
	a := start(t, "return", nil)
	a.lines.expect(t, "finished")
	a.lines.expect(t, "end")
}

// lastWords joins, says much and is gone.
func lastWords(p control.Place) int {
	conn, err := control.Shake(context.Background(), p.Coordinator, p)
	if err != nil {
		return 2
	}
	time.Sleep(10 * time.Millisecond)
	io.WriteString(conn, strings.Repeat(`{"type":"event","event":{"type":"x"}}`+"\n", 100)+`{"type":"returned","why":"gave up"}`+"\n")
	syscall.Kill(os.Getpid(), syscall.SIGKILL)
	return 0
}

// TestLastWordsAreHeard: what a process said before it died is told before its death.
func TestLastWordsAreHeard(t *testing.T) {
	const n = 30
	s := serve(t, control.ServerConfig{Size: n})
	_, notes := join(t, s.Place(0, 1))
	for rank := 1; rank < n; rank++ {
		start(t, "last words", s.Place(rank, 1).Vars())
		notes.expect(t, fmt.Sprintf("died %d.1 true", rank))
		if !notes.has(fmt.Sprintf("returned %d gave up", rank)) {
			t.Errorf("nobody was told what process %d said", rank)
		}
	}
}

// TestStoppedHostIsWaitedFor: a coordinator on this host that is stopped may go on; the place of
// one that is killed is taken at once.
func TestStoppedHostIsWaitedFor(t *testing.T) {
	t.Parallel()
	name := fmt.Sprint("PMIX_NAMESPACE=stopped-", os.Getpid(), time.Now().UnixNano())
	const silence = 300 * time.Millisecond
	host := start(t, "work", append(vars(name, 0, 2), fmt.Sprint("CONTROL_TEST_SILENCE=", silence)))
	other := start(t, "work", vars(name, 1, 2))
	other.lines.expect(t, "peers 2")
	host.signal(t, syscall.SIGSTOP)
	time.Sleep(6 * silence)
	if other.lines.has("lost ") {
		t.Errorf("%q", other.lines.notes)
	}
	host.signal(t, syscall.SIGKILL)
	other.lines.expect(t, "died 0 1 true")
	os.RemoveAll(dirOf(t, vars(name, 0, 2)))
}

// TestRunsOfOneNameKeepApart: two mpiruns at once that give their jobs the same
// name do not mix them up.
func TestRunsOfOneNameKeepApart(t *testing.T) {
	mpirun := filepath.Join(t.TempDir(), "mpirun")
	script := `#!/bin/sh
for rank in 2 1 0; do
	OMPI_COMM_WORLD_RANK=$rank OMPI_COMM_WORLD_SIZE=3 "$SELF" &
done
wait
`
	if err := os.WriteFile(mpirun, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprint("PMIX_NAMESPACE=same-", os.Getpid(), time.Now().UnixNano())
	var runs []*actor
	for range 2 {
		runs = append(runs, start(t, "return", []string{name}, mpirun))
	}
	for _, a := range runs {
		a.lines.expect(t, "end")
		for _, bad := range []string{"error", "died", "lost"} {
			if a.lines.has(bad) {
				t.Errorf("%q", a.lines.notes)
			}
		}
		if n := strings.Count(strings.Join(a.lines.notes, " "), "finished"); n != 3 {
			t.Errorf("%d of 3 finished", n)
		}
	}
}
