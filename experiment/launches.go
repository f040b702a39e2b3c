package experiment

import (
	"context"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/coppice-go/coppice/model"
)

// Starter starts jobs of real processes, for what the papers measured and did not simulate. The command has
// one: an experiment starts nothing by itself.
type Starter interface {
	// Missing says in one line what a side needs that is not installed, and how to get it; empty: nothing
	// is missing.
	Missing(context.Context, Side) (string, error)
	// Launch runs one job and returns, for each of its operations in each of its sizes, the median time,
	// in µs: first all sizes of the first operation. For a job that answers a query it returns the times
	// of the whole job and of the query alone.
	Launch(context.Context, Launch) ([]float64, error)
}

// Side is the implementation whose operations are measured.
type Side string

// The sides.
const (
	Coppice       Side = "coppice"
	OpenMPITCP    Side = "openmpi-tcp"
	OpenMPIShared Side = "openmpi-shared" // memory
)

// Launch is one job to start.
type Launch struct {
	Side       Side     `json:"side"`
	Ops        []string `json:"ops,omitempty"`        // none: broadcast
	Mode       string   `json:"mode,omitempty"`       // Coppice's: of operations; empty: as Correction says
	Tree       string   `json:"tree,omitempty"`       // Coppice's
	Correction string   `json:"correction,omitempty"` // Coppice's; empty: none
	Processes  int      `json:"processes"`
	Failed     []int    `json:"failed,omitempty"` // ranks that are dead before the first broadcast
	Bytes      []int    `json:"bytes"`            // the sizes, one after the other
	Warmup     int      `json:"warmup"`
	Iterations int      `json:"iterations"` // of each operation and size

	Query *Query `json:"query,omitempty"` // nil: the launch measures operations
}

// Query is a job that answers query 3 of TPC-H once, in the launch's Mode.
type Query struct {
	Scale   float64 `json:"scale"`
	Kill    string  `json:"kill,omitempty"`    // TASK@OP#SEQ[/STEP]: when a process is killed; empty: never
	Restart bool    `json:"restart,omitempty"` // restart the whole job if a process dies
	Respawn bool    `json:"respawn,omitempty"` // respawn the process that dies
}

// launchesMax is how often a configuration is started at most: as often as in Corrected Trees, §4.4.
// iterationsMax bounds the repetitions in a launch: more would not make the medians of launches more alike.
const (
	launchesMax   = 10
	iterationsMax = 500
)

// contender is one line of a figure that compares operations.
type contender struct {
	name             string
	side             Side
	mode             string // of Coppice's operations other than corrected broadcasts
	tree, correction string
	gossip           int // with tree gossip: how many rounds more than twice ⌈log2 p⌉
	failed           int // processes that are dead before the first broadcast
	query            *Query
	phase            string // of the query: the operation in which a process dies; empty: no process dies
}

// launch returns the contender's job of a round. It draws the dead processes anew each time, and never the
// root.
func (c contender) launch(p, round int, seed uint64) Launch {
	l := Launch{Side: c.side, Mode: c.mode, Tree: c.tree, Correction: c.correction, Processes: p}
	if c.tree == gossipTree {
		l.Tree = fmt.Sprintf("%s:%d", gossipTree, max(1, 2*bits.Len(uint(p-1))+c.gossip))
	}
	random := rand.New(rand.NewPCG(seed, uint64(p)<<32|uint64(round)))
	for _, i := range random.Perm(p - 1)[:min(c.failed, p-1)] {
		l.Failed = append(l.Failed, i+1)
	}
	slices.Sort(l.Failed)
	if c.query != nil {
		q := *c.query
		if c.phase != "" {
			q.Kill = fmt.Sprintf("%d@%s#1%s", random.IntN(p), c.phase, []string{"", "/1"}[random.IntN(2)])
		}
		l.Query = &q
	}
	return l
}

// contest is contenders measured side by side.
type contest struct {
	processes, bytes []int
	ops              []string // none: broadcast
	split            bool     // bytes are a process's: 1/p of them goes to each process
	most             int      // iterations; 0: as many as requested
	scale            float64  // of the tables of a query
	contenders       []contender
	rounds           int
	iterations       int
	logs             map[heat]*launchLog
}

// cells returns how many times a launch measures.
func (c *contest) cells() int { return max(1, len(c.ops)) * len(c.bytes) }

// fill completes a launch with what all contenders have in common.
func (c *contest) fill(l *Launch) {
	l.Ops, l.Bytes, l.Iterations = c.ops, c.bytes, c.iterations
	if c.split {
		l.Bytes = each(c.bytes, func(bytes int) int { return max(8, bytes/l.Processes/8*8) })
	}
}

// each returns the results of a function for each element of a list.
func each[A, B any](list []A, of func(A) B) (all []B) {
	for _, one := range list {
		all = append(all, of(one))
	}
	return all
}

// heat identifies one row of a contest's figures.
type heat struct {
	contender string
	p         int
}

