//go:build unix

package control_test

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/coppice-go/coppice/internal/control"
)

// stepVars are what srun sets for rank 5 of 8 on four nodes, as Slurm 22.05 was seen to.
const stepVars = "SLURM_PROCID=5 SLURM_LOCALID=1 SLURM_NODEID=2 SLURM_NTASKS=8 SLURM_STEP_NUM_TASKS=8 SLURM_STEP_NUM_NODES=4 " +
	"SLURM_STEP_TASKS_PER_NODE=2(x4) SLURM_STEP_NODELIST=node[08-11] SLURM_JOB_NODELIST=node[08-11] SLURM_JOB_ID=77 SLURM_STEP_ID=3 SLURMD_NODENAME=node10"

// stepWith finds the place of stepVars with changes; NAME= alone unsets.
func stepWith(home, changes string) (control.Place, error) {
	vars := split(stepVars)
	vars["HOME"] = home
	maps.Copy(vars, split(changes))
	return find(vars)
}

func TestStepsOnSeveralNodesHaveSeeds(t *testing.T) {
	home := t.TempDir()
	p, err := stepWith(home, "")
	if err != nil {
		t.Fatal(err)
	}
	if want := "node08:24700,node09:24700,node10:24700"; strings.Join(p.Seeds, ",") != want || p.Coordinator != want {
		t.Errorf("seeds %v, coordinator %s; want %s", p.Seeds, p.Coordinator, want)
	}
	if p.Rank != 5 || p.Size != 8 || p.LocalRank != 1 || p.LocalSize != 2 || p.Host || p.Node != "node10" || p.How != control.SrunHow {
		t.Errorf("%+v", p)
	}
	if p.KeyFile != filepath.Join(home, ".coppice", "key") || len(p.Key) != 32 {
		t.Errorf("key %x from %s", p.Key, p.KeyFile)
	}
	for name, c := range map[string]struct{ changes, want string }{
		"a port of the user's":    {"COPPICE_PORT=7000", "node08:7000,node09:7000,node10:7000"},
		"the job's list":          {"SLURM_STEP_NODELIST= SLURM_JOB_NODELIST=a,b,c,d", "a:24700,b:24700,c:24700"},
		"another step":            {"SLURM_STEP_ID=4", "node08:24701,node09:24701,node10:24701"},
		"another job":             {"SLURM_JOB_ID=78", "node08:24761,node09:24761,node10:24761"},
		"a restart":               {"SLURM_RESTART_COUNT=1", "node08:30201,node09:30201,node10:30201"},
		"the largest":             {"SLURM_JOB_ID=4294967295 SLURM_STEP_ID=4294967295 SLURM_RESTART_COUNT=4294967295", "node08:22085,node09:22085,node10:22085"},
		"two nodes":               {"SLURM_STEP_NUM_NODES=2 SLURM_NODEID=1 SLURM_STEP_TASKS_PER_NODE=4(x2) SLURM_STEP_NODELIST=n[1-2]", "n1:24700,n2:24700"},
		"srun's own PMI":          {"PMI_RANK=5 PMI_SIZE=8 PMI_JOBID=77.3", "node08:24700,node09:24700,node10:24700"},
		"its nodes by their list": {"SLURM_STEP_NUM_NODES=", "node08:24700,node09:24700,node10:24700"},
	} {
		if p, err := stepWith(home, c.changes); err != nil || p.Coordinator != c.want || p.How != control.SrunHow {
			t.Errorf("%s: %s, %s, %v; want %s", name, p.How, p.Coordinator, err, c.want)
		}
	}
}

