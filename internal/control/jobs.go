package control

import (
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Jobs are the directories of the user's jobs on this host whose coordinator runs,
// in the order in which they began. There is no list of them but the directories
// themselves; those that dead jobs left have nobody who listens.
func Jobs(getenv func(string) string) (dirs []string) {
	began := map[string]time.Time{}
	found, _ := filepath.Glob(filepath.Join(parentDir(getenv), dirPrefix+"*", socketName))
	for _, socket := range found {
		dir := filepath.Dir(socket)
		if info, err := os.Lstat(socket); err == nil && Runs(dir) {
			began[dir], dirs = info.ModTime(), append(dirs, dir)
		}
	}
	slices.SortStableFunc(dirs, func(a, b string) int { return began[a].Compare(began[b]) })
	return dirs
}

// JobName is how a job is called: what tells its directory from others.
func JobName(dir string) string { return strings.TrimPrefix(filepath.Base(dir), dirPrefix) }

// Runs tells whether a directory is that of a job of this user whose coordinator
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
