package main

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/apps/samplesort"
	"github.com/coppice-go/coppice/internal/launch"
)

type sortCmd struct {
	sortFlags
	Compare bool   `help:"Keys: also sort them in one process, on all processors, and tell how many times as fast the job was."`
	Output  string `type:"directory" placeholder:"DIR" help:"The parts go here, if all is well: part-00000 of task 0, and so on. The directory is empty, or there is none."`

	appFlags
}

// sortFlags are those that the processes know, too.
type sortFlags struct {
	Keys         *int    `placeholder:"N" help:"Sort so many pseudo-random keys of 64 bits (default 1000000)."`
	Distribution string  `placeholder:"D" help:"Keys: uniform, zipf, few, equal, sorted or reverse (default uniform)."`
	Seed         *uint64 `placeholder:"S" help:"Keys: other ones for each number (default 1)."`

	Input  string `type:"directory" placeholder:"DIR" help:"Sort the records in the files of this directory, in the order of their names."`
	Record *int   `placeholder:"BYTES" help:"Files: size of a record (default 100, as gensort makes them)."`
	Key    *int   `placeholder:"BYTES" help:"Files: so many bytes at the beginning of a record are its key (default 10)."`
}

// The defaults of flags that only some sorts have.
const (
	sortKeys         = 1_000_000
	sortSeed         = uint64(1)
	sortDistribution = "uniform"
	sortRecord       = 100
	sortKey          = 10
)

// source is where keys come from, if there are no files.
func (c *sortFlags) source() samplesort.Source {
	return samplesort.Source{Count: given(c.Keys, sortKeys), Seed: given(c.Seed, sortSeed), Distribution: cmp.Or(c.Distribution, sortDistribution)}
}

// layout is that of records, if there are files.
func (c *sortFlags) layout() samplesort.Layout {
	return samplesort.Layout{Size: given(c.Record, sortRecord), Key: given(c.Key, sortKey)}
}

// given is the value of a flag, or its default.
func given[V any](flag *V, byDefault V) V {
	if flag == nil {
		return byDefault
	}
	return *flag
}

// check finds what is wrong with the flags, and opens the files if there are any.
func (c *sortCmd) check() (files *samplesort.Files, err error) {
	if c.Input == "" && c.Output == "" {
		if c.Record != nil || c.Key != nil {
			return nil, errors.New("--record or --key without --input; allowed with: files")
		}
		source := c.source()
		if err := source.Check(); err != nil {
			return nil, err
		}
		return nil, checkSortMemory("keys", source.Count, 8)
	}
	if flag := changed(c, "keys", "distribution", "seed", "compare"); flag != "" {
		return nil, fmt.Errorf("%s with --input; allowed with: keys", flag)
	}
	if c.Input == "" || c.Output == "" {
		return nil, errors.New("files need both --input DIR and --output DIR")
	}
	if files, err = samplesort.OpenFiles(c.Input, c.layout()); err != nil {
		return nil, err
	}
	defer files.Close() // processes open them again, and compare the mark
	if err := samplesort.CheckOutput(c.Output); err != nil {
		return nil, err
	}
	in, err := os.Stat(c.Input)
	if err != nil {
		return nil, err
	}
	if above, err := os.Stat(filepath.Dir(filepath.Clean(c.Output))); err == nil && os.SameFile(in, above) {
		return nil, fmt.Errorf("output to %s, in the directory of the input; allowed: elsewhere", c.Output)
	}
	return files, checkSortMemory("records", files.Count, files.Size)
}

// checkSortMemory refuses what cannot fit: what was sorted, what came, and room to sort and to merge in.
func checkSortMemory(what string, n, size int) error {
	return fits(fmt.Sprintf("%d %s of %d bytes", n, what, size), 4*float64(n)*float64(size))
}

