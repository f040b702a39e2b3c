package tpch

import (
	"reflect"
	"strings"
	"testing"
)

// TestBytesAreThoseOfTheColumns: the memory that Bytes predicts follows from the size of the loaded tables.
func TestBytesAreThoseOfTheColumns(t *testing.T) {
	dir := written(t, texts(generated()))
	for _, q := range []Query{officialQ1, officialQ3, officialQ5} {
		files := opened(t, dir, q.Columns())
		for _, c := range []struct {
			Source
			factor float64
		}{{Generated(0.01), 2}, {files, 2.5}} {
			tables, err := c.Load(t.Context(), 0, 1, q.Columns())
			if err != nil {
				t.Fatal(err)
			}
			has := c.factor * float64(bytesOf(reflect.ValueOf(*tables)))
			if got := float64(c.Bytes(q.Columns())); got < 0.98*has || got > 1.02*has {
				t.Errorf("%T, %T: %.0f bytes; the tables have %.0f", q, c.Source, got, has)
			}
		}
	}
}

// bytesOf returns the size of all slices in a value.
func bytesOf(v reflect.Value) (sum int64) {
	if v.Kind() == reflect.Slice {
		return int64(v.Len()) * int64(v.Type().Elem().Size())
	}
	for i := range v.NumField() {
		sum += bytesOf(v.Field(i))
	}
	return sum
}

func TestAPartWithMoreLinesThanCanBeCountedIsRefused(t *testing.T) {
	_, err := Generated(1000).Load(t.Context(), 0, 2, officialQ3.Columns())
	if err == nil || !strings.Contains(err.Error(), "lines in a part of 2; allowed: ") {
		t.Error(err)
	}
}
