package tpch

import (
	"context"
	"fmt"
	"slices"
	"sort"

	"github.com/coppice-go/coppice"
)

// WrongError is an error in a source that every task would find.
type WrongError struct{ error }

// Check implements Source: it checks that orders refer to existing customers, and lines to existing
// suppliers. Each task has a part of their keys, so all tasks exchange their keys, as a bit for each.
func (f *Files) Check(ctx context.Context, t *coppice.Task, tables *Tables, options ...coppice.Option) error {
	o, l := &tables.Orders, &tables.Lines
	if f.customer != nil {
		row, err := stray(ctx, t, tables.Customers.Keys, f.bounds.Customer, o.Customers, options)
		if err != nil {
			return err
		} else if row >= 0 {
			return WrongError{fmt.Errorf("%s: order %d is of customer %d; allowed: customers in %s", f.orders.Name(), o.Keys[row], o.Customers[row], f.customer.Name())}
		}
	}
	if f.supplier != nil {
		row, err := stray(ctx, t, tables.Suppliers.Keys, f.bounds.Supplier, l.Suppliers, options)
		if err != nil {
			return err
		} else if row >= 0 {
			order := sort.Search(len(o.Keys), func(i int) bool { return int(o.Lines[i+1]) > row })
			return WrongError{fmt.Errorf("%s: a line of order %d is of supplier %d; allowed: suppliers in %s", f.lines.Name(), o.Keys[order], l.Suppliers[row], f.supplier.Name())}
		}
	}
	return nil
}

// someKeys is a part of a set of keys: its words from the first that is not empty on.
type someKeys struct {
	First int
	Words []uint64
}

// stray returns the first row that refers to a key that no task has, or -1.
func stray(ctx context.Context, t *coppice.Task, keys []int32, largest int64, used []int32, options []coppice.Option) (row int, err error) {
	var mine someKeys
	all := newKeySet(largest)
	if len(keys) > 0 { // in order
		all.add(keys)
		mine.First = int(keys[0] / 64)
		mine.Words = all[mine.First : keys[len(keys)-1]/64+1]
	}
	parts, err := coppice.AllGather(ctx, t, mine, options...)
	if err != nil {
		return -1, err
	}
	for _, part := range parts {
		for i, word := range part.Words {
			all[part.First+i] |= word
		}
	}
	return slices.IndexFunc(used, func(key int32) bool { return !all.has(key) }), nil
}
