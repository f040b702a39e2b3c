package hosts

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// etcdMembers is the number of members of an etcd. They are on the launcher's host, which all others
// reach.
const etcdMembers = 3

// prepareEtcd puts an etcd and a program that can use it into the directory, or returns why there is
// none.
func (l *lab) prepareEtcd() error {
	path, err := exec.LookPath("etcd")
	if err != nil {
		cache, _ := exec.Command("go", "env", "GOCACHE").Output()
		path = filepath.Join(strings.TrimSpace(string(cache)), "..", "coppice-etcd", "etcd")
	}
	content, err := os.ReadFile(path) // a host lacks some directories of this one
	if err != nil {
		return errors.New("no etcd: bash .ci/install-etcd")
	}
	if err := os.Mkdir(l.path("etcd"), 0o755); err != nil {
		return err
	}
	if err := os.WriteFile(l.path("etcd", "etcd"), content, 0o755); err != nil {
		return err
	}
	root, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return err
	}
	build := exec.Command("go", "build", "-o", l.path("etcd", "program"), "./internal/program")
	build.Dir = filepath.Join(strings.TrimSpace(string(root)), "etcd")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("building the program for etcd: %w: %s", err, out)
	}
	return nil
}

// startThroughEtcd starts the program of steps on all hosts, whose processes meet through etcd.
func (l *lab) startThroughEtcd(ctx context.Context, n *hostNetwork, lasts time.Duration) (*job, error) {
	var members, clients []string
	at := func(i, port int) string { return fmt.Sprintf("%s:%d", addressOf(launcherHost), port+100*i) }
	for i := range etcdMembers {
		members = append(members, fmt.Sprintf("m%d=http://%s", i, at(i, 2380)))
		clients = append(clients, at(i, 2379))
	}
	for i := range etcdMembers {
		client, peer := "http://"+at(i, 2379), "http://"+at(i, 2380)
		cmd := exec.Command(l.path("etcd", "etcd"), "--name", fmt.Sprint("m", i), "--data-dir", fmt.Sprint("/tmp/etcd", i),
			"--listen-client-urls", client, "--advertise-client-urls", client, "--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer,
			"--initial-cluster", strings.Join(members, ","), "--election-timeout", "1500")
		cmd.Env = []string{"PATH=" + l.searchPath()}
		if err := n.Hosts[launcherHost].Start(cmd); err != nil {
			return nil, err
		}
		go func() { _ = cmd.Wait() }() // it ends with its host
	}
	for _, c := range clients {
		if err := awaitPort(n.Hosts[launcherHost], c); err != nil {
			return nil, err
		}
	}
	words := stepsProgram(lasts, stepTasks)
	return l.startHands(ctx, n, lasts, append([]string{filepath.Join("..", "etcd", "program")}, words[2:]...), "COPPICE_RENDEZVOUS=etcd://"+strings.Join(clients, ",")+"/job")
}

// etcdRows returns the rows of jobs whose processes meet through etcd.
func etcdRows() (all []row) {
	const s = time.Second
	add := func(name string, a across) {
		a.etcd = true
		all = append(all, row{name: "etcd: " + name, hosts: true, etcd: true, takes: a.lasts + 5*s, run: a.run})
	}
	first := func(int) int { return 0 }
	low, high := append(ranksOf(0), ranksOf(1)...), append(ranksOf(2), ranksOf(3)...)
	part := func(sides ...[]int) func(*job, int) error {
		return func(j *job, _ int) error { return j.network.Part(sides...) }
	}
	add("one process killed", across{lasts: 8 * s, harm: killRank(oneProcess), may: theOneProcess, must: true, stall: 4 * s})
	add("the coordinator's host loses power", across{lasts: 12 * s, harm: powerOff(first), may: func(int) [][]int { return [][]int{ranksOf(0)} }, must: true, stall: 5 * s})
	add("two of four hosts cut from the others", across{lasts: 20 * s, harm: part([]int{0, 1}, []int{2, 3}), may: func(int) [][]int { return [][]int{low, high} }, must: true, stall: 12 * s})
	add("two of four hosts cut from the others and from etcd", across{lasts: 20 * s, harm: part([]int{0, 1}, []int{2, 3, launcherHost}), may: func(int) [][]int { return [][]int{low} }, must: true, stall: 12 * s})
	add("etcd killed", across{lasts: 8 * s, harm: killEtcd, may: nobody, stall: s})
	return append(all, row{
		name: "etcd: etcd killed, and two of four hosts cut from the others", hosts: true, etcd: true, takes: 20 * s,
		run: cutInHalves((*lab).startThroughEtcd, killEtcd),
	})
}

// killEtcd kills all members of etcd.
func killEtcd(j *job, _ int) error {
	var pids []int
	for _, pid := range j.network.Hosts[launcherHost].Processes() {
		if p, ok := inspect(pid, launcherHost, ""); ok && filepath.Base(p.args[0]) == "etcd" {
			pids = append(pids, pid)
		}
	}
	if len(pids) != etcdMembers {
		return fmt.Errorf("%d members of etcd run", len(pids))
	}
	return signalAll(pids, syscall.SIGKILL)
}
