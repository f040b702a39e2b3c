package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/coppice-go/coppice/experiment"
)

type reproduceCmd struct {
	Names   []string  `arg:"" optional:"" name:"name" help:"Experiments, or «all»; «list» lists them."`
	Runs    int       `default:"1000" placeholder:"R" help:"Runs of each cell, at least; figures at large sizes take fewer where they say so (default ${default})."`
	Out     string    `default:"reproduction" placeholder:"DIR" help:"Where CSV, SVG and the report go, and cells/, from which interrupted work goes on (default ${default})."`
	Seed    uint64    `default:"1" placeholder:"S" help:"Same seed, same results (default ${default})."`
	Workers int       `default:"0" placeholder:"W" help:"Cores to use, 0 for all; the results do not depend on it."`
	N       []int     `name:"processes" short:"n" placeholder:"N" help:"Numbers of processes of what is measured, not simulated (default 4,8,16,32)."`
	Sf      []float64 `name:"sf" placeholder:"F" help:"Scale factors of the tables of queries that are measured (default 0.1,1)."`
	JSON    bool      `name:"json" help:"Print JSON."`
}

func (r *reproduceCmd) Run(c *console) error {
	if len(r.Names) == 0 || len(r.Names) == 1 && r.Names[0] == "list" {
		return r.list(c)
	}
	experiments, err := experiment.Find(r.Names...)
	switch {
	case err != nil:
		return badInput{err}
	case r.Runs < 1:
		return badInput{fmt.Errorf("%d runs; allowed: 1 or more", r.Runs)}
	case r.Workers < 0:
		return badInput{fmt.Errorf("%d workers; allowed: 1 or more, or 0 for all cores", r.Workers)}
	case r.Out == "":
		return badInput{errors.New("no directory given; allowed: --out DIR")}
	}
	for _, n := range r.N {
		if n < 2 || n > benchProcessesMax {
			return badInput{fmt.Errorf("%d processes; allowed: 2 to %d", n, benchProcessesMax)}
		}
	}
	for _, sf := range r.Sf {
		if _, err := (&tpchCmd{Sf: &sf, Query: 3, Mode: replayMode}).prepare(); err != nil {
			return badInput{err}
		}
	}
	if err := os.MkdirAll(r.Out, 0o777); err != nil {
		return badInput{err}
	}
	ctx, stop := untilFirstSignal()
	defer stop()
	jobs := new(jobStarter)
	defer func() { os.RemoveAll(jobs.dir) }()
	lab := &experiment.Lab{
		Runs: r.Runs, Seed: r.Seed, Workers: r.Workers, Dir: filepath.Join(r.Out, "cells"),
		Starter: jobs, Processes: r.N, Scales: r.Sf,
	}
	report, err := r.reproduce(ctx, c, lab, experiments)
	if err != nil && ctx.Err() != nil {
		return fmt.Errorf("%w; the same command goes on from here", context.Cause(ctx))
	}
	if err != nil {
		return err
	}
	return c.show(r.JSON, report, func(w *bufio.Writer) {
		fmt.Fprintf(w, "report: %s\n", filepath.Join(r.Out, "report.html"))
	})
}

// listed is an experiment as the list shows it.
type listed struct {
	Name   string `json:"name"`
	Title  string `json:"title"`
	Source string `json:"source"`
}

func (r *reproduceCmd) list(c *console) error {
	all := each(experiment.All(), func(e experiment.Experiment) listed { return listed{e.Name, e.Title, e.Source} })
	return c.show(r.JSON, map[string]any{"experiments": all}, func(w *bufio.Writer) {
		for _, e := range all {
			fmt.Fprintf(w, "%-16s %s (%s)\n", e.Name, e.Title, e.Source)
		}
	})
}

// reproduceReport is what --json prints.
type reproduceReport struct {
	Experiments []reproduced `json:"experiments"`
	Report      string       `json:"report"`
	Seconds     float64      `json:"seconds"`
}

type reproduced struct {
	Name    string             `json:"name"`
	Paper   string             `json:"paper"`
	Ours    string             `json:"ours"`
	Verdict experiment.Verdict `json:"verdict"`
	Claims  []experiment.Claim `json:"claims"`
	Skipped string             `json:"skipped,omitempty"`
	Seconds float64            `json:"seconds"`
}

// reproduce makes the experiments. What is finished is kept at once.
func (r *reproduceCmd) reproduce(ctx context.Context, c *console, lab *experiment.Lab, experiments []experiment.Experiment) (*reproduceReport, error) {
	began := time.Now()
	report := &reproduceReport{Report: filepath.Join(r.Out, "report.html")}
	for i, e := range experiments {
		line := &reproduceLine{prefix: fmt.Sprintf("%s (%d of %d)", e.Name, i+1, len(experiments))}
		bar := new(progress).bar(c, line.text)
		lab.Progress = line.at
		f, err := e.Run(ctx, lab)
		bar.stop()
		if err != nil {
			return nil, err
		}
		if err := f.Keep(r.Out); err != nil {
			return nil, err
		}
		if err := experiment.Report(r.Out); err != nil {
			return nil, err
		}
		head := f.Headline()
		report.Experiments = append(report.Experiments, reproduced{
			Name: f.Name, Paper: head.Paper, Ours: head.Ours, Verdict: f.Verdict(), Claims: f.Claims, Skipped: f.Skipped, Seconds: f.Seconds,
		})
		if !r.JSON {
			if err := c.print(func(w *bufio.Writer) { writeFinding(w, f) }); err != nil {
				return nil, err
			}
		}
	}
	report.Seconds = time.Since(began).Seconds()
	return report, nil
}

// writeFinding prints a finding's claims.
func writeFinding(w io.Writer, f *experiment.Finding) {
	fmt.Fprintf(w, "%s: %s (%s)\n", f.Name, f.Title, f.Source)
	if f.Skipped != "" {
		fmt.Fprintf(w, "  %-8s %s\n", f.Verdict(), f.Skipped)
		return
	}
	for _, c := range f.Claims {
		fmt.Fprintf(w, "  %-8s %s: paper %s, ours %s", c.Verdict, c.What, c.Paper, c.Ours)
		if c.Reason != "" {
			fmt.Fprintf(w, " (%s)", c.Reason)
		}
		fmt.Fprintln(w)
	}
	fmt.Fprintf(w, "  %s in %s\n", strings.ToLower(f.How()), f.Took())
}

// reproduceLine is the line that shows progress.
type reproduceLine struct {
	prefix string
	mu     sync.Mutex
	state  experiment.Progress
	began  time.Time // of what state is about
}

func (l *reproduceLine) at(p experiment.Progress) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.Total != l.state.Total || p.Cells != l.state.Cells || p.Done < l.state.Done && p.Cell < l.state.Cell {
		l.began = time.Now()
	}
	l.state = p
}

// text is the line and the share that is done.
func (l *reproduceLine) text() (line string, share float64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	p := l.state
	if p.Total == 0 {
		return l.prefix, 0
	}
	share = float64(p.Done) / float64(p.Total)
	parts := []string{l.prefix, fmt.Sprintf("cell %d of %d", p.Cell, p.Cells)}
	if share > 0.005 {
		parts = append(parts, timeLeft(l.began, share))
	}
	return strings.Join(parts, ", "), share
}
