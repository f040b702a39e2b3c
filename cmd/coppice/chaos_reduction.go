package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/coppice-go/coppice/chaos"
	"github.com/coppice-go/coppice/chaos/reduction"
	"github.com/coppice-go/coppice/protocol"
	"github.com/coppice-go/coppice/protocol/collective"
)

// reductionPrefix begins the names of corrected reductions; the operation follows.
const reductionPrefix = "corrected-"

func isReduction(name string) bool { return strings.HasPrefix(name, reductionPrefix) }

// parseReduction reads the name of a corrected reduction and how many deaths it outlives.
func parseReduction(text string) (op collective.Op, failures int, err error) {
	name, digits, found := strings.Cut(strings.TrimPrefix(text, reductionPrefix), ":")
	op, err = collective.ParseOp(name)
	if err == nil && found {
		failures, err = strconv.Atoi(digits)
	} else {
		failures = 1
	}
	if err != nil || op != collective.Reduce && op != collective.AllReduce || failures < 0 || failures > collective.FailuresMax {
		return 0, 0, fmt.Errorf("protocol %q; allowed: corrected-reduce:F, corrected-allreduce:F with F from 0 to %d", text, collective.FailuresMax)
	}
	return op, failures, nil
}

func (x *chaosCmd) attackReduction(name string) (chaos.Report, error) {
	op, failures, err := parseReduction(name)
	if err != nil {
		return chaos.Report{}, err
	}
	a := reduction.Attack{
		Spec:   collective.Spec{Op: op, P: x.P, Root: protocol.Rank(x.Root), Failures: failures},
		Failed: given(x.Dead, min(failures, x.P-1)), Crashes: given(x.Crashes, min(failures, x.P)),
		LossyCrashes: x.Lossy, Reorder: x.Reorder, KeepGoing: x.Count, StatesMax: x.States, Progress: x.made,
	}
	if x.Exhaustive {
		return a.Exhaustive()
	}
	return a.Random(x.Seed, x.Runs, x.Workers)
}
