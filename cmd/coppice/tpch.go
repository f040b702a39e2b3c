package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/apps/tpch"
	"github.com/coppice-go/coppice/apps/tpch/dbgen"
	"github.com/coppice-go/coppice/internal/launch"
)

type tpchCmd struct {
	tpchFlags
	appFlags
}

// tpchFlags are those that the processes know, too.
type tpchFlags struct {
	Input   string   `type:"directory" xor:"tables" placeholder:"DIR" help:"Read the tables from files of this directory: customer.tbl and so on, or, in a build with -tags parquet, customer.parquet."`
	Sf      *float64 `name:"sf" xor:"tables" placeholder:"F" help:"Generate the tables, at this scale factor: 1 is about 1 GB as text (default 0.01)."`
	Query   int      `default:"3" placeholder:"Q" help:"The query: 1, 3 or 5 (default ${default})."`
	Segment string   `placeholder:"S" help:"Query 3: segment of customers (default BUILDING)."`
	Region  string   `placeholder:"R" help:"Query 5: region (default ASIA)."`
	Date    string   `placeholder:"YYYY-MM-DD" help:"Query 1: last day of shipping (default 1998-09-02); query 3: ordered before, shipped after (default 1995-03-15); query 5: first day of the year (default 1994-01-01)."`

	Mode string `default:"replay" placeholder:"M" help:"replay; agreed: and all processes agree that an operation is complete; or plain: nothing is kept for who runs a task again, and a death ends the job (default ${default})."`
}

// scale is that of generated tables.
func (c *tpchFlags) scale() float64 { return given(c.Sf, 0.01) }

// question is the query that the flags ask for.
func (c *tpchFlags) question() (q tpch.Query, err error) {
	if err := dbgen.Scale(c.scale()).Check(); err != nil {
		return nil, err
	}
	defaults := map[int]string{1: "1998-09-02", 3: "1995-03-15", 5: "1994-01-01"}
	if defaults[c.Query] == "" {
		return nil, fmt.Errorf("query %d; allowed: 1, 3, 5", c.Query)
	}
	switch {
	case c.Segment != "" && c.Query != 3:
		return nil, fmt.Errorf("--segment with query %d; allowed with: 3", c.Query)
	case c.Region != "" && c.Query != 5:
		return nil, fmt.Errorf("--region with query %d; allowed with: 5", c.Query)
	}
	if _, ok := tpchModes[c.Mode]; !ok {
		return nil, fmt.Errorf("mode %q; allowed: replay, agreed, plain", c.Mode)
	}
	date, err := dbgen.ParseDate(cmp.Or(c.Date, defaults[c.Query]))
	if err != nil {
		return nil, err
	}
	switch c.Query {
	case 1:
		return tpch.Q1{Until: date}, nil
	case 3:
		segment, err := indexOf("segment", dbgen.Segments, cmp.Or(c.Segment, "BUILDING"))
		return tpch.Q3{Segment: segment, Date: date}, err
	default:
		region, err := indexOf("region", dbgen.Regions, cmp.Or(c.Region, "ASIA"))
		return tpch.Q5{Region: region, From: date, To: date.NextYear()}, err
	}
}

// indexOf is where a name is among those allowed.
func indexOf(what string, names []string, name string) (uint8, error) {
	i := slices.Index(names, strings.ToUpper(name))
	if i < 0 {
		return 0, fmt.Errorf("%s %q; allowed: %s", what, name, strings.Join(names, ", "))
	}
	return uint8(i), nil
}

// openInput opens the files of the tables that a query needs.
func (c *tpchFlags) openInput(q tpch.Query) (*tpch.Files, error) {
	return tpch.OpenFiles(c.Input, q.Columns())
}

// prepare checks what is asked for, before anything starts, and returns more words for a process: files must be as they
// were when they were checked here.
func (c *tpchFlags) prepare() (words []string, err error) {
	q, err := c.question()
	if err != nil {
		return nil, err
	}
	var source tpch.Source = tpch.Generated(c.scale())
	from := fmt.Sprintf("scale %g", c.scale())
	if c.Input != "" {
		files, err := c.openInput(q)
		if err != nil {
			return nil, err
		}
		defer files.Close()
		source, from, words = files, c.Input, []string{"--mark", files.Mark}
	}
	return words, fits(fmt.Sprintf("tables of %s for query %d", from, c.Query), float64(source.Bytes(q.Columns())))
}

// tpchReport is what came of it.
type tpchReport struct {
	Query   int      `json:"query"`
	Sf      float64  `json:"sf,omitempty"`
	Input   string   `json:"input,omitempty"`
	Columns []string `json:"columns"`
	Rows    [][]any  `json:"rows"`
	Killed  []int    `json:"killed"`
	Load    float64  `json:"load_seconds"`  // the last task had its part of the tables
	Ask     float64  `json:"query_seconds"` // from then to the answer
	Seconds float64  `json:"seconds"`       // of the whole job
	Peak    int64    `json:"peak_bytes"`    // the most memory that each process had, in all

	Restarts []launch.Restart    `json:"restarts"` // with --restart: the starts before the last
	Tasks    []launch.TaskReport `json:"tasks"`    // as coppice run has them
}

