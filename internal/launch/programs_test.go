//go:build unix

package launch

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/internal/extent"
	"github.com/coppice-go/coppice/internal/posix"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/membership"
)

// The programs that the tests start are this binary, with a word in its
// environment.
const programVar = "LAUNCH_TEST_PROGRAM"

var programs = map[string]func(args []string) (exit int){
	"member":   member,
	"patient":  patient,
	"stopped":  stopped,
	"awaiting": awaiting,
	"heir":     heir,
	"adopter":  adopter,
	"fencer":   fencer,
	"minority": minority,
	"failing":  failing,
	"quitter":  quitter,

	"powerless": powerless,
	"flood":     flood,
	"secrets":   secrets,
	"stuck":     func([]string) int { fmt.Println("stuck"); time.Sleep(time.Hour); return 0 }, // an empty select would be seen as a deadlock
	"launcher":  launcher,
	"agent":     agentProgram,
	"kept":      keeperProgram,
}

func TestMain(m *testing.M) {
	if tool, ok := tools[filepath.Base(os.Args[0])]; ok {
		os.Exit(tool(os.Args[1:]))
	}
	if program, ok := programs[os.Getenv(programVar)]; ok {
		os.Exit(program(os.Args[1:]))
	}
	posix.DefaultInterrupt()
	extent.SideBySide(8)
	// Where jobs make their directories, for tests that run side by side.
	dir, err := os.MkdirTemp("", "l") // short: for the paths of sockets
	if err != nil {
		panic(err)
	}
	os.Setenv("COPPICE_JOBS_DIR", dir)
	bin, err := missingTools()
	if err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(exit int) {
		if left, _ := os.ReadDir(dir); len(left) > 0 && exit == 0 {
			fmt.Println("FAIL: left behind:", left)
			exit = 1
		}
		os.RemoveAll(dir)
		os.RemoveAll(bin)
		os.Exit(exit)
	}))
}

// The tools that the tests' shell scripts use are this binary too, by its name,
// where there are none: a newcomer may have Go and a shell and nothing else.
var tools = map[string]func(args []string) (exit int){
	"sleep": func(args []string) int {
		d, err := time.ParseDuration(args[0] + "s")
		if err != nil {
			return 1
		}
		time.Sleep(d)
		return 0
	},
	"setsid": func(args []string) int {
		if _, err := syscall.Setsid(); err != nil {
			return 1
		}
		path, err := exec.LookPath(args[0])
		if err == nil {
			err = syscall.Exec(path, args, os.Environ())
		}
		fmt.Fprintln(os.Stderr, err)
		return 1
	},
}

// missingTools makes a directory with those that are missing, on the PATH.
func missingTools() (bin string, err error) {
	if bin, err = os.MkdirTemp("", "b"); err != nil {
		return "", err
	}
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	for name := range tools {
		if _, err := exec.LookPath(name); err != nil {
			if err := os.Symlink(self, filepath.Join(bin, name)); err != nil {
				return "", err
			}
		}
	}
	return bin, os.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
}

// events of a member, as its handler is told them.
type events struct {
	size     int
	known    int
	all      chan struct{} // closed when all are known
	finished chan struct{}
	stop     chan string
	lost     chan error
	deaths   chan control.Death
	peers    chan control.Peer
	answers  chan answer   // of the coordinator
	view     atomic.Uint64 // the number of the latest, if the program reports views
	warnings warnings      // of the client
}

// warnings are the lines of a log.
type warnings chan string

func (w warnings) Write(line []byte) (int, error) {
	w <- string(line)
	return len(line), nil
}

// answer says for how long a process has been silent.
type answer struct {
	rank   int
	silent time.Duration
}

func (e *events) Peers(peers []control.Peer) {
	before := e.known
	if e.known += len(peers); before < e.size && e.known >= e.size {
		close(e.all)
	}
	for _, p := range peers {
		e.peers <- p
	}
}
func (e *events) Died(d control.Death)                { e.deaths <- d }
func (e *events) Alive(int)                           {}
func (e *events) PeersReturned([]int, uint64, string) {}
func (e *events) AllKnow()                            {}
func (e *events) Finished(uint64, string)             { close(e.finished) }
func (e *events) Stop(reason string)                  { e.stop <- reason }
func (e *events) Lost(err error)                      { e.lost <- err }

