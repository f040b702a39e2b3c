package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/coppice-go/coppice/bench/loop"
	"github.com/coppice-go/coppice/bench/openmpi"
)

const module = "github.com/coppice-go/coppice"

// program is a program that was built for this run, or the reason why it was not.
type program struct {
	path string
	err  error
}

// programs are the programs of all sides.
type programs struct {
	launcher    program // the command coppice
	coppiceLoop program
	rawLoop     program
	hog         program
	mpi         openmpi.MPI
	mpiErr      error // why there is no Open MPI
	other       *other
}

// build builds all programs into dir. Where costs are counted these are ours only, and none may be
// missing; with --of they are the other commit's.
func build(ctx context.Context, dir string, o options) (ps *programs, err error) {
	ps = &programs{hog: goBuild(ctx, "", dir, "bench/hog")}
	if o.of == "" {
		ps.launcher, ps.coppiceLoop = goBuild(ctx, "", dir, "cmd/coppice"), goBuild(ctx, "", dir, "bench/coppiceloop")
	}
	if !o.counting() {
		ps.rawLoop = goBuild(ctx, "", dir, "bench/rawloop")
		ps.mpi, ps.mpiErr = openmpi.Build(ctx, dir)
		return ps, nil
	}
	if commit := cmp.Or(o.against, o.of); commit != "" {
		ps.other, err = buildOther(ctx, dir, commit, o.plain)
	}
	return ps, errors.Join(ps.hog.err, ps.launcher.err, ps.coppiceLoop.err, err)
}

// goBuild builds the program in a folder of the module in the folder source; "": here.
func goBuild(ctx context.Context, source, dir, folder string) program {
	path := filepath.Join(dir, filepath.Base(folder))
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, module+"/"+folder)
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return program{err: fmt.Errorf("%s does not build: %s", folder, loop.Gist(out, err))}
	}
	return program{path: path}
}

// missing returns why a side cannot run, or nil.
func (ps *programs) missing(s side) error {
	switch s {
	case coppiceOther:
		return nil // there is no other without it
	case coppiceUnix, coppiceReplay, coppiceShared, coppiceTCP, coppiceCorrected, coppiceCopied:
		return errors.Join(ps.launcher.err, ps.coppiceLoop.err)
	case coppiceLocal:
		return ps.coppiceLoop.err
	case rawUnix:
		return ps.rawLoop.err
	default:
		return ps.mpiErr
	}
}

// command returns the words that run jobs on p processes of a side.
func (ps *programs) command(s side, p int, jobs []loop.Job) []string {
	run := func(launcher, program, transport, mode string) []string {
		return []string{launcher, "run", "-n", strconv.Itoa(p), "--env", "COPPICE_TRANSPORT=" + transport, "--", program, "-mode", mode}
	}
	ours := func(transport, mode string) []string {
		return run(ps.launcher.path, ps.coppiceLoop.path, transport, mode)
	}
	var words []string
	switch s {
	case coppiceUnix:
		words = ours("unix", "plain")
	case coppiceReplay:
		words = ours("unix", "replay")
	case coppiceShared:
		words = ours("shared", "replay")
	case coppiceOther:
		words = run(ps.other.launcher.path, ps.other.coppiceLoop.path, "unix", ps.other.mode)
	case coppiceTCP:
		words = ours("tcp", "plain")
	case coppiceCorrected:
		words = ours("unix", "checked")
	case coppiceCopied:
		words = ours("unix", "copied")
	case coppiceLocal:
		words = []string{ps.coppiceLoop.path, "-local", strconv.Itoa(p)}
	case rawUnix:
		words = []string{ps.rawLoop.path}
	case openMPITCP:
		return ps.mpi.Command(p, openmpi.TCP, jobs)
	case openMPIShared:
		return ps.mpi.Command(p, openmpi.Shared, jobs)
	}
	return append(words, loop.Args(jobs)...)
}

// startHogs keeps n processors busy until stop is called. Hogs also end with this process, since its
// end closes their standard input.
func (ps *programs) startHogs(n int) (stop func(), err error) {
	var started []*exec.Cmd
	var inputs []io.Closer
	stop = func() {
		for i, cmd := range started {
			_ = cmd.Process.Kill()
			_ = cmd.Wait() // it was killed
			_ = inputs[i].Close()
		}
	}
	if n > 0 && ps.hog.err != nil {
		return nil, ps.hog.err
	}
	for range n {
		cmd := exec.Command(ps.hog.path)
		input, err := cmd.StdinPipe()
		if err = errors.Join(err, cmd.Start()); err != nil {
			stop()
			return nil, fmt.Errorf("a hog does not start: %w", err)
		}
		started, inputs = append(started, cmd), append(inputs, input)
	}
	return stop, nil
}