func (c *tpchCmd) Run(con *console) error {
	more, err := c.prepare()
	if err != nil {
		return badInput{err}
	}
	job := appJob{args: more, stderr: con.stderr, notice: con.notice}
	ctx, stop := untilSignal()
	report, err := c.answer(ctx, &job, nil)
	stop()
	if err != nil {
		return err
	}
	return con.show(c.JSON, report, report.write)
}

// answer runs the query as a job, in which each task tells its steps, if anybody is to know them.
func (c *tpchCmd) answer(ctx context.Context, job *appJob, step func(tpchLine)) (*tpchReport, error) {
	var got []tpchLine
	var wrong string // with the input
	job.appFlags, job.args = c.appFlags, slices.Concat([]string{"tpch-process"}, repeated(&c.tpchFlags), job.args)
	if step != nil {
		job.args = append(job.args, "--steps")
	}
	job.line = takeJSON(func(l tpchLine) {
		switch {
		case l.Answer != nil:
			got = append(got, l)
		case l.Wrong != "":
			wrong = cmp.Or(wrong, l.Wrong)
		case step != nil:
			step(l)
		}
	})
	run, err := job.run(ctx)
	switch {
	case wrong != "": // even if others could answer
		return nil, badInput{errors.New(wrong)}
	case err != nil:
		return nil, err
	case len(got) == 0:
		return nil, errors.New("no process has told the answer")
	}
	l := got[0]
	for _, other := range got[1:] { // task 0 may have been run again after it had told
		if !reflect.DeepEqual(other.Answer, l.Answer) {
			return nil, fmt.Errorf("two answers: %v and %v", l.Answer.Rows, other.Answer.Rows)
		}
	}
	report := &tpchReport{
		Query: c.Query, Input: c.Input, Columns: l.Answer.Columns, Rows: append([][]any{}, l.Answer.Rows...),
		Killed: run.Killed, Restarts: run.Restarts, Tasks: run.Tasks, Load: l.Load, Ask: l.Ask, Seconds: run.Seconds,
	}
	if c.Input == "" {
		report.Sf = c.scale()
	}
	for _, t := range run.Tasks {
		report.Peak += t.Peak
	}
	return report, nil
}

// write prints the report for people.
func (r *tpchReport) write(w *bufio.Writer) {
	writeRows(w, r.Columns, r.Rows)
	from := fmt.Sprintf("scale %g", r.Sf)
	if r.Input != "" {
		from = "files of " + r.Input
	}
	fmt.Fprintf(w, "\n%s, %s: tables in %.3f s, answer in %.3f s, %.3f s and %.0f MiB in all", count(len(r.Rows), "row"), from, r.Load, r.Ask, r.Seconds, float64(r.Peak)/(1<<20))
	writeSurvived(w, r.Killed, r.Restarts)
}

// writeRows prints a table.
func writeRows(w *bufio.Writer, columns []string, rows [][]any) {
	table := newTable(w)
	for _, name := range columns {
		fmt.Fprintf(table, "%s\t", name)
	}
	fmt.Fprintln(table)
	for _, row := range rows {
		for _, cell := range row {
			fmt.Fprintf(table, "%v\t", cell)
		}
		fmt.Fprintln(table)
	}
	table.Flush()
}

// tpchProcessCmd is what `coppice tpch` starts: one process of the job.
type tpchProcessCmd struct {
	tpchFlags
	Mark  string        // of the files
	Steps bool          // tasks tell what they do next,
	Pace  time.Duration // and wait so long
}

// tpchLine is what a task tells: what it does next, or, at last, the answer.
type tpchLine struct {
	Task    int          `json:"task"`
	Attempt int          `json:"attempt,omitempty"`
	Step    string       `json:"step,omitempty"`
	Wrong   string       `json:"wrong,omitempty"` // with the input
	Answer  *tpch.Answer `json:"answer,omitempty"`
	Load    float64      `json:"load,omitempty"` // seconds
	Ask     float64      `json:"ask,omitempty"`
}

func (c *tpchProcessCmd) Run(con *console) error {
	q, err := c.question()
	if err != nil {
		return badInput{err}
	}
	p := tpchProcess{tpchProcessCmd: c, query: q, out: json.NewEncoder(con.stdout)}
	var end func() error
	if p.source, end, p.wrong = c.source(q); p.wrong == nil {
		defer end()
	}
	job := coppice.Job{Recovery: tpchModes[c.Mode].recovery}
	return job.Run(context.Background(), func(ctx context.Context, t *coppice.Task) error { return returned(p.task(ctx, t)) })
}

