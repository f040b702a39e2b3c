package main

import (
	"errors"
	"fmt"
	"slices"

	benchloop "github.com/coppice-go/coppice/bench/loop"
)

// What Save costs: beside the time that it takes to send the same bytes as often, and to
// wait for all, which no way to save them can do without.

// copiesMax bounds the copies that can be asked for.
const copiesMax = benchProcessesMax

// onlySaves tells whether Save is all that is measured.
func (b *benchCmd) onlySaves() bool { return slices.Equal(b.Op, []string{benchloop.Save}) }

// copies is how many there are of what is saved.
func (b *benchCmd) copies() int {
	if slices.Contains(b.Op, benchloop.Save) {
		return given(b.Copies, benchloop.CopiesDefault)
	}
	return given(b.Copies, 0)
}

func (b *benchCmd) checkCopies(ops []string) error {
	switch {
	case b.Copies == nil:
		return nil
	case !slices.Contains(ops, benchloop.Save):
		return errors.New("--copies without operation save; allowed with it")
	case *b.Copies < 1 || *b.Copies > copiesMax:
		return fmt.Errorf("%d copies; allowed: 1 to %d", *b.Copies, copiesMax)
	}
	return nil
}

// checkSaves checks a mode with Save, and the mode that is for Save.
func checkSaves(mode string, ops []string) error {
	for _, op := range ops {
		switch {
		case op == benchloop.Save && mode != replayMode && mode != sendsMode:
			return fmt.Errorf("mode %s with operation save; allowed: replay, sends", mode)
		case op != benchloop.Save && mode == sendsMode:
			return fmt.Errorf("mode sends with operation %s; allowed with: save", op)
		}
	}
	return nil
}

// moved is how many bytes an iteration must bring to other processes.
func (c *benchCell) moved() int {
	return benchloop.Moved(c.Op, c.Bytes, c.Processes) * max(c.Copies, 1)
}
