// Package openmpi finds Open MPI on this machine and runs bench's loops on it. Its API may change.
package openmpi

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

	"github.com/coppice-go/coppice/bench/loop"
)

//go:embed loop.c
var source []byte

// MPI is the Open MPI installed here, and the loop that was compiled for it.
type MPI struct {
	Version string
	Mpirun  string // its path
	Loop    string // the loop's path
}

// ErrMissing is returned if Open MPI is not installed; it says how to install it.
var ErrMissing = errors.New("no Open MPI here; to install it on Debian: bash .ci/install-openmpi")

// Build looks for Open MPI and compiles its loop into dir. Debian's own names come
// first: the plain ones may belong to another MPI.
func Build(ctx context.Context, dir string) (m MPI, err error) {
	mpirun, errRun := lookPath("mpirun.openmpi", "mpirun")
	mpicc, errCC := lookPath("mpicc.openmpi", "mpicc")
	if errors.Join(errRun, errCC) != nil {
		return m, ErrMissing
	}
	out, err := exec.CommandContext(ctx, mpirun, "--version").CombinedOutput()
	version := loop.Gist(out, err)
	if !strings.Contains(version, "Open MPI") && !strings.Contains(version, "OpenRTE") {
		return m, fmt.Errorf("%s is not Open MPI's: %w", mpirun, ErrMissing)
	}
	m = MPI{Version: version, Mpirun: mpirun, Loop: filepath.Join(dir, "mpiloop")}
	file := filepath.Join(dir, "loop.c")
	if err := os.WriteFile(file, source, 0o600); err != nil {
		return m, err
	}
	if out, err := exec.CommandContext(ctx, mpicc, "-O2", "-o", m.Loop, file).CombinedOutput(); err != nil {
		return m, fmt.Errorf("openmpi/loop.c does not build: %s", loop.Gist(out, err))
	}
	return m, nil
}

func lookPath(names ...string) (path string, err error) {
	for _, name := range names {
		if path, err = exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", err
}

// Transport selects what messages travel on.
type Transport string

// The transports.
const (
	TCP    Transport = "tcp,self"
	Shared Transport = "vader,self" // shared memory
)

// Command returns the words that run jobs on p processes, with processes that yield when idle: without
// that, more processes than cores stall each other for milliseconds.
func (m MPI) Command(p int, t Transport, jobs []loop.Job) []string {
	words := []string{
		m.Mpirun, "--oversubscribe", "--allow-run-as-root", "--mca", "mpi_yield_when_idle", "1",
		"--mca", "pml", "ob1", "--mca", "btl", string(t),
	}
	if t == TCP {
		words = append(words, "--mca", "btl_tcp_if_include", "lo")
	}
	return append(append(words, "-np", strconv.Itoa(p), m.Loop), loop.Args(jobs)...)
}
