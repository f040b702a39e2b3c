package control

import (
	"cmp"
	"crypto/hmac"
	"crypto/sha256"
	"fmt"
	"net"
	"strconv"
	"strings"
)

// srun sets everything that the processes of a step on several nodes need to find each other: the names of its nodes, of
// which the first seedsMax are the seeds; the numbers of the job, of the step and of its restarts, from which the port
// is derived; and the name of this node. The key is derived from the key in the user's home directory, which nodes share, and from those numbers: a
// process of another step that connects to the same port is a stranger there.

// seedsMax is how many nodes of a step are seeds: a job finds its coordinator as long as one of them is up.
const seedsMax = 3

// Ports of steps. They are below the ports that Linux gives to connections (32768 and above). The ports of 60 steps of a job,
// and of jobs whose numbers are close, differ.
const (
	portFirst       = 20000
	portCount       = 12000
	portsPerJob     = 61
	portsPerRestart = 5501
)

// VarPort is the port of all seeds, instead of the derived one.
const VarPort = "COPPICE_PORT"

// fromSrun is the end of an error about srun's variables.
const fromSrun = "allowed: what srun sets; or set " + VarCoordinator + "=HOST:PORT"

// slurmStep is what srun says about a step that may be on several nodes.
type slurmStep struct {
	listName string // the variable with the names
	list     string
	nodes    int
	node     string // what Slurm calls this node; "": it does not say
}

// step reads what srun says about the nodes of a step, completes the numbers of tasks on this node, and checks them.
func (e environment) step(p *Place) (s slurmStep, err error) {
	s = slurmStep{listName: "SLURM_STEP_NODELIST", node: e.get("SLURMD_NODENAME")}
	if !e.has(s.listName) {
		s.listName = "SLURM_JOB_NODELIST"
	}
	s.list = e.get(s.listName)
	if s.nodes, err = e.nodes(); err != nil {
		return s, err
	}
	const tasksName = "SLURM_STEP_TASKS_PER_NODE"
	if s.nodes > 1 {
		err = e.needs(s, "SLURM_NODEID", "SLURM_LOCALID", tasksName)
	}
	if err != nil || !e.has(tasksName) {
		return s, err
	}
	node, err := e.numberOr("SLURM_NODEID", 0, s.nodes-1, 0)
	if err != nil {
		return s, err
	}
	here, nodes, tasks, err := tasksOfNodes(e.get(tasksName), node)
	switch {
	case err != nil:
		return s, fmt.Errorf("%s=%q: bad %w; allowed: numbers such as 4(x2),3", tasksName, e.get(tasksName), err)
	case nodes != s.nodes:
		return s, fmt.Errorf("%s=%q is for %d nodes, though the step has %d; %s", tasksName, e.get(tasksName), nodes, s.nodes, fromSrun)
	case tasks != p.Size:
		return s, fmt.Errorf("%s=%q has %d tasks, though the step has %d; %s", tasksName, e.get(tasksName), tasks, p.Size, fromSrun)
	}
	local, err := e.numberOr("SLURM_LOCALID", 0, here-1, p.LocalRank)
	if err == nil {
		p.LocalRank, p.LocalSize = local, here
	}
	return s, err
}

// needs returns an error if one of these variables is not set.
func (e environment) needs(s slurmStep, names ...string) error {
	for _, name := range names {
		if !e.has(name) {
			return fmt.Errorf("%s is not set, though the step has %d nodes; %s", name, s.nodes, fromSrun)
		}
	}
	return nil
}

// nodes returns how many nodes a step has: one if nothing says otherwise.
func (e environment) nodes() (int, error) {
	for _, name := range []string{"SLURM_STEP_NUM_NODES", "SLURM_JOB_NUM_NODES", "SLURM_NNODES"} {
		if !e.has(name) {
			continue
		}
		n, err := e.number(name, 1, nodesMax)
		if err == nil && n > 1 && name != "SLURM_STEP_NUM_NODES" {
			return 0, fmt.Errorf("SLURM_STEP_NUM_NODES is not set, though the job has %d nodes (%s); %s", n, name, fromSrun)
		}
		return n, err
	}
	if list := e.get("SLURM_STEP_TASKS_PER_NODE"); list != "" {
		if _, nodes, _, err := tasksOfNodes(list, 0); err == nil {
			return nodes, nil
		}
	}
	return 1, nil
}

// acrossNodes completes the place of a process of a step on several nodes, if the user has set nothing.
func (e environment) acrossNodes(p Place, s slurmStep, name []string) (Place, error) {
	if err := e.needs(s, "SLURM_JOB_ID", s.listName); err != nil {
		return p, err
	}
	hosts, count, err := expandNodes(s.list, seedsMax)
	switch {
	case err != nil:
		return p, fmt.Errorf("%s=%q: bad %w; allowed: %s", s.listName, s.list, err, nodeListExample)
	case count != s.nodes:
		return p, fmt.Errorf("%s=%q names %d nodes, though the step has %d; %s", s.listName, s.list, count, s.nodes, fromSrun)
	}
	port, err := e.port()
	if err != nil {
		return p, err
	}
	for _, h := range hosts {
		p.Seeds = append(p.Seeds, net.JoinHostPort(h, strconv.Itoa(port)))
	}
	p.Coordinator, p.SeedsFrom, p.Node = strings.Join(p.Seeds, ","), s.listName, s.node
	key, err := e.keyOrHome(&p)
	if err != nil {
		return p, err
	}
	mac := hmac.New(sha256.New, key)
	for _, n := range slurmNumbers {
		fmt.Fprintf(mac, "%s=%s\n", n, cmp.Or(e.get(n), "0"))
	}
	return e.settle(p, mac.Sum(nil), name)
}

// slurmNumbers name a run of a step.
var slurmNumbers = []string{"SLURM_JOB_ID", "SLURM_STEP_ID", "SLURM_RESTART_COUNT"}

// port returns where the seeds of a step listen.
func (e environment) port() (int, error) {
	if e.has(VarPort) {
		return e.number(VarPort, 1, 1<<16-1)
	}
	var numbers [3]uint64
	for i, name := range slurmNumbers {
		n, err := strconv.ParseUint(cmp.Or(e.get(name), "0"), 10, 32)
		if err != nil {
			return 0, fmt.Errorf("%s=%q; allowed: an integer from 0 to %d", name, e.get(name), uint32(1<<32-1))
		}
		numbers[i] = n
	}
	return int(portFirst + (portsPerJob*numbers[0]+numbers[1]+portsPerRestart*numbers[2])%portCount), nil
}

// keyOrHome returns the secret that the user has given to all processes, or else the key in the home directory.
func (e environment) keyOrHome(p *Place) ([]byte, error) {
	if e.has(VarKeyFile) || e.has(VarKey) {
		return e.key()
	}
	home := e.get("HOME")
	if home == "" {
		return nil, fmt.Errorf("HOME is not set, so there is no key that all nodes share; allowed: %s=FILE, a secret that all processes can read", VarKeyFile)
	}
	key, file, err := homeKey(home)
	if err != nil {
		return nil, fmt.Errorf("%w; or set %s=FILE, a secret that all processes can read", err, VarKeyFile)
	}
	p.KeyFile = file
	return key, nil
}

// restarted reports whether Slurm has requeued the job.
func (e environment) restarted() bool {
	n, err := strconv.Atoi(e.get("SLURM_RESTART_COUNT"))
	return err == nil && n > 0
}
