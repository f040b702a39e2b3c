package launch

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/coppice-go/coppice/internal/control"
)

// placeVars give a process its place: only the launcher sets them.
var placeVars = []string{
	control.VarDir, control.VarJob, control.VarRank, control.VarSize, control.VarIncarnation, control.VarGrow,
	control.VarCoordinator, control.VarKeyFile, control.VarKey,
	"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE",
}

// inherited returns the launcher's environment without the variables that give a process its
// place: the launcher may be part of a job itself.
func inherited() []string {
	return slices.DeleteFunc(os.Environ(), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(placeVars, name)
	})
}

// Carried returns the part of the launcher's environment that other hosts get: the variables
// of the library.
func Carried() []string {
	return slices.DeleteFunc(inherited(), func(v string) bool { return !strings.HasPrefix(v, "COPPICE_") })
}

// merge adds variables to others. Of several with one name, the last stays.
func merge(variables ...[]string) []string {
	all := slices.Concat(variables...)
	last := make(map[string]int, len(all))
	for i, v := range all {
		name, _, _ := strings.Cut(v, "=")
		last[name] = i
	}
	merged := make([]string, 0, len(last))
	for i, v := range all {
		if name, _, _ := strings.Cut(v, "="); last[name] == i {
			merged = append(merged, v)
		}
	}
	return merged
}

// working returns what a process's environment says about its working directory, if
// that is not the launcher's.
func working(dir string) []string {
	if dir == "" {
		return nil
	}
	if abs, err := filepath.Abs(dir); err == nil {
		dir = abs
	}
	return []string{"PWD=" + dir}
}
