package detect

import (
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// Outside is what a detector that is not part of the core is given: one that other
// modules come with, and that programs import by its side effect.
type Outside struct {
	Rank        int
	Incarnation uint64
	Bind        string        // IP:PORT of this host where the others reach it, by UDP and TCP; port 0: any
	Key         []byte        // the job's secret, 16 bytes or more
	Silence     time.Duration // about how long a process may be silent
	Logger      *slog.Logger  // nil: nothing is logged

	// One goroutine of the detector calls these. If several things happen to a process while a
	// call runs, it reports only the last. It must not call Close.
	Suspect func(rank int, incarnation uint64, why string)
	Alive   func(rank int, incarnation uint64) // first, and again after a suspicion
}

// Detector is one that runs.
type Detector interface {
	Address() string     // where the others meet this process
	Meet(address string) // names another one; does not wait
	Close() error
}

var registered = struct {
	sync.Mutex
	by map[string]func(Outside) (Detector, error)
}{by: map[string]func(Outside) (Detector, error){}}

// Register makes a detector known by its name, from an init function.
func Register(name string, start func(Outside) (Detector, error)) {
	registered.Lock()
	defer registered.Unlock()
	registered.by[name] = start
}

// Registered returns how to start a detector.
func Registered(name string) (func(Outside) (Detector, error), error) {
	registered.Lock()
	defer registered.Unlock()
	if start := registered.by[name]; start != nil {
		return start, nil
	}
	names := slices.Sorted(maps.Keys(registered.by))
	if len(names) == 0 {
		return nil, fmt.Errorf("detector %q; allowed: none, unless the program imports one, such as github.com/coppice-go/coppice/swim", name)
	}
	return nil, fmt.Errorf("detector %q; allowed: %s", name, strings.Join(names, ", "))
}
