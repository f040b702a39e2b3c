package tpch

import (
	"context"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/apps/tpch/dbgen"
)

// Query is a query with its parameters.
type Query interface {
	// Columns are those that it needs.
	Columns() dbgen.Column
	// Ask answers the query at task 0; elsewhere the answer is empty. The options are for all operations.
	Ask(ctx context.Context, t *coppice.Task, tables *Tables, b Bounds, s Steps, options ...coppice.Option) (Answer, error)
}

// Steps receives the name of what the task does next.
type Steps func(step string)
