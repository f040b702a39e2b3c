package tpch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/coppice-go/coppice/apps/tpch/dbgen"
)

// Bounds implements Source.
func (f *Files) Bounds() Bounds { return f.bounds }

// Load implements Source.
func (f *Files) Load(ctx context.Context, i, n int, columns dbgen.Column) (*Tables, error) {
	if columns&^f.columns != 0 {
		return nil, fmt.Errorf("files of %s were opened for other columns", f.dir)
	}
	t := &Tables{}
	if err := f.load(ctx, t, i, n); err != nil {
		return nil, cmp.Or(f.opened.Unchanged(), f.cause(ctx, err))
	}
	if err := f.opened.Unchanged(); err != nil {
		return nil, err
	}
	return t, nil
}

// cause returns what is wrong with customers or suppliers, if a row refers to a key beyond the last one: the
// last key may not be the greatest.
func (f *Files) cause(ctx context.Context, found error) error {
	if !errors.As(found, new(beyondError)) {
		return found
	}
	for _, table := range []struct {
		file tableFile
		key  column
	}{{f.customer, customerKey}, {f.supplier, supplierKey}} {
		if _, _, err := readPart(ctx, table.file, 0, 1, table.key.to(func(int64) error { return nil }), nil); err != nil {
			return err
		}
	}
	return found
}

func (f *Files) load(ctx context.Context, t *Tables, i, n int) error {
	key := customerKey.to(appendTo(&t.Customers.Keys))
	if _, _, err := readPart(ctx, f.customer, i, n, key, t.Customers.columns(f.columns)); err != nil {
		return err
	}
	key = supplierKey.to(appendTo(&t.Suppliers.Keys))
	if _, _, err := readPart(ctx, f.supplier, i, n, key, t.Suppliers.columns()); err != nil {
		return err
	}
	if f.orders == nil {
		return f.loadLines(ctx, t, i, n)
	}
	key = orderKey.to(appendTo(&t.Orders.Keys))
	lo, hi, err := readPart(ctx, f.orders, i, n, key, t.Orders.columns(f.columns, f.bounds))
	if err != nil || f.lines == nil {
		return err
	}
	return f.loadLinesOf(ctx, t, lo, hi, n)
}

// span returns where part i of n of a file begins and ends.
func span(file tableFile, i, n int) (lo, hi int64, err error) {
	lo, hi = dbgen.Part(file.end(), i, n)
	if lo, err = file.begin(lo); err == nil {
		hi, err = file.begin(hi)
	}
	return lo, hi, err
}

// readPart reads part i of n of a table, if it is needed, and checks that its keys ascend, up to the first
// key of the next part.
func readPart(ctx context.Context, file tableFile, i, n int, key column, columns []column) (lo, hi int64, err error) {
	if file == nil {
		return 0, 0, nil
	}
	if lo, hi, err = span(file, i, n); err != nil {
		return 0, 0, err
	}
	last := int64(0)
	ascending := func(v int64) error {
		if v <= last {
			return fmt.Errorf("%s %d after %d; allowed: rows sorted by %s", key.name, v, last, key.name)
		}
		last = v
		return nil
	}
	sorted := key.to(func(v int64) error {
		if err := ascending(v); err != nil {
			return err
		}
		return key.take(v)
	})
	if err = file.read(ctx, lo, hi, append([]column{sorted}, columns...)); err == nil && hi < file.end() {
		err = file.read(ctx, hi, hi+1, []column{key.to(ascending)})
	}
	return lo, hi, err
}

// loadLines reads part i of n of the lines, whatever orders they belong to.
func (f *Files) loadLines(ctx context.Context, t *Tables, i, n int) error {
	if f.lines == nil {
		return nil
	}
	lo, hi, err := span(f.lines, i, n)
	if err != nil {
		return err
	}
	key := lineKey.to(func(int64) error { return nil }) // no query needs it, but it must be a key
	return f.lines.read(ctx, lo, hi, append([]column{key}, t.Lines.columns(f.columns, f.bounds, n)...))
}

// sortedLines describes the order that lines must have.
const sortedLines = "rows sorted by l_orderkey"

