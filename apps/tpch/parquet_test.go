//go:build parquet

package tpch

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"github.com/coppice-go/coppice/apps/tpch/dbgen"
)

// cells is a column of a file of Parquet.
type cells struct {
	node parquet.Node
	cell func(row int) parquet.Value
}

// form says how values are written.
type form struct {
	key, quantity, price, discount, date, text parquet.Node
	amount                                     func(cents int64) parquet.Value // a price
	options                                    []parquet.WriterOption
}

// forms are the ways in which different programs write tables.
var forms = map[string]form{
	"whole numbers, many groups": {
		key: parquet.Leaf(parquet.Int64Type), quantity: parquet.Int(32), date: parquet.Date(),
		price: parquet.Decimal(2, 15, parquet.Int64Type), discount: parquet.Decimal(2, 9, parquet.Int32Type),
		text:    parquet.Encoded(parquet.String(), &parquet.RLEDictionary),
		amount:  func(cents int64) parquet.Value { return parquet.Int64Value(cents) },
		options: []parquet.WriterOption{parquet.MaxRowsPerRowGroup(1000), parquet.Compression(&parquet.Snappy)},
	},
	"optional, fixed length, small pages": {
		key: parquet.Optional(parquet.Leaf(parquet.Int32Type)), quantity: parquet.Optional(parquet.Int(64)), date: parquet.Optional(parquet.Date()),
		price: parquet.Optional(parquet.Decimal(3, 38, parquet.FixedLenByteArrayType(16))), discount: parquet.Optional(parquet.Decimal(2, 18, parquet.Int64Type)),
		text: parquet.Optional(parquet.String()),
		amount: func(cents int64) parquet.Value {
			return parquet.FixedLenByteArrayValue(binary.BigEndian.AppendUint64(make([]byte, 8), uint64(cents*10)))
		},
		options: []parquet.WriterOption{parquet.PageBufferSize(2000), parquet.DataPageVersion(1), parquet.Compression(&parquet.Zstd)},
	},
}

// number returns the cells of a column of whole numbers.
func number[E uint8 | int32 | int64 | dbgen.Date](node parquet.Node, column []E, plus int64) cells {
	return cells{node, func(i int) parquet.Value {
		if node.Type().Kind() == parquet.Int32 {
			return parquet.Int32Value(int32(int64(column[i]) + plus))
		}
		return parquet.Int64Value(int64(column[i]) + plus)
	}}
}

func words(node parquet.Node, word func(i int) string) cells {
	return cells{node, func(i int) parquet.Value { return parquet.ByteArrayValue([]byte(word(i))) }}
}

// tableCells returns the cells of tables in a form.
func tableCells(t *Tables, f form) map[string]map[string]cells {
	c, o, l := &t.Customers, &t.Orders, &t.Lines
	var orderOf []int64
	for i, key := range o.Keys {
		for range o.Lines[i+1] - o.Lines[i] {
			orderOf = append(orderOf, key)
		}
	}
	return map[string]map[string]cells{
		"customer": {
			"c_custkey": number(f.key, c.Keys, 0), "c_nationkey": number(f.key, c.Nations, 0),
			"c_mktsegment": words(f.text, func(i int) string { return dbgen.Segments[c.Segments[i]] }),
			"c_comment":    words(f.text, func(int) string { return "none" }),
		},
		"supplier": {"s_suppkey": number(f.key, t.Suppliers.Keys, 0), "s_nationkey": number(f.key, t.Suppliers.Nations, 0)},
		"orders": {
			"o_orderkey": number(f.key, o.Keys, 0), "o_custkey": number(f.key, o.Customers, 0),
			"o_orderdate": number(f.date, o.Dates, daysTo1992), "o_shippriority": number(f.key, o.Priorities, 0),
		},
		"lineitem": {
			"l_orderkey": number(f.key, orderOf, 0), "l_suppkey": number(f.key, l.Suppliers, 0), "l_quantity": number(f.quantity, l.Quantities, 0),
			"l_extendedprice": {f.price, func(i int) parquet.Value { return f.amount(int64(l.Prices[i])) }},
			"l_discount":      number(f.discount, l.Discounts, 0), "l_tax": number(f.discount, l.Taxes, 0),
			"l_returnflag": words(f.text, func(i int) string { return string(l.Returned[i]) }),
			"l_linestatus": words(f.text, func(i int) string { return string(l.Status[i]) }),
			"l_shipdate":   number(f.date, l.Shipped, daysTo1992),
		},
	}
}

