// Command bench compares Coppice with Open MPI and with raw loops, as ratios within
// one run. README.md says what is measured, and how to read it.
//
//	go run ./bench [--collectives [--tcp] [--shared]] [--quick] [--only TEXT] [--rounds N] [--markdown] [--json FILE]
//	go run ./bench --against COMMIT [--plain] [--collectives] [--quick] [--only TEXT] [--rounds N] [--markdown] [--json FILE]
//	go run ./bench --counts [--write | --of COMMIT] [--only TEXT] [--rounds N]
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"github.com/coppice-go/coppice/bench/loop"
)

type options struct {
	collectives bool
	tcp         bool
	shared      bool
	against     string // a commit of ours, instead of the peers
	counts      bool   // what operations cost, compared with limits
	write       bool   // the limits
	of          string // another commit's costs
	plain       bool   // ours in mode Plain
	quick       bool
	only        string
	rounds      int
	markdown    bool
	json        string
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) (exit int) {
	o, err := parse(args, stdout)
	if errors.Is(err, flag.ErrHelp) {
		return 0
	}
	var chosen []line
	if err == nil {
		chosen, err = choose(o.lines(), o)
	}
	if err == nil && o.json != "" {
		// Find a bad name now, not after minutes of measuring.
		err = os.WriteFile(o.json, nil, 0o644)
	}
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
		return 2
	}
	do := compare
	if o.counts {
		do = count
	}
	whole, err := do(ctx, o, chosen, stdout, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "bench:", err)
	}
	if err != nil || !whole {
		return 1
	}
	return 0
}

func parse(args []string, help io.Writer) (o options, err error) {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.BoolVar(&o.collectives, "collectives", false, "every collective against Open MPI, a table for each number of processes")
	flags.BoolVar(&o.tcp, "tcp", false, "with --collectives: Coppice over TCP beside it")
	flags.BoolVar(&o.shared, "shared", false, "with --collectives: over shared memory, in the mode replay, against Open MPI's shared memory, without targets")
	flags.StringVar(&o.against, "against", "", "against ourselves at `COMMIT`: times, and what operations cost")
	flags.BoolVar(&o.counts, "counts", false, "count what operations cost, and fail above the limits in limits.txt")
	flags.BoolVar(&o.write, "write", false, "with --counts: write limits.txt anew")
	flags.StringVar(&o.of, "of", "", "with --counts: of `COMMIT`")
	flags.BoolVar(&o.plain, "plain", false, "with --against and --counts: in mode Plain, not in the default one")
	flags.BoolVar(&o.quick, "quick", false, "only lines with a target, shorter loops, 3 rounds: less than a minute")
	flags.StringVar(&o.only, "only", "", "only lines whose name contains `TEXT`, such as \"broadcast 8 B, p = 32\"")
	flags.IntVar(&o.rounds, "rounds", 0, "launches of each side for one line; 0: 9, or 3 with --quick")
	flags.BoolVar(&o.markdown, "markdown", false, "print the table as Markdown")
	flags.StringVar(&o.json, "json", "", "write all figures to `FILE`")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			flags.SetOutput(help)
			flags.PrintDefaults()
		}
		return o, err
	}
	if flags.NArg() > 0 {
		return o, fmt.Errorf("unexpected %q, allowed: options only", flags.Arg(0))
	}
	for _, wrong := range []struct {
		given bool
		text  string
	}{
		{o.tcp && !o.collectives, "--tcp alone, allowed: with --collectives"},
		{o.shared && !o.collectives, "--shared alone, allowed: with --collectives"},
		{(o.tcp || o.shared) && o.against != "", "--tcp or --shared with --against, allowed: one of them"},
		{o.counts && (o.against != "" || o.collectives || o.quick || o.markdown || o.json != ""), "--counts with others, allowed: --write, --of, --plain, --only and --rounds"},
		{(o.write || o.of != "") && !o.counts, "--write or --of alone, allowed: with --counts"},
		{o.write && (o.of != "" || o.plain || o.only != ""), "--write with a part, allowed: --counts --write"},
		{o.plain && !o.counting(), "--plain alone, allowed: with --against or --counts"},
		{o.rounds < 0, fmt.Sprintf("--rounds is %d, allowed: 0 or more", o.rounds)},
	} {
		if wrong.given {
			return o, errors.New(wrong.text)
		}
	}
	if o.rounds == 0 {
		o.rounds = 9
		if o.quick {
			o.rounds = 3
		}
		if o.counts {
			o.rounds = countRounds
		}
	}
	return o, nil
}

