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

// Outside is the configuration of a detector that is not part of the core: another module provides it,
// and programs import that module for its side effect.
type Outside struct {
	Rank        int
	Incarnation uint64
	Bind        string        // IP:PORT of this host where the others reach it by UDP and TCP; port 0: any
	Key         []byte        // the job's secret, 16 bytes or more
	Silence     time.Duration // about how long a process may be silent
	Logger      *slog.Logger  // nil: nothing is logged

	// One goroutine of the detector calls these. If the state of a process changes several times during
	// a call, the detector reports only the last change. The callee must not call Close.
	Suspect func(rank int, incarnation uint64, why string)
	Alive   func(rank int, incarnation uint64) // at first, and again after a suspicion
}

// Detector is a running detector.
type Detector interface {
	Address() string     // where other processes meet this one
	Meet(address string) // introduces the process at address; does not wait
	Close() error
}

var registered = struct {
	sync.Mutex
	by map[string]func(Outside) (Detector, error)
}{by: map[string]func(Outside) (Detector, error){}}

// Register registers a detector under its name. An init function calls it.
func Register(name string, start func(Outside) (Detector, error)) {
	registered.Lock()
	defer registered.Unlock()
	registered.by[name] = start
}

// Registered returns the function that starts the detector of this name.
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
