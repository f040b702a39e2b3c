package programs_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/internal/posix"
	"github.com/coppice-go/coppice/test/stage"
)

// Programs on the public API: a task that follows its program ends with the digest that the serial
// interpreter computes, whichever processes crash on the way.

func init() { stage.Plays["program"] = playing }

// role is what the tasks of a job play.
type role struct {
	Program Program
	Deaths  []death `json:",omitempty"` // by the program itself, one after the other
	Dir     string  `json:",omitempty"` // where those that happened leave a mark
}

// death is a crash in the function of a task: before a step, or after the last one, in an attempt of
// that number or a later one. Late: how long after the task's return.
type death struct {
	Task, Step, Attempt int
	Late                time.Duration `json:",omitempty"`
}

func (d death) String() string {
	text := fmt.Sprintf("%d~%d.%d", d.Task, d.Attempt, d.Step)
	if d.Late > 0 {
		text += "+" + d.Late.String()
	}
	return text
}

// playing is the play of a role: it reports its digests at the end, and at the beginning the attempt,
// its process and the directory of the job.
func playing(tell func(stage.Line), args []string) coppice.Func {
	var p role
	if err := json.Unmarshal([]byte(args[0]), &p); err != nil {
		panic(err)
	}
	return func(ctx context.Context, t *coppice.Task) error {
		tell := stage.Telling(tell, t)
		process, _ := strconv.Atoi(os.Getenv(control.VarRank))
		tell(stage.Line{What: "begin", Value: t.Attempt(), Text: os.Getenv(control.VarDir), Tasks: []int{process}})
		digests, err := p.perform(ctx, t)
		l := stage.Failure("digests", err)
		if err == nil {
			l.Text = words(digests)
		}
		l.Value = t.Attempt()
		tell(l)
		return err
	}
}

// perform runs a task's part in the program. It returns the digest after each step.
func (p *role) perform(ctx context.Context, t *coppice.Task) (digests []uint64, err error) {
	digest := p.Program.First(t.Rank())
	forks := map[int]*coppice.Future[uint64]{}
	for i := 0; i < len(p.Program.Steps); i++ {
		p.mayDie(t, i)
		s := p.Program.Steps[i]
		if s.Op == Save {
			at := struct {
				Step    int
				Digest  uint64
				Digests []uint64
			}{i, digest, digests}
			if err := coppice.Save(ctx, t, &at); err != nil {
				return nil, fmt.Errorf("step %d, %+v: %w", i, s, err)
			}
			i, digests = at.Step, at.Digests
			digest = Digest(at.Digest)
		} else if s.Op == Fork {
			forks[i] = p.fork(ctx, t, i, digest)
		} else if digest, err = p.step(ctx, t, i, s, digest); err != nil {
			return nil, fmt.Errorf("step %d, %+v: %w", i, s, err)
		}
		for _, f := range p.Program.Due(i) {
			d, err := forks[f].Wait(ctx)
			if err != nil {
				return nil, fmt.Errorf("fork of step %d: %w", f, err)
			}
			digest = Await(digest, d)
		}
		digests = append(digests, digest)
	}
	p.mayDie(t, len(p.Program.Steps))
	return digests, nil
}

// words formats digests.
func words(digests []uint64) string {
	text := make([]byte, 0, 17*len(digests))
	for _, d := range digests {
		text = append(strconv.AppendUint(text, d, 36), ' ')
	}
	return string(text)
}

// mayDie carries out the first of the deaths that has not happened, if it is this task's and this
// step's.
func (p *role) mayDie(t *coppice.Task, step int) {
	for i, d := range p.Deaths {
		mark := filepath.Join(p.Dir, strconv.Itoa(i))
		if _, err := os.Stat(mark); err == nil {
			continue
		}
		if d.Task != t.Rank() || d.Step != step || d.Attempt > t.Attempt() {
			return
		}
		f, err := os.OpenFile(mark, os.O_CREATE|os.O_EXCL, 0o600)
		if err != nil {
			return // another process was first
		}
		f.Close()
		if d.Late > 0 {
			time.AfterFunc(d.Late, dieNow)
			return
		}
		dieNow()
	}
}

// dieNow kills this process with SIGKILL, as a crash would.
func dieNow() {
	_ = posix.Kill(os.Getpid(), syscall.SIGKILL)
	select {}
}

// fork begins the operations of a fork.
func (p *role) fork(ctx context.Context, t *coppice.Task, i int, digest uint64) *coppice.Future[uint64] {
	return coppice.Go(t, func(t *coppice.Task) (_ uint64, err error) {
		for _, s := range p.Program.Steps[i].ForkSteps() {
			if digest, err = p.step(ctx, t, i, s, digest); err != nil {
				return 0, err
			}
		}
		return digest, nil
	})
}

