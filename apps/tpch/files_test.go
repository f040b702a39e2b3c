package tpch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/apps/tpch/dbgen"
)

const allColumns = dbgen.Segment | dbgen.Nation | orderColumns | lineColumns

// generated returns the official tables at scale 0.01, with priorities that distinguish orders.
var generated = sync.OnceValue(func() *Tables {
	t, err := Generated(0.01).Load(context.Background(), 0, 1, allColumns)
	if err != nil {
		panic(err)
	}
	for _, key := range t.Orders.Keys {
		t.Orders.Priorities = append(t.Orders.Priorities, int32(key%3))
	}
	return t
})

// texts returns tables as the official generator writes them, except for columns that nothing reads.
func texts(t *Tables) map[string]string {
	var customer, supplier, orders, lineitem bytes.Buffer
	for i, key := range t.Customers.Keys {
		fmt.Fprintf(&customer, "%d|%s|at home|%d|25-989-741-2988|711.56|%s|no comment|\n",
			key, dbgen.CustomerName(int64(key)), t.Customers.Nations[i], dbgen.Segments[t.Customers.Segments[i]])
	}
	for i, key := range t.Suppliers.Keys {
		fmt.Fprintf(&supplier, "%d|Supplier#%09d||%d|27-918-335-1736|-5755.94||\n", key, key, t.Suppliers.Nations[i])
	}
	l := &t.Lines
	for i, key := range t.Orders.Keys {
		fmt.Fprintf(&orders, "%d|%d|O|173665.47|%s|5-LOW|Clerk#000000951|%d|nstructions sleep|\n",
			key, t.Orders.Customers[i], t.Orders.Dates[i], t.Orders.Priorities[i])
		for k := t.Orders.Lines[i]; k < t.Orders.Lines[i+1]; k++ {
			fmt.Fprintf(&lineitem, "%d|1552|%d|%d|%d|%s|%s|%s|%c|%c|%s|1996-02-12|1996-03-22|DELIVER IN PERSON|TRUCK|%s|\n",
				key, l.Suppliers[k], k-t.Orders.Lines[i]+1, l.Quantities[k], decimals(int64(l.Prices[k]), 2), decimals(int64(l.Discounts[k]), 2),
				decimals(int64(l.Taxes[k]), 2), l.Returned[k], l.Status[k], l.Shipped[k], strings.Repeat("x", int(k%40)))
		}
	}
	return map[string]string{
		"customer.tbl": customer.String(), "supplier.tbl": supplier.String(), "orders.tbl": orders.String(), "lineitem.tbl": lineitem.String(),
	}
}