// sortReport is what came of it.
type sortReport struct {
	Records  int                 `json:"records"`  // or keys
	Checksum string              `json:"checksum"` // sum of the hashes of all records, before and after
	Largest  int                 `json:"largest"`  // number of records of a part
	Smallest int                 `json:"smallest"`
	Bound    int                 `json:"bound"` // that no part can exceed
	Killed   []int               `json:"killed"`
	Tasks    []launch.TaskReport `json:"tasks"`        // as coppice run has them
	Restarts []launch.Restart    `json:"restarts"`     // with --restart: the starts before the last
	Load     float64             `json:"load_seconds"` // the last task had its part of the input
	Sort     float64             `json:"sort_seconds"` // from then until the last task had sorted its part
	Seconds  float64             `json:"seconds"`      // of the whole job
	Parallel *float64            `json:"parallel_seconds,omitempty"`
	Ratio    *float64            `json:"ratio,omitempty"` // of the throughput of the sort to that of one process

	unit string
}

func (c *sortCmd) Run(con *console) error {
	files, err := c.check()
	if err != nil {
		return badInput{err}
	}
	report, err := c.sort(con, files)
	if err != nil {
		return err
	}
	return con.show(c.JSON, report, report.write)
}

// sort runs the job, and moves its output to where it belongs.
func (c *sortCmd) sort(con *console, files *samplesort.Files) (*sortReport, error) {
	var got []sortLine
	job := appJob{
		appFlags: c.appFlags, stderr: con.stderr, args: append([]string{"sort-process"}, repeated(&c.sortFlags)...),
		line:   takeJSON(func(l sortLine) { got = append(got, l) }),
		notice: con.notice,
	}
	if _, err := job.plan(); err != nil { // before anything is written
		return nil, err
	}
	ctx, stop := untilSignal()
	defer stop() // when the output is whole or gone
	if files == nil {
		s := c.source()
		report, err := c.run(ctx, &job, &got)
		if err == nil && c.Compare {
			if err = context.Cause(ctx); err == nil {
				stop()
				err = report.compare(context.Background(), s)
			}
		}
		return report, err
	}
	output, err := samplesort.NewOutput(c.Output)
	if err != nil {
		return nil, badInput{err}
	}
	job.args = append(job.args, "--mark", files.Mark, "--output", output.Stage)
	report, err := c.run(ctx, &job, &got)
	if err != nil {
		return nil, errors.Join(err, output.Discard())
	}
	report.unit = "record"
	return report, output.Publish(c.N, int64(files.Count)*int64(files.Size))
}

// run runs the job.
func (c *sortCmd) run(ctx context.Context, job *appJob, got *[]sortLine) (*sortReport, error) {
	run, err := job.run(ctx)
	if err != nil {
		return nil, err
	}
	if len(*got) == 0 {
		return nil, errors.New("no process has told the result")
	}
	l := (*got)[0]
	for _, other := range *got { // task 0 may have been run again after it had told
		if other.Sorted != l.Sorted {
			return nil, fmt.Errorf("two results: %+v and %+v", l.Sorted, other.Sorted)
		}
	}
	return &sortReport{
		Records: l.Count, Checksum: fmt.Sprintf("%016x", l.Sum), Largest: l.Largest, Smallest: l.Smallest,
		Bound: samplesort.Bound(l.Count, (l.Count+c.N-1)/c.N, c.N), Killed: run.Killed, Tasks: run.Tasks, Restarts: run.Restarts, Load: l.Load, Sort: l.Sort, Seconds: run.Seconds, unit: "key",
	}, nil
}

// compare sorts the same keys in this process.
func (r *sortReport) compare(ctx context.Context, s samplesort.Source) error {
	keys, err := s.Load(ctx, 0, 1)
	if err != nil {
		return err
	}
	before := samplesort.Count(samplesort.Keys{}, keys)
	if sum := fmt.Sprintf("%016x", before.Sum); sum != r.Checksum {
		return fmt.Errorf("checksum %s of the keys; the job had %s", sum, r.Checksum)
	}
	began := time.Now()
	samplesort.Parallel(keys, runtime.GOMAXPROCS(0))
	parallel := time.Since(began).Seconds()
	r.Parallel, r.Ratio = &parallel, new(parallel/r.Sort)
	return nil
}

