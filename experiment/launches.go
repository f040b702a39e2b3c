package experiment

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/bits"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/coppice-go/coppice/model"
)

// Starter starts jobs of real processes, for what the papers measured and did not
// simulate. The command has one: an experiment starts nothing by itself.
type Starter interface {
	// Missing says in one line what a side needs that is not installed, and how
	// to get it; empty: nothing is missing.
	Missing(context.Context, Side) (string, error)
	// Launch runs one job and returns, for each of its operations in each of its
	// sizes, the median of what it took, in µs: first all sizes of the first one. Of
	// a job that answers a query, what the whole took, and the query alone.
	Launch(context.Context, Launch) ([]float64, error)
}

// Side is whose operations are measured.
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
	Mode       string   `json:"mode,omitempty"`       // Coppice's: how they are protected; empty: as Correction says
	Tree       string   `json:"tree,omitempty"`       // Coppice's
	Correction string   `json:"correction,omitempty"` // Coppice's; empty: none
	Processes  int      `json:"processes"`
	Failed     []int    `json:"failed,omitempty"` // ranks that are dead before the first broadcast
	Bytes      []int    `json:"bytes"`            // the sizes, one after the other
	Warmup     int      `json:"warmup"`
	Iterations int      `json:"iterations"` // of each operation and size

	Query *Query `json:"query,omitempty"` // nil: operations are measured
}

// Query is a job that answers query 3 of TPC-H once, in the launch's Mode.
type Query struct {
	Scale   float64 `json:"scale"`
	Kill    string  `json:"kill,omitempty"`    // TASK@OP#SEQ[/STEP]: a process dies then; empty: none does
	Restart bool    `json:"restart,omitempty"` // the whole job, if one dies
	Respawn bool    `json:"respawn,omitempty"` // the process that dies
}

// launchesMax is how often a configuration is started at most: as often as in
// Corrected Trees, §4.4. iterationsMax bounds what a launch repeats: more would not
// make the medians of launches more alike.
const (
	launchesMax   = 10
	iterationsMax = 500
)

// contender is one line of a figure that compares operations.
type contender struct {
	name             string
	side             Side
	mode             string // of Coppice's operations that are no corrected broadcasts
	tree, correction string
	gossip           int // with tree gossip: so many rounds more than twice ⌈log2 p⌉
	failed           int // processes that are dead before the first broadcast
	query            *Query
	phase            string // of the query: the operation in which a process dies; empty: none does
}

// launch is the contender's job of a round. The dead are drawn anew each time,
// without the root.
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
	split            bool     // bytes are a process's: a pth of them goes to each
	most             int      // iterations; 0: as many as are asked for
	contenders       []contender
	rounds           int
	iterations       int
	us               map[heat][][]float64 // by round, and operation and size
}

// cells is how many times a launch gives.
func (c *contest) cells() int { return max(1, len(c.ops)) * len(c.bytes) }

// fill completes a launch with what all have in common.
func (c *contest) fill(l *Launch) {
	l.Ops, l.Bytes, l.Iterations = c.ops, c.bytes, c.iterations
	if c.split {
		l.Bytes = each(c.bytes, func(bytes int) int { return max(8, bytes/l.Processes/8*8) })
	}
}

// each is what a function makes of each of a list.
func each[A, B any](list []A, of func(A) B) (all []B) {
	for _, one := range list {
		all = append(all, of(one))
	}
	return all
}

// of is the contest in one of its operations.
func (c *contest) of(op string) *contest {
	one := *c
	one.ops, one.us = []string{op}, map[heat][][]float64{}
	at := slices.Index(c.ops, op) * len(c.bytes)
	for h, launches := range c.us {
		for _, us := range launches {
			one.us[h] = append(one.us[h], us[at:at+len(c.bytes)])
		}
	}
	return &one
}

// heat is what one row of a contest's figures is about.
type heat struct {
	contender string
	p         int
}

