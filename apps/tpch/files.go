package tpch

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"github.com/coppice-go/coppice/apps/input"
	"github.com/coppice-go/coppice/apps/tpch/dbgen"
)

// Files is the source that reads tables from files of a directory: customer.tbl, orders.tbl, lineitem.tbl and
// supplier.tbl as the official generator writes them, or customer.parquet and so on. Each table must be
// sorted by its key, and lines by their orders: so a part is found without reading the others, and loading a
// part checks the order up to the first row of the next part.
type Files struct {
	Mark string // changes if the name, the size or the modification time of any file changes

	dir     string
	columns dbgen.Column // that may be loaded
	bounds  Bounds
	about   rows

	customer, orders, lines, supplier tableFile // nil: not needed
	opened                            input.Files
}

// tableFile is the file of a table. Places in it, from 0 to its end, are bytes of text, or rows.
type tableFile interface {
	Name() string
	end() int64
	// rows returns the approximate number of rows.
	rows() (int64, error)
	// begin returns the first place from at on where a row begins, or the end.
	begin(at int64) (int64, error)
	// last returns where the last row begins. The table must not be empty.
	last() (int64, error)
	// read passes to each column, which are in order, its values in the rows that begin from lo up to hi.
	// A row begins at lo.
	read(ctx context.Context, lo, hi int64, columns []column) error
	Close() error
}

// openParquet reads a file of Parquet, in programs built with the tag parquet: parquet.go.
var openParquet func(f *os.File, size int64) (tableFile, error)

// tableFiles lists the tables in files: the fields of a row, and the columns for which a table is needed.
var tableFiles = []struct {
	name   string
	fields int
	need   dbgen.Column
	file   func(f *Files) *tableFile
}{
	{"customer", 8, dbgen.Segment | dbgen.Nation, func(f *Files) *tableFile { return &f.customer }},
	{"supplier", 7, dbgen.Supplier, func(f *Files) *tableFile { return &f.supplier }},
	{"orders", 9, orderColumns, func(f *Files) *tableFile { return &f.orders }},
	{"lineitem", 16, lineColumns, func(f *Files) *tableFile { return &f.lines }},
}

const (
	orderColumns = dbgen.Customer | dbgen.Ordered | dbgen.Priority
	lineColumns  = dbgen.Quantity | dbgen.Price | dbgen.Discount | dbgen.Tax | dbgen.Returned | dbgen.Status | dbgen.Shipped | dbgen.Supplier
)

// OpenFiles opens the files of a directory that have the given columns, and checks the first and the last row
// of each.
func OpenFiles(dir string, columns dbgen.Column) (*Files, error) {
	if missing := columns &^ (dbgen.Segment | dbgen.Nation | orderColumns | lineColumns); missing != 0 {
		return nil, fmt.Errorf("columns %#x are not read from files", missing)
	}
	f := &Files{dir: dir, columns: columns}
	if err := f.open(); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Close closes the files.
func (f *Files) Close() error { return f.opened.Close() }

func (f *Files) open() (err error) {
	for _, table := range tableFiles {
		if f.columns&table.need == 0 {
			continue
		}
		file, err := f.find(table.name)
		if err != nil {
			return err
		}
		if filepath.Ext(file.Name()) == ".tbl" {
			*table.file(f) = &textFile{file.File, file.Size(), table.fields}
		} else if *table.file(f), err = openParquet(file.File, file.Size()); err != nil {
			return err
		}
	}
	f.Mark = f.opened.Mark()
	if err := f.check(context.Background()); err != nil {
		return f.cause(context.Background(), err)
	}
	f.about, err = f.rows()
	return err
}

// find opens the file of a table.
func (f *Files) find(table string) (input.File, error) {
	text, parquet := filepath.Join(f.dir, table+".tbl"), filepath.Join(f.dir, table+".parquet")
	file, err := f.opened.Open(text)
	if !errors.Is(err, os.ErrNotExist) {
		if _, also := os.Stat(parquet); also == nil {
			err = fmt.Errorf("%s and %s; allowed: one of them", text, parquet)
		}
		return file, err
	}
	file, err = f.opened.Open(parquet)
	switch {
	case errors.Is(err, os.ErrNotExist):
		if _, wrong := os.ReadDir(f.dir); wrong != nil {
			return file, wrong
		}
		return file, fmt.Errorf("%s has no %s.tbl and no %s.parquet; allowed: one of them", f.dir, table, table)
	case err == nil && openParquet == nil:
		return file, fmt.Errorf("%s: this build does not read Parquet; allowed: .tbl, or go build -tags parquet ./cmd/coppice", parquet)
	}
	return file, err
}

// The first columns of tables, by which they are sorted.
var (
	customerKey = column{name: "c_custkey", kind: upTo(math.MaxInt32)}
	supplierKey = column{name: "s_suppkey", kind: upTo(math.MaxInt32)}
	orderKey    = column{name: "o_orderkey", kind: upTo(1e18 - 1)}
	lineKey     = column{name: "l_orderkey", kind: upTo(1e18 - 1)}
)

// check reads the first and the last row of each table, and takes the greatest keys.
func (f *Files) check(ctx context.Context) (err error) {
	if f.bounds.Customer, err = ends(ctx, f.customer, customerKey, new(CustomerTable).columns(f.columns)); err != nil {
		return err
	}
	if f.bounds.Supplier, err = ends(ctx, f.supplier, supplierKey, new(SupplierTable).columns()); err != nil {
		return err
	}
	if _, err = ends(ctx, f.orders, orderKey, new(OrderTable).columns(f.columns, f.bounds)); err != nil {
		return err
	}
	_, err = ends(ctx, f.lines, lineKey, new(LineTable).columns(f.columns, f.bounds, 1))
	return err
}

// ends reads the first and the last row of a table, and returns the last key.
func ends(ctx context.Context, file tableFile, key column, columns []column) (greatest int64, err error) {
	if file == nil {
		return 0, nil
	} else if file.end() == 0 {
		return 0, fmt.Errorf("%s is empty; allowed: one row or more", file.Name())
	}
	last, err := file.last()
	if err != nil {
		return 0, err
	}
	columns = append([]column{key.to(func(v int64) error { greatest = v; return nil })}, columns...)
	for _, at := range []int64{0, last} {
		if err := file.read(ctx, at, at+1, columns); err != nil {
			return 0, err
		}
	}
	return greatest, nil
}
