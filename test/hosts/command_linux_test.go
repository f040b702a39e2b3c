// Package hosts runs jobs of real processes, does to them what happens to machines and networks, and
// reports whether they go on as they must. Hosts are cut off, slow, stopped or dead; on one host,
// processes are stopped, many, or busy with large values.
//
//	make hosts                                     every row, 20 times
//	make hosts HOSTS_RUNS=3 HOSTS_ONLY='one host'  some rows, 3 times
//
// Hosts are network namespaces with an sshd each; coppice run --hosts runs on a fifth one.
// docs/hosts-bench.md describes the rows.
package hosts

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"strings"
	"syscall"
)

// commandWord as the first argument makes the test binary run the rows that its flags choose, and print
// the table.
const commandWord = "hosts"

func command(args []string) int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	ok, err := run(ctx, args)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "hosts:", err)
		return 2
	case !ok:
		return 1
	}
	return 0
}

func run(ctx context.Context, args []string) (ok bool, err error) {
	flag := flag.NewFlagSet(commandWord, flag.ExitOnError)
	runs := flag.Int("runs", 20, "how often to run each row")
	only := flag.String("only", "", "run only the rows whose names match this regular expression")
	parallel := flag.Int("parallel", max(1, runtime.NumCPU()/2), "how many jobs may run at once; rows that load the machine run alone")
	logs := flag.String("logs", "", "a directory for what the jobs of failed runs wrote")
	list := flag.Bool("list", false, "list the rows and run nothing")
	_ = flag.Parse(args) // exits if something is wrong
	if *runs < 1 || *parallel < 1 || flag.NArg() > 0 {
		return false, errors.New("bad flags; allowed: --runs and --parallel of 1 or more, and no words after the flags")
	}
	match, err := regexp.Compile(*only)
	if err != nil {
		return false, fmt.Errorf("rows %q: %w; allowed: a regular expression", *only, err)
	}
	var chosen []row
	for _, r := range rows() {
		if match.MatchString(r.name) {
			chosen = append(chosen, r)
		}
	}
	if len(chosen) == 0 {
		return false, fmt.Errorf("no row matches %q; --list lists them", *only)
	}
	if *list {
		for _, r := range chosen {
			fmt.Println(r.name)
		}
		return true, nil
	}
	lab, err := newLab(*logs)
	if err != nil {
		return false, err
	}
	defer lab.close()
	results := lab.runAll(ctx, chosen, *runs, *parallel, os.Stderr)
	fmt.Print(table(results))
	if ctx.Err() != nil {
		return false, errors.New("interrupted: the table has what was run until then")
	}
	for _, r := range results {
		ok = ok || r.verdict() == "ok"
		if strings.HasPrefix(r.verdict(), "FAILS") {
			return false, nil
		}
	}
	return ok, nil
}