func (e *events) HeardOf(rank int, hears bool, silent time.Duration) {
	if !hears {
		e.answers <- answer{rank, silent}
	}
}

// watch is what the members of a view do together: they have whoever is silent fenced.
func (e *events) watch(client *control.Client, w control.Welcome) {
	fenced := map[int]bool{}
	for {
		for rank := range w.Size {
			client.Hears(rank, 1)
		}
		select {
		case a := <-e.answers:
			if a.silent > w.Silence && !fenced[a.rank] {
				fenced[a.rank] = true
				client.Fence(a.rank, 1, fmt.Sprintf("silent for %v", a.silent), proof(max(e.view.Load(), 1), w.Size, w.Place.Rank, a.rank))
			}
		case <-time.After(w.Silence / 8):
		}
	}
}

// proof is what rank by says to have another one of the n members of a view killed: all but that one and the silent have promised.
func proof(view uint64, n, by, suspect int, silent ...int) []byte {
	all := membership.First(n, nil).Members
	l := membership.Letter{
		Kind: membership.Fence, Certain: n > 2, Who: all[suspect],
		Number: view, Base: membership.NewView(view, all, nil, nil), Ballot: membership.Ballot(by + 1), Bits: 1,
	}
	for rank := range n {
		if rank != suspect && !slices.Contains(silent, rank) {
			l.Route = append(l.Route, protocol.Rank(rank))
		}
	}
	return membership.Message{Letter: &l, From: 1}.Append(nil)
}

func join() (*control.Client, control.Welcome, *events) {
	place, err := control.FromEnvironment(os.Getenv)
	if err != nil {
		panic(err)
	}
	e := &events{
		size: place.Size, all: make(chan struct{}), finished: make(chan struct{}),
		stop: make(chan string, 1), lost: make(chan error, 1), deaths: make(chan control.Death, 10_000),
		peers: make(chan control.Peer, 10_000), answers: make(chan answer, 10_000), warnings: make(chan string, 10_000),
	}
	log := slog.New(slog.NewTextHandler(e.warnings, &slog.HandlerOptions{Level: slog.LevelWarn}))
	client, welcome, err := control.Join(context.Background(), place, e, log)
	if err != nil {
		panic(err)
	}
	client.Announce([]string{fmt.Sprintf("nowhere:%d", place.Rank)}, "here")
	if place.Rank == 0 {
		go e.watch(client, welcome)
	}
	return client, welcome, e
}

// member joins, waits for all others, returns and leaves. Its arguments say how
// it returns, and who fails in which way.
func member(args []string) int {
	client, welcome, e := join()
	<-e.all
	failure := ""
	if len(args) > 0 && args[0] == os.Getenv("RANK") {
		failure = strings.Join(args[1:], " ")
	}
	fmt.Printf("joined, settings %s\n", welcome.Settings)
	client.Returned(0, failure, true)
	select {
	case <-e.finished:
	case err := <-e.lost:
		fmt.Println("lost:", err)
		return 3
	}
	client.Close()
	if failure != "" {
		return 1
	}
	return 0
}

// failing joins and stays for ever. The task of rank 1 returns an error.
func failing([]string) int {
	client, w, e := join()
	<-e.all
	if w.Place.Rank == 1 {
		client.Returned(0, "no more paper", true)
	}
	time.Sleep(time.Hour)
	return 0
}

// quitter joins. Rank 1 exits with 0 before its task has returned. The others return when the
// job is given up or, with QUITS set, exit as soon as another process has.
func quitter([]string) int {
	client, w, e := join()
	<-e.all
	if w.Place.Rank == 1 {
		return 0
	}
	if os.Getenv("QUITS") != "" { // as soon as another has
		<-e.deaths
		return 0
	}
	reason := <-e.stop
	client.Returned(0, reason, true)
	<-e.finished
	client.Close()
	return 1
}

// patient joins and stays until it is asked to stop or sees a death; then it
// returns. It shows itself when all have joined.
func patient([]string) int {
	client, _, e := join()
	for all := e.all; ; {
		select {
		case <-all:
			all = nil
			fmt.Println("pid", os.Getpid())
			continue
		case reason := <-e.stop:
			fmt.Println("stopped:", reason)
		case d := <-e.deaths:
			tellDeath(d)
		case <-e.lost:
			return 3
		}
		break
	}
	client.Returned(0, "", true)
	<-e.finished
	client.Close()
	return 0
}

