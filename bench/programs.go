package main

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/coppice-go/coppice/bench/loop"
)

//go:embed openmpi/loop.c
var openMPILoop []byte

const module = "github.com/coppice-go/coppice"

// program is one that was built for this run, or why it was not.
type program struct {
	path string
	err  error
}

// programs are what the sides are made of.
type programs struct {
	launcher    program // the command coppice
	coppiceLoop program
	rawLoop     program
	hog         program
	mpirun      program
	mpiLoop     program
	mpiVersion  string
}

// build builds all programs into dir.
func build(ctx context.Context, dir string) *programs {
	ps := &programs{
		launcher:    goBuild(ctx, dir, "cmd/coppice"),
		coppiceLoop: goBuild(ctx, dir, "bench/coppiceloop"),
		rawLoop:     goBuild(ctx, dir, "bench/rawloop"),
		hog:         goBuild(ctx, dir, "bench/hog"),
	}
	ps.findOpenMPI(ctx, dir)
	return ps
}

func goBuild(ctx context.Context, dir, folder string) program {
	path := filepath.Join(dir, filepath.Base(folder))
	cmd := exec.CommandContext(ctx, "go", "build", "-o", path, module+"/"+folder)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return program{err: fmt.Errorf("%s does not build: %s", folder, gist(out, err))}
	}
	return program{path: path}
}

// findOpenMPI looks for Open MPI and compiles its loop. Debian's own names come
// first: the plain ones may belong to another MPI.
func (ps *programs) findOpenMPI(ctx context.Context, dir string) {
	mpirun, errRun := lookPath("mpirun.openmpi", "mpirun")
	mpicc, errCC := lookPath("mpicc.openmpi", "mpicc")
	if err := errors.Join(errRun, errCC); err != nil {
		ps.mpirun.err = errors.New("no Open MPI here; to install it on Debian: bash .ci/install-openmpi")
		ps.mpiLoop.err = ps.mpirun.err
		return
	}
	ps.mpirun.path = mpirun
	version, err := exec.CommandContext(ctx, mpirun, "--version").CombinedOutput()
	ps.mpiVersion = gist(version, err)
	if !strings.Contains(ps.mpiVersion, "Open MPI") && !strings.Contains(ps.mpiVersion, "OpenRTE") {
		ps.mpirun.err = fmt.Errorf("%s is not Open MPI's; to install it on Debian: bash .ci/install-openmpi", mpirun)
		return
	}
	source, path := filepath.Join(dir, "loop.c"), filepath.Join(dir, "mpiloop")
	if err := os.WriteFile(source, openMPILoop, 0o600); err != nil {
		ps.mpiLoop.err = err
		return
	}
	out, err := exec.CommandContext(ctx, mpicc, "-O2", "-o", path, source).CombinedOutput()
	if err != nil {
		ps.mpiLoop.err = fmt.Errorf("openmpi/loop.c does not build: %s", gist(out, err))
		return
	}
	ps.mpiLoop.path = path
}

func lookPath(names ...string) (path string, err error) {
	for _, name := range names {
		if path, err = exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", err
}

// missing says why a side cannot run, or nil.
func (ps *programs) missing(s side) error {
	switch s {
	case coppiceUnix, coppiceTCP, coppiceCorrected:
		return errors.Join(ps.launcher.err, ps.coppiceLoop.err)
	case coppiceLocal:
		return ps.coppiceLoop.err
	case rawUnix:
		return ps.rawLoop.err
	default:
		if ps.mpirun.err != nil {
			return ps.mpirun.err
		}
		return ps.mpiLoop.err
	}
}

// command returns the words that run jobs on p processes of a side.
func (ps *programs) command(s side, p int, jobs []loop.Job) []string {
	var words []string
	n := strconv.Itoa(p)
	switch s {
	case coppiceUnix:
		words = []string{ps.launcher.path, "run", "-n", n, "--", ps.coppiceLoop.path}
	case coppiceTCP:
		words = []string{ps.launcher.path, "run", "-n", n, "--env", "COPPICE_TRANSPORT=tcp", "--", ps.coppiceLoop.path}
	case coppiceCorrected:
		words = []string{ps.launcher.path, "run", "-n", n, "--", ps.coppiceLoop.path, "-mode", "checked"}
	case coppiceLocal:
		words = []string{ps.coppiceLoop.path, "-local", n}
	case rawUnix:
		words = []string{ps.rawLoop.path}
	case openMPITCP:
		words = ps.mpi(n, "tcp,self", "--mca", "btl_tcp_if_include", "lo")
	case openMPIShared:
		words = ps.mpi(n, "vader,self")
	}
	return append(words, loop.Args(jobs)...)
}

// mpi returns the call of mpirun, with processes that yield when idle: without
// that, more processes than cores stall each other for milliseconds.
func (ps *programs) mpi(n, transports string, more ...string) []string {
	words := []string{
		ps.mpirun.path, "--oversubscribe", "--allow-run-as-root", "--mca", "mpi_yield_when_idle", "1",
		"--mca", "pml", "ob1", "--mca", "btl", transports,
	}
	return append(append(words, more...), "-np", n, ps.mpiLoop.path)
}

// A launch is bounded by launchTime, and jobTime for each job after the first; the
// slowest take a few seconds each.
const (
	launchTime = time.Minute
	jobTime    = 20 * time.Second
)

// launch runs a command of so many jobs to its end and returns how long that took.
func launch(ctx context.Context, words []string, jobs int) (time.Duration, error) {
	most := launchTime + time.Duration(jobs-1)*jobTime
	ctx, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	cmd := exec.CommandContext(ctx, words[0], words[1:]...)
	// A launcher ends its processes when it is asked to end, not when it is killed.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = 5 * time.Second
	began := time.Now()
	out, err := cmd.CombinedOutput()
	elapsed := time.Since(began)
	if ctx.Err() == context.DeadlineExceeded {
		return 0, fmt.Errorf("did not end within %v", most)
	}
	if err != nil {
		return 0, errors.New(gist(out, err))
	}
	return elapsed, nil
}

// gist returns the first line of a program's output that says something, or else
// its error.
func gist(out []byte, err error) string {
	for text := range strings.Lines(string(out)) {
		if text = strings.TrimSpace(text); strings.Trim(text, "-=") != "" {
			return text
		}
	}
	if err == nil {
		return ""
	}
	return err.Error()
}