// step carries out an operation of step i and returns the digest after it.
func (p *role) step(ctx context.Context, t *coppice.Task, i int, s Step, digest uint64) (uint64, error) {
	rank, n := t.Rank(), t.Size()
	root := coppice.Root(s.Root)
	value := func() []float64 { return p.Program.Value(i, rank, digest) }
	blocks := func() [][]float64 { return p.Program.Blocks(i, rank, digest) }
	mode := coppice.Replayed()
	if s.Agreed {
		mode = coppice.Agreed()
	}
	switch s.Op {
	case Barrier:
		return Digest(digest), coppice.Barrier(ctx, t, mode)
	case Broadcast:
		var v []float64
		if rank == s.Root {
			v = value()
		}
		return one(digest)(coppice.Broadcast(ctx, t, v, root, mode))
	case Scatter:
		var parts [][]float64
		if rank == s.Root {
			parts = blocks()
		}
		return one(digest)(coppice.Scatter(ctx, t, parts, root, mode))
	case Gather:
		return several(digest)(coppice.Gather(ctx, t, value(), root, mode))
	case AllGather:
		return several(digest)(coppice.AllGather(ctx, t, value(), mode))
	case AllToAll:
		return several(digest)(coppice.AllToAll(ctx, t, blocks(), mode))
	case Reduce:
		if s.Backed {
			return one(digest)(coppice.ReduceFunc(ctx, t, value(), sumUp, root, mode, coppice.Backups(true)))
		}
		return one(digest)(coppice.Reduce(ctx, t, value(), coppice.Sum, root, mode))
	case AllReduce:
		if s.Backed {
			return one(digest)(coppice.AllReduceFunc(ctx, t, value(), sumUp, mode, coppice.Backups(true)))
		}
		return one(digest)(coppice.AllReduce(ctx, t, value(), coppice.Sum, mode))
	case Scan:
		if s.Backed {
			return one(digest)(coppice.ScanFunc(ctx, t, value(), sumUp, mode, coppice.Backups(true)))
		}
		return one(digest)(coppice.Scan(ctx, t, value(), coppice.Sum, mode))
	case ExScan:
		if s.Backed {
			return one(digest)(coppice.ExScanFunc(ctx, t, value(), sumUp, mode, coppice.Backups(true)))
		}
		return one(digest)(coppice.ExScan(ctx, t, value(), coppice.Sum, mode))
	case ReduceScatter:
		if s.Backed { // by a function, which has no backups here
			return one(digest)(coppice.ReduceScatterFunc(ctx, t, blocks(), sumUp, mode))
		}
		return one(digest)(coppice.ReduceScatter(ctx, t, blocks(), coppice.Sum, mode))
	case Once:
		return one(digest)(coppice.Once(ctx, t, func(context.Context) ([]float64, error) { return value(), nil }))
	case Agree:
		got, _, err := coppice.Agree(ctx, t, value(), sumUp)
		return Digest(digest, got), err
	case Shift:
		if err := coppice.Send(ctx, t, (rank+s.Shift)%n, s.Tag, value()); err != nil {
			return 0, err
		}
		return one(digest)(coppice.Recv[[]float64](ctx, t, (rank-s.Shift%n+n)%n, s.Tag))
	case Split:
		group, err := t.Split(ctx, s.Color(rank), s.Key(rank, n))
		if err != nil {
			return 0, err
		}
		return one(digest)(coppice.Scan(ctx, group, value(), coppice.Sum))
	}
	return 0, fmt.Errorf("no operation %q", s.Op)
}

// sumUp adds the numbers of two values in new memory.
func sumUp(a, b []float64) []float64 {
	sum := make([]float64, len(a))
	for i := range sum {
		sum[i] = a[i] + b[i]
	}
	return sum
}

// one folds a result of one block into a digest.
func one(digest uint64) func([]float64, error) (uint64, error) {
	return func(got []float64, err error) (uint64, error) { return Digest(digest, got), err }
}

// several folds a result of many blocks into a digest.
func several(digest uint64) func([][]float64, error) (uint64, error) {
	return func(got [][]float64, err error) (uint64, error) { return Digest(digest, got...), err }
}

// TestProgramsEndWithTheSerialDigest runs programs without any crash, in Local and in processes.
func TestProgramsEndWithTheSerialDigest(t *testing.T) {
	for i := range stage.Short(6, 2) {
		e := episode{n: 1 + i, role: role{Program: Random(uint64(i), 2+i, 300)}}
		if o := e.inLocal(); o.err != nil {
			t.Error(o.err)
		}
		if o := e.run(t); o.err != nil {
			t.Error(o.err)
		}
	}
}
