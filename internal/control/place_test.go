//go:build unix

package control_test

import (
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coppice-go/coppice/internal/control"
	"github.com/coppice-go/coppice/test/port"
)

// find finds the place that variables give.
func find(vars map[string]string) (control.Place, error) {
	return control.FromEnvironment(func(name string) string { return vars[name] })
}

// keyFile is a file with so many bytes.
func keyFile(t *testing.T, bytes int) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(name, []byte(strings.Repeat("k", bytes)), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestPlaces(t *testing.T) {
	secret := keyFile(t, 40)
	for name, c := range map[string]struct {
		vars string
		want control.Place
	}{
		"nothing":   {"", control.Place{Size: 1, Host: true, LocalSize: 1, How: control.AloneHow}},
		"open mpi":  {"OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=3 OMPI_COMM_WORLD_LOCAL_SIZE=4 PMIX_NAMESPACE=a", control.Place{Rank: 3, Size: 4, LocalRank: 3, LocalSize: 4, How: control.MpirunHow}},
		"its root":  {"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=4 OMPI_MCA_ess_base_jobid=7", control.Place{Size: 4, LocalSize: 4, Host: true, How: control.MpirunHow}},
		"mpich":     {"PMI_RANK=1 PMI_SIZE=2 MPI_LOCALRANKID=1 MPI_LOCALNRANKS=2 COPPICE_JOB=x SLURM_PROCID=0 SLURM_STEP_ID=1 SLURM_NTASKS=1", control.Place{Rank: 1, Size: 2, LocalRank: 1, LocalSize: 2, How: control.MpirunHow}},
		"slurm":     {"SLURM_PROCID=2 SLURM_NTASKS=3 SLURM_LOCALID=2 SLURM_JOB_ID=77 SLURM_STEP_ID=0", control.Place{Rank: 2, Size: 3, LocalRank: 2, LocalSize: 3, How: control.SrunHow}},
		"its step":  {"SLURM_PROCID=1 SLURM_NTASKS=9 SLURM_STEP_NUM_TASKS=2 SLURM_JOB_ID=77 SLURM_STEP_ID=0", control.Place{Rank: 1, Size: 2, LocalRank: 1, LocalSize: 2, How: control.SrunHow}},
		"its nodes": {"SLURM_PROCID=9 SLURM_NTASKS=11 SLURM_LOCALID=1 SLURM_NODEID=2 SLURM_STEP_TASKS_PER_NODE=4(x2),3 SLURM_STEP_ID=0 COPPICE_COORDINATOR=h:1 COPPICE_KEY=0123456789abcdef", control.Place{Rank: 9, Size: 11, LocalRank: 1, LocalSize: 3, Coordinator: "h:1", How: control.SrunHow}},
		"its batch": {"SLURM_PROCID=0 SLURM_NTASKS=9 SLURM_JOB_ID=77", control.Place{Size: 1, Host: true, LocalSize: 1, How: control.AloneHow}},
		"two hosts": {"OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=1 OMPI_COMM_WORLD_LOCAL_SIZE=2 PMIX_NAMESPACE=a COPPICE_COORDINATOR=h:1 COPPICE_KEY_FILE=" + secret, control.Place{Rank: 3, Size: 4, LocalRank: 1, LocalSize: 2, Coordinator: "h:1", How: control.MpirunHow}},
		"by hand":   {"COPPICE_RANK=0 COPPICE_SIZE=4 COPPICE_INCARNATION=2 COPPICE_COORDINATOR=h:1 COPPICE_KEY=0123456789abcdef", control.Place{Size: 4, LocalSize: 4, Incarnation: 2, Host: true, Coordinator: "h:1", How: control.ManualHow}},
		"a pod":     {"JOB_COMPLETION_INDEX=3 COPPICE_SIZE=8 COPPICE_COORDINATOR=j-0.s:1,j-1.s:1 COPPICE_KEY=0123456789abcdef", control.Place{Rank: 3, Size: 8, LocalSize: 1, Coordinator: "j-0.s:1,j-1.s:1", How: control.ManualHow}},
		"one alone": {"JOB_COMPLETION_INDEX=3", control.Place{Size: 1, Host: true, LocalSize: 1, How: control.AloneHow}},
	} {
		p, err := find(split(c.vars))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if c.want.Incarnation == 0 && c.want.How != control.ManualHow { // the coordinator chooses it there
			c.want.Incarnation = 1
		}
		if local := filepath.Join(p.Dir, "control.sock"); c.want.Coordinator == "" && p.Dir != "" {
			c.want.Coordinator = local
		}
		if (p.Key != nil) != strings.Contains(c.vars, "COPPICE_KEY") || (p.Dir == "") != (p.How == control.AloneHow) {
			t.Errorf("%s: key %q, directory %q", name, p.Key, p.Dir)
		}
		p.Dir, p.Key = "", nil
		if got, want := describe(p), describe(c.want); got != want {
			t.Errorf("%s:\n%s, want\n%s", name, got, want)
		}
	}
}

func describe(p control.Place) string {
	return strings.Join(p.Vars(), " ") + " " + p.Coordinator + " " + p.How + map[bool]string{true: " host"}[p.Host]
}

func split(vars string) map[string]string {
	m := map[string]string{}
	for v := range strings.FieldsSeq(vars) {
		name, value, _ := strings.Cut(v, "=")
		m[name] = value
	}
	return m
}

func TestBadVariablesAreNamed(t *testing.T) {
	s := serve(t, control.ServerConfig{Size: 4})
	good := split(strings.Join(s.Place(1, 1).Vars(), " "))
	for name, c := range map[string]struct{ vars, want string }{
		"relative":       {"COPPICE_DIR=here", `COPPICE_DIR="here"; allowed: the absolute path`},
		"not there":      {"COPPICE_DIR=/nowhere", "COPPICE_DIR: lstat /nowhere"},
		"not ours alone": {"COPPICE_DIR=/tmp", "allowed:"},
		"no rank":        {"COPPICE_RANK=", `COPPICE_RANK=""; allowed: an integer from 0 to 3`},
		"rank too high":  {"COPPICE_RANK=4", `COPPICE_RANK="4"; allowed: an integer from 0 to 3`},
		"no size":        {"COPPICE_SIZE=0", `COPPICE_SIZE="0"; allowed: an integer from 1`},
		"incarnation":    {"COPPICE_INCARNATION=0", `COPPICE_INCARNATION="0"; allowed: an integer from 1`},
		"coordinator":    {"COPPICE_COORDINATOR=h", `COPPICE_COORDINATOR="h"; allowed: HOST:PORT`},
		"job":            {"COPPICE_JOB=12", `COPPICE_JOB="12"; allowed: 32 hexadecimal digits`},
	} {
		vars := maps.Clone(good)
		maps.Copy(vars, split(c.vars))
		if _, err := find(vars); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, c := range map[string]struct{ vars, want string }{
		"no name":         {"PMI_RANK=0 PMI_SIZE=1", "nothing names the job; allowed: COPPICE_JOB=NAME"},
		"many hosts":      {"PMI_RANK=0 PMI_SIZE=2 MPI_LOCALNRANKS=1 COPPICE_JOB=x", "allowed: COPPICE_COORDINATOR=HOST:PORT"},
		"many nodes":      {"SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_STEP_ID=1 SLURM_NODEID=0 SLURM_STEP_TASKS_PER_NODE=1(x2)", "SLURM_LOCALID is not set, though the step has 2 nodes; allowed: what srun sets; or set COPPICE_COORDINATOR=HOST:PORT"},
		"no port":         {"COPPICE_RANK=0 COPPICE_SIZE=1 COPPICE_COORDINATOR=h", `COPPICE_COORDINATOR="h"; allowed: HOST:PORT`},
		"a seed twice":    {"COPPICE_RANK=0 COPPICE_SIZE=3 COPPICE_COORDINATOR=h:1,i:1,h:1 COPPICE_KEY=0123456789abcdef", `COPPICE_COORDINATOR="h:1,i:1,h:1" names h:1 twice; allowed: each address once`},
		"in other words":  {"COPPICE_RANK=0 COPPICE_SIZE=3 COPPICE_COORDINATOR=[fd00::2]:1,i:1,[fd00:0::2]:1 COPPICE_KEY=0123456789abcdef", `names [fd00:0::2]:1 twice`},
		"no key":          {"COPPICE_RANK=0 COPPICE_SIZE=1 COPPICE_COORDINATOR=h:1", "allowed: COPPICE_KEY_FILE=FILE"},
		"short key":       {"COPPICE_RANK=0 COPPICE_SIZE=1 COPPICE_COORDINATOR=h:1 COPPICE_KEY=abc", "COPPICE_KEY: a key of 3 bytes; allowed: 16 or more"},
		"short file":      {"COPPICE_RANK=0 COPPICE_SIZE=1 COPPICE_COORDINATOR=h:1 COPPICE_KEY_FILE=" + keyFile(t, 3), "COPPICE_KEY_FILE: a key of 3 bytes; allowed: 16 or more"},
		"no file":         {"COPPICE_RANK=0 COPPICE_SIZE=1 COPPICE_COORDINATOR=h:1 COPPICE_KEY_FILE=/nowhere", "COPPICE_KEY_FILE: open /nowhere"},
		"only a rank":     {"COPPICE_RANK=0 COPPICE_SIZE=1", "neither COPPICE_DIR nor COPPICE_COORDINATOR"},
		"no completions":  {"JOB_COMPLETION_INDEX=0 COPPICE_COORDINATOR=h:1", "JOB_COMPLETION_INDEX is set, but not COPPICE_SIZE; allowed: the completions of the Job"},
		"no seeds":        {"JOB_COMPLETION_INDEX=0 COPPICE_SIZE=4", "JOB_COMPLETION_INDEX is set, but neither COPPICE_DIR nor COPPICE_COORDINATOR"},
		"too few":         {"JOB_COMPLETION_INDEX=4 COPPICE_SIZE=4 COPPICE_COORDINATOR=h:1", `JOB_COMPLETION_INDEX="4"; allowed: an integer from 0 to 3`},
		"not a number":    {"OMPI_COMM_WORLD_RANK=x OMPI_COMM_WORLD_SIZE=1", `OMPI_COMM_WORLD_RANK="x"; allowed:`},
		"size is missing": {"SLURM_PROCID=0 SLURM_STEP_ID=1", `SLURM_NTASKS=""; allowed:`},
	} {
		if _, err := find(split(c.vars)); err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestVarsLeadBack(t *testing.T) {
	s := serve(t, control.ServerConfig{Size: 4})
	want := s.Place(2, 5)
	vars := want.Vars()
	for _, v := range vars {
		if strings.Contains(v, string(want.Key)) {
			t.Error("the key is in the environment")
		}
	}
	p, err := find(split(strings.Join(vars, " ")))
	if err != nil || describe(p) != describe(want) || string(p.Key) != string(want.Key) || p.Dir != want.Dir {
		t.Errorf("%+v, %v", p, err)
	}
	want.Coordinator = "other:1"
	if p, err := find(split(strings.Join(want.Vars(), " "))); err != nil || p.Coordinator != "other:1" || p.Host {
		t.Errorf("%+v, %v", p, err)
	}
}

// TestJobsHaveDirectoriesOfTheirOwn: one name each.
func TestJobsHaveDirectoriesOfTheirOwn(t *testing.T) {
	seen := map[string]string{}
	for _, vars := range []string{
		"SLURM_JOB_ID=1 SLURM_STEP_ID=1", "SLURM_JOB_ID=1 SLURM_STEP_ID=2", "SLURM_JOB_ID=2 SLURM_STEP_ID=1",
		"SLURM_JOB_ID=1 SLURM_STEP_ID=1 SLURM_RESTART_COUNT=1", "SLURM_JOB_ID=11 SLURM_STEP_ID=1",
	} {
		p, err := find(split("SLURM_PROCID=0 SLURM_NTASKS=1 " + vars))
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[p.Dir]; ok {
			t.Errorf("%s and %s share %s", vars, other, p.Dir)
		}
		seen[p.Dir] = vars
	}
}

func TestDirectoryOfOthersIsRefused(t *testing.T) {
	mine := func() string { return filepath.Join(t.TempDir(), "coppice-x") }
	for name, c := range map[string]struct {
		make func(dir string) error
		want string
	}{
		"others may read": {func(dir string) error { return os.MkdirAll(dir, 0o755) }, "mode 0755; allowed: 0700"},
		"a symlink":       {func(dir string) error { return os.Symlink(t.TempDir(), dir) }, "allowed: a directory"},
		"a file":          {func(dir string) error { return os.WriteFile(dir, nil, 0o600) }, "allowed: a directory"},
	} {
		dir := mine()
		if err := c.make(dir); err != nil {
			t.Fatal(err)
		}
		if s, err := control.Serve(control.ServerConfig{Dir: dir, Size: 1}); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v", name, err)
			if err == nil {
				s.Close()
			}
		}
		if _, err := os.Lstat(dir); err != nil {
			t.Errorf("%s was removed: %v", dir, err)
		}
	}
	if os.Getuid() == 0 { // only root can make what belongs to another
		dir := mine()
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.Chown(dir, 12345, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := control.Serve(control.ServerConfig{Dir: dir, Size: 1}); err == nil || !strings.Contains(err.Error(), "belongs to user 12345") {
			t.Error(err)
		}
	}
}

// TestKilledJobsAreSweptAway: a job that was killed as a whole leaves a directory
// until the next job begins; one that is alive keeps its own.
func TestKilledJobsAreSweptAway(t *testing.T) {
	parent, err := os.MkdirTemp("", "p") // short: for the paths of sockets
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(parent)
	getenv := func(name string) string { return map[string]string{control.VarParent: parent}[name] }
	make := func() string {
		dir, err := control.MakeDir(getenv)
		if err != nil {
			t.Fatal(err)
		}
		return dir
	}
	killed, fresh, unused, full := make(), make(), make(), make()
	for _, name := range []string{filepath.Join(killed, "users.lock"), filepath.Join(full, "somebody's")} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{unused, full} { // whose makers were killed, or that are none of ours
		if err := os.Chtimes(dir, time.Time{}, time.Now().Add(-time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	alive := make()
	s := serve(t, control.ServerConfig{Dir: alive, Size: 1})
	make()
	for dir, want := range map[string]bool{killed: false, fresh: true, alive: true, unused: false, full: true} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s: %v, want it there: %v", dir, err, want)
		}
	}
	s.Close()
}

// TestKilledJobsOfSchedulersAreSweptAway: where there is no launcher, the processes of the next job do it.
func TestKilledJobsOfSchedulersAreSweptAway(t *testing.T) {
	parent, err := os.MkdirTemp("", "p") // short: for the paths of sockets
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(parent)
	killed := filepath.Join(parent, "coppice-killed")
	if err := os.Mkdir(killed, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(killed, "users.lock"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := find(split("PMI_RANK=0 PMI_SIZE=1 COPPICE_JOB=next COPPICE_JOBS_DIR=" + parent))
	if err != nil {
		t.Fatal(err)
	}
	s, p, err := control.Host(p, control.ServerConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c, _, err := control.Join(t.Context(), p, newRecorder(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := os.Stat(killed); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", killed, err)
	}
	if _, err := os.Stat(p.Dir); err != nil {
		t.Error(err)
	}
}

// TestDirectoryIsSharedInTurn: runs of one job follow each other at once, in a
// directory that each of them removes.
func TestDirectoryIsSharedInTurn(t *testing.T) {
	descriptors(t)
	p, err := find(split("PMI_RANK=0 PMI_SIZE=2 COPPICE_JOB=turns-" + strconv.Itoa(os.Getpid())))
	if err != nil {
		t.Fatal(err)
	}
	other := p
	other.Rank, other.Host = 1, false
	for range 30 {
		done := make(chan struct{})
		go func() {
			defer close(done)
			r := newRecorder()
			c, _, err := control.Join(t.Context(), other, r, nil)
			if err != nil {
				t.Error(err)
				return
			}
			c.Returned(0, "", true)
			r.expect(t, "finished")
			c.Close()
		}()
		s, _, err := control.Host(p, control.ServerConfig{})
		if err != nil {
			t.Fatal(err)
		}
		r := newRecorder()
		c, _, err := control.Join(t.Context(), p, r, nil)
		if err != nil {
			t.Fatal(err)
		}
		c.Returned(0, "", true)
		r.expect(t, "finished")
		c.Close()
		s.Close()
		<-done
	}
	if _, err := os.Stat(p.Dir); !os.IsNotExist(err) {
		t.Errorf("%s is still there: %v", p.Dir, err)
	}
}

// TestJobsOfOneSecretKeepApart: a job of the next name cannot take part in the one before, which may not be gone yet.
func TestJobsOfOneSecretKeepApart(t *testing.T) {
	keys := map[string]bool{}
	for _, job := range []string{"", "COPPICE_JOB=a", "COPPICE_JOB=b"} {
		p, err := find(split("COPPICE_RANK=0 COPPICE_SIZE=2 COPPICE_COORDINATOR=h:1,i:1 COPPICE_KEY=0123456789abcdef " + job))
		if err != nil {
			t.Fatal(err)
		}
		keys[string(p.Key)] = true
	}
	if len(keys) != 3 {
		t.Errorf("%d keys of 3 jobs", len(keys))
	}
}

// TestPlacesWithoutTheirLauncher: a launcher that has gone has left its settings in the directory, and processes look for each
// other at seeds, of which there may be but one. Agents of one host share the directory, and the last to leave removes it.
func TestPlacesWithoutTheirLauncher(t *testing.T) {
	parent, err := os.MkdirTemp("", "p") // short: for the paths of sockets
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(parent)
	dir, err := control.NamedDir(func(name string) string { return map[string]string{control.VarParent: parent}[name] }, "17")
	if err != nil || dir != filepath.Join(parent, "coppice-17") {
		t.Fatal(dir, err)
	}
	key := []byte(strings.Repeat("k", 32))
	settings := `{"silence":7000000000,"resume":true}`
	first, err := control.Furnish(dir, key, []byte(settings))
	if err != nil {
		t.Fatal(err)
	}
	second, err := control.Furnish(dir, key, []byte(settings))
	if err != nil {
		t.Fatal(err)
	}
	for _, coordinator := range []string{"a:1", "a:1,b:2,c:3"} {
		given := control.Place{Dir: dir, Job: [16]byte{9}, Rank: 3, Size: 5, Incarnation: 1, Coordinator: coordinator, LocalRank: 1, LocalSize: 2}
		p, err := find(split(strings.Join(given.Vars(), " ") + " COPPICE_JOIN_TIMEOUT=9s"))
		if err != nil {
			t.Fatal(err)
		}
		if strings.Join(p.Seeds, ",") != coordinator || p.How != control.ManualHow || p.Host || p.Job != given.Job || p.Rank != 3 || string(p.Key) != string(key) ||
			string(p.Settings) != settings || p.Silence != 7*time.Second || p.JoinTimeout != 9*time.Second {
			t.Errorf("%+v", p)
		}
		if err := os.WriteFile(filepath.Join(dir, "settings"), []byte("{"), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := find(split(strings.Join(given.Vars(), " "))); err == nil || !strings.Contains(err.Error(), "COPPICE_DIR: the launcher's settings") {
			t.Error(err)
		}
		if err := os.WriteFile(filepath.Join(dir, "settings"), []byte(settings), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	first()
	if _, err := os.Stat(dir); err != nil {
		t.Error(err)
	}
	second()
	if _, err := os.Stat(dir); !os.IsNotExist(err) {
		t.Error(err)
	}
}

// TestNextRunWaitsForTheOneBefore: a process of the run before is about to exit; the next run has a coordinator all the same.
func TestNextRunWaitsForTheOneBefore(t *testing.T) {
	p, err := find(map[string]string{
		"COPPICE_RANK": "0", "COPPICE_SIZE": "2", "COPPICE_COORDINATOR": port.Free(t), "COPPICE_KEY": "0123456789abcdef", "COPPICE_JOIN_TIMEOUT": "1m",
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(p.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(p.Dir)
	r, err := control.OpenRecord(p.Dir, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(50*time.Millisecond, func() { r.Close() })
	s, _, err := control.Host(p, control.ServerConfig{})
	if err != nil || s == nil {
		t.Fatalf("no coordinator: %v", err)
	}
	s.Close()
}
