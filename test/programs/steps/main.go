// Command steps is a program for tests of what a job survives: every task saves, reduces and gathers in
// every step of 40 ms, and checks every value.
//
//	steps COUNT [PERIOD]
//
// With a period, such as 1s, a step takes that long, and every task prints the steps that it runs.
package main

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/test/program"
)

func main() {
	steps := program.Steps{Ended: func(step int) error {
		_, err := fmt.Println("step", step)
		return err
	}}
	var err error
	if len(os.Args) > 1 {
		steps.Count, err = strconv.Atoi(os.Args[1])
	}
	if len(os.Args) > 2 && err == nil {
		steps.Period, err = time.ParseDuration(os.Args[2])
		steps.Begun = func(task, step int) { fmt.Println("runs", task, step) }
	}
	if steps.Count < 1 || err != nil || len(os.Args) > 3 {
		fmt.Fprintln(os.Stderr, "usage: steps COUNT [PERIOD]")
		os.Exit(2)
	}
	coppice.Main(steps.Run)
}
