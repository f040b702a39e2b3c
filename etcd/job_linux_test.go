package etcd

import (
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

// keys are those of the jobs in etcd.
func keys(t *testing.T, c *clientv3.Client, prefix string) (all []string) {
	t.Helper()
	got, err := c.Get(t.Context(), prefix, clientv3.WithPrefix(), clientv3.WithKeysOnly())
	if err != nil {
		t.Fatal(err)
	}
	for _, kv := range got.Kvs {
		all = append(all, string(kv.Key))
	}
	return all
}

// TestJobsMeetThroughEtcd: processes without ranks and seeds draw ranks, find each other and end well, and leave nothing in etcd.
func TestJobsMeetThroughEtcd(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := s.client(t, nil)
	for name, apart := range map[string]bool{"one-host": false, "hosts": true} {
		t.Run(name, func(t *testing.T) {
			j := newJob(t, s, name, 4, apart)
			j.start(4)
			j.awaitStep(5)
			j.finish()
			ranks := j.ranks()
			slices.Sort(ranks)
			if strings.Join(ranks, " ") != "0 1 2 3" {
				t.Errorf("ranks %v", ranks)
			}
			if left := keys(t, c, "/coppice/"+name+"/"); len(left) > 0 {
				t.Errorf("left in etcd: %v", left)
			}
		})
	}
	t.Run("given-ranks", func(t *testing.T) {
		j := newJob(t, s, "given-ranks", 3, true)
		for _, rank := range []string{"2", "0", "1"} {
			j.start(1, "COPPICE_RANK="+rank)
		}
		j.finish()
		if ranks := strings.Join(j.ranks(), " "); ranks != "2 0 1" {
			t.Errorf("ranks %s", ranks)
		}
	})
}

// TestKilledProcessComesAgain: another process takes the rank of one that was killed when its lease is over, as its next incarnation, and
// may be killed in turn. The first that is killed is the one that the others met at.
func TestKilledProcessComesAgain(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	j := newJob(t, s, "again", 4, true, "COPPICE_GROW=0")
	j.start(4)
	j.awaitStep(5)
	for _, victim := range []int{0, 2, 4} {
		p := j.procs[victim]
		j.kill(p)
		next := j.startOne()
		j.awaitUntil("the next incarnation has joined", func() bool { return strings.Contains(next.err.String(), "msg=view") })
		ranks := j.ranks()
		if ranks[len(ranks)-1] != ranks[victim] {
			t.Errorf("the next process has drawn rank %s, want %s", ranks[len(ranks)-1], ranks[victim])
		}
		j.awaitStep(j.latest() + 3)
	}
	j.finish()
}

// TestJobGrows: a job begins with COPPICE_SIZE processes, and others join it while it runs.
func TestJobGrows(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	j := newJob(t, s, "grows", 2, true)
	j.start(2)
	j.awaitStep(5)
	j.start(2)
	j.awaitUntil("two more have joined", func() bool {
		return strings.Contains(j.procs[2].err.String(), "msg=view") && strings.Contains(j.procs[3].err.String(), "msg=view")
	})
	if ranks := j.ranks()[2:]; strings.Join(ranks, " ") != "2 3" && strings.Join(ranks, " ") != "3 2" {
		t.Errorf("ranks %v", ranks)
	}
	j.kill(j.procs[0])
	j.awaitStep(j.latest() + 25) // those that are left go on
	j.finish()
}

// TestEtcdOutage: a job runs on while a member of etcd is dead, and while all are, for longer than the lease; a process that was
// killed meanwhile comes again when etcd does.
func TestEtcdOutage(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	j := newJob(t, s, "outage", 4, true, "COPPICE_GROW=0")
	j.start(4)
	j.awaitStep(5)
	s.kill(0)
	j.awaitStep(j.latest() + 25)
	j.kill(j.procs[1])
	j.startOne() // with the others of etcd
	j.awaitUntil("the next incarnation has joined", func() bool { return strings.Contains(j.procs[4].err.String(), "msg=view") })
	s.kill(1)
	s.kill(2)
	stopped := time.Now()
	before := j.latest()
	j.kill(j.procs[2])
	for time.Since(stopped) < 8*time.Second { // more than twice the lease
		time.Sleep(100 * time.Millisecond)
	}
	if now := j.latest(); now < before+25 {
		j.fail("the job has hardly moved while etcd was away")
	}
	s.startAll()
	c := s.client(t, nil)
	s.await(c)
	j.startOne()
	j.awaitUntil("a process has joined after the outage", func() bool { return strings.Contains(j.procs[5].err.String(), "msg=view") })
	j.awaitUntil("all who live are registered", func() bool { return len(keys(t, c, "/coppice/outage/")) == 2*4 })
	j.finish()
	if left := keys(t, c, "/coppice/outage/"); len(left) > 0 {
		t.Errorf("left in etcd: %v", left)
	}
}

// wentOn is what a process logs that goes on alone.
var wentOn = regexp.MustCompile(`msg=view process=\d+ number=2 members=1\n`)

// TestOneOfTwoGoesOn: of a view of two members on two hosts, one of which dies or does not answer, the other one goes on, since etcd names it. The one
// that does not answer must not go on when it is back.
func TestOneOfTwoGoesOn(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	for name, c := range map[string]struct {
		victim int
		signal syscall.Signal
	}{
		"first-killed":   {0, syscall.SIGKILL}, // the coordinator, most often
		"second-killed":  {1, syscall.SIGKILL},
		"first-stopped":  {0, syscall.SIGSTOP},
		"second-stopped": {1, syscall.SIGSTOP},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			j := newJob(t, s, name, 2, true)
			j.start(2)
			j.awaitStep(5)
			p, other := j.procs[c.victim], j.procs[1-c.victim]
			j.doomed[p] = true
			if err := p.cmd.Process.Signal(c.signal); err != nil {
				t.Fatal(err)
			}
			j.awaitUntil("the other goes on alone", func() bool { return wentOn.MatchString(other.err.String()) })
			j.awaitStep(j.latest() + 3)
			if c.signal == syscall.SIGSTOP {
				if err := p.cmd.Process.Signal(syscall.SIGCONT); err != nil {
					t.Fatal(err)
				}
			}
			j.finish()
			if strings.Contains(p.out.String(), "right:") || wentOn.MatchString(p.err.String()) {
				j.fail("both have gone on")
			}
		})
	}
}