// loadLinesOf reads the lines of the orders in a range of their file. The ranges of lines of all parts cover
// the file, and each line must belong to an order of its part: so no line is lost, even if the file is not
// sorted.
func (f *Files) loadLinesOf(ctx context.Context, t *Tables, lo, hi int64, n int) error {
	lo, err := f.firstLine(ctx, lo)
	if err != nil {
		return err
	}
	if hi, err = f.firstLine(ctx, hi); err != nil {
		return err
	}
	if lo > hi {
		return fmt.Errorf("%s: an order's lines are before those of an order with a smaller key; allowed: %s", f.lines.Name(), sortedLines)
	}
	o := &t.Orders
	o.Lines = []int32{0} // the last element is the begin of the next line's order
	last, lines := int64(0), int32(0)
	var numbers lineNumbers
	key := lineKey.to(func(v int64) error {
		if v < last {
			return fmt.Errorf("l_orderkey %d after %d; allowed: %s", v, last, sortedLines)
		} else if v != last {
			if err := numbers.end(last); err != nil {
				return err
			}
		}
		for last = v; len(o.Lines) <= len(o.Keys) && o.Keys[len(o.Lines)-1] < v; {
			o.Lines = append(o.Lines, lines)
		}
		if len(o.Lines) > len(o.Keys) || o.Keys[len(o.Lines)-1] != v {
			return fmt.Errorf("l_orderkey %d is not in its place, or not in %s; allowed: %s", v, f.orders.Name(), sortedLines)
		}
		if lines == math.MaxInt32 {
			return fmt.Errorf("more lines than %d in a part; allowed: less, in more parts", lines)
		}
		lines++
		return nil
	})
	columns := append([]column{key}, t.Lines.columns(f.columns, f.bounds, n)...)
	if _, ok := f.lines.(*textFile); ok { // Parquet files have a number of rows, and not all columns
		columns = slices.Insert(columns, slices.IndexFunc(columns, func(c column) bool { return c.field > lineNumber.field }), lineNumber.to(numbers.take))
	}
	if err := f.lines.read(ctx, lo, hi, columns); err != nil {
		return err
	}
	if err := numbers.end(last); err != nil {
		return fmt.Errorf("%s: %w", f.lines.Name(), err)
	}
	for len(o.Lines) <= len(o.Keys) {
		o.Lines = append(o.Lines, lines)
	}
	for i, order := range o.Keys {
		if o.Lines[i] == o.Lines[i+1] {
			return fmt.Errorf("%s has no lines of order %d, or not in their place; allowed: one or more, and %s", f.lines.Name(), order, sortedLines)
		}
	}
	return nil
}

// lineNumber distinguishes the lines of an order.
var lineNumber = column{name: "l_linenumber", field: 3, kind: upTo(7)}

// lineNumbers are the line numbers of an order so far, as bits.
type lineNumbers uint8

func (s *lineNumbers) take(v int64) error {
	bit := lineNumbers(1) << v
	if *s&bit != 0 {
		return fmt.Errorf("l_linenumber %d for the second time in an order; allowed: once", v)
	}
	*s |= bit
	return nil
}

// end returns an error if a line of the order, other than its last, is missing. It then forgets the lines.
func (s *lineNumbers) end(order int64) error {
	all := *s | 1
	*s = 0
	if all&(all+1) != 0 {
		return fmt.Errorf("a line of order %d is missing before, or not in its place; allowed: l_linenumber 1, 2 and so on, %s", order, sortedLines)
	}
	return nil
}

// firstLine returns where the lines begin of the orders from the given place of their file on.
func (f *Files) firstLine(ctx context.Context, order int64) (int64, error) {
	switch order {
	case 0:
		return 0, nil
	case f.orders.end():
		return f.lines.end(), nil
	}
	key, err := keyAt(ctx, f.orders, order, orderKey)
	if err != nil {
		return 0, err
	}
	// Rows that begin before lo have a smaller key, those from hi on do not.
	lo, hi := int64(0), f.lines.end()
	for lo < hi {
		middle := lo + (hi-lo)/2
		at, err := f.lines.begin(middle)
		if err != nil {
			return 0, err
		}
		smaller := false
		if at < hi {
			k, err := keyAt(ctx, f.lines, at, lineKey)
			if err != nil {
				return 0, err
			}
			smaller = k < key
		}
		if smaller {
			lo = at + 1
		} else {
			hi = middle // no row begins between the middle and at
		}
	}
	return f.lines.begin(lo)
}