// tpchModes are the modes of a query, by name.
var tpchModes = map[string]struct {
	recovery coppice.Recovery
	option   coppice.Option // of all operations
}{
	replayMode: {coppice.Replay, coppice.Replayed()},
	agreedMode: {coppice.Replay, coppice.Agreed()},
	plainMode:  {coppice.Report, coppice.Plain()},
}

// tpchProcess is one of the processes.
type tpchProcess struct {
	*tpchProcessCmd
	query  tpch.Query
	source tpch.Source
	wrong  error // with it: the tasks fail, for if the process ended by itself, others would do its work

	mu  sync.Mutex
	out *json.Encoder
}

func (p *tpchProcess) tell(l tpchLine) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.out.Encode(l)
}

// task is the program.
func (p *tpchProcess) task(ctx context.Context, t *coppice.Task) error {
	var broken error
	next := func(step string) {
		if p.Steps && broken == nil {
			broken = p.tell(tpchLine{Task: t.Rank(), Attempt: t.Attempt(), Step: step})
		}
		select {
		case <-time.After(p.Pace):
		case <-ctx.Done():
		}
	}
	if p.wrong != nil {
		return p.refused(p.wrong)
	}
	next("tables")
	began := time.Now()
	tables, err := p.source.Load(ctx, t.Rank(), t.Size(), p.query.Columns())
	if err != nil && ctx.Err() == nil {
		return p.refused(err)
	} else if err != nil {
		return err
	}
	option := tpchModes[p.Mode].option
	if err := p.source.Check(ctx, t, tables, option); errors.As(err, new(tpch.WrongError)) {
		return p.refused(err)
	} else if err != nil {
		return err
	}
	if err := coppice.Barrier(ctx, t, option); err != nil {
		return err
	}
	loaded := time.Now()
	answer, err := p.query.Ask(ctx, t, tables, p.source.Bounds(), next, option)
	if err != nil {
		return err
	}
	asked := time.Now()
	next("done")
	if broken != nil || t.Rank() != 0 {
		return broken
	}
	return p.tell(tpchLine{Answer: &answer, Load: loaded.Sub(began).Seconds(), Ask: asked.Sub(loaded).Seconds()})
}

// source is where tables come from, and what to do with it at the end.
func (c *tpchProcessCmd) source(q tpch.Query) (s tpch.Source, end func() error, err error) {
	if c.Input == "" {
		return tpch.Generated(c.scale()), func() error { return nil }, nil
	}
	files, err := c.openInput(q)
	if err != nil {
		return nil, nil, err
	}
	if files.Mark != c.Mark {
		return nil, nil, errors.Join(fmt.Errorf("files of %s have changed since the job began", c.Input), files.Close())
	}
	return files, files.Close, nil
}

// refused tells what is wrong with the input, and returns it.
func (p *tpchProcess) refused(wrong error) error {
	if err := p.tell(tpchLine{Wrong: wrong.Error()}); err != nil {
		return err
	}
	return wrong
}

type tpchDbgenCmd struct {
	Sf      float64  `name:"sf" default:"0.01" placeholder:"F" help:"Scale factor: 1 is about 1 GB as text (default ${default})."`
	Table   string   `required:"" placeholder:"T" help:"The table: ${tpchTables}."`
	Columns []string `placeholder:"C,..." help:"Its columns, in this order (default: all that there are)."`
	Part    string   `default:"1/1" placeholder:"I/N" help:"Only part I of N (default ${default})."`
}

func (d *tpchDbgenCmd) Run(c *console) error {
	i, n, err := parsePart(d.Part)
	if err == nil {
		err = dbgen.Scale(d.Sf).Check()
	}
	var names []string
	if err == nil {
		names, err = dbgen.Columns(d.Table)
	}
	if err != nil {
		return badInput{err}
	}
	if d.Columns == nil {
		d.Columns = names
	}
	if err := dbgen.CheckColumns(d.Table, d.Columns); err != nil {
		return badInput{err}
	}
	return dbgen.Scale(d.Sf).Write(c.stdout, d.Table, d.Columns, i, n)
}

// partsMax is in how many parts a table is at most.
const partsMax = 1 << 20

// parsePart reads I/N, and counts from 0.
func parsePart(text string) (i, n int, err error) {
	first, second, _ := strings.Cut(text, "/")
	i, wrong := strconv.Atoi(first)
	n, also := strconv.Atoi(second)
	if wrong != nil || also != nil || n < 1 || n > partsMax || i < 1 || i > n {
		return 0, 0, fmt.Errorf("part %q; allowed: 1/N to N/N, with N up to %d", text, partsMax)
	}
	return i - 1, n, nil
}