// TestStepsAreStrangersToEachOther: the same user's runs have other keys and directories, and all processes of one the same.
func TestStepsAreStrangersToEachOther(t *testing.T) {
	home := t.TempDir()
	seen := map[string]string{}
	for _, changes := range []string{"", "SLURM_STEP_ID=4", "SLURM_JOB_ID=78", "SLURM_RESTART_COUNT=1"} {
		a, err1 := stepWith(home, changes)
		b, err2 := stepWith(home, changes+" SLURM_PROCID=4 SLURM_LOCALID=0")
		if err1 != nil || err2 != nil || string(a.Key) != string(b.Key) || a.Dir != b.Dir {
			t.Fatalf("%s: %v, %v: %x in %s, %x in %s", changes, err1, err2, a.Key, a.Dir, b.Key, b.Dir)
		}
		for _, what := range []string{string(a.Key), a.Dir} {
			if other, ok := seen[what]; ok {
				t.Errorf("%q and %q share a key or directory", changes, other)
			}
			seen[what] = changes
		}
	}
}

func TestRequeuedJobsAreRestarted(t *testing.T) {
	home := t.TempDir()
	for changes, want := range map[string]bool{"": false, "SLURM_RESTART_COUNT=0": false, "SLURM_RESTART_COUNT=2": true} {
		if p, err := stepWith(home, changes); err != nil || p.Restarted != want {
			t.Errorf("%s: %v, %v", changes, p.Restarted, err)
		}
		// A batch script that starts a program without srun.
		if p, err := find(split("SLURM_JOB_ID=1 SLURM_PROCID=0 " + changes)); err != nil || p.How != control.AloneHow || p.Restarted != want {
			t.Errorf("alone, %s: %+v, %v", changes, p, err)
		}
	}
}

func TestHalfOfSlurmsVariablesIsNamed(t *testing.T) {
	home := t.TempDir()
	for name, c := range map[string]struct{ changes, want string }{
		"no node id":           {"SLURM_NODEID=", "SLURM_NODEID is not set, though the step has 4 nodes; allowed: what srun sets; or set COPPICE_COORDINATOR=HOST:PORT"},
		"no local id":          {"SLURM_LOCALID=", "SLURM_LOCALID is not set, though"},
		"no tasks":             {"SLURM_STEP_TASKS_PER_NODE=", "SLURM_STEP_TASKS_PER_NODE is not set, though"},
		"no lists":             {"SLURM_STEP_NODELIST= SLURM_JOB_NODELIST=", "SLURM_JOB_NODELIST is not set, though"},
		"no job":               {"SLURM_JOB_ID=", "SLURM_JOB_ID is not set, though"},
		"only the job's nodes": {"SLURM_STEP_NUM_NODES= SLURM_JOB_NUM_NODES=4", "SLURM_STEP_NUM_NODES is not set, though the job has 4 nodes (SLURM_JOB_NUM_NODES)"},
		"nodes no number":      {"SLURM_STEP_NUM_NODES=x", `SLURM_STEP_NUM_NODES="x"; allowed: an integer from 1`},
		"a node too many":      {"SLURM_NODEID=4", `SLURM_NODEID="4"; allowed: an integer from 0 to 3`},
		"a task too many":      {"SLURM_LOCALID=2", `SLURM_LOCALID="2"; allowed: an integer from 0 to 1`},
		"no rank of it":        {"SLURM_PROCID=8", `SLURM_PROCID="8"; allowed: an integer from 0 to 7`},
		"bad tasks":            {"SLURM_STEP_TASKS_PER_NODE=2(x", `SLURM_STEP_TASKS_PER_NODE="2(x": bad "2(x"; allowed: numbers such as 4(x2),3`},
		"tasks of other nodes": {"SLURM_STEP_TASKS_PER_NODE=2(x3),1,1", `SLURM_STEP_TASKS_PER_NODE="2(x3),1,1" is for 5 nodes, though the step has 4`},
		"other tasks":          {"SLURM_STEP_TASKS_PER_NODE=2(x3),1", `SLURM_STEP_TASKS_PER_NODE="2(x3),1" has 7 tasks, though the step has 8`},
		"one node, and many":   {"SLURM_STEP_NUM_NODES=1 SLURM_NODEID=0", `SLURM_STEP_TASKS_PER_NODE="2(x4)" is for 4 nodes, though the step has 1`},
		"a bad list":           {"SLURM_STEP_NODELIST=node[08-", `SLURM_STEP_NODELIST="node[08-": bad a bracket without its end; allowed: names such as node[1-4,7],gpu01`},
		"another list":         {"SLURM_STEP_NODELIST=node[08-10]", `SLURM_STEP_NODELIST="node[08-10]" names 3 nodes, though the step has 4`},
		"a job that is none":   {"SLURM_JOB_ID=x", `SLURM_JOB_ID="x"; allowed: an integer from 0`},
		"a port that is none":  {"COPPICE_PORT=65536", `COPPICE_PORT="65536"; allowed: an integer from 1 to 65535`},
		"no home":              {"HOME=", "HOME is not set, so there is no key that all nodes share; allowed: COPPICE_KEY_FILE=FILE"},
		"no such home":         {"HOME=/nowhere", "mkdir /nowhere/.coppice: no such file or directory; or set COPPICE_KEY_FILE=FILE"},
		"a short key":          {"COPPICE_KEY=short", "COPPICE_KEY: a key of 5 bytes"},
	} {
		if p, err := stepWith(home, c.changes); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v, seeds %v", name, err, p.Seeds)
		}
	}
	// Whoever says where the coordinator is needs none of it.
	for _, name := range []string{"SLURM_NODEID", "SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE", "SLURM_STEP_NODELIST", "SLURM_JOB_ID", "SLURM_STEP_NUM_NODES"} {
		if p, err := stepWith(home, name+"= COPPICE_COORDINATOR=h:1 COPPICE_KEY=0123456789abcdef"); err != nil || p.Coordinator != "h:1" {
			t.Errorf("without %s: %s, %v", name, p.Coordinator, err)
		}
	}
}

