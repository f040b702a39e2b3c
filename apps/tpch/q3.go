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

// Columns are those that it needs.
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

// Ask implements Query, along the plan of the thesis: the tasks gather how many customers of
// the segment each has, all get to know it, all send each other the customers' keys; then each has what it
// needs for the orders that it holds, and the best ten of all are found in a reduction.
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

// allCustomers are those of the segment, of all tasks.
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
	parts := make([][]int32, t.Size())
	for i := range parts {
		parts[i] = mine
	}
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

// customers are the keys of those of the segment.
func (q Q3) customers(c *CustomerTable) (keys []int32) {
	for i, s := range c.Segments {
		if s == q.Segment {
			keys = append(keys, c.Keys[i])
		}
	}
	return keys
}

// best are the best rows of some orders.
func (q Q3) best(tables *Tables, customers keySet) []q3Row {
	o, l := &tables.Orders, &tables.Lines
	var top topQ3
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
		if revenue > 0 {
			top.add(q3Row{o.Keys[i], revenue, day, o.Priority(i)})
		}
	}
	return top.sorted()
}

// compareQ3 orders rows as the answer has them.
func compareQ3(a, b q3Row) int {
	return cmp.Or(cmp.Compare(b.Revenue, a.Revenue), cmp.Compare(a.Date, b.Date), cmp.Compare(a.Order, b.Order))
}

// mergeQ3 is the best of two lists of the best.
func mergeQ3(a, b []q3Row) []q3Row {
	all := append(a, b...)
	slices.SortFunc(all, compareQ3)
	return all[:min(len(all), q3Limit)]
}

// topQ3 collects the best rows.
type topQ3 struct{ rows []q3Row }

// add takes a row, if it may be among them.
func (t *topQ3) add(r q3Row) {
	if t.rows = append(t.rows, r); len(t.rows) == 4*q3Limit {
		t.rows = t.sorted()
	}
}

func (t *topQ3) sorted() []q3Row { return mergeQ3(t.rows, nil) }

// answerQ3 is the answer in words.
func answerQ3(rows []q3Row) Answer {
	a := Answer{Columns: []string{"l_orderkey", "revenue", "o_orderdate", "o_shippriority"}}
	for _, r := range rows {
		a.Rows = append(a.Rows, []any{r.Order, decimals(r.Revenue, 4), r.Date.String(), r.Priority})
	}
	return a
}
