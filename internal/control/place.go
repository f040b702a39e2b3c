package control

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

// Place is a process's place in its job, as its environment describes it.
type Place struct {
	Dir         string        // the job's directory on this host
	Job         [16]byte      // zero: the coordinator says it
	Key         []byte        // the job's secret; nil: it is in Dir
	Rank, Size  int           // a Rank of −1: Rendezvous draws it
	Incarnation uint64        // 0: the coordinator chooses it
	Coordinator string        // a path (Unix) or host:port (TCP), or several of these
	Seeds       []string      // the addresses in Coordinator, if there are several
	SeedsFrom   string        // the scheduler's variable that names their hosts; "": the user has named them
	Rendezvous  string        // where processes find each other, if the user has listed no seeds: rendezvous.go
	HostID      string        // with Rendezvous: names this host; set by the caller that runs the process
	Net         netip.Prefix  // with Rendezvous: the network in which others reach this host; the zero value: any
	Node        string        // what the scheduler calls this host: a seed with that name is this host; "": unknown
	KeyFile     string        // where Key comes from, if the user has not set it
	Silence     time.Duration // the silence that the process wants, if it becomes the coordinator; 0: the default
	JoinTimeout time.Duration // likewise
	Settings    []byte        // of a launcher that has gone: the process that becomes the coordinator passes them on
	Restarted   bool          // the scheduler has started this job before, and the processes of that run are gone
	Host        bool          // this process hosts the coordinator
	LocalRank   int
	LocalSize   int
	Grow        int    // how many processes may join beyond Size: ranks go up to Size+Grow−1
	How         string // RunHow, MpirunHow, SrunHow, ManualHow or AloneHow

	getenv func(string) string // with Rendezvous: for the variables that the service needs
}

// How a process was started.
const (
	RunHow    = "coppice run"
	MpirunHow = "mpirun"
	SrunHow   = "srun"
	ManualHow = "by hand" // COPPICE_RANK, COPPICE_SIZE and COPPICE_COORDINATOR, or COPPICE_RENDEZVOUS; a pod, too
	AloneHow  = "alone"
)

// Variables of a started process.
const (
	VarDir         = "COPPICE_DIR"
	VarJob         = "COPPICE_JOB"
	VarRank        = "COPPICE_RANK"
	VarSize        = "COPPICE_SIZE"
	VarIncarnation = "COPPICE_INCARNATION"
	VarGrow        = "COPPICE_GROW"
	VarTrace       = "COPPICE_TRACE" // not part of the place: a file for the steps of the machines
	VarCoordinator = "COPPICE_COORDINATOR"
	VarRendezvous  = "COPPICE_RENDEZVOUS"
	VarKeyFile     = "COPPICE_KEY_FILE"
	VarKey         = "COPPICE_KEY"
	VarParent      = "COPPICE_JOBS_DIR"
	VarJoinTimeout = "COPPICE_JOIN_TIMEOUT"
)

// indexName is the variable in which Kubernetes gives a pod of an Indexed Job its number.
const indexName = "JOB_COMPLETION_INDEX"

// SizeMax bounds the processes of a job, however they are started.
const SizeMax = 4096

// keyLen is the length of a key that the coordinator creates; keyMin is the length of the
// shortest key that a user may provide.
const (
	keyLen = 32
	keyMin = 16
)

// Vars returns the variables that a launcher adds to the environment of the process of this
// place. The process finds the key in the directory.
func (p Place) Vars() []string {
	vars := []string{
		VarDir + "=" + p.Dir,
		VarJob + "=" + hex.EncodeToString(p.Job[:]),
		VarRank + "=" + strconv.Itoa(p.Rank),
		VarSize + "=" + strconv.Itoa(p.Size),
		VarIncarnation + "=" + strconv.FormatUint(p.Incarnation, 10),
		"RANK=" + strconv.Itoa(p.Rank),
		"WORLD_SIZE=" + strconv.Itoa(p.Size),
		"LOCAL_RANK=" + strconv.Itoa(p.LocalRank),
		"LOCAL_WORLD_SIZE=" + strconv.Itoa(p.LocalSize),
	}
	if p.Grow > 0 {
		vars = append(vars, VarGrow+"="+strconv.Itoa(p.Grow))
	}
	if p.Coordinator != "" && p.Coordinator != controlPath(p.Dir) {
		vars = append(vars, VarCoordinator+"="+p.Coordinator)
	}
	return vars
}