// compete measures the contenders of an experiment in rounds: in each round it launches every contender once,
// in turn first, so that launches to compare are neighbours in time. It saves the times after each launch.
func (l *Lab) compete(ctx context.Context, name string, c *contest) error {
	c.rounds = min(launchesMax, max(l.Runs, 1))
	c.iterations = min(iterationsMax, max(1, l.Runs/c.rounds))
	if c.most > 0 {
		c.iterations = min(c.iterations, c.most)
	}
	m := meter{progress: l.Progress, state: Progress{Cells: len(c.processes)}}
	c.logs = map[heat]*launchLog{}
	for _, p := range c.processes {
		for _, who := range c.contenders {
			log, err := l.loadLaunches(name, who, c, p)
			if err != nil {
				return err
			}
			c.logs[heat{who.name, p}] = log
			m.state.Total += int64(max(c.rounds-len(log.US), 0)) * c.cost(p)
		}
	}
	for i, p := range c.processes {
		m.state.Cell = i + 1
		for round := range c.rounds {
			first := round % len(c.contenders)
			for _, who := range append(slices.Clone(c.contenders[first:]), c.contenders[:first]...) {
				log := c.logs[heat{who.name, p}]
				if len(log.US) > round {
					continue
				}
				m.at(m.state.Done)
				if err := l.race(ctx, who, c, p, log); err != nil {
					return err
				}
				m.state.Done += c.cost(p)
			}
		}
	}
	for _, p := range c.processes {
		for _, who := range c.contenders { // in this order, so that the sum is the same every time
			l.launched += c.logs[heat{who.name, p}].Seconds
		}
	}
	return nil
}

// cost estimates a launch on p processes, in microseconds.
func (c *contest) cost(p int) int64 {
	return 300_000 + int64(c.cells()*c.iterations*p*150)
}

// race launches a contender once more.
func (l *Lab) race(ctx context.Context, who contender, c *contest, p int, log *launchLog) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	job := who.launch(p, len(log.US), l.Seed)
	c.fill(&job)
	job.Warmup = max(10, c.iterations/10)
	if c.most > 0 {
		job.Warmup = min(job.Warmup, max(1, c.most/2))
	}
	began := time.Now()
	us, err := l.Starter.Launch(ctx, job)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if err == nil {
		err = checkTimes(us, c.cells())
	}
	if err != nil {
		return fmt.Errorf("%s, %d processes: %w", who.name, p, err)
	}
	log.US = append(log.US, us)
	log.Seconds += time.Since(began).Seconds()
	return l.write(log.name, log)
}

// checkTimes checks the times of a launch of the given number of sizes.
func checkTimes(us []float64, sizes int) error {
	if len(us) != sizes {
		return fmt.Errorf("times of %d sizes, want %d", len(us), sizes)
	}
	for _, v := range us {
		if !(v > 0) || v > 1e12 {
			return fmt.Errorf("a time of %g µs", v)
		}
	}
	return nil
}

// launchLog is the saved times of a contender's launches on one number of processes.
type launchLog struct {
	About   Launch      `json:"about"` // the first of them
	US      [][]float64 `json:"us"`    // by launch, and operation and size
	Seconds float64     `json:"seconds"`

	name string // under which it is saved
}

// loadLaunches returns the times measured of a contender before. Experiments share no launches: times to
// compare were measured at the same time.
func (l *Lab) loadLaunches(name string, who contender, c *contest, p int) (*launchLog, error) {
	log := &launchLog{About: who.launch(p, 0, l.Seed)}
	c.fill(&log.About)
	key, _ := digest(struct {
		Edition    int
		Experiment string
		Seed       uint64
		Name       string
		Launch
	}{edition, name, l.Seed, who.name, log.About})
	log.name = "launches-" + key
	return log, l.read(log.name, log, func() error {
		for _, us := range log.US {
			if err := checkTimes(us, c.cells()); err != nil {
				return err
			}
		}
		if !(log.Seconds >= 0 && log.Seconds < 1e9) {
			return fmt.Errorf("%g seconds", log.Seconds)
		}
		return nil
	})
}

// view is a contest reduced to one operation and size.
type view struct {
	*contest
	at int // index into the times of a launch
}

// of returns the contest in an operation, with values of the given number of bytes. A contest with only one
// operation needs no name for it.
func (c *contest) of(op string, bytes int) view {
	return view{c, max(0, slices.Index(c.ops, op))*len(c.bytes) + slices.Index(c.bytes, bytes)}
}

// times returns the µs of a contender's launches.
func (v view) times(who contender, p int) []float64 {
	return each(v.logs[heat{who.name, p}].US[:v.rounds], func(launch []float64) float64 { return launch[v.at] })
}

// spread summarizes the µs of a contender's launches.
func (v view) spread(who contender, p int) model.Spread { return model.SpreadOf(v.times(who, p)) }

// ratio summarizes the ratios of one contender's times to another's on p processes.
type ratio struct {
	p            int
	model.Spread // over the rounds
}

// ratio compares two contenders round by round.
func (v view) ratio(who, to contender, p int) ratio {
	ratios, base := v.times(who, p), v.times(to, p)
	for i := range ratios {
		ratios[i] /= base[i]
	}
	return ratio{p, model.SpreadOf(ratios)}
}

// ratios returns the ratios on each number of processes.
func (v view) ratios(who, to contender) []ratio { return v.ratiosOn(v.processes, who, to) }

func (v view) ratiosOn(processes []int, who, to contender) []ratio {
	return each(processes, func(p int) ratio { return v.ratio(who, to, p) })
}

// mean returns the geometric mean of the ratios.
func (v view) mean(who, to contender) float64 { return model.GeometricMean(medians(v.ratios(who, to))) }

func medians(ratios []ratio) []float64 {
	return each(ratios, func(r ratio) float64 { return r.Median })
}
