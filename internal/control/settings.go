package control

import "time"

// Settings are what the launcher passes on to the runtime in each process, as
// JSON. Zero fields have the runtime's defaults.
type Settings struct {
	Kill    []Kill        `json:"kill,omitempty"`    // those by operation: the processes carry them out
	Joins   bool          `json:"joins,omitempty"`   // processes may join, though the job does not grow
	Resume  bool          `json:"resume,omitempty"`  // the job takes up one whose processes are all gone
	Silence time.Duration `json:"silence,omitempty"` // in nanoseconds: who is silent for so long is suspected
}