// keyAt returns the key of the row that begins at a place.
func keyAt(ctx context.Context, file tableFile, at int64, key column) (v int64, err error) {
	err = file.read(ctx, at, at+1, []column{key.to(func(k int64) error { v = k; return nil })})
	return v, err
}

// appendTo returns a function that appends values to a column of a table.
func appendTo[E uint8 | int32 | int64 | dbgen.Date](column *[]E) func(int64) error {
	return func(v int64) error {
		*column = append(*column, E(v))
		return nil
	}
}

// only removes columns that are not wanted.
func only(want dbgen.Column, columns []column) []column {
	return slices.DeleteFunc(columns, func(c column) bool { return c.is&want == 0 })
}

// columns returns the wanted columns of the file, without the key.
func (c *CustomerTable) columns(want dbgen.Column) []column {
	return only(want, []column{
		{dbgen.Nation, "c_nationkey", 3, nation, appendTo(&c.Nations)},
		{dbgen.Segment, "c_mktsegment", 6, kind{words: dbgen.Segments}, appendTo(&c.Segments)},
	})
}

// columns returns the columns of the file, without the key.
func (s *SupplierTable) columns() []column {
	return []column{{dbgen.Nation, "s_nationkey", 3, nation, appendTo(&s.Nations)}}
}

// columns returns the wanted columns of the file, without the key.
func (o *OrderTable) columns(want dbgen.Column, b Bounds) []column {
	return only(want, []column{
		{dbgen.Customer, "o_custkey", 1, keyOf("customer", b.Customer), appendTo(&o.Customers)},
		{dbgen.Ordered, "o_orderdate", 4, kind{day: true}, appendTo(&o.Dates)},
		{dbgen.Priority, "o_shippriority", 7, kind{most: math.MaxInt32}, appendTo(&o.Priorities)},
	})
}

// columns returns the wanted columns of the file, without the key, for a part of n.
func (l *LineTable) columns(want dbgen.Column, b Bounds, n int) []column {
	hundredths := kind{places: 2, most: 100}
	return only(want, []column{
		{dbgen.Supplier, "l_suppkey", 2, keyOf("supplier", b.Supplier), appendTo(&l.Suppliers)},
		{dbgen.Quantity, "l_quantity", 4, kind{most: math.MaxUint8}, appendTo(&l.Quantities)},
		{dbgen.Price, "l_extendedprice", 5, kind{places: 2, most: math.MaxInt32}, l.takePrice(n)},
		{dbgen.Discount, "l_discount", 6, hundredths, appendTo(&l.Discounts)},
		{dbgen.Tax, "l_tax", 7, hundredths, appendTo(&l.Taxes)},
		{dbgen.Returned, "l_returnflag", 8, kind{words: letters(flags)}, letterTo(&l.Returned, flags)},
		{dbgen.Status, "l_linestatus", 9, kind{words: letters(states)}, letterTo(&l.Status, states)},
		{dbgen.Shipped, "l_shipdate", 10, kind{day: true}, appendTo(&l.Shipped)},
	})
}

// takePrice returns a function that takes prices, as long as their sum over n such parts, in ten-thousandths,
// is sure to fit.
func (l *LineTable) takePrice(n int) func(int64) error {
	sum, most := int64(0), math.MaxInt64/100/int64(n)
	return func(v int64) error {
		if sum += v; sum > most {
			return fmt.Errorf("prices of a part of %d come to %s and more; allowed: up to %s", n, decimals(sum, 2), decimals(most, 2))
		}
		l.Prices = append(l.Prices, int32(v))
		return nil
	}
}

// letters splits a text into letters.
func letters(text string) []string { return strings.Split(text, "") }

// letterTo returns a function that appends letters of a text, by their number, to a column.
func letterTo(column *[]byte, text string) func(int64) error {
	return func(v int64) error {
		*column = append(*column, text[v])
		return nil
	}
}
