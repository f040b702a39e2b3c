package main

import (
	"bufio"
	"fmt"
	"os"

	"github.com/coppice-go/coppice/chaos/oracle"
)

// checkedTrace is what came of checking the trace of a job.
type checkedTrace struct {
	File string `json:"file"`
	oracle.Report
	Error string `json:"error,omitempty"`
}

// checkTraces checks what jobs have written down.
func (x *chaosCmd) checkTraces(c *console) error {
	var all []checkedTrace
	wrong := 0
	for _, name := range x.Check {
		f, err := os.Open(name)
		if err != nil {
			return badInput{err}
		}
		report, err := oracle.Check(f)
		f.Close()
		t := checkedTrace{File: name, Report: report}
		if err != nil {
			t.Error = err.Error()
			wrong++
		}
		if all = append(all, t); x.JSON {
			continue
		}
		if err := c.print(t.write); err != nil {
			return err
		}
	}
	if x.JSON {
		if err := c.printJSON(struct {
			Traces []checkedTrace `json:"traces"`
		}{all}); err != nil {
			return err
		}
	}
	if wrong > 0 {
		return fmt.Errorf("violations: %d in %d traces", wrong, len(all))
	}
	return nil
}

func (t checkedTrace) write(w *bufio.Writer) {
	fmt.Fprintf(w, "%s: %d processes, %d steps, %d effects, %d letters, %d messages, %d views, %d epochs, %d tasks run again (%d from a saved state), "+
		"%d decisions, %d messages of streams, %d credits\n",
		t.File, t.Processes, t.Steps, t.Effects, t.Letters, t.Messages, t.Views, t.Epochs, t.Adoptions, t.Resumptions, t.Decisions, t.Arrivals, t.Credits)
	if t.Error != "" {
		fmt.Fprintf(w, "  violation: %s\n", t.Error)
	}
}
