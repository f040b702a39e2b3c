package main

import (
	"bufio"
	"fmt"
	"time"

	"github.com/coppice-go/coppice/internal/launch"
	"github.com/coppice-go/coppice/internal/spool"
)

type jobsCmd struct {
	Remove []string `placeholder:"JOB" help:"Remove what is kept of a job that has ended. May be repeated."`
	JSON   bool     `name:"json" help:"Print JSON."`
}

// jobReport is a detached job.
type jobReport struct {
	Job     string    `json:"job"`
	State   string    `json:"state"`          // running, ended, killed, or started: on other hosts, which attach and wait ask for more
	Exit    *int      `json:"exit,omitempty"` // if it has ended
	Command string    `json:"command"`
	Began   time.Time `json:"began"`
	Hosts   []string  `json:"hosts,omitempty"`
}

func (j *jobsCmd) Run(c *console) error {
	if len(j.Remove) > 0 {
		for _, name := range j.Remove {
			if err := remove(c, name); err != nil {
				return err
			}
		}
		return nil
	}
	root, err := spool.Root()
	if err != nil {
		return err
	}
	all, parts := []jobReport{}, map[string]bool{}
	for _, job := range spool.List(root) {
		about, _ := job.About()
		for _, h := range about.Hosts { // hosts may share a home directory
			parts[launch.KeptName(job.Name, h.Name)] = true
		}
		if !parts[job.Name] {
			all = append(all, describeJob(job, about))
		}
	}
	report := struct {
		Jobs []jobReport `json:"jobs"`
	}{all}
	return c.show(j.JSON, report, func(w *bufio.Writer) {
		tabulate(newList(w), "job\tstate\tsince\tcommand", all, func(r jobReport) string {
			state := r.State
			if r.Exit != nil {
				state = fmt.Sprintf("ended: %d", *r.Exit)
			}
			return fmt.Sprintf("%s\t%s\t%s\t%s", r.Job, state, r.Began.Local().Format(time.DateTime), shortened(r.Command, commandShown))
		})
	})
}

// describeJob returns what is known of a job here.
func describeJob(job *spool.Job, about spool.About) jobReport {
	r := jobReport{Job: job.Name, Command: about.Command, Began: about.Began, State: "killed"}
	for _, h := range about.Hosts {
		r.Hosts = append(r.Hosts, h.Name)
	}
	runs := job.Runs()
	switch result := job.Result(); {
	case result != nil:
		code := result.Code()
		r.State, r.Exit = "ended", &code
	case runs:
		r.State = "running"
	case about.Hosts != nil:
		r.State = "started"
	}
	return r
}

// remove removes a job that has ended.
func remove(c *console, name string) error {
	job, err := found(name)
	if err != nil {
		return err
	}
	if job.Runs() {
		return badInput{fmt.Errorf("job %s runs; allowed: one that has ended (Ctrl-C in coppice attach ends it)", name)}
	}
	about, err := job.About()
	if err != nil { // its hosts, if it had any, sweep what is there
		about.Hosts = nil
	}
	if about.Hosts != nil {
		if job.Result() == nil {
			return badInput{fmt.Errorf("job %s has not ended, as far as is known here; allowed: one that has (coppice wait %s asks its hosts)", name, name)}
		}
		ctx, stop := untilSignal()
		defer stop()
		if err := attachment(c, job, about).Remove(ctx); err != nil {
			return err
		}
	}
	return job.Remove()
}
