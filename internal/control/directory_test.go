//go:build unix

package control_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-go/coppice/internal/control"
)

// slurmTask are the variables of a task of a Slurm step on one node.
func slurmTask(name string, rank, size int) []string {
	return []string{
		"SLURM_JOB_ID=" + name, "SLURM_STEP_ID=0", fmt.Sprint("SLURM_PROCID=", rank), fmt.Sprint("SLURM_LOCALID=", rank),
		fmt.Sprint("SLURM_NTASKS=", size), "SLURM_NODEID=0", fmt.Sprint("SLURM_STEP_TASKS_PER_NODE=", size),
	}
}

// TestTasksOfOneNodeMeetWhateverTheirTMPDIR: slurmstepd sets TMPDIR for the first task
// of a node alone, and a login sets XDG_RUNTIME_DIR.
func TestTasksOfOneNodeMeetWhateverTheirTMPDIR(t *testing.T) {
	name := fmt.Sprint("private-", os.Getpid())
	own := t.TempDir()
	for _, private := range []string{"TMPDIR=" + own, "XDG_RUNTIME_DIR=" + own} {
		first := start(t, "return", append(slurmTask(name, 0, 2), private))
		second := start(t, "return", slurmTask(name, 1, 2))
		for _, a := range []*actor{first, second} {
			a.lines.expect(t, "peers 2")
			a.lines.expect(t, "finished")
		}
	}
}

func TestBadParentOfDirectoriesIsNamed(t *testing.T) {
	folder, err := os.MkdirTemp("/tmp", "coppice") // a short name, wherever temporary files are
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(folder) })
	file, closed := filepath.Join(folder, "file"), filepath.Join(folder, "closed")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(closed, 0o500); err != nil {
		t.Fatal(err)
	}
	flaws := map[string]string{
		"here": "is not absolute", "/nowhere": "does not exist", file: "is not a directory", "/tmp/" + strings.Repeat("x", 80): "has 85 bytes",
	}
	if os.Getuid() != 0 {
		flaws[closed] = "is not open to this user for reading and writing"
	} else if runtime.GOOS == "linux" { // root may write to it, and cannot
		flaws["/proc"] = "takes no directories: no such file or directory"
	}
	for dir, flaw := range flaws {
		env := map[string]string{control.VarParent: dir}
		getenv := func(name string) string { return env[name] }
		name, want := flaw, fmt.Sprintf("COPPICE_JOBS_DIR=%q %s; allowed: the absolute path, of up to 61 bytes, of a directory in which this user can make others; or unset it", dir, flaw)
		if made, err := control.MakeDir(getenv); !errors.As(err, new(control.BadJobsDir)) || err.Error() != want {
			t.Errorf("%s: %q, %v", name, made, err)
		}
		for _, v := range slurmTask("x", 0, 1) {
			name, value, _ := strings.Cut(v, "=")
			env[name] = value
		}
		if p, err := control.FromEnvironment(getenv); err == nil || err.Error() != want {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
}

// TestKeyFileThatOthersReachIsRefused: for the group and for all.
func TestKeyFileThatOthersReachIsRefused(t *testing.T) {
	secret := keyFile(t, 32)
	vars := split("COPPICE_RANK=0 COPPICE_SIZE=1 COPPICE_COORDINATOR=h:1 COPPICE_KEY_FILE=" + secret)
	for mode, ok := range map[os.FileMode]bool{0o600: true, 0o400: true, 0o640: false, 0o604: false, 0o644: false, 0o620: false} {
		if err := os.Chmod(secret, mode); err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("COPPICE_KEY_FILE: %s has mode %#o", secret, mode)
		if _, err := find(vars); ok != (err == nil) || err != nil && !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%#o: %v", mode, err)
		}
	}
}

// TestDirectoryByHandCannotBeForeseen: without the key nobody knows its name.
func TestDirectoryByHandCannotBeForeseen(t *testing.T) {
	dirs := map[string]bool{}
	for _, key := range []string{"0123456789abcdef", "0123456789abcdeF"} {
		for _, started := range []string{"COPPICE_RANK=0 COPPICE_SIZE=4", strings.Join(slurmTask("7", 0, 4), " ")} {
			p, err := find(split(started + " COPPICE_COORDINATOR=h:1 COPPICE_KEY=" + key))
			if err != nil {
				t.Fatal(err)
			}
			dirs[p.Dir] = true
		}
	}
	if len(dirs) != 4 {
		t.Errorf("%d directories of 4 jobs: %v", len(dirs), dirs)
	}
}

// TestSquattedDirectoryIsRefusedAtOnce: another user has made the directory that a job
// without a key derives from its name.
func TestSquattedDirectoryIsRefusedAtOnce(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root can make what belongs to another user: run this test as root")
	}
	name := fmt.Sprint("squatted-", os.Getpid())
	dir := dirOf(t, slurmTask(name, 0, 2))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Chown(dir, 12345, 0); err != nil {
		t.Fatal(err)
	}
	for rank := range 2 {
		a := start(t, "work", slurmTask(name, rank, 2))
		if note := a.lines.expect(t, "error "); !strings.Contains(note, dir+" belongs to user 12345; allowed: our own, 0") {
			t.Error(note)
		}
	}
}

// TestJobsElsewhereAreFound: who asks need not have the variables of who started a job.
func TestJobsElsewhereAreFound(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the kernel does not list sockets: runs on Linux")
	}
	dir := filepath.Join(t.TempDir(), "coppice-elsewhere")
	s := serve(t, control.ServerConfig{Dir: dir, Size: 1})
	defer s.Close()
	for parent, want := range map[string]bool{"": true, filepath.Dir(dir): true, t.TempDir(): false} {
		jobs := control.Jobs(func(name string) string { return map[string]string{control.VarParent: parent}[name] })
		if slices.Contains(jobs, dir) != want {
			t.Errorf("%s=%s: %q, want %s among them: %v", control.VarParent, parent, jobs, dir, want)
		}
	}
}
