package tpch

import (
	"cmp"
	"context"
	"slices"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/apps/tpch/dbgen"
)

// Q5 is query 5, local supplier volume: the revenue of lines, ordered in one year, whose customer and supplier
// are of the same nation, by nations of a region.
type Q5 struct {
	Region uint8 // index into dbgen.Regions
	From   dbgen.Date
	To     dbgen.Date // the day after the last
}

// Columns implements Query.
func (Q5) Columns() dbgen.Column {
	return dbgen.Nation | dbgen.Customer | dbgen.Ordered | dbgen.Price | dbgen.Discount | dbgen.Supplier
}

// q5Row is a row of the answer.
type q5Row struct {
	Nation  uint8
	Revenue int64 // ten-thousandths
}

// keyed are keys of a table, and the nation of each.
type keyed struct {
	Keys    []int32
	Nations []uint8
}

// Ask implements Query: tasks exchange the customers and suppliers of the region, each adds up its lines, and
// a reduction adds the sums of all.
func (q Q5) Ask(ctx context.Context, t *coppice.Task, tables *Tables, b Bounds, s Steps, options ...coppice.Option) (Answer, error) {
	s("allgather")
	buyers, err := q.nations(ctx, t, keyed{tables.Customers.Keys, tables.Customers.Nations}, b.Customer, options)
	if err != nil {
		return Answer{}, err
	}
	sellers, err := q.nations(ctx, t, keyed(tables.Suppliers), b.Supplier, options)
	if err != nil {
		return Answer{}, err
	}
	s("join")
	sums := q.sums(tables, buyers, sellers)
	s("reduce")
	sums, err = coppice.Reduce(ctx, t, sums, coppice.Sum, options...)
	return answerQ5(sums), err
}

// answerQ5 returns the answer as text.
func answerQ5(sums []int64) Answer {
	var rows []q5Row
	for nation, sum := range sums {
		if sum > 0 {
			rows = append(rows, q5Row{uint8(nation), sum})
		}
	}
	slices.SortFunc(rows, func(a, b q5Row) int {
		return cmp.Or(cmp.Compare(b.Revenue, a.Revenue), cmp.Compare(a.Nation, b.Nation))
	})
	a := Answer{Columns: []string{"n_name", "revenue"}}
	for _, r := range rows {
		a.Rows = append(a.Rows, []any{dbgen.Nations[r.Nation].Name, decimals(r.Revenue, 4)})
	}
	return a
}

// nowhere stands for any nation outside the region.
const nowhere = 255

// nations returns, by key, the nations of all rows of a table that are in the region.
func (q Q5) nations(ctx context.Context, t *coppice.Task, rows keyed, largest int64, options []coppice.Option) ([]uint8, error) {
	var mine keyed
	for i, n := range rows.Nations {
		if dbgen.Nations[n].Region == q.Region {
			mine.Keys, mine.Nations = append(mine.Keys, rows.Keys[i]), append(mine.Nations, n)
		}
	}
	all, err := coppice.AllGather(ctx, t, mine, append(slices.Clip(options), coppice.Shared())...)
	if err != nil {
		return nil, err
	}
	of := slices.Repeat([]uint8{nowhere}, int(largest)+1)
	for _, some := range all {
		for i, key := range some.Keys {
			of[key] = some.Nations[i]
		}
	}
	return of, nil
}

// sums returns the revenues of some orders, by nation.
func (q Q5) sums(tables *Tables, buyers, sellers []uint8) []int64 {
	o, l := &tables.Orders, &tables.Lines
	sums := make([]int64, len(dbgen.Nations))
	for i, day := range o.Dates {
		nation := buyers[o.Customers[i]]
		if day < q.From || day >= q.To || nation == nowhere {
			continue
		}
		for k := o.Lines[i]; k < o.Lines[i+1]; k++ {
			if sellers[l.Suppliers[k]] == nation {
				sums[nation] += int64(l.Prices[k]) * int64(100-l.Discounts[k])
			}
		}
	}
	return sums
}