// FromEnvironment finds a process's place: in a job of `coppice run`, of
// mpirun, of srun or in one started by hand. Without any of these the process is a job of its own. FromEnvironment
// changes nothing, except that it creates the user's key if a step of srun on several nodes needs one.
func FromEnvironment(getenv func(string) string) (Place, error) {
	e := environment{getenv}
	switch {
	case e.has(VarDir):
		return e.started()
	case e.has("OMPI_COMM_WORLD_RANK"):
		return e.scheduled(openMPI)
	case e.has("PMI_RANK") && !e.fromSlurm():
		return e.scheduled(hydra)
	// A batch script has SLURM_PROCID too, but no step: a process that it starts is a job of its own.
	case e.has("SLURM_PROCID") && e.has("SLURM_STEP_ID"):
		return e.scheduled(slurm)
	case e.has(VarRank) || e.has(VarSize) || e.has(VarCoordinator) || e.has(VarRendezvous):
		return e.manual()
	}
	return Place{Size: 1, Incarnation: 1, Host: true, LocalSize: 1, How: AloneHow, Restarted: e.restarted()}, nil
}

// fromSlurm reports whether the variables of PMI are srun's own (--mpi=pmi2); srun's other variables say more. An mpirun in a step
// numbers its processes differently, or the difference does not matter.
func (e environment) fromSlurm() bool {
	return e.has("SLURM_STEP_ID") && e.get("PMI_RANK") == e.get("SLURM_PROCID") && e.get("PMI_SIZE") == e.get("SLURM_STEP_NUM_TASKS")
}

// environment reads variables and names them in its errors.
type environment struct{ get func(string) string }

func (e environment) has(name string) bool { return e.get(name) != "" }

// number reads a variable that must be set.
func (e environment) number(name string, low, high int) (int, error) {
	n, err := strconv.Atoi(e.get(name))
	if err != nil || n < low || n > high {
		return 0, fmt.Errorf("%s=%q; allowed: an integer from %d to %d", name, e.get(name), low, high)
	}
	return n, nil
}

// numberOr reads a variable that may be missing.
func (e environment) numberOr(name string, low, high, missing int) (int, error) {
	if !e.has(name) {
		return missing, nil
	}
	return e.number(name, low, high)
}

// ranks reads a rank and a size, and the local rank and size if their variables are named.
func (e environment) ranks(p *Place, rank, size, localRank, localSize string) (err error) {
	if p.Size, err = e.number(size, 1, SizeMax); err != nil {
		return err
	}
	if p.Rank, err = e.number(rank, 0, p.Size+p.Grow-1); err != nil {
		return err
	}
	if p.LocalSize, err = e.numberOr(localSize, 1, p.Size, p.Size); err != nil {
		return err
	}
	p.LocalRank, err = e.numberOr(localRank, 0, p.LocalSize+p.Grow-1, min(p.Rank, p.LocalSize-1))
	return err
}

// started returns the place of a process that `coppice run` started.
func (e environment) started() (Place, error) {
	p := Place{Dir: e.get(VarDir), How: RunHow, Incarnation: 1}
	if !filepath.IsAbs(p.Dir) {
		return p, fmt.Errorf("%s=%q; allowed: the absolute path of a job's directory", VarDir, p.Dir)
	}
	grow, err := e.numberOr(VarGrow, 0, SizeMax, 0)
	if err != nil {
		return p, err
	}
	p.Grow = grow
	if err := e.ranks(&p, VarRank, VarSize, "LOCAL_RANK", "LOCAL_WORLD_SIZE"); err != nil {
		return p, err
	}
	if err := e.incarnation(&p); err != nil {
		return p, err
	}
	job, err := hex.DecodeString(e.get(VarJob))
	if err != nil || len(job) != len(p.Job) {
		return p, fmt.Errorf("%s=%q; allowed: %d hexadecimal digits", VarJob, e.get(VarJob), 2*len(p.Job))
	}
	copy(p.Job[:], job)
	p.Coordinator = controlPath(p.Dir)
	if e.has(VarCoordinator) { // on another host
		if p.Coordinator, err = e.coordinator(); err != nil {
			return p, err
		}
	}
	if err := checkDir(p.Dir); err != nil {
		return p, fmt.Errorf("%s: %w", VarDir, err)
	}
	if p.Key, err = readKey(p.Dir); err != nil {
		return p, fmt.Errorf("%s: %w", VarDir, err)
	}
	return p, e.detached(&p)
}