// powerless is patient, but for rank 1, whose host, with its agent, stands still when all have joined.
func powerless([]string) int {
	if os.Getenv("RANK") != "1" {
		return patient(nil)
	}
	_, _, e := join()
	<-e.all
	syscall.Kill(os.Getppid(), syscall.SIGSTOP)
	syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	time.Sleep(time.Hour) // the signal may come to another thread first
	return 0
}

// stopped is patient, but for rank 1, which stands still before it joins.
func stopped([]string) int {
	if os.Getenv("RANK") == "1" {
		syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		time.Sleep(time.Hour) // the signal may come to another thread first
	}
	client, _, e := join()
	tellDeath(<-e.deaths)
	client.Returned(0, "", true)
	<-e.finished
	client.Close()
	return 0
}

// awaiting joins and stays until it knows the process that its arguments name, by
// rank and incarnation; then it returns. It shows itself when the coordinator knows
// where it is.
func awaiting(args []string) int {
	client, welcome, e := join()
	show := sync.OnceFunc(func() { fmt.Println("pid", os.Getpid(), "joins", welcome.Joins) })
	for {
		select {
		case p := <-e.peers:
			if p.Rank == welcome.Place.Rank && p.Incarnation == welcome.Place.Incarnation {
				show()
			}
			if fmt.Sprint(p.Rank, p.Incarnation) != strings.Join(args, " ") {
				continue
			}
		case <-e.finished:
		case <-e.lost:
			return 3
		}
		break
	}
	show()
	client.Returned(0, "", true)
	<-e.finished
	client.Close()
	return 0
}