// TestNobodyGoesOnWithoutEtcd: while etcd is away, neither of two goes on without the other.
func TestNobodyGoesOnWithoutEtcd(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	j := newJob(t, s, "nobody", 2, true)
	j.start(2)
	j.awaitStep(5)
	for i := range s.running {
		s.kill(i)
	}
	j.kill(j.procs[0])
	p := j.procs[1]
	j.doomed[p] = true
	j.awaitUntil("the other ends", func() bool {
		select {
		case <-p.done:
			return true
		default:
			return false
		}
	})
	if text := p.err.String(); !strings.Contains(text, "no quorum") || strings.Contains(text, "members=1") {
		j.fail("it has not ended for want of a quorum")
	}
}

// TestLostLeaseIsTakenAgain: a process whose lease etcd has ended registers again, under the same rank.
func TestLostLeaseIsTakenAgain(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := s.client(t, nil)
	j := newJob(t, s, "lease", 2, false)
	j.start(2)
	j.awaitStep(5)
	before := keys(t, c, "/coppice/lease/")
	leases, err := c.Leases(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range leases.Leases {
		if _, err := c.Revoke(t.Context(), l.ID); err != nil {
			t.Fatal(err)
		}
	}
	if now := keys(t, c, "/coppice/lease/"); len(now) > 0 {
		t.Fatalf("left: %v", now)
	}
	j.awaitUntil("both are registered again", func() bool { return slices.Equal(keys(t, c, "/coppice/lease/"), before) })
	j.finish()
}

// TestRankThatIsInUseIsDrawnAgain: a rank that seems to be free in etcd may belong to a process of the job. The job refuses the
// process that draws it, and that process draws another rank.
func TestRankThatIsInUseIsDrawnAgain(t *testing.T) {
	t.Parallel()
	s := startServer(t)
	c := s.client(t, nil)
	j := newJob(t, s, "crossed", 2, true)
	j.start(2)
	j.awaitStep(5)
	if _, err := c.Delete(t.Context(), "/coppice/crossed/rank/1"); err != nil {
		t.Fatal(err)
	}
	j.startOne()
	j.awaitUntil("the third has joined", func() bool { return strings.Contains(j.procs[2].err.String(), "msg=view") })
	text := j.procs[2].err.String()
	if !strings.Contains(text, "another process has the rank that was drawn") || !strings.Contains(text, "rank=1 now=2") {
		t.Errorf("it says\n%s", text)
	}
	j.finish()
}
