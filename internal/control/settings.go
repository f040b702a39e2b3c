package control

import (
	"time"

	"github.com/coppice-go/coppice/protocol/collective"
)

// Settings are what the launcher passes on to the runtime in each process, as
// JSON. Zero fields have the runtime's defaults.
type Settings struct {
	Kill     []Kill             `json:"kill,omitempty"`     // kill points by operation: the processes carry them out
	Hosts    []int              `json:"hosts,omitempty"`    // how many processes each of several hosts begins with, by rank
	Joins    bool               `json:"joins,omitempty"`    // processes may join, though the job does not grow
	Network  collective.Network `json:"network,omitempty"`  // what lies between the processes: the launcher finds out
	Resume   bool               `json:"resume,omitempty"`   // the job continues one whose processes are all gone
	Rehearse float64            `json:"rehearse,omitempty"` // for how much of the time tasks are run again and compared
	Silence  time.Duration      `json:"silence,omitempty"`  // in nanoseconds: how long a process may be silent before it is suspected
}