// written writes files into a new directory.
func written(t testing.TB, files map[string]string) (dir string) {
	t.Helper()
	dir = t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// opened opens the files of a directory for all columns.
func opened(t testing.TB, dir string, columns dbgen.Column) *Files {
	t.Helper()
	f, err := OpenFiles(dir, columns)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return f
}

// glued returns the parts of tables, one after the other.
func glued(t *testing.T, source Source, n int, columns dbgen.Column) *Tables {
	t.Helper()
	all := &Tables{}
	for i := range n {
		part, err := source.Load(t.Context(), i, n, columns)
		if err != nil {
			t.Fatal(err)
		}
		again, err := source.Load(t.Context(), i, n, columns)
		if err != nil || !reflect.DeepEqual(part, again) {
			t.Fatalf("part %d of %d is another one the second time: %v", i, n, err)
		}
		for k := range part.Orders.Lines {
			part.Orders.Lines[k] += int32(len(all.Lines.Prices))
		}
		all.Orders.Lines = append(all.Orders.Lines[:max(0, len(all.Orders.Lines)-1)], part.Orders.Lines...)
		part.Orders.Lines = nil
		glue(reflect.ValueOf(all).Elem(), reflect.ValueOf(part).Elem())
	}
	return all
}

// glue appends slices of a structure to those of another.
func glue(to, from reflect.Value) {
	for i := range to.NumField() {
		if a, b := to.Field(i), from.Field(i); a.Kind() == reflect.Struct {
			glue(a, b)
		} else {
			a.Set(reflect.AppendSlice(a, b))
		}
	}
}

func TestPartsOfFilesAreTheTables(t *testing.T) {
	f := opened(t, written(t, texts(generated())), allColumns)
	if want := Generated(0.01).Bounds(); f.Bounds() != want {
		t.Errorf("bounds %v; want %v", f.Bounds(), want)
	}
	for _, n := range []int{1, 2, 7, 120} { // there are 100 suppliers
		if got := glued(t, f, n, allColumns); !reflect.DeepEqual(got, generated()) {
			t.Errorf("%d parts are not the tables", n)
		}
	}
}

// TestTablesOfAnySizeInAnyParts: random keys, lines of any length, the last line without a newline.
func TestTablesOfAnySizeInAnyParts(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 40 {
		want := randomTables(rng)
		files := texts(want)
		if rng.IntN(2) == 0 {
			files["lineitem.tbl"] = strings.TrimSuffix(files["lineitem.tbl"], "\n")
		}
		n := 1 + rng.IntN(2*len(want.Orders.Keys)+1)
		if got := glued(t, opened(t, written(t, files), allColumns), n, allColumns); !sameTables(got, want) {
			t.Fatalf("seed %d: %d parts are not the tables", seed, n)
		}
	}
}

// sameTables compares tables; it treats an empty column and none as the same.
func sameTables(a, b *Tables) bool { return fmt.Sprint(*a) == fmt.Sprint(*b) }

// randomTables returns small tables.
func randomTables(rng *rand.Rand) *Tables {
	t := &Tables{Orders: OrderTable{Lines: []int32{0}}}
	for key := int32(1); key < 6; key++ {
		t.Customers.Keys = append(t.Customers.Keys, key*7)
		t.Customers.Nations, t.Customers.Segments = append(t.Customers.Nations, uint8(key)), append(t.Customers.Segments, uint8(key%5))
		t.Suppliers.Keys, t.Suppliers.Nations = append(t.Suppliers.Keys, key*1000), append(t.Suppliers.Nations, uint8(key))
	}
	o, l := &t.Orders, &t.Lines
	for key, n := int64(0), 1+rng.IntN(20); n > 0; n-- {
		key += 1 + rng.Int64N(1000)
		o.Keys, o.Customers = append(o.Keys, key), append(o.Customers, 1+rng.Int32N(35))
		o.Dates, o.Priorities = append(o.Dates, dbgen.Date(rng.IntN(2557))), append(o.Priorities, rng.Int32())
		for range 1 + rng.IntN(4) {
			l.Suppliers, l.Quantities = append(l.Suppliers, 1+rng.Int32N(5000)), append(l.Quantities, uint8(rng.IntN(256)))
			l.Prices, l.Discounts = append(l.Prices, rng.Int32()), append(l.Discounts, uint8(rng.IntN(101)))
			l.Taxes, l.Returned = append(l.Taxes, uint8(rng.IntN(101))), append(l.Returned, flags[rng.IntN(3)])
			l.Status, l.Shipped = append(l.Status, states[rng.IntN(2)]), append(l.Shipped, dbgen.Date(rng.IntN(2557)))
		}
		o.Lines = append(o.Lines, int32(len(l.Prices)))
	}
	return t
}

func TestAnswersFromFilesAreTheOfficialOnes(t *testing.T) {
	tables := *generated()
	tables.Orders.Priorities = make([]int32, len(tables.Orders.Keys))
	answersFrom(t, written(t, texts(&tables)))
}

// answersFrom compares answers from files with those from generated tables, while tasks die.
func answersFrom(t *testing.T, dir string) {
	t.Helper()
	for _, c := range []struct {
		query Query
		kill  string
	}{
		{officialQ1, "0@reduce#1"}, {officialQ3, "2@alltoall#1"}, {officialQ3, "0@reduce#1/1"}, {officialQ5, "1@allgather#2"},
	} {
		want := answers(t, coppice.Job{Local: 1}, Generated(0.01), c.query)
		f := opened(t, dir, c.query.Columns())
		if got := answers(t, coppice.Job{Local: 1}, f, c.query); got != want {
			t.Errorf("%T:\n%swant\n%s", c.query, got, want)
		}
		if got := answers(t, coppice.Job{Local: 4}, f, c.query, c.kill); got != want {
			t.Errorf("%T, %v:\n%swant\n%s", c.query, c.kill, got, want)
		}
	}
}

// small returns tables in the right order.
func small() map[string]string {
	return map[string]string{
		"customer.tbl": "1|a|b|3|c|1.00|BUILDING|d|\n5|a|b|24|c|1.00|MACHINERY|d|\n",
		"supplier.tbl": "2|a|b|0|c|1.00|d|\n",
		"orders.tbl":   "1|1|O|1.00|1992-01-01|a|b|0|c|\n4|5|O|1.00|1998-12-31|a|b|0|c|\n6|1|O|1.00|1992-01-01|a|b|0|c|\n",
		"lineitem.tbl": line(1, 1) + line(1, 2) + line(4, 1) + line(6, 1),
	}
}

func line(order, number int) string {
	return fmt.Sprintf("%d|9|2|%d|17|21168.23|0.04|0.02|N|O|1996-03-13|a|b|c|d|e|\n", order, number)
}

// wrongs are changes of the small tables, and the errors that report them.
var wrongs = []struct {
	file, old, new string
	want           string
}{
	{"orders.tbl", "4|5|O|1.00|1998-12-31|a|b|0|c|\n", "4|5|O|1.00|\n", "orders.tbl, line 2: 4 fields with a bar after each; allowed: 9, and nothing after them"},
	{"orders.tbl", "\n4|", "\n\n4|", "orders.tbl, line 2: 0 fields with a bar after each; allowed: 9, and nothing after them"},
	{"orders.tbl", "c|\n4", "c|\r\n4", "orders.tbl, line 1: a carriage return at its end (CRLF); allowed: a newline alone"},
	{"orders.tbl", "\n4|5", "\n4|6", `orders.tbl, line 2: o_custkey "6"; allowed: whole numbers, 1 to 5, the last in table customer`},
	{"orders.tbl", "\n4|5", "\n4|0", `orders.tbl, line 2: o_custkey "0"; allowed: whole numbers, 1 to 5, the last in table customer`},
	{"orders.tbl", "\n4|5", "\n4|", `orders.tbl, line 2: o_custkey ""; allowed: whole numbers, 1 to 5, the last in table customer`},
	{"orders.tbl", "1998-12-31", "1999-01-01", `orders.tbl, line 2: o_orderdate "1999-01-01"; allowed: 1992-01-01 to 1998-12-31`},
	{"orders.tbl", "\n4|", "\n1|", "orders.tbl, line 2: o_orderkey 1 after 1; allowed: rows sorted by o_orderkey"},
	{"orders.tbl", "\n6|", "\n2|", "orders.tbl, line 3: o_orderkey 2 after 4; allowed: rows sorted by o_orderkey"},
	{"orders.tbl", "\n6|", "\n7|", "lineitem.tbl, line 4: l_orderkey 6 is not in its place, or not in DIR/orders.tbl; allowed: rows sorted by l_orderkey"},
	{"lineitem.tbl", "\n4|", "\n3|", "lineitem.tbl, line 3: l_orderkey 3 is not in its place, or not in DIR/orders.tbl; allowed: rows sorted by l_orderkey"},
	{"lineitem.tbl", "|17|", "|17.5|", `lineitem.tbl, line 1: l_quantity "17.5"; allowed: whole numbers, 0 to 255`},
	{"lineitem.tbl", "21168.23", "21168.231", `lineitem.tbl, line 1: l_extendedprice "21168.231"; allowed: 0.00 to 21474836.47`},
	{"lineitem.tbl", "21168.23", "21474836.48", `lineitem.tbl, line 1: l_extendedprice "21474836.48"; allowed: 0.00 to 21474836.47`},
	{"lineitem.tbl", "21168.23", "-1.00", `lineitem.tbl, line 1: l_extendedprice "-1.00"; allowed: 0.00 to 21474836.47`},
	{"lineitem.tbl", "0.04", "1.01", `lineitem.tbl, line 1: l_discount "1.01"; allowed: 0.00 to 1.00`},
	{"lineitem.tbl", "|N|", "|X|", `lineitem.tbl, line 1: l_returnflag "X"; allowed: A, N, R`},
	{"lineitem.tbl", "|O|", "|P|", `lineitem.tbl, line 1: l_linestatus "P"; allowed: F, O`},
	{"lineitem.tbl", "|9|2|", "|9|3|", `lineitem.tbl, line 1: l_suppkey "3"; allowed: whole numbers, 1 to 2, the last in table supplier`},
	{"customer.tbl", "MACHINERY", "SHIPS", `customer.tbl, line 2: c_mktsegment "SHIPS"; allowed: AUTOMOBILE, BUILDING, FURNITURE, HOUSEHOLD, MACHINERY`},
	{"customer.tbl", "|24|", "|25|", `customer.tbl, line 2: c_nationkey "25"; allowed: whole numbers, 0 to 24`},
	{"customer.tbl", "\n5|", "\n2147483648|", `customer.tbl, line 2: c_custkey "2147483648"; allowed: whole numbers, 1 to 2147483647`},
	{"customer.tbl", "BUILDING|d|\n", "BUILDING|" + strings.Repeat("d", lineMax) + "\n", "customer.tbl, line 1: no end within 4096 bytes"},
	{"supplier.tbl", "c|1.00|d|\n", "c|1.0", "supplier.tbl, line 1: 5 fields with a bar after each; allowed: 7, and nothing after them"},
}

// loadAll opens and loads all parts, and returns the first error.
func loadAll(t *testing.T, dir string, n int) error {
	f, err := OpenFiles(dir, allColumns)
	if err != nil {
		return err
	}
	defer f.Close()
	for i := range n {
		if _, err := f.Load(t.Context(), i, n, allColumns); err != nil {
			return err
		}
	}
	return nil
}

func TestWrongFilesAreRefusedInOneLine(t *testing.T) {
	for n := 1; n <= 3; n++ {
		if err := loadAll(t, written(t, small()), n); err != nil {
			t.Fatal(err)
		}
		for _, w := range wrongs {
			files := small()
			if files[w.file] = strings.Replace(files[w.file], w.old, w.new, 1); files[w.file] == small()[w.file] {
				t.Fatalf("nothing has changed: %q", w.want)
			}
			dir := written(t, files)
			err := loadAll(t, dir, n)
			if got := strings.ReplaceAll(fmt.Sprint(err), dir, "DIR"); got != "DIR/"+w.want {
				t.Errorf("%d parts:\n got %s\nwant DIR/%s", n, got, w.want)
			}
		}
	}
}

// TestUnsortedLinesAreNeverLost: whichever order the lines are in, the tables are right or refused.
func TestUnsortedLinesAreNeverLost(t *testing.T) {
	seed := rand.Uint64()
	rng := rand.New(rand.NewPCG(seed, 0))
	lines := []string{line(1, 1), line(1, 2), line(1, 3), line(4, 1), line(6, 1), line(6, 2), line(6, 3)}
	for range 100 {
		files := small()
		mixed := slices.Clone(lines)
		rng.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
		files["lineitem.tbl"] = strings.Join(mixed, "")
		n := 1 + rng.IntN(4)
		err := loadAll(t, written(t, files), n)
		if sorted := slices.IsSortedFunc(mixed, func(a, b string) int { return strings.Compare(a[:1], b[:1]) }); (err == nil) != sorted || !sorted && !strings.Contains(err.Error(), "sorted by l_orderkey") {
			t.Fatalf("seed %d, %d parts: %v of\n%s", seed, n, err, files["lineitem.tbl"])
		}
	}
}

func TestWrongDirectoriesAreRefused(t *testing.T) {
	for _, c := range []struct {
		change func(files map[string]string)
		want   string
	}{
		{func(f map[string]string) { delete(f, "orders.tbl") }, "DIR has no orders.tbl and no orders.parquet; allowed: one of them"},
		{func(f map[string]string) { f["orders.tbl"] = "" }, "DIR/orders.tbl is empty; allowed: one row or more"},
		{func(f map[string]string) { f["orders.parquet"] = "" }, "DIR/orders.tbl and DIR/orders.parquet; allowed: one of them"},
	} {
		files := small()
		c.change(files)
		dir := written(t, files)
		if err := loadAll(t, dir, 1); strings.ReplaceAll(fmt.Sprint(err), dir, "DIR") != c.want {
			t.Errorf("%v; want %s", err, c.want)
		}
	}
	dir := written(t, map[string]string{"customer.parquet": ""})
	want := dir + "/customer.parquet: this build does not read Parquet; allowed: .tbl, or go build -tags parquet ./cmd/coppice"
	if openParquet != nil {
		want = dir + "/customer.parquet is no whole file of Parquet: "
	}
	if err := loadAll(t, dir, 1); err == nil || !strings.HasPrefix(err.Error(), want) {
		t.Errorf("%v; want %s", err, want)
	}
	dir = written(t, nil)
	if err := loadAll(t, filepath.Join(dir, "none"), 1); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "customer.tbl"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := loadAll(t, dir, 1); err == nil || !strings.HasSuffix(err.Error(), "customer.tbl is not a file; allowed: a file") {
		t.Error(err)
	}
}

// TestOnlyNeededTablesAreRead: query 1 needs neither customers nor orders, and any order of lines will do.
func TestOnlyNeededTablesAreRead(t *testing.T) {
	dir := written(t, map[string]string{"lineitem.tbl": line(6, 1) + line(1, 1)})
	if got := answers(t, coppice.Job{Local: 2}, opened(t, dir, officialQ1.Columns()), officialQ1); !strings.Contains(got, "\nN,O,34.00,42336.46,") {
		t.Error(got)
	}
	if _, err := opened(t, dir, officialQ1.Columns()).Load(t.Context(), 0, 1, officialQ3.Columns()); err == nil {
		t.Error("columns that were not opened")
	}
}

func TestChangedFilesAreFound(t *testing.T) {
	dir := written(t, small())
	f := opened(t, dir, allColumns)
	if g := opened(t, dir, allColumns); f.Mark != g.Mark {
		t.Error("marks of the same files differ")
	}
	orders := filepath.Join(dir, "orders.tbl")
	if err := os.Truncate(orders, 10); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Load(t.Context(), 0, 1, allColumns); err == nil || err.Error() != orders+" has changed since the job began" {
		t.Error(err)
	}
	if err := os.WriteFile(orders, []byte(small()["orders.tbl"]+"7|1|O|1.00|1992-01-01|a|b|0|c|\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Load(t.Context(), 0, 1, allColumns); err == nil {
		t.Error("a file that has become longer")
	}
	if g := opened(t, dir, allColumns); f.Mark == g.Mark {
		t.Error("marks of other files are the same")
	}
}

// TestSumsFit: what a part may add up to is checked, for sums must not overflow.
func TestSumsFit(t *testing.T) {
	take := new(LineTable).takePrice(1 << 40)
	if err := take(83886); err != nil { // 2^63/100/2^40
		t.Error(err)
	}
	if err := take(1); err == nil {
		t.Error("a sum that does not fit")
	}
}

func TestDaysAreReadAsTheGeneratorReadsThem(t *testing.T) {
	for d := dbgen.Date(0); d < 2557; d++ {
		if got, ok := parseDay([]byte(d.String())); !ok || got != int64(d) {
			t.Fatalf("%v: %d, %v", d, got, ok)
		}
	}
	for _, text := range []string{"1991-12-31", "1999-01-01", "1995-02-29", "1995-13-01", "1995-00-10", "1995-01-00", "1995-1-001", "+995-01-01", "199.-01-01"} {
		if d, ok := parseDay([]byte(text)); ok {
			t.Errorf("%q: %d", text, d)
		}
	}
}

func BenchmarkFiles(b *testing.B) {
	f := opened(b, written(b, texts(generated())), officialQ3.Columns())
	b.SetBytes(f.customer.end() + f.orders.end() + f.lines.end())
	for b.Loop() {
		if _, err := f.Load(b.Context(), 0, 1, officialQ3.Columns()); err != nil {
			b.Fatal(err)
		}
	}
}
