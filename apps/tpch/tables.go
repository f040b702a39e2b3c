// Package tpch answers queries of TPC-H by tasks that each hold a part of the tables. It uses only the public
// API of package coppice, and has no code for failures: a task that is run again generates or reads its part
// again. Its API may change.
//
// Amounts are exact: whole numbers of cents, and of their hundredths, until they are printed.
package tpch

import (
	"context"
	"fmt"
	"math"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/apps/tpch/dbgen"
)

// Tables is a task's part of the tables. Lines are at the task of their order, orders and customers at any
// task. Columns that a query does not need are nil.
type Tables struct {
	Customers CustomerTable
	Orders    OrderTable
	Lines     LineTable
	Suppliers SupplierTable
}

// CustomerTable has rows of customer.
type CustomerTable struct {
	Keys     []int32
	Segments []uint8 // index into dbgen.Segments
	Nations  []uint8
}

// OrderTable has rows of orders.
type OrderTable struct {
	Keys       []int64
	Customers  []int32
	Dates      []dbgen.Date
	Priorities []int32 // nil: all are 0
	Lines      []int32 // where the lines of each order begin and, finally, where the last order's end
}

// Priority returns o_shippriority of row i.
func (o *OrderTable) Priority(i int) int32 {
	if o.Priorities == nil {
		return 0
	}
	return o.Priorities[i]
}

// LineTable has rows of lineitem.
type LineTable struct {
	Quantities []uint8
	Prices     []int32 // cents
	Discounts  []uint8 // hundredths
	Taxes      []uint8 // hundredths
	Returned   []byte
	Status     []byte
	Shipped    []dbgen.Date
	Suppliers  []int32
}

// SupplierTable has rows of supplier.
type SupplierTable struct {
	Keys    []int32
	Nations []uint8
}

// Source provides tables. The same part is the same each time.
type Source interface {
	// Load returns part i of n, with at least the given columns.
	Load(ctx context.Context, i, n int, columns dbgen.Column) (*Tables, error)
	// Check finds errors that no single part shows: rows that refer to rows that do not exist. All tasks
	// must call it together.
	Check(ctx context.Context, t *coppice.Task, tables *Tables, options ...coppice.Option) error
	Bounds() Bounds
	// Bytes returns about how much memory it takes to load all parts, with these columns.
	Bytes(columns dbgen.Column) int64
}

// Bounds are the greatest keys of tables.
type Bounds struct{ Customer, Supplier int64 }

// Generated is the source that generates the official tables, at a scale.
type Generated dbgen.Scale

// Bounds implements Source.
func (g Generated) Bounds() Bounds {
	return Bounds{dbgen.Scale(g).Customers(), dbgen.Scale(g).Suppliers()}
}

// Check implements Source: generated tables have no errors.
func (Generated) Check(context.Context, *coppice.Task, *Tables, ...coppice.Option) error { return nil }

// Load implements Source.
func (g Generated) Load(ctx context.Context, i, n int, columns dbgen.Column) (*Tables, error) {
	s := dbgen.Scale(g)
	if err := s.Check(); err != nil {
		return nil, err
	}
	if lo, hi := dbgen.Part(s.Orders(), i, n); linesOf(hi-lo) > math.MaxInt32 {
		return nil, fmt.Errorf("about %d lines in a part of %d; allowed: up to %d, in more parts", linesOf(hi-lo), n, math.MaxInt32)
	}
	t := &Tables{}
	if columns&(dbgen.Segment|dbgen.Nation) != 0 {
		lo, hi := dbgen.Part(s.Customers(), i, n)
		rows := s.CustomerRows(lo, hi, columns)
		t.Customers = CustomerTable{Keys: keys(rows.First, hi-lo), Segments: rows.Segments, Nations: rows.Nations}
	}
	if columns&dbgen.Supplier != 0 {
		lo, hi := dbgen.Part(s.Suppliers(), i, n)
		t.Suppliers = SupplierTable{Keys: keys(lo+1, hi-lo), Nations: dbgen.SupplierNations(lo, hi)}
	}
	return t, t.generateOrders(ctx, s, i, n, columns)
}

// linesOf returns the capacity for the lines of the given number of orders: four an order, on average.
func linesOf(orders int64) int { return int(orders)*4 + int(orders)/100 + 64 }

// keys returns n consecutive keys.
func keys(first, n int64) []int32 {
	all := make([]int32, n)
	for i := range all {
		all[i] = int32(first) + int32(i)
	}
	return all
}

// generateOrders generates orders and their lines, a block at a time, to save memory meanwhile.
func (t *Tables) generateOrders(ctx context.Context, s dbgen.Scale, i, n int, columns dbgen.Column) error {
	const block = 1 << 16
	lo, hi := dbgen.Part(s.Orders(), i, n)
	orders, lines := int(hi-lo), int32(0)
	o, l := &t.Orders, &t.Lines
	o.Keys, o.Lines = make([]int64, 0, orders), make([]int32, 0, orders+1)
	for ; lo < hi; lo += block {
		if err := ctx.Err(); err != nil {
			return fmt.Errorf("part %d of %d is not complete: %w", i, n, context.Cause(ctx))
		}
		end := min(lo+block, hi)
		for row := lo; row < end; row++ {
			o.Keys = append(o.Keys, dbgen.OrderKey(row))
		}
		rows := s.OrderRows(lo, end, columns)
		add(&o.Customers, rows.Customers, orders, columns&dbgen.Customer)
		add(&o.Dates, rows.Dates, orders, columns&dbgen.Ordered)
		more := s.LineRows(lo, end, columns)
		for _, n := range more.Counts {
			o.Lines = append(o.Lines, lines)
			lines += int32(n)
		}
		l.add(&more, linesOf(int64(orders)), columns)
	}
	o.Lines = append(o.Lines, lines)
	return nil
}

// add appends lines, in memory for n in all.
func (l *LineTable) add(rows *dbgen.LineRows, n int, columns dbgen.Column) {
	add(&l.Quantities, rows.Quantity, n, columns&dbgen.Quantity)
	add(&l.Prices, rows.Prices, n, columns&dbgen.Price)
	add(&l.Discounts, rows.Discounts, n, columns&dbgen.Discount)
	add(&l.Taxes, rows.Taxes, n, columns&dbgen.Tax)
	add(&l.Returned, rows.Returned, n, columns&dbgen.Returned)
	add(&l.Status, rows.Status, n, columns&dbgen.Status)
	add(&l.Shipped, rows.Shipped, n, columns&dbgen.Shipped)
	add(&l.Suppliers, rows.Suppliers, n, columns&dbgen.Supplier)
}

// add appends values to a column of n, if it is wanted: some columns are generated only for the sake of
// others.
func add[E any](column *[]E, values []E, n int, wanted dbgen.Column) {
	if wanted == 0 {
		return
	}
	if *column == nil {
		*column = make([]E, 0, n)
	}
	*column = append(*column, values...)
}