// compete measures the contenders of an experiment in rounds: in each, every
// contender is launched once, taking turns at going first, so that launches which
// are compared are neighbours in time. What was measured is kept after each launch.
func (l *Lab) compete(ctx context.Context, name string, c *contest) error {
	c.rounds = min(launchesMax, max(l.Runs, 1))
	c.iterations = min(iterationsMax, max(1, l.Runs/c.rounds))
	if c.most > 0 {
		c.iterations = min(c.iterations, c.most)
	}
	c.us = map[heat][][]float64{}
	m := meter{progress: l.Progress, state: Progress{Cells: len(c.processes)}}
	logs := map[heat]*launchLog{}
	for _, p := range c.processes {
		for _, who := range c.contenders {
			log, err := l.loadLaunches(name, who, c, p)
			if err != nil {
				return err
			}
			logs[heat{who.name, p}] = log
			m.state.Total += int64(max(c.rounds-len(log.US), 0)) * c.cost(p)
		}
	}
	for i, p := range c.processes {
		m.state.Cell = i + 1
		for round := range c.rounds {
			first := round % len(c.contenders)
			for _, who := range append(slices.Clone(c.contenders[first:]), c.contenders[:first]...) {
				log := logs[heat{who.name, p}]
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
			log := logs[heat{who.name, p}]
			c.us[heat{who.name, p}] = log.US[:c.rounds]
			l.launched += log.Seconds
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
	if log.path == "" {
		return nil
	}
	return writeJSON(log.path, log)
}

// checkTimes checks the times of a launch of so many sizes.
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

// launchLog is what a contender's launches on one number of processes took, as it
// is kept.
type launchLog struct {
	About   Launch      `json:"about"` // the first of them
	US      [][]float64 `json:"us"`    // by launch and size
	Seconds float64     `json:"seconds"`

	path string // empty: nowhere
}

// loadLaunches returns what was measured of a contender before. Experiments share
// no launches: what is compared was measured at the same time.
func (l *Lab) loadLaunches(name string, who contender, c *contest, p int) (*launchLog, error) {
	log := &launchLog{About: who.launch(p, 0, l.Seed)}
	c.fill(&log.About)
	if l.Dir == "" {
		return log, nil
	}
	key, _ := digest(struct {
		Edition    int
		Experiment string
		Seed       uint64
		Name       string
		Launch
	}{edition, name, l.Seed, who.name, log.About})
	log.path = l.path("launches-" + key)
	text, err := readFile(log.path)
	if errors.Is(err, fs.ErrNotExist) {
		return log, nil
	}
	if err == nil {
		err = json.Unmarshal(text, log)
	}
	for _, us := range log.US {
		err = errors.Join(err, checkTimes(us, c.cells()))
	}
	if err == nil && !(log.Seconds >= 0 && log.Seconds < 1e9) {
		err = fmt.Errorf("%g seconds", log.Seconds)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w; allowed: what earlier runs left, or nothing", log.path, err)
	}
	return log, nil
}

// times are the µs of a contender's launches.
func (c *contest) times(who string, p, bytes int) []float64 {
	at := slices.Index(c.bytes, bytes)
	return each(c.us[heat{who, p}], func(launch []float64) float64 { return launch[at] })
}

// spread sums up the µs of a contender's launches.
func (c *contest) spread(who contender, p, bytes int) model.Spread {
	return model.SpreadOf(c.times(who.name, p, bytes))
}

// ratios are those of one contender's times to another's, round by round.
func (c *contest) ratios(who, to string, p, bytes int) (ratios []float64) {
	base := c.times(to, p, bytes)
	for i, us := range c.times(who, p, bytes) {
		ratios = append(ratios, us/base[i])
	}
	return ratios
}

// ratio sums up the ratios of one contender's times to another's on p processes.
type ratio struct {
	p            int
	model.Spread // over the rounds
}

func (c *contest) ratio(who, to contender, p, bytes int) ratio {
	return ratio{p, model.SpreadOf(c.ratios(who.name, to.name, p, bytes))}
}

// ratiosOver returns the ratios for each number of processes.
func (c *contest) ratiosOver(processes []int, who, to contender, bytes int) []ratio {
	return each(processes, func(p int) ratio { return c.ratio(who, to, p, bytes) })
}

func medians(ratios []ratio) []float64 {
	return each(ratios, func(r ratio) float64 { return r.Median })
}
