package tpch

import (
	"math/big"
	"slices"
	"strings"
	"testing"

	"github.com/coppice-go/coppice/apps/tpch/dbgen"
)

// FuzzLine compares what takeLine reads of a line of lineitem with the result of a simple reader.
func FuzzLine(f *testing.F) {
	f.Add(strings.TrimSuffix(line(7, 1), "\n"))
	f.Add("1|||||0.5|1|1.000|R|F|1998-12-31||||||")
	f.Add("1||7||17.0|00.10|.5|1.|A|O|1992-02-30||||||")
	f.Fuzz(func(t *testing.T, text string) {
		var got []int64
		columns := append([]column{lineKey}, new(LineTable).columns(lineColumns, Bounds{Supplier: 100}, 1)...)
		for i := range columns {
			columns[i].take = func(v int64) error { got = append(got, v); return nil }
		}
		err := takeLine([]byte(text), 16, columns)
		want, ok := simpleLine(text, columns)
		if (err == nil) != ok || ok && !slices.Equal(got, want) {
			t.Errorf("%q: %v, %v; want %v, %v", text, got, err, want, ok)
		}
	})
}

// simpleLine reads a line by other means.
func simpleLine(text string, columns []column) (values []int64, ok bool) {
	fields := strings.Split(text, "|")
	if len(fields) != 17 || fields[16] != "" || strings.Contains(text, "\x00") {
		return nil, false
	}
	for i := range columns {
		c, field := &columns[i], fields[columns[i].field]
		v := int64(-1)
		switch {
		case c.words != nil:
			v = int64(slices.Index(c.words, field))
		case c.day:
			if d, err := dbgen.ParseDate(field); err == nil {
				v = int64(d)
			}
		default:
			v = simpleNumber(field, c.places)
		}
		if v < 0 || c.words == nil && !c.day && (v < c.least || v > c.most) {
			return nil, false
		}
		values = append(values, v)
	}
	return values, true
}

// simpleNumber reads a number with decimals; −1: it is no number, or has more decimals.
func simpleNumber(field string, places int) int64 {
	whole, after, point := strings.Cut(field, ".")
	if whole == "" || point && after == "" || strings.Trim(whole+after, "0123456789") != "" {
		return -1
	}
	n, _ := new(big.Rat).SetString(field)
	for range places {
		n.Mul(n, big.NewRat(10, 1))
	}
	if !n.IsInt() || !n.Num().IsInt64() {
		return -1
	}
	return n.Num().Int64()
}
