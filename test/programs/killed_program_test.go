package programs_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/test/stage"
)

// killedVariable is the environment variable with the number of random programs of 300 operations to
// run with deaths every few operations, instead of the usual few.
const killedVariable = "COPPICE_KILLED_PROGRAMS"

// recoveriesVariable is the environment variable with the number of jobs in which processes are killed
// at random moments.
const recoveriesVariable = "COPPICE_RECOVERIES"

func init() { stage.Plays["settled"] = settling }

// settling is the play of a role that also reports, as Value, how many goroutines and descriptors are
// left in the process when Run has returned.
func settling(tell func(stage.Line), args []string) coppice.Func {
	var s stage.Settings
	if err := json.Unmarshal([]byte(os.Getenv(stage.JobVar)), &s); err != nil {
		panic(err)
	}
	before := holdings()
	end := stage.Failure("end", s.Job().Run(s.Context(), playing(tell, args)))
	for until := time.Now().Add(stage.PatienceTime); holdings() > before && time.Now().Before(until); {
		time.Sleep(time.Millisecond)
	}
	if end.Value = holdings() - before; end.Value > 0 {
		stack := make([]byte, 64<<10)
		os.Stderr.Write(stack[:runtime.Stack(stack, true)])
	}
	end.Rank, end.Pid = stage.Number(os.Getenv(control.VarRank)), os.Getpid()
	tell(end)
	if end.Kind != "well" {
		os.Exit(1)
	}
	os.Exit(0)
	return nil
}

// holdings counts goroutines and open descriptors.
func holdings() int {
	if r, w, err := os.Pipe(); err == nil { // Go's poller opens its own with the first
		r.Close()
		w.Close()
	}
	open, _ := os.ReadDir("/proc/self/fd")
	return runtime.NumGoroutine() + len(open)
}

// orderIn returns an order for a task to die in a step of a program.
func orderIn(p *Program, task, step int, rng *rand.Rand) control.Kill {
	names := pointsOf(p.Steps[step].Op)
	k := control.Kill{Task: task, Op: names[rng.IntN(len(names))], Seq: 1}
	for _, s := range p.Steps[:step] {
		for _, name := range pointsOf(s.Op) {
			if name == k.Op {
				k.Seq++
			}
		}
	}
	if k.Step = rng.IntN(4); k.Step > 0 {
		k.Half = rng.IntN(3) == 0
	}
	return k
}

// killed returns a random program among processes of which all but one may crash, one every few
// operations: by order in their own tasks, or while they run another's again.
func killed(seed uint64, steps int) episode {
	rng := rand.New(rand.NewPCG(seed, 4))
	n := 2 + rng.IntN(6)
	p := Random(seed, n+rng.IntN(2)*rng.IntN(4), steps)
	e := episode{n: n, role: role{Program: p}, own: rng.IntN(2) == 0}
	dead := 1 + rng.IntN(n-1)
	e.own = e.own || p.Tasks > n // the launcher knows processes, not tasks
	for i, victim := range rng.Perm(p.Tasks)[:dead] {
		at := (i*steps + rng.IntN(steps)) / dead
		if i > 0 && rng.IntN(3) == 0 {
			e.role.Deaths = append(e.role.Deaths, death{Task: rng.IntN(p.Tasks), Step: rng.IntN(at + 1), Attempt: 1})
			continue
		}
		e.kill = append(e.kill, orderIn(&p, victim, at, rng).String())
	}
	return e
}

// TestKilledPrograms: whichever processes crash in a program, its results are the serial ones.
func TestKilledPrograms(t *testing.T) {
	programs := stage.Sampled(killedVariable, stage.Short(6, 3))
	for _, local := range []bool{false, true} {
		c, seed := &crowd{t: t, local: local}, stage.Drawn(killedVariable)
		crowded(c, programs, func(i int) { c.play(killed(seed+uint64(i), 300)) })
		if c.conclude(); c.kills < programs {
			t.Errorf("%d deaths in %d programs", c.kills, programs)
		}
	}
}

// crowded calls f for the numbers below n, several at a time.
func crowded(c *crowd, n int, f func(i int)) {
	var wg sync.WaitGroup
	defer wg.Wait()
	next := make(chan int)
	for range crowdSize {
		wg.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := 0; i < n && !c.enough(n+1); i++ {
		next <- i
	}
	close(next)
}

// TestRecoveriesLeaveNothing kills processes at random moments, from outside, before the job has
// started, in its midst or at its end: Run returns at all survivors, and nothing is left in or of them,
// or in the launcher.
func TestRecoveriesLeaveNothing(t *testing.T) {
	jobs, seed := stage.Short(16, 4), stage.Drawn(recoveriesVariable)
	if n := os.Getenv(recoveriesVariable); n != "" {
		jobs = stage.Number(n)
	}
	before := holdings()
	c := &crowd{t: t}
	crowded(c, jobs, func(i int) {
		rng := rand.New(rand.NewPCG(seed, uint64(i)))
		n := 2 + rng.IntN(4)
		e := episode{n: n, play: "settled", role: role{Program: Random(rng.Uint64(), n, 30+rng.IntN(100))}}
		for _, victim := range rng.Perm(n)[:1+rng.IntN(n-1)] {
			after := time.Duration(rng.Int64N(int64(120 * time.Millisecond)))
			e.kill = append(e.kill, fmt.Sprint(victim, "@", after))
		}
		c.play(e)
	})
	c.conclude()
	for until := time.Now().Add(stage.PatienceTime); holdings() > before; time.Sleep(time.Millisecond) {
		if time.Now().After(until) {
			t.Fatalf("%d goroutines and descriptors are left in the launcher", holdings()-before)
		}
	}
}
