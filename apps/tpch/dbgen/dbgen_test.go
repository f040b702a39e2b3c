package dbgen

import (
	"bytes"
	"crypto/md5"
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// official returns the sums of columns of the official generator.
func official(t *testing.T) (all []sum) {
	t.Helper()
	f, err := os.Open("testdata/columns.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	r := csv.NewReader(f)
	r.Comment = '#'
	records, err := r.ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range records[1:] {
		scale, err := strconv.ParseFloat(x[0], 64)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, sum{Scale(scale), x[1], strings.Fields(x[2]), x[3], x[4]})
	}
	return all
}

type sum struct {
	scale   Scale
	table   string
	columns []string
	rows    string
	md5     string
}

// largeVariable names the variable that makes the test check scale 1, too, which takes some seconds.
const largeVariable = "COPPICE_TPCH"

func TestColumnsAreTheOfficialOnes(t *testing.T) {
	for _, c := range official(t) {
		if c.scale == 1 && os.Getenv(largeVariable) == "" {
			t.Logf("not checked: %s at scale 1; %s=1 does that", c.table, largeVariable)
			continue
		}
		for _, parts := range []int{1, 7} {
			h, count := md5.New(), lineCounter(0)
			w := io.MultiWriter(h, &count)
			for i, text := range inAnyOrder(t, c, parts) {
				if _, err := w.Write(text); err != nil {
					t.Fatal(i, err)
				}
			}
			if got := fmt.Sprintf("%x", h.Sum(nil)); got != c.md5 || fmt.Sprint(int(count)) != c.rows {
				t.Errorf("scale %v, %s in %d parts: %d rows, %s; want %s, %s", float64(c.scale), c.table, parts, count, got, c.rows, c.md5)
			}
		}
	}
}

// inAnyOrder generates the parts of a table in random order.
func inAnyOrder(t *testing.T, c sum, parts int) [][]byte {
	t.Helper()
	all := make([][]byte, parts)
	for _, i := range rand.Perm(parts) {
		var b bytes.Buffer
		if err := c.scale.Write(&b, c.table, c.columns, i, parts); err != nil {
			t.Fatal(err)
		}
		all[i] = b.Bytes()
	}
	return all
}

type lineCounter int

func (n *lineCounter) Write(b []byte) (int, error) {
	*n += lineCounter(bytes.Count(b, []byte{'\n'}))
	return len(b), nil
}

// orderRow returns the row that has a key.
func orderRow(key int64) int64 { return (key>>5<<3 | key&7) - 1 }

func TestKeysAndRowsBelongTogether(t *testing.T) {
	last := int64(0)
	for row := range int64(100) {
		key := OrderKey(row)
		if key <= last || orderRow(key) != row || (key-1)%32 > 7 && key%32 > 7 {
			t.Fatalf("row %d: key %d after %d, of row %d", row, key, last, orderRow(key))
		}
		last = key
	}
	if OrderKey(0) != 1 || OrderKey(7) != 32 || OrderKey(1_499_999) != 6_000_000 {
		t.Error("keys are not the official ones")
	}
}

func TestDates(t *testing.T) {
	for text, day := range map[string]Date{"1992-01-01": 0, "1992-12-31": 365, "1995-06-17": today, "1998-12-31": 2556} {
		if got, err := ParseDate(text); err != nil || got != day || got.String() != text {
			t.Errorf("%s: %d, %v, %v; want %d", text, got, got, err, day)
		}
	}
	for _, text := range []string{"", "1991-12-31", "1999-01-01", "1995-02-29", "yesterday"} {
		if d, err := ParseDate(text); err == nil {
			t.Errorf("%q: %v", text, d)
		}
	}
}

func TestYears(t *testing.T) {
	for text, want := range map[string]string{"1993-01-01": "1994-01-01", "1995-03-01": "1996-03-01", "1996-02-28": "1997-02-28", "1996-02-29": "1997-02-28"} {
		day, err := ParseDate(text)
		if got := day.NextYear().String(); err != nil || got != want {
			t.Errorf("a year after %s it is %s (%v); want %s", text, got, err, want)
		}
	}
}

func TestNonsenseIsRefused(t *testing.T) {
	for _, s := range []Scale{0, -1, 0.0001, 10_001, Scale(math.NaN())} {
		if s.Check() == nil {
			t.Errorf("scale %v", float64(s))
		}
	}
	if err := Scale(0.01).Check(); err != nil {
		t.Error(err)
	}
	for _, c := range [][]string{{"part", "p_partkey"}, {"orders", "o_comment"}, {"orders", ""}} {
		if err := Scale(0.01).Write(io.Discard, c[0], c[1:], 0, 1); err == nil || !strings.Contains(err.Error(), "; allowed: ") {
			t.Errorf("%v: %v", c, err)
		}
	}
}

func TestPartsCoverAll(t *testing.T) {
	for _, rows := range []int64{0, 1, 5, 1_500_000} {
		for _, n := range []int{1, 3, 8} {
			var next int64
			for i := range n {
				lo, hi := Part(rows, i, n)
				if lo != next || hi < lo {
					t.Errorf("%d rows, part %d of %d: %d to %d", rows, i, n, lo, hi)
				}
				next = hi
			}
			if next != rows {
				t.Errorf("%d rows in %d parts: %d", rows, n, next)
			}
		}
	}
}

// A column is the same whichever other columns are generated with it.
func TestColumnsDoNotDependOnOthers(t *testing.T) {
	s := Scale(0.01)
	all := s.LineRows(100, 900, Quantity|Price|Discount|Tax|Returned|Status|Shipped|Supplier)
	some := s.LineRows(100, 900, Returned|Supplier)
	if !slices.Equal(all.Returned, some.Returned) || !slices.Equal(all.Suppliers, some.Suppliers) || some.Taxes != nil {
		t.Error("columns differ")
	}
	for i, key := range all.Suppliers {
		if key < 1 || int64(key) > s.Suppliers() {
			t.Fatalf("line %d: supplier %d", i, key)
		}
	}
}

func BenchmarkLineRows(b *testing.B) {
	s := Scale(0.1)
	for b.Loop() {
		s.LineRows(0, s.Orders(), Price|Discount|Shipped)
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/600_572, "ns/line")
}
