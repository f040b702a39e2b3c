package tpch

import "github.com/coppice-go/coppice/apps/tpch/dbgen"

// rows are the numbers of rows of tables.
type rows struct{ customers, suppliers, orders, lines int64 }

// The bytes of a value of a column, and of what comes with each row: its key, and the place where an order's
// lines begin.
var (
	valueBytes = map[dbgen.Column]int64{
		dbgen.Segment: 1, dbgen.Nation: 1, dbgen.Customer: 4, dbgen.Ordered: 2, dbgen.Priority: 4,
		dbgen.Quantity: 1, dbgen.Price: 4, dbgen.Discount: 1, dbgen.Tax: 1, dbgen.Returned: 1, dbgen.Status: 1, dbgen.Shipped: 2, dbgen.Supplier: 4,
	}
	keyBytes = rows{customers: 4, suppliers: 4, orders: 8 + 4}
)

// bytes returns the size of columns of these rows.
func (r rows) bytes(columns dbgen.Column) int64 {
	width := func(of dbgen.Column) (sum int64) {
		for c, bytes := range valueBytes {
			if columns&of&c != 0 {
				sum += bytes
			}
		}
		return sum
	}
	return r.customers*(keyBytes.customers+width(dbgen.Segment|dbgen.Nation)) +
		r.suppliers*(keyBytes.suppliers+width(dbgen.Nation)) +
		r.orders*(keyBytes.orders+width(orderColumns)) +
		r.lines*width(lineColumns)
}

// rows returns the numbers of rows that are generated for the given columns.
func (g Generated) rows(columns dbgen.Column) (r rows) {
	s := dbgen.Scale(g)
	if columns&(dbgen.Segment|dbgen.Nation) != 0 {
		r.customers = s.Customers()
	}
	if columns&dbgen.Supplier != 0 {
		r.suppliers = s.Suppliers()
	}
	r.orders, r.lines = s.Orders(), 4*s.Orders() // on average
	return r
}

// Bytes implements Source: twice the size of the columns, since as much may be garbage that is not collected
// yet.
func (g Generated) Bytes(columns dbgen.Column) int64 {
	return 2 * g.rows(columns).bytes(columns&^dbgen.Priority) // priorities are all 0, and not stored
}

// rows returns the approximate numbers of rows of the files.
func (f *Files) rows() (r rows, err error) {
	for _, table := range []struct {
		file tableFile
		rows *int64
	}{{f.customer, &r.customers}, {f.supplier, &r.suppliers}, {f.orders, &r.orders}, {f.lines, &r.lines}} {
		if table.file == nil {
			continue
		}
		if *table.rows, err = table.file.rows(); err != nil {
			return r, err
		}
	}
	return r, nil
}

// Bytes implements Source: columns grow as they are read, which takes more than if all were known before.
func (f *Files) Bytes(columns dbgen.Column) int64 { return f.about.bytes(columns) * 5 / 2 }
