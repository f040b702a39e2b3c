package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/coppice-go/coppice/apps/tpch"
	"github.com/coppice-go/coppice/apps/tpch/dbgen"
	"github.com/coppice-go/coppice/internal/launch"
)

type tpchCmd struct {
	Input   string   `type:"directory" xor:"tables" placeholder:"DIR" help:"Read the tables from files of this directory: customer.tbl and so on, or, in a build with -tags parquet, customer.parquet."`
	Sf      *float64 `name:"sf" xor:"tables" placeholder:"F" help:"Generate the tables, at this scale factor: 1 is about 1 GB as text (default 0.01)."`
	Query   int      `default:"3" placeholder:"Q" help:"The query: 1, 3 or 5 (default ${default})."`
	Segment string   `placeholder:"S" help:"Query 3: segment of customers (default BUILDING)."`
	Region  string   `placeholder:"R" help:"Query 5: region (default ASIA)."`
	Date    string   `placeholder:"YYYY-MM-DD" help:"Query 1: last day of shipping (default 1998-09-02); query 3: ordered before, shipped after (default 1995-03-15); query 5: first day of the year (default 1994-01-01)."`

	Mode string `default:"replay" placeholder:"M" help:"replay; agreed: and all processes agree that an operation is complete; or plain: nothing is kept for who runs a task again, and a death ends the job (default ${default})."`

	appFlags
}

// scale is that of generated tables.
func (c *tpchCmd) scale() float64 { return given(c.Sf, 0.01) }

// question is the query that the flags ask for.
func (c *tpchCmd) question() (q tpch.Query, err error) {
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
func (c *tpchCmd) openInput(q tpch.Query) (*tpch.Files, error) {
	return tpch.OpenFiles(c.Input, q.Columns())
}

// prepare checks what is asked for, before anything starts, and returns more words for a process: files must be as they
// were when they were checked here.
func (c *tpchCmd) prepare() (words []string, err error) {
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

// words start a process that takes part in it.
func (c *tpchCmd) words() []string {
	words := []string{"tpch-process", "--query", strconv.Itoa(c.Query), "--mode", c.Mode}
	if c.Input == "" {
		words = append(words, "--sf", strconv.FormatFloat(c.scale(), 'g', -1, 64))
	}
	for flag, value := range map[string]string{"--input": c.Input, "--segment": c.Segment, "--region": c.Region, "--date": c.Date} {
		if value != "" {
			words = append(words, flag, value)
		}
	}
	return words
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
	job.appFlags, job.args = c.appFlags, append(c.words(), job.args...)
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
