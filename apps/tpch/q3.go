package tpch

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/apps/tpch/dbgen"
)

// Q3 is query 3, shipping priority: the ten orders of a segment of customers with the greatest revenue among
// those that were not shipped on a day.
type Q3 struct {
	Segment uint8 // index into dbgen.Segments
	Date    dbgen.Date
}

// Columns implements Query.
func (Q3) Columns() dbgen.Column {
	return dbgen.Segment | dbgen.Customer | dbgen.Ordered | dbgen.Priority | dbgen.Price | dbgen.Discount | dbgen.Shipped
}

// q3Row is a row of the answer.
type q3Row struct {
	Order    int64
	Revenue  int64 // ten-thousandths
	Date     dbgen.Date
	Priority int32
}

// q3Limit is how many rows an answer has at most.
const q3Limit = 10

// Ask implements Query, along the plan of the thesis: the tasks gather how many customers of the segment each
// has, all learn the numbers, and all send each other the customers' keys; then each has what it needs for
// its orders, and a reduction finds the best ten of all.
func (q Q3) Ask(ctx context.Context, t *coppice.Task, tables *Tables, b Bounds, s Steps, options ...coppice.Option) (Answer, error) {
	customers, err := q.allCustomers(ctx, t, tables, b, s, options)
	if err != nil {
		return Answer{}, err
	}
	s("join")
	best := q.best(tables, customers)
	s("reduce")
	rows, err := coppice.ReduceFunc(ctx, t, best, mergeQ3, options...)
	return answerQ3(rows), err
}

// allCustomers returns the customers of the segment, of all tasks.
func (q Q3) allCustomers(ctx context.Context, t *coppice.Task, tables *Tables, b Bounds, s Steps, options []coppice.Option) (keySet, error) {
	mine := q.customers(&tables.Customers)
	s("gather")
	counts, err := coppice.Gather(ctx, t, len(mine), options...)
	if err != nil {
		return nil, err
	}
	s("broadcast")
	if counts, err = coppice.Broadcast(ctx, t, counts, options...); err != nil {
		return nil, err
	}
	parts := slices.Repeat([][]int32{mine}, t.Size())
	s("alltoall")
	keys, err := coppice.AllToAll(ctx, t, parts, append(slices.Clip(options), coppice.Shared())...)
	if err != nil {
		return nil, err
	}
	in := newKeySet(b.Customer)
	for from, some := range keys {
		if len(some) != counts[from] {
			return nil, fmt.Errorf("task %d has sent %d customers of %d", from, len(some), counts[from])
		}
		in.add(some)
	}
	return in, nil
}

// customers returns the keys of a table's customers of the segment.
func (q Q3) customers(c *CustomerTable) (keys []int32) {
	for i, s := range c.Segments {
		if s == q.Segment {
			keys = append(keys, c.Keys[i])
		}
	}
	return keys
}

// best returns the best rows of some orders.
func (q Q3) best(tables *Tables, customers keySet) []q3Row {
	o, l := &tables.Orders, &tables.Lines
	var top []q3Row
	for i, day := range o.Dates {
		if day >= q.Date || !customers.has(o.Customers[i]) {
			continue
		}
		revenue := int64(0)
		for k := o.Lines[i]; k < o.Lines[i+1]; k++ {
			if l.Shipped[k] > q.Date {
				revenue += int64(l.Prices[k]) * int64(100-l.Discounts[k])
			}
		}
		if revenue == 0 {
			continue
		}
		if top = append(top, q3Row{o.Keys[i], revenue, day, o.Priority(i)}); len(top) == 4*q3Limit {
			top = mergeQ3(top, nil)
		}
	}
	return mergeQ3(top, nil)
}

// mergeQ3 returns the best of two lists, in the order of the answer.
func mergeQ3(a, b []q3Row) []q3Row {
	all := append(a, b...)
	slices.SortFunc(all, func(a, b q3Row) int {
		return cmp.Or(cmp.Compare(b.Revenue, a.Revenue), cmp.Compare(a.Date, b.Date), cmp.Compare(a.Order, b.Order))
	})
	return all[:min(len(all), q3Limit)]
}

// answerQ3 returns the answer as text.
func answerQ3(rows []q3Row) Answer {
	a := Answer{Columns: []string{"l_orderkey", "revenue", "o_orderdate", "o_shippriority"}}
	for _, r := range rows {
		a.Rows = append(a.Rows, []any{r.Order, decimals(r.Revenue, 4), r.Date.String(), r.Priority})
	}
	return a
}
