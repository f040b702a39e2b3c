package main

import (
	"bufio"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/coppice-go/coppice/internal/doctor"
	"github.com/coppice-go/coppice/internal/launch"
)

type doctorCmd struct {
	hostFlags
	JSON bool `name:"json" help:"Print JSON."`

	Program []string `arg:"" optional:"" name:"prog" placeholder:"[-- PROG]" passthrough:"partial" help:"The program that the job is to run, after --."`
}

func (d *doctorCmd) Run(c *console) error {
	if err := launch.Supported(); err != nil {
		return err
	}
	config, err := d.config()
	if err != nil {
		return badInput{err}
	}
	ctx, stop := untilSignal()
	defer stop()
	report := doctor.Examine(ctx, *config)
	if err := interruptedOr(ctx, ctx.Err()); err != nil {
		return err
	}
	if err := c.show(d.JSON, report, func(w *bufio.Writer) { writeFindings(w, report) }); err != nil {
		return err
	}
	if report.Exit != 0 {
		return fmt.Errorf("a job cannot run: %s", count(failures(report), "problem"))
	}
	return nil
}

// config turns the flags into what is examined.
func (d *doctorCmd) config() (*doctor.Config, error) {
	program, err := afterFlags(d.Program, "coppice doctor [flags] [-- PROG]")
	if err != nil {
		return nil, err
	}
	var job launch.Config
	if err := d.spread(&job); err != nil {
		return nil, err
	}
	config := &doctor.Config{
		Hosts: job.Hosts, SSH: job.SSH, Command: []string{"coppice", "doctor-process"}, Self: []string{self(), "doctor-process"},
		Slots: runtime.NumCPU(), Env: append(launch.Carried(), job.Env...), Version: version(),
	}
	if config.Listen, err = d.listen(); err != nil {
		return nil, err
	}
	if len(program) > 0 {
		config.Program = program[0]
	}
	return config, nil
}

// writeFindings prints a line for each finding.
func writeFindings(w *bufio.Writer, r *doctor.Report) {
	tabulate(newList(w), "state\twhere\tcheck\tfinding", r.Findings, func(f doctor.Finding) string {
		text := f.Text
		if f.Advice != "" {
			text += "; " + f.Advice
		}
		return fmt.Sprintf("%s\t%s\t%s\t%s", f.State, f.Where, f.Check, strings.TrimSpace(text))
	})
}

func failures(r *doctor.Report) (n int) {
	for _, f := range r.Findings {
		if f.State == doctor.Fail {
			n++
		}
	}
	return n
}

// doctorProcessCmd is what coppice doctor calls on every host.
type doctorProcessCmd struct{}

func (doctorProcessCmd) Run(c *console) error {
	ctx, stop := untilSignal()
	defer stop()
	return doctor.Serve(ctx, version(), os.Stdin, c.stdout)
}
