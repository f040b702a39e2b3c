package control

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
)

// starters are the programs that start the processes of a job on a host.
var starters = []string{
	"mpirun", "mpiexec", "orterun", "orted", "prterun", "prted", "prte",
	"mpiexec.hydra", "hydra_pmi_proxy", "slurmstepd", "palsd",
}

// starter names the process that started this one's job on this host: its
// nearest ancestor that is such a program, with its number and when it began.
// Two runs that a scheduler gives the same name differ in it, and so does an
// orphan of a run from the next run. Empty if there is none.
func starter() string {
	for pid := os.Getppid(); pid > 1; {
		name, parent, began, ok := readStat(pid)
		if !ok {
			return ""
		}
		if slices.Contains(starters, name) {
			return fmt.Sprintf("%s %d %s", name, pid, began)
		}
		pid = parent
	}
	return ""
}

// readStat reads from the stat file of a process its name, its parent and when
// it began (fields 2, 4 and 22 of proc(5)).
func readStat(pid int) (name string, parent int, began string, ok bool) {
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	open, end := bytes.IndexByte(b, '('), bytes.LastIndexByte(b, ')')
	if err != nil || open < 0 || end < open {
		return "", 0, "", false
	}
	// Cut to 15 bytes by the kernel: so are longer names above, of which
	// there is one, hydra_pmi_proxy, of just that length.
	name = string(b[open+1 : end])
	fields := strings.Fields(string(b[end+1:]))
	if len(fields) < 20 {
		return "", 0, "", false
	}
	if _, err := fmt.Sscan(fields[1], &parent); err != nil {
		return "", 0, "", false
	}
	return name, parent, fields[19], true
}
