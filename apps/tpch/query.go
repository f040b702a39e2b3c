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

// Steps is told what the task does next; nil: nobody is.
type Steps func(step string)

func (s Steps) next(step string) {
	if s != nil {
		s(step)
	}
}

// Run loads the task's part of the tables and answers a query.
func Run(ctx context.Context, t *coppice.Task, source Source, q Query) (Answer, error) {
	tables, err := source.Load(ctx, t.Rank(), t.Size(), q.Columns())
	if err != nil {
		return Answer{}, err
	}
	if err := source.Check(ctx, t, tables); err != nil {
		return Answer{}, err
	}
	return q.Ask(ctx, t, tables, source.Bounds(), nil)
}