// detached completes the place of a process whose launcher has gone and has left its settings: the processes look
// for each other at seeds, like processes that were started by hand.
func (e environment) detached(p *Place) error {
	text, err := os.ReadFile(filepath.Join(p.Dir, settingsName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var s Settings
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err != nil {
		return fmt.Errorf("%s: the launcher's settings: %w", VarDir, err)
	}
	p.How, p.Seeds, p.Settings, p.Silence = ManualHow, strings.Split(p.Coordinator, ","), text, s.Silence
	return e.joinTimeout(p)
}

func (e environment) incarnation(p *Place) error {
	if !e.has(VarIncarnation) {
		return nil
	}
	n, err := strconv.ParseUint(e.get(VarIncarnation), 10, 64)
	if err != nil || n == 0 {
		return fmt.Errorf("%s=%q; allowed: an integer from 1", VarIncarnation, e.get(VarIncarnation))
	}
	p.Incarnation = n
	return nil
}

func (e environment) joinTimeout(p *Place) (err error) {
	if e.has(VarJoinTimeout) {
		if p.JoinTimeout, err = time.ParseDuration(e.get(VarJoinTimeout)); err != nil || p.JoinTimeout <= 0 || p.JoinTimeout > joinTimeoutMax {
			return fmt.Errorf("%s=%q; allowed: a time such as 90s, at most %v", VarJoinTimeout, e.get(VarJoinTimeout), joinTimeoutMax)
		}
	}
	return nil
}

// scheduler says in which variables a scheduler, which knows nothing of Coppice, gives a process its place.
type scheduler struct {
	how                              string
	rank, size, localRank, localSize string
}

var (
	openMPI = scheduler{MpirunHow, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"}
	hydra   = scheduler{MpirunHow, "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"}
	slurm   = scheduler{SrunHow, "SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID", ""}
)

// jobNames are the variables that together name a job of a scheduler. Each is
// the same in all processes of a job.
var jobNames = []string{
	VarJob, "PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID",
	"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT",
}

// scheduled returns the place of a process that a scheduler started.
func (e environment) scheduled(s scheduler) (Place, error) {
	p := Place{How: s.how, Incarnation: 1, Restarted: e.restarted()}
	if s == slurm && e.has("SLURM_STEP_NUM_TASKS") {
		s.size = "SLURM_STEP_NUM_TASKS"
	}
	if err := e.ranks(&p, s.rank, s.size, s.localRank, s.localSize); err != nil {
		return p, err
	}
	name := []string{strconv.Itoa(os.Getuid()), s.how, starter()}
	named := starter() != ""
	for _, n := range jobNames {
		name = append(name, e.get(n))
		named = named || e.has(n)
	}
	if !named {
		return p, fmt.Errorf("%s is set, but nothing names the job; allowed: %s=NAME, the same in all its processes", s.rank, VarJob)
	}
	if err := e.joinTimeout(&p); err != nil {
		return p, err
	}
	var step slurmStep
	if s.how == SrunHow {
		var err error
		if step, err = e.step(&p); err != nil && !e.has(VarCoordinator) && !e.has(VarRendezvous) {
			return p, err
		}
	}
	switch {
	case e.has(VarCoordinator) || e.has(VarRendezvous):
		return e.spread(p, name)
	case step.nodes > 1:
		return e.acrossNodes(p, step, name)
	}
	var err error
	if p.Dir, err = derivedDir(e.get, name); err != nil {
		return p, err
	}
	if p.LocalSize < p.Size {
		return p, fmt.Errorf("%s is not set, and not all %d processes are on this host; allowed: %s=HOST:PORT, where rank 0 listens, with %s", VarCoordinator, p.Size, VarCoordinator, VarKeyFile)
	}
	p.Coordinator, p.Host = controlPath(p.Dir), p.Rank == 0
	return p, nil
}

// manual returns the place of a process of a job that was started by hand, or by Kubernetes.
func (e environment) manual() (Place, error) {
	p := Place{How: ManualHow}
	rank := VarRank
	if !e.has(VarRank) && e.has(indexName) {
		rank = indexName
		if !e.has(VarSize) {
			return p, fmt.Errorf("%s is set, but not %s; allowed: the completions of the Job", indexName, VarSize)
		}
	}
	drawn := e.has(VarRendezvous) && !e.has(rank)
	if e.has(VarRendezvous) {
		if err := e.rendezvousSize(&p, drawn); err != nil {
			return p, err
		}
	}
	if drawn {
		p.Rank, p.LocalSize = -1, 1
	} else if err := e.ranks(&p, rank, VarSize, "LOCAL_RANK", "LOCAL_WORLD_SIZE"); err != nil {
		return p, err
	}
	if rank == indexName && !e.has("LOCAL_WORLD_SIZE") { // a pod is a host
		p.LocalRank, p.LocalSize = 0, 1
	}
	if err := e.incarnation(&p); err != nil {
		return p, err
	}
	if err := e.joinTimeout(&p); err != nil {
		return p, err
	}
	if !e.has(VarCoordinator) && !e.has(VarRendezvous) {
		return p, fmt.Errorf("%s is set, but neither %s nor %s; allowed: %s=HOST:PORT, where rank 0 listens", rank, VarDir, VarCoordinator, VarCoordinator)
	}
	return e.spread(p, []string{strconv.Itoa(os.Getuid()), p.How, e.get(VarCoordinator), e.get(VarJob)})
}

// spread completes the place of a process whose job may be on several hosts. The
// name of its directory depends on the key, too: nobody else can create that
// directory before the job does.
func (e environment) spread(p Place, name []string) (Place, error) {
	var err error
	var m meeting
	if e.has(VarRendezvous) {
		if m, err = e.meets(&p); err != nil {
			return p, err
		}
		p.getenv, name = e.get, append(name, VarRendezvous, m.job)
	} else if p.Coordinator, err = e.coordinator(); err != nil {
		return p, err
	} else if seeds := strings.Split(p.Coordinator, ","); len(seeds) > 1 {
		p.Seeds = seeds
	}
	if p.seeded() && p.How == ManualHow && !e.has("LOCAL_WORLD_SIZE") { // several hosts, as far as is known
		p.LocalRank, p.LocalSize = 0, 1
	}
	p.Host = p.Rank == 0 && !p.seeded()
	key, err := e.key()
	if err != nil {
		return p, err
	}
	if e.has(VarJob) { // two jobs at the same seeds, one after the other, may have the same secret
		key = fmt.Appendf(key, "\x00 of the job %s", e.get(VarJob))
	}
	if p.Rendezvous != "" {
		key = fmt.Appendf(key, "\x00 of the rendezvous %s", m.job)
	}
	sum := sha256.Sum256(key) // 32 bytes, whatever its length and alphabet
	return e.settle(p, sum[:], name)
}

// settle completes a place with a key and the directory that follows from it.
func (e environment) settle(p Place, key []byte, name []string) (_ Place, err error) {
	p.Key = key
	named := sha256.Sum256(append([]byte("directory of the job with the key "), p.Key...))
	p.Dir, err = derivedDir(e.get, append(name, string(named[:])))
	return p, err
}

// coordinator returns where the coordinator listens for other hosts.
func (e environment) coordinator() (string, error) {
	address, seen := e.get(VarCoordinator), map[string]bool{}
	for seed := range strings.SplitSeq(address, ",") {
		host, port, err := net.SplitHostPort(seed)
		if err != nil || port == "" {
			return "", fmt.Errorf("%s=%q; allowed: HOST:PORT, where rank 0 listens, or several with commas between them, each of another host", VarCoordinator, address)
		}
		if a, err := netip.ParseAddr(host); err == nil {
			host = a.Unmap().String()
		}
		at := net.JoinHostPort(strings.ToLower(host), port)
		if seen[at] {
			return "", fmt.Errorf("%s=%q names %s twice; allowed: each address once, each of another host", VarCoordinator, address, seed)
		}
		seen[at] = true
	}
	return address, nil
}

// key returns the secret that the user has given to all processes.
func (e environment) key() ([]byte, error) {
	name, key, err := VarKeyFile, []byte(nil), error(nil)
	switch {
	case e.has(VarKeyFile):
		key, err = readPrivate(e.get(VarKeyFile))
	case e.has(VarKey):
		name, key = VarKey, []byte(strings.TrimSpace(e.get(VarKey)))
	default:
		set := VarCoordinator
		if e.has(VarRendezvous) {
			set = VarRendezvous
		}
		return nil, fmt.Errorf("%s is set, but no key; allowed: %s=FILE, a secret that all processes can read", set, VarKeyFile)
	}
	if err == nil && len(key) < keyMin {
		err = fmt.Errorf("a key of %d bytes; allowed: %d or more", len(key), keyMin)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return key, nil
}

// readPrivate reads a file, unless users other than its owner may read it.
func readPrivate(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if mode := info.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("%s has mode %#o, so others than its owner can reach the key; allowed: 0600 or 0400 (chmod 600 %s)", name, mode, name)
	}
	return io.ReadAll(f)
}
