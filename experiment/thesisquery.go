package experiment

import (
	"fmt"
	"slices"

	"github.com/coppice-go/coppice/experiment/chart"
	"github.com/coppice-go/coppice/model"
)

// The TU Darmstadt thesis on fault-tolerant collectives, §5.3 and Figure 5.24, compared running through the
// crash of a process with starting again, in TPC-H query 3. The query has four phases, each of which ends
// with an operation; a random process gets SIGKILL in one of them. Times are those of the whole job,
// including table generation and the time until the first start was abandoned. Here the killed process is the
// same on all sides, at the beginning of the phase's operation or at its first message.
// beginning of the phase's operation or at its first message.

var thesisQueries = []Experiment{
	thesisWork.figure("5.17", "§5.3.2", "TPC-H query 3 without failures",
		queryAbout, queryFree),
	queryPhase("5.18", 1, "gather"), queryPhase("5.19", 2, "broadcast"), queryPhase("5.20", 3, "alltoall"), queryPhase("5.21", 4, "reduce"),
	thesisWork.figure("5.24", "§5.4", "TPC-H query 3 with a death in phase 4, with and without agreements",
		queryAbout, queryOptimized),
}

const queryAbout = "Median over launches of the time of a job that generates the tables and answers TPC-H query 3, from the start of its processes to the end of the last, and quartiles; processes of this machine."

// queryProcesses and queryScales are measured unless the Lab says otherwise.
var (
	queryProcesses = []int{2, 4, 8}
	queryScales    = []float64{0.1, 1}
)

// The ways to answer the query.
var (
	runThrough = contender{name: "run-through", side: Coppice, mode: "replay", query: &Query{}}
	respawning = contender{name: "run-through, respawn", side: Coppice, mode: "replay", query: &Query{Respawn: true}}
	agreeing   = contender{name: "run-through, agreed", side: Coppice, mode: "agreed", query: &Query{}}
	restarting = contender{name: "restart", side: Coppice, mode: "plain", query: &Query{Restart: true}}
	unguarded  = contender{name: "plain", side: Coppice, mode: "plain", query: &Query{}}
)

// The times that a launch of a query returns, as the operations of a contest.
const (
	wholeJob   = "job"
	queryAlone = "query"
	queryBytes = 0
)

// compareQueries measures the ways to answer the query, at each scale, and adds table and chart. Ratios are
// to the last way. It returns nil if something is missing.
func (f *attempt) compareQueries(phase string, ways ...contender) (all []*contest) {
	f.Scales = f.lab.Scales
	scales := queryScales
	if len(f.lab.Scales) > 0 {
		scales = slices.Compact(slices.Sorted(slices.Values(f.lab.Scales)))
	}
	for _, scale := range scales {
		c := &contest{processes: queryProcesses, bytes: []int{queryBytes}, ops: []string{wholeJob, queryAlone}, most: 1, scale: scale}
		if len(f.lab.Processes) > 0 {
			c.processes = f.lab.processes()
		}
		for _, way := range ways {
			q := *way.query
			q.Scale = scale
			way.query, way.phase = &q, phase
			c.contenders = append(c.contenders, way)
		}
		if !f.hold(f.Name, c) {
			return nil
		}
		all = append(all, c)
	}
	f.queryTable(all)
	f.noteMachine("; each way was launched %s, in turns, and ratios are medians of those of neighbours in time. The thesis had 1 GB for each process (weak scaling); here the tables are those of the scale, whatever the number of processes.",
		times(all[0].rounds, "time"))
	return all
}