// heir joins. Rank 1 records something and is killed; the others tell what they
// inherit, and return.
func heir([]string) int {
	client, w, e := join()
	<-e.all
	if w.Place.Rank == 1 {
		if err := client.Record([]byte(strings.Repeat("promised ", 100_000))); err != nil {
			panic(err)
		}
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	d := <-e.deaths
	fmt.Println("inherited", d.Rank, d.Certain, len(d.Record), strings.Count(string(d.Record), "promised "))
	client.Returned(0, "", true)
	<-e.finished
	client.Close()
	return 0
}

// adopter joins and returns. Rank 1 ends, as its argument says; rank 0 tells of a
// view without it, in which the last rank has its task, and that one returns again a
// while after all others.
func adopter(args []string) int {
	client, w, e := join()
	<-e.all
	client.Returned(1, "", false)
	rank, last := w.Place.Rank, w.Size-1
	if rank == 1 {
		if exit, err := strconv.Atoi(args[0]); err == nil {
			os.Exit(exit)
		}
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	<-e.deaths
	switch rank {
	case 0:
		members, owners := [][2]int{{0, 1}}, []int{0, last}
		for r := 2; r <= last; r++ {
			members, owners = append(members, [2]int{r, 1}), append(owners, r)
		}
		client.Emit(control.Event{Type: control.EventView, Attrs: map[string]any{
			"number": 2, "members": members, "owners": owners, "opened": true,
		}})
	case last:
		client.Resumed(2)
		time.Sleep(100 * time.Millisecond)
		fmt.Println("works for 1")
	}
	client.Returned(2, "", false)
	<-e.finished
	client.Close()
	return 0
}

// minority joins. Rank 0 wants rank 4 killed with what a minority has promised; all return when it was refused.
func minority([]string) int {
	client, w, e := join()
	<-e.all
	if w.Place.Rank == 0 {
		for _, few := range [][]byte{proof(1, 5, 0, 4, 2, 3), proof(1, 5, 0, 4, 1, 2, 3)} {
			client.Fence(4, 1, "a test", few)
			select {
			case line := <-e.warnings:
				fmt.Print("refused: ", line)
			case d := <-e.deaths:
				tellDeath(d)
				return 1
			}
		}
	}
	client.Returned(0, "", true)
	<-e.finished
	client.Close()
	return 0
}

// fencer joins. Rank 0 has rank 1 fenced; all return when one is dead for certain.
func fencer([]string) int {
	client, w, e := join()
	<-e.all
	if w.Place.Rank == 0 {
		client.Fence(1, 1, "a test", proof(1, w.Size, 0, 1))
	}
	for d := range e.deaths {
		tellDeath(d)
		if d.Certain {
			break
		}
	}
	client.Returned(0, "", true)
	<-e.finished
	client.Close()
	return 0
}

// flood writes much to both streams and dies at once.
func flood([]string) int {
	w := bufio.NewWriter(os.Stdout)
	for i := range floodLines {
		fmt.Fprintf(w, "line %d\n", i)
	}
	fmt.Fprint(w, "the end")
	w.Flush()
	fmt.Fprint(os.Stderr, "dying")
	syscall.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

const floodLines = 50_000

// secrets shows its environment, the job's key, and who may read the key and its
// directory.
func secrets([]string) int {
	for _, variable := range os.Environ() {
		fmt.Println(variable)
	}
	dir := os.Getenv("COPPICE_DIR")
	file := filepath.Join(dir, "key")
	key, err := os.ReadFile(file)
	if err != nil {
		panic(err)
	}
	fmt.Printf("key: %x\n", key)
	for _, path := range []string{dir, file} {
		info, err := os.Lstat(path)
		if err != nil {
			panic(err)
		}
		fmt.Println(info.Mode(), path)
	}
	return 0
}

// launcher runs the plan of its argument and prints the report.
func launcher(args []string) int {
	config := Config{StdinRank: -1, Output: Output{Stdout: os.Stdout, Stderr: os.Stderr}}
	var file struct {
		N       int
		Program string
		Args    []string
		Env     []string
		Hosts   []Host
		SSH     []string
		Agent   []string
		Timeout time.Duration
	}
	if err := json.Unmarshal([]byte(args[0]), &file); err != nil {
		panic(err)
	}
	config.N, config.Program, config.Args, config.Env = file.N, file.Program, file.Args, file.Env
	config.Hosts, config.SSH, config.Agent, config.Timeout = file.Hosts, file.SSH, file.Agent, file.Timeout
	plan, err := New(config)
	if err != nil {
		panic(err)
	}
	report, err := plan.Run(context.Background())
	if err != nil {
		panic(err)
	}
	return report.Exit
}

// apart runs a job in a launcher that is a process of its own.
func (c *test) apart(t *testing.T) (*exec.Cmd, *text) {
	t.Helper()
	plan, err := json.Marshal(map[string]any{
		"N": c.N, "Program": c.Program, "Args": c.Args, "Env": c.Env, "Timeout": c.Timeout,
	})
	if err != nil {
		t.Fatal(err)
	}
	dir, err := os.MkdirTemp("", "l") // one that is killed leaves its directory
	if err != nil {
		t.Fatal(err)
	}
	cmd, out := exec.Command(own(1, "").Program, string(plan)), &text{}
	cmd.Env = append(os.Environ(), programVar+"=launcher", "COPPICE_JOBS_DIR="+dir)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = 5 * time.Second
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		os.RemoveAll(dir)
	})
	return cmd, out
}

func agentProgram([]string) int {
	keeper := exec.Command(os.Args[0])
	keeper.Env = append(os.Environ(), programVar+"=kept")
	if err := Agent(context.Background(), os.Stdin, os.Stdout, keeper, func(at string) (string, error) { return at, nil }); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// alive tells whether a process exists and is no zombie.
func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return syscall.Kill(pid, 0) == nil && !os.IsNotExist(err)
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}

// gone waits until none of the processes is alive.
func gone(t *testing.T, pids ...int) {
	t.Helper()
	const within = 30 * time.Second // at once, but for a busy machine
	deadline := time.Now().Add(within)
	for _, pid := range pids {
		for alive(pid) {
			if time.Now().After(deadline) {
				syscall.Kill(pid, syscall.SIGKILL)
				t.Errorf("process %d still lives after %v", pid, within)
				break
			}
			time.Sleep(time.Millisecond)
		}
	}
}

// dead checks that processes have ended.
func dead(t *testing.T, pids ...int) {
	t.Helper()
	for _, pid := range pids {
		if alive(pid) {
			t.Errorf("process %d still lives", pid)
		}
	}
}

// tellDeath prints what a process heard of a death.
func tellDeath(d control.Death) {
	word := "suspected"
	if d.Certain {
		word = "dead"
	}
	fmt.Printf("death: rank %d (incarnation %d) is %s: %s\n", d.Rank, d.Incarnation, word, d.How)
}

// keeperProgram is what agentProgram starts for processes that outlive their launcher.
func keeperProgram(args []string) int {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGPIPE)
	if err := Keep(args[0], os.Stdin, os.Stdout, signals); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}
