// Package corpus has small programs of two kinds: package breach those that break one duty of the user each, as a user
// would, and package correct those that keep them all, though some look as if they did not. They test what finds
// breaches: coppice vet, coppicetest, and Job.Check.
package corpus

import (
	"context"

	"github.com/coppice-go/coppice"
)

// Program is a program of the corpus. It returns what the task computed.
type Program struct {
	Name  string
	Tasks int
	Run   func(ctx context.Context, t *coppice.Task) (any, error)
	Wrong string // what is wrong with it; "": nothing
	Alone bool   // it ends or blocks the process that runs it, so that tests do not run it
}