// queryTable shows all times, in seconds.
func (f *Finding) queryTable(all []*contest) {
	t := f.table("", "scale", "way", "processes", "median_s", "q25_s", "q75_s", "ratio", "ratio_q25", "ratio_q75", "query_median_s", "launches")
	f.Chart = &chart.Chart{Title: f.Title, X: chart.Axis{Label: "processes", Log: 2}, Y: chart.Axis{Label: "seconds of the whole job"}}
	for _, c := range all {
		whole, alone := c.of(wholeJob, queryBytes), c.of(queryAlone, queryBytes)
		last := c.contenders[len(c.contenders)-1]
		for _, way := range c.contenders {
			f.curve(fmt.Sprintf("%s, scale %g", way.name, c.scale), c.processes, func(p int) model.Spread {
				us, r := whole.spread(way, p), whole.ratio(way, last, p)
				s := model.Spread{Low: us.Low / 1e6, Median: us.Median / 1e6, High: us.High / 1e6}
				t.Add(c.scale, way.name, p, s.Median, s.Low, s.High, r.Median, r.Low, r.High, alone.spread(way, p).Median/1e6, c.rounds)
				return s
			})
		}
	}
}

// queryFree is about jobs in which no process crashes.
func queryFree(f *attempt) {
	all := f.compareQueries("", runThrough, unguarded)
	for _, c := range all {
		for _, of := range []string{wholeJob, queryAlone} {
			f.judge(measured{
				what:  fmt.Sprintf("run-through over plain, the %s, scale %g", map[string]string{wholeJob: "whole job", queryAlone: "query alone"}[of], c.scale),
				paper: "slower, the more the more processes; no figure printed", ratios: c.of(of, queryBytes).ratios(runThrough, unguarded),
				mean: true, high: 1.05, reading: "protection should cost less than 5%",
			})
		}
	}
}

// queryPhase returns a figure about a crash in one phase.
func queryPhase(figure string, number int, op string) Experiment {
	title := fmt.Sprintf("TPC-H query 3 with a death in phase %d", number)
	about := fmt.Sprintf("%s A random process is killed in the phase that ends with the %s.", queryAbout, op)
	return thesisWork.figure(figure, "§5.3.2", title, about, func(f *attempt) {
		all := f.compareQueries(op, runThrough, respawning, restarting)
		for _, c := range all {
			f.judgeThrough(c, runThrough, restarting)
			if slices.Contains(c.processes, 2) {
				f.judgeQuery(c, respawning, restarting, []int{2})
			}
		}
	})
}

// judgeThrough judges one way against another. It judges 2 processes, the fewest possible, separately, since
// a single survivor does all the work there.
func (f *Finding) judgeThrough(c *contest, way, to contender) {
	two := func(p int) bool { return p == 2 }
	f.judgeQuery(c, way, to, slices.DeleteFunc(slices.Clone(c.processes), two))
	f.judgeQuery(c, way, to, c.processes[:slices.IndexFunc(c.processes, two)+1])
}

func (f *Finding) judgeQuery(c *contest, way, to contender, processes []int) {
	if len(processes) == 0 {
		return
	}
	f.judge(measured{
		what: fmt.Sprintf("%s over %s, scale %g", way.name, to.name, c.scale), paper: "faster; no figure printed",
		ratios: c.of(wholeJob, queryBytes).ratiosOn(processes, way, to), high: 1, reading: "below 1 it is faster",
	})
}

// queryOptimized is about what the thesis's optimization saves: agreements.
func queryOptimized(f *attempt) {
	all := f.compareQueries("reduce", runThrough, agreeing, restarting)
	for _, c := range all {
		f.judgeThrough(c, agreeing, restarting)
		f.judgeThrough(c, runThrough, restarting)
		f.judge(measured{
			what: fmt.Sprintf("%s over %s, scale %g", runThrough.name, agreeing.name, c.scale), paper: "clearly faster; no figure printed",
			ratios: c.of(wholeJob, queryBytes).ratios(runThrough, agreeing), mean: true, high: 1,
			reading: "below 1 it is faster; a job has five agreements, each of which takes some hundred µs here",
		})
	}
	f.note("«Agreed» is the thesis's way: all processes agree after each operation that it is complete. Its optimization uses the operations of MPI until somebody dies; what comes nearest is Coppice's default, which never agrees on an operation.")
}
