package dbgen

import (
	"bufio"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Tables as text, with values as the official generator writes them: one row per line, fields separated by
// bars.

// textColumn is a column as text.
type textColumn struct {
	name string
	need Column // columns that it is made of
	add  func(b []byte, r *textRows, i int) []byte
}

// textRows are rows to write.
type textRows struct {
	customer CustomerRows
	order    OrderRows
	line     LineRows
	orderOf  []int32 // of each line, within the range
	number   []uint8 // of each line, within its order
}

// textTable is a table as text.
type textTable struct {
	rows     func(Scale) int64
	generate func(s Scale, lo, hi int64, need Column) (r textRows, n int)
	columns  []textColumn
}

// textTables are the tables that can be written.
var textTables = map[string]textTable{
	"customer": {
		rows: Scale.Customers,
		generate: func(s Scale, lo, hi int64, need Column) (textRows, int) {
			return textRows{customer: s.CustomerRows(lo, hi, need)}, int(hi - lo)
		},
		columns: []textColumn{
			{"c_custkey", 0, func(b []byte, r *textRows, i int) []byte { return decimal(b, r.customer.First+int64(i)) }},
			{"c_name", 0, func(b []byte, r *textRows, i int) []byte {
				return append(b, CustomerName(r.customer.First+int64(i))...)
			}},
			{"c_nationkey", Nation, func(b []byte, r *textRows, i int) []byte { return decimal(b, int64(r.customer.Nations[i])) }},
			{"c_mktsegment", Segment, func(b []byte, r *textRows, i int) []byte { return append(b, Segments[r.customer.Segments[i]]...) }},
		},
	},
	"orders": {
		rows: Scale.Orders,
		generate: func(s Scale, lo, hi int64, need Column) (textRows, int) {
			return textRows{order: s.OrderRows(lo, hi, need)}, int(hi - lo)
		},
		columns: []textColumn{
			{"o_orderkey", 0, func(b []byte, r *textRows, i int) []byte { return decimal(b, OrderKey(r.order.First+int64(i))) }},
			{"o_custkey", Customer, func(b []byte, r *textRows, i int) []byte { return decimal(b, int64(r.order.Customers[i])) }},
			{"o_totalprice", Total, func(b []byte, r *textRows, i int) []byte { return AppendCents(b, r.order.Totals[i]) }},
			{"o_orderdate", Ordered, func(b []byte, r *textRows, i int) []byte { return append(b, r.order.Dates[i].String()...) }},
			{"o_shippriority", 0, func(b []byte, _ *textRows, _ int) []byte { return append(b, '0') }},
		},
	},
	"lineitem": {
		rows:     Scale.Orders,
		generate: generateLines,
		columns: []textColumn{
			{"l_orderkey", 0, func(b []byte, r *textRows, i int) []byte {
				return decimal(b, OrderKey(r.line.First+int64(r.orderOf[i])))
			}},
			{"l_suppkey", Supplier, func(b []byte, r *textRows, i int) []byte { return decimal(b, int64(r.line.Suppliers[i])) }},
			{"l_linenumber", 0, func(b []byte, r *textRows, i int) []byte { return decimal(b, int64(r.number[i])) }},
			{"l_quantity", Quantity, func(b []byte, r *textRows, i int) []byte { return decimal(b, int64(r.line.Quantity[i])) }},
			{"l_extendedprice", Price, func(b []byte, r *textRows, i int) []byte { return AppendCents(b, int64(r.line.Prices[i])) }},
			{"l_discount", Discount, func(b []byte, r *textRows, i int) []byte { return AppendCents(b, int64(r.line.Discounts[i])) }},
			{"l_tax", Tax, func(b []byte, r *textRows, i int) []byte { return AppendCents(b, int64(r.line.Taxes[i])) }},
			{"l_returnflag", Returned, func(b []byte, r *textRows, i int) []byte { return append(b, r.line.Returned[i]) }},
			{"l_linestatus", Status, func(b []byte, r *textRows, i int) []byte { return append(b, r.line.Status[i]) }},
			{"l_shipdate", Shipped, func(b []byte, r *textRows, i int) []byte { return append(b, r.line.Shipped[i].String()...) }},
		},
	},
	"supplier": {
		rows: Scale.Suppliers,
		generate: func(_ Scale, lo, hi int64, _ Column) (textRows, int) {
			return textRows{customer: CustomerRows{First: lo + 1, Nations: SupplierNations(lo, hi)}}, int(hi - lo)
		},
		columns: []textColumn{
			{"s_suppkey", 0, func(b []byte, r *textRows, i int) []byte { return decimal(b, r.customer.First+int64(i)) }},
			{"s_nationkey", 0, func(b []byte, r *textRows, i int) []byte { return decimal(b, int64(r.customer.Nations[i])) }},
		},
	},
}

// generateLines generates lines, with their orders and their places in them.
func generateLines(s Scale, lo, hi int64, need Column) (textRows, int) {
	r := textRows{line: s.LineRows(lo, hi, need)}
	for i, n := range r.line.Counts {
		for j := range n {
			r.orderOf, r.number = append(r.orderOf, int32(i)), append(r.number, j+1)
		}
	}
	return r, r.line.Lines
}

// CustomerName returns c_name of the customer with a key.
func CustomerName(key int64) string { return fmt.Sprintf("Customer#%09d", key) }

func decimal(b []byte, n int64) []byte { return strconv.AppendInt(b, n, 10) }

// AppendCents appends a non-negative amount in hundredths, with its two decimals.
func AppendCents(b []byte, n int64) []byte {
	return append(decimal(b, n/100), '.', byte('0'+n/10%10), byte('0'+n%10))
}

// Tables lists the tables that can be written.
func Tables() []string { return []string{"customer", "orders", "lineitem", "supplier"} }

// Columns lists the columns of a table that can be written.
func Columns(table string) ([]string, error) {
	t, ok := textTables[table]
	if !ok {
		return nil, fmt.Errorf("table %q; allowed: %s", table, strings.Join(Tables(), ", "))
	}
	names := make([]string, len(t.columns))
	for i, c := range t.columns {
		names[i] = c.name
	}
	return names, nil
}

// CheckColumns returns an error if any of the columns of a table cannot be written.
func CheckColumns(table string, columns []string) error {
	names, err := Columns(table)
	if err != nil {
		return err
	}
	for _, name := range columns {
		if !slices.Contains(names, name) {
			return fmt.Errorf("column %q of %s; allowed: %s", name, table, strings.Join(names, ", "))
		}
	}
	if len(columns) == 0 {
		return fmt.Errorf("no columns of %s; allowed: %s", table, strings.Join(names, ", "))
	}
	return nil
}

// blockRows is how many rows, or orders, Write generates at once.
const blockRows = 1 << 14

// Write writes the named columns of part i of n of a table, in the order of names: one row per line, fields
// separated by bars.
func (s Scale) Write(to io.Writer, table string, columns []string, i, n int) error {
	if err := CheckColumns(table, columns); err != nil {
		return err
	}
	t := textTables[table]
	var need Column
	var chosen []textColumn
	for _, name := range columns {
		at := slices.IndexFunc(t.columns, func(c textColumn) bool { return c.name == name })
		chosen = append(chosen, t.columns[at])
		need |= t.columns[at].need
	}
	w := bufio.NewWriterSize(to, 1<<16)
	lo, hi := Part(t.rows(s), i, n)
	for ; lo < hi; lo += blockRows {
		r, rows := t.generate(s, lo, min(lo+blockRows, hi), need)
		for i := range rows {
			b := w.AvailableBuffer()
			for k := range chosen {
				b = append(chosen[k].add(b, &r, i), '|')
			}
			b[len(b)-1] = '\n'
			if _, err := w.Write(b); err != nil {
				return err
			}
		}
	}
	return w.Flush()
}

// Part returns the range lo … hi−1 of part i of n of the given number of rows.
func Part(rows int64, i, n int) (lo, hi int64) {
	return rows * int64(i) / int64(n), rows * int64(i+1) / int64(n)
}