// counting reports whether costs are counted.
func (o options) counting() bool { return o.counts || o.against != "" }

// lines returns the comparisons to choose from.
func (o options) lines() []line {
	switch {
	case o.counts:
		all := counted(o.ours(), "", countedSizes)
		if o.ours() == coppiceReplay { // what users have by default, and what they have without shared memory
			all = append(counted(coppiceShared, "", countedSizes), all...)
		}
		return all
	case o.against != "":
		return o.againstLines()
	case o.collectives:
		return collectives(o.tcp, o.shared)
	default:
		return lines()
	}
}

// choose returns the lines that the options ask for.
func choose(all []line, o options) (chosen []line, err error) {
	for _, l := range all {
		if (!o.quick || l.target.ratio > 0 || l.cell || o.against != "") && strings.Contains(l.String(), o.only) {
			chosen = append(chosen, l)
		}
	}
	if len(chosen) == 0 {
		return nil, fmt.Errorf("--only %q names no line, allowed: part of a name such as %q", o.only, all[0])
	}
	return chosen, nil
}

var errInterrupted = errors.New("interrupted")

// compare measures the lines and writes the table. It reports whether everything that was asked for
// could be measured.
func compare(ctx context.Context, o options, chosen []line, stdout, stderr io.Writer) (whole bool, err error) {
	dir, err := os.MkdirTemp("", "coppice-bench-")
	if err != nil {
		return false, err
	}
	defer os.RemoveAll(dir)
	m := machine{
		Taken: time.Now().Format(time.RFC3339), System: runtime.GOOS + "/" + runtime.GOARCH,
		Cores: runtime.NumCPU(), Go: runtime.Version(), Quick: o.quick,
	}
	ps, err := build(ctx, dir, o)
	if ctx.Err() != nil { // otherwise it would report as missing what was not built for this reason
		return false, errInterrupted
	}
	if err != nil {
		return false, err
	}
	m.OpenMPI = ps.mpi.Version
	if ps.other != nil {
		m.Against = ps.other.String()
	}
	before, errBefore := readUsage()
	chosen, whole = ps.able(chosen, stderr)
	if len(chosen) == 0 {
		return false, errors.New("nothing is left to measure")
	}
	var results []result
	all := batches(chosen)
	shown := newProgress(stderr, all, o.rounds)
	for _, b := range all {
		shown.begin(b)
		measured := ps.measure(ctx, b, o, dir, shown.launched)
		shown.clear()
		if ctx.Err() != nil {
			return false, errInterrupted
		}
		for _, r := range measured {
			if r.failed != nil {
				whole = false
				fmt.Fprintf(stderr, "bench: %s: %v\n", r.line, r.failed)
			}
		}
		results = append(results, measured...)
	}
	if after, err := readUsage(); err == nil && errBefore == nil {
		m.Disturbance = new(between(before, after))
	}
	return whole, report(o, m, results, stdout)
}

// able leaves out the lines whose peer is missing, and prints each reason once. Without Coppice's side
// the peers are still measured, but the comparison is not whole.
func (ps *programs) able(chosen []line, stderr io.Writer) (able []line, whole bool) {
	whole = true
	said := map[string]bool{}
	say := func(err error, consequence string) {
		text := strings.ReplaceAll(err.Error(), "\n", "; ")
		if !said[text] {
			said[text] = true
			fmt.Fprintf(stderr, "bench: %s: %s\n", consequence, text)
		}
	}
	for _, l := range chosen {
		if ps.other != nil && ps.other.old && l.op == loop.Sends { // the other commit does not have it
			continue
		}
		if err := ps.missing(l.theirs); err != nil {
			say(err, "some lines are left out")
			continue
		}
		if err := ps.missing(l.ours); err != nil {
			say(err, "only the peers are measured")
			whole = false
		}
		able = append(able, l)
	}
	return able, whole
}

func report(o options, m machine, results []result, stdout io.Writer) error {
	write := table
	if o.markdown {
		write = markdown
	}
	var means []mean
	err := error(nil)
	switch {
	case o.against != "":
		err = write(stdout, againstColumns, againstRows(results))
	case o.collectives:
		means = geometric(results)
		err = writeCollectives(stdout, write, means, results)
	default:
		err = write(stdout, lineColumns, rows(results))
	}
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(stdout, "\n%s\n", m.summary(o.rounds)); err != nil || o.json == "" {
		return err
	}
	file, err := os.Create(o.json)
	if err != nil {
		return err
	}
	return errors.Join(writeJSON(file, m, means, results), file.Close())
}
