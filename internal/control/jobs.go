package control

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Jobs returns the directories of the user's jobs on this host whose coordinator runs,
// in the order in which they began. There is no list of them but the directories
// themselves. In a directory that a dead job left, no coordinator listens.
func Jobs(getenv func(string) string) (dirs []string) {
	began := map[string]time.Time{}
	for _, socket := range controlSockets(getenv) {
		dir := filepath.Dir(socket)
		if info, err := os.Lstat(socket); err == nil && Runs(dir) {
			began[dir], dirs = info.ModTime(), append(dirs, dir)
		}
	}
	slices.SortStableFunc(dirs, func(a, b string) int { return began[a].Compare(began[b]) })
	return dirs
}

// controlSockets returns the paths at which a coordinator may listen. Without VarParent
// they are those of all jobs, including jobs that were started with it.
func controlSockets(getenv func(string) string) (found []string) {
	in := parents
	if dir := getenv(VarParent); dir != "" {
		in = []string{dir}
	} else {
		found = boundSockets()
	}
	for _, dir := range in {
		sockets, _ := filepath.Glob(filepath.Join(dir, dirPrefix+"*", socketName))
		found = append(found, sockets...)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// boundSockets returns the paths of the control sockets that the kernel lists, where it
// does (unix(7)).
func boundSockets() (found []string) {
	list, _ := os.ReadFile("/proc/net/unix")
	for line := range strings.Lines(string(list)) {
		if at := strings.IndexByte(line, '/'); at >= 0 {
			path := strings.TrimSuffix(line[at:], "\n")
			if strings.HasPrefix(filepath.Base(filepath.Dir(path)), dirPrefix) && filepath.Base(path) == socketName {
				found = append(found, path)
			}
		}
	}
	return found
}

// JobName returns a job's name: what tells its directory from others.
func JobName(dir string) string { return strings.TrimPrefix(filepath.Base(dir), dirPrefix) }

// About is what tells a job from others.
type About struct {
	Command string    `json:"command"` // what its processes run
	Pid     int       `json:"pid"`     // of the coordinator's process: the launcher, or the process of rank 0
	Began   time.Time `json:"began"`
}

// Describe asks the coordinator of the job in a directory which job it is.
func Describe(ctx context.Context, dir string) (about About, err error) {
	for e, err := range Watch(ctx, dir) {
		switch {
		case err != nil:
			return About{}, err
		case e.Type == EventStatus:
			return aboutOf(e)
		}
	}
	return About{}, ctx.Err()
}

func aboutOf(e Event) (about About, err error) {
	raw, err := json.Marshal(e)
	if err == nil {
		err = json.Unmarshal(raw, &about)
	}
	return about, err
}

// Runs reports whether a directory is that of a job of this user whose coordinator
// runs.
func Runs(dir string) bool {
	if checkDir(dir) != nil {
		return false
	}
	conn, err := net.DialTimeout("unix", controlPath(dir), time.Second)
	if err != nil {
		return false
	}
	conn.Close()
	return true
}