// parquetText returns a file with the given number of rows.
func parquetText(t testing.TB, columns map[string]cells, rows int, options ...parquet.WriterOption) string {
	t.Helper()
	group := parquet.Group{}
	for name, c := range columns {
		group[name] = c.node
	}
	schema := parquet.NewSchema("table", group)
	var b bytes.Buffer
	w := parquet.NewWriter(&b, append(options, schema)...)
	row := make(parquet.Row, len(columns))
	for i := range rows {
		for k, path := range schema.Columns() {
			c, level := columns[path[0]], 0
			v := c.cell(i)
			if c.node.Optional() && !v.IsNull() {
				level = 1
			}
			row[k] = v.Level(0, level, k)
		}
		if _, err := w.WriteRows([]parquet.Row{row}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// parquetTexts returns the files of tables.
func parquetTexts(t testing.TB, tables *Tables, f form) map[string]string {
	t.Helper()
	files := map[string]string{}
	rows := map[string]int{
		"customer": len(tables.Customers.Keys), "supplier": len(tables.Suppliers.Keys), "orders": len(tables.Orders.Keys), "lineitem": len(tables.Lines.Prices),
	}
	for name, columns := range tableCells(tables, f) {
		files[name+".parquet"] = parquetText(t, columns, rows[name], f.options...)
	}
	return files
}

func TestPartsOfParquetAreTheTables(t *testing.T) {
	for name, form := range forms {
		f := opened(t, written(t, parquetTexts(t, generated(), form)), allColumns)
		if want := Generated(0.01).Bounds(); f.Bounds() != want {
			t.Errorf("bounds %v; want %v", f.Bounds(), want)
		}
		for _, n := range []int{1, 7} {
			if got := glued(t, f, n, allColumns); !reflect.DeepEqual(got, generated()) {
				t.Errorf("%s: %d parts are not the tables", name, n)
			}
		}
	}
}

func TestSmallTablesInManyPartsOfParquet(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 20 {
		want := randomTables(rng)
		for name, form := range forms {
			f := opened(t, written(t, parquetTexts(t, want, form)), allColumns)
			if n := 1 + rng.IntN(40); !sameTables(glued(t, f, n, allColumns), want) {
				t.Fatalf("seed %d, %s: %d parts are not the tables", seed, name, n)
			}
		}
	}
}

func TestAnswersFromParquetAreTheOfficialOnes(t *testing.T) {
	tables := *generated()
	tables.Orders.Priorities = make([]int32, len(tables.Orders.Keys))
	for _, form := range forms {
		answersFrom(t, written(t, parquetTexts(t, &tables, form)))
	}
}

func constant(node parquet.Node, v parquet.Value) cells {
	return cells{node, func(int) parquet.Value { return v }}
}

func TestWrongColumnsOfParquetAreRefused(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	tables := randomTables(rng)
	for len(tables.Lines.Prices) < 3 {
		tables = randomTables(rng)
	}
	form := forms["whole numbers, many groups"]
	decimal := func(v int64) cells { return constant(parquet.Decimal(3, 18, parquet.Int64Type), parquet.Int64Value(v)) }
	for _, c := range []struct {
		column string
		cells  cells
		want   string
	}{
		{"l_discount", cells{}, "has no column l_discount"},
		{"l_discount", constant(parquet.Leaf(parquet.DoubleType), parquet.DoubleValue(0.05)), ": column l_discount is of type DOUBLE; allowed: DECIMAL, INT"},
		{"l_shipdate", constant(parquet.Timestamp(parquet.Millisecond), parquet.Int64Value(0)), ": column l_shipdate is of type TIMESTAMP(isAdjustedToUTC=true,unit=MILLIS); allowed: DATE"},
		{"l_shipdate", constant(parquet.String(), parquet.ByteArrayValue([]byte("1995-03-15"))), ": column l_shipdate is of type STRING; allowed: DATE"},
		{"l_shipdate", constant(parquet.Date(), parquet.Int32Value(daysTo1992-1)), ", row 1: l_shipdate \"8034\"; allowed: 1992-01-01 to 1998-12-31"},
		{"l_returnflag", constant(parquet.String(), parquet.ByteArrayValue([]byte("X"))), ", row 1: l_returnflag \"X\"; allowed: A, N, R"},
		{"l_quantity", constant(parquet.Optional(parquet.Int(32)), parquet.NullValue()), ", row 1: l_quantity is null; allowed: whole numbers, 0 to 255"},
		{"l_quantity", constant(parquet.Int(32), parquet.Int32Value(-1)), ", row 1: l_quantity \"-1\"; allowed: whole numbers, 0 to 255"},
		{"l_extendedprice", decimal(1001), ", row 1: l_extendedprice \"1001\"; allowed: 0.00 to 21474836.47"},
		{"l_extendedprice", decimal(21474836480), ", row 1: l_extendedprice \"21474836480\"; allowed: 0.00 to 21474836.47"},
		{"l_orderkey", constant(parquet.Int(64), parquet.Int64Value(1e17)), " is not in its place, or not in DIR/orders.parquet; allowed: rows sorted by l_orderkey"},
		{"l_tax", constant(parquet.Compressed(parquet.Int(64), &parquet.Lz4Raw), parquet.Int64Value(1)), ": column l_tax is compressed by LZ4; allowed: SNAPPY, GZIP, ZSTD, BROTLI, or not at all"},
		{"l_tax", constant(parquet.Repeated(parquet.Int(64)), parquet.Int64Value(1)), "has no column l_tax"},
	} {
		files := parquetTexts(t, tables, form)
		columns := maps.Clone(tableCells(tables, form)["lineitem"])
		if columns[c.column] = c.cells; c.cells.node == nil {
			delete(columns, c.column)
		}
		files["lineitem.parquet"] = parquetText(t, columns, len(tables.Lines.Prices))
		dir := written(t, files)
		err := loadAll(t, dir, 1)
		if got := strings.ReplaceAll(fmt.Sprint(err), dir, "DIR"); !strings.HasPrefix(got, "DIR/lineitem.parquet") || !strings.HasSuffix(got, c.want) {
			t.Errorf("%s:\n got %s\nwant DIR/lineitem.parquet…%s", c.column, got, c.want)
		}
	}
}

// TestCorruptParquetIsRefused: a file that was cut off is refused; a flipped bit is refused, or does not
// matter. The bits are always the same: pages have checksums, but in their headers and in the footer a few
// bits may mean something else.
func TestCorruptParquetIsRefused(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 0))
	want := randomTables(rng)
	for _, name := range slices.Sorted(maps.Keys(forms)) {
		form := forms[name]
		files := parquetTexts(t, want, form)
		whole := files["lineitem.parquet"]
		footer := len(whole) - 8 - int(binary.LittleEndian.Uint32([]byte(whole[len(whole)-8:])))
		for range 60 {
			cut := rng.IntN(len(whole))
			files["lineitem.parquet"] = whole[:cut]
			if err := loadAll(t, written(t, files), 1); err == nil || strings.Contains(err.Error(), "\n") {
				t.Fatalf("%s, %d bytes of %d: %v", name, cut, len(whole), err)
			}
			at, bit := rng.IntN(len(whole)), byte(1)<<rng.IntN(8)
			changed := []byte(whole)
			changed[at] ^= bit
			files["lineitem.parquet"] = string(changed)
			f, err := OpenFiles(written(t, files), allColumns)
			if err != nil {
				continue
			}
			got, err := f.Load(t.Context(), 0, 1, allColumns)
			if err == nil && at < footer && !sameTables(got, want) {
				t.Errorf("%s, bit %#x of byte %d of %d: other tables", name, bit, at, len(whole))
			}
			f.Close()
		}
	}
}