// write prints the report for people.
func (r *sortReport) write(w *bufio.Writer) {
	fmt.Fprintf(w, "%s in order, checksum %s; parts of %d to %d, bound %d\n", count(r.Records, r.unit), r.Checksum, r.Smallest, r.Largest, r.Bound)
	fmt.Fprintf(w, "loaded in %.3f s, sorted in %.3f s, %.3f s in all", r.Load, r.Sort, r.Seconds)
	writeSurvived(w, r.Killed, r.Restarts)
	if r.Ratio != nil {
		fmt.Fprintf(w, "one process, %d processors: %.3f s; the job's throughput is %.2f times that\n", runtime.GOMAXPROCS(0), *r.Parallel, *r.Ratio)
	}
}

// sortProcessCmd is what `coppice sort` starts: one process of the job.
type sortProcessCmd struct {
	sortFlags
	Mark   string // of the input
	Output string `type:"directory"`
}

// sortLine is what task 0 tells.
type sortLine struct {
	samplesort.Sorted
	Load float64 // seconds
	Sort float64
}

func (c *sortProcessCmd) Run(con *console) error {
	source := c.source()
	job := coppice.Job{LogBytes: sortLog(source.Count * 8)}
	sort := func(ctx context.Context, t *coppice.Task) (sortLine, error) {
		_, line, err := sorted(ctx, t, samplesort.Keys{}, source.Load)
		return line, err
	}
	if c.Input != "" {
		files, wrong := c.open()
		if wrong == nil {
			defer files.Close()
		}
		// A task that is run again may have read something else although no file seems to have changed.
		job = coppice.Job{LogBytes: sortLog(files.Count * files.Size), Check: true}
		sort = func(ctx context.Context, t *coppice.Task) (sortLine, error) {
			if wrong != nil {
				return sortLine{}, wrong
			}
			part, line, err := sorted(ctx, t, files.Layout, files.Load)
			if err != nil {
				return line, err
			}
			return line, samplesort.WritePart(c.Output, t, part)
		}
	}
	return job.Run(context.Background(), func(ctx context.Context, t *coppice.Task) error {
		line, err := sort(ctx, t)
		if err == nil && t.Rank() == 0 {
			err = json.NewEncoder(con.stdout).Encode(line)
		}
		return returned(err)
	})
}

// sortLog is room for so many bytes in the log: they are lent, and take no memory of its own.
func sortLog(bytes int) int64 { return 1<<30 + int64(bytes) }

// open opens the files, which must be as the launcher has found them. What is wrong with them is an error of the tasks, which
// ends the job: a process that ended by itself would have died, and others would do its work.
func (c *sortProcessCmd) open() (*samplesort.Files, error) {
	files, err := samplesort.OpenFiles(c.Input, c.layout())
	if err != nil {
		return &samplesort.Files{}, err
	}
	if files.Mark != c.Mark {
		return &samplesort.Files{}, errors.Join(fmt.Errorf("files of %s have changed since the job began", c.Input), files.Close())
	}
	return files, nil
}

// returned is the error of a task, which the launcher learns of, and says.
func returned(err error) error {
	if err == nil {
		return nil
	}
	return told{err}
}

// sorted loads, sorts and verifies the part of a task. Barriers are there for the clock.
func sorted[E any](ctx context.Context, t *coppice.Task, f samplesort.Form[E], load func(ctx context.Context, i, n int) ([]E, error)) ([]E, sortLine, error) {
	var line sortLine
	began := time.Now()
	mine, err := load(ctx, t.Rank(), t.Size())
	if err != nil {
		return nil, line, err
	}
	before := samplesort.Count(f, mine)
	if err := coppice.Barrier(ctx, t); err != nil {
		return nil, line, err
	}
	loaded := time.Now()
	part, err := samplesort.Sort(ctx, t, f, mine)
	if err != nil {
		return nil, line, err
	}
	if err := coppice.Barrier(ctx, t); err != nil {
		return nil, line, err
	}
	line.Load, line.Sort = loaded.Sub(began).Seconds(), time.Since(loaded).Seconds()
	line.Sorted, err = samplesort.Verify(ctx, t, f, before, part)
	return part, line, err
}