func TestTheKeyAtHomeIsPrivate(t *testing.T) {
	for name, c := range map[string]struct {
		spoil func(dir string) error
		want  string
	}{
		"others can read it":        {func(dir string) error { return os.Chmod(filepath.Join(dir, "key"), 0o644) }, "has mode 0644, so others than its owner can reach the key; allowed: 0600 or 0400 (chmod 600 "},
		"others can read directory": {func(dir string) error { return os.Chmod(dir, 0o755) }, ".coppice has mode 0755; allowed: 0700; or set COPPICE_KEY_FILE=FILE"},
		"it is empty":               {func(dir string) error { return os.Truncate(filepath.Join(dir, "key"), 0) }, "a key of 0 bytes; allowed: 16 or more (remove the file, and it is made again)"},
		"the directory is a file": {func(dir string) error {
			if err := os.RemoveAll(dir); err != nil {
				return err
			}
			return os.WriteFile(dir, nil, 0o600)
		}, "allowed: a directory"},
	} {
		home := t.TempDir()
		if _, err := stepWith(home, ""); err != nil {
			t.Fatal(err)
		}
		if err := c.spoil(filepath.Join(home, ".coppice")); err != nil {
			t.Fatal(err)
		}
		_, err := stepWith(home, "")
		if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestOneKeyAtHome: however many come first at the same time, they agree on a key, and leave nothing else.
func TestOneKeyAtHome(t *testing.T) {
	for range 20 {
		home := t.TempDir()
		keys := make([]string, 16)
		var wg sync.WaitGroup
		for i := range keys {
			wg.Go(func() {
				p, err := stepWith(home, "")
				if err != nil {
					t.Error(err)
				}
				keys[i] = fmt.Sprintf("%x", p.Key)
			})
		}
		wg.Wait()
		for _, k := range keys {
			if k != keys[0] {
				t.Fatalf("two keys: %v", keys)
			}
		}
		info, err := os.Stat(filepath.Join(home, ".coppice", "key"))
		entries, _ := os.ReadDir(filepath.Join(home, ".coppice"))
		if err != nil || info.Mode().Perm() != 0o600 || len(entries) != 1 {
			t.Errorf("%v, %v, %v", info, err, entries)
		}
	}
}
