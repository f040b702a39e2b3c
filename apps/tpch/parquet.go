//go:build parquet

package tpch

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sort"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

func init() { openParquet = newParquetFile }

// parquetFile is a table in a file of Parquet. Its places are rows.
type parquetFile struct {
	*os.File
	file   *parquet.File
	groups []parquet.RowGroup
	ends   []int64 // rows up to the end of each group
}

func newParquetFile(f *os.File, size int64) (_ tableFile, err error) {
	defer corrupt(f, &err)
	file, err := parquet.OpenFile(f, size, parquet.SkipBloomFilters(true))
	if err != nil {
		return nil, fmt.Errorf("%s is no whole file of Parquet: %w", f.Name(), err)
	}
	p := &parquetFile{File: f, file: file, groups: file.RowGroups()}
	rows := int64(0)
	for _, g := range p.groups {
		if n := g.NumRows(); n < 0 || rows+n < rows {
			return nil, fmt.Errorf("%s is corrupt: a group of %d rows", f.Name(), n)
		}
		rows += g.NumRows()
		p.ends = append(p.ends, rows)
	}
	if rows != file.NumRows() {
		return nil, fmt.Errorf("%s is corrupt: %d rows, in groups of %d", f.Name(), file.NumRows(), rows)
	}
	return p, nil
}

// corrupt turns a panic of the library, which trusts what it decodes, into an error.
func corrupt(f *os.File, err *error) {
	if wrong := recover(); wrong != nil {
		*err = fmt.Errorf("%s is corrupt: %v", f.Name(), wrong)
	}
}

func (f *parquetFile) end() int64 {
	if len(f.ends) == 0 {
		return 0
	}
	return f.ends[len(f.ends)-1]
}

func (f *parquetFile) rows() (int64, error) { return f.end(), nil }

func (f *parquetFile) begin(at int64) (int64, error) { return at, nil }

func (f *parquetFile) last() (int64, error) { return f.end() - 1, nil }

// read implements tableFile.
func (f *parquetFile) read(ctx context.Context, lo, hi int64, columns []column) (err error) {
	defer corrupt(f.File, &err)
	for i := range columns {
		c := &columns[i]
		leaf, ok := f.file.Schema().Lookup(c.name)
		if !ok || leaf.MaxRepetitionLevel > 0 {
			return fmt.Errorf("%s has no column %s", f.Name(), c.name)
		}
		number, err := c.numbers(leaf.Node.Type())
		if err == nil {
			err = c.compressed(f.file.Root().Column(c.name))
		}
		if err != nil {
			return fmt.Errorf("%s: %w", f.Name(), err)
		}
		for at := lo; at < hi; {
			group := sort.Search(len(f.ends), func(g int) bool { return f.ends[g] > at })
			end := min(hi, f.ends[group])
			r := chunkReader{f.groups[group].ColumnChunks()[leaf.ColumnIndex], c, number}
			if n := r.chunk.NumValues(); n != f.groups[group].NumRows() {
				return fmt.Errorf("%s is corrupt: %d values of %s in %d rows", f.Name(), n, c.name, f.groups[group].NumRows())
			}
			if at, err = r.read(ctx, at, end, at-f.ends[group]+f.groups[group].NumRows()); err != nil {
				return fmt.Errorf("%s, row %d: %w", f.Name(), at+1, err)
			}
		}
	}
	return nil
}

// compressed refuses a compression for which the library exhausts memory if the file is corrupt.
func (c *column) compressed(in *parquet.Column) error {
	if codec := in.Compression(); codec != nil && codec.CompressionCodec() == format.Lz4Raw {
		return fmt.Errorf("column %s is compressed by LZ4; allowed: SNAPPY, GZIP, ZSTD, BROTLI, or not at all", c.name)
	}
	return nil
}

// chunkReader reads a column in a group of rows.
type chunkReader struct {
	chunk  parquet.ColumnChunk
	column *column
	number func(parquet.Value) (int64, bool)
}

// read passes the rows from at up to end, of which the first is row skip of the group, to the column. It
// returns how far it came.
func (r *chunkReader) read(ctx context.Context, at, end, skip int64) (int64, error) {
	pages := r.chunk.Pages()
	defer pages.Close()
	if err := pages.SeekToRow(skip); err != nil {
		return at, err
	}
	for at < end {
		if ctx.Err() != nil {
			return at, context.Cause(ctx)
		}
		page, err := pages.ReadPage()
		if errors.Is(err, io.EOF) {
			return at, fmt.Errorf("column %s ends before", r.column.name)
		} else if err != nil {
			return at, err
		}
		at, err = r.take(page.Values(), at, end)
		parquet.Release(page)
		if err != nil {
			return at, err
		}
	}
	return at, nil
}

// take passes rows of a page to the column.
func (r *chunkReader) take(page parquet.ValueReader, at, end int64) (int64, error) {
	var values [512]parquet.Value
	for at < end {
		n, err := page.ReadValues(values[:min(int64(len(values)), end-at)])
		for _, v := range values[:n] {
			if v.IsNull() {
				return at, fmt.Errorf("%s is null; allowed: %s", r.column.name, r.column.allowed())
			}
			x, ok := r.number(v)
			if !ok {
				return at, r.column.refuse(v.String())
			}
			if err := r.column.take(x); err != nil {
				return at, err
			}
			at++
		}
		if errors.Is(err, io.EOF) {
			return at, nil
		} else if err != nil {
			return at, err
		}
	}
	return at, nil
}

// numbers returns a function that turns values of a type into those that the column takes.
func (c *column) numbers(t parquet.Type) (func(parquet.Value) (int64, bool), error) {
	var logical format.LogicalTypeValue
	if l := t.LogicalType(); l != nil {
		logical = l.Value
	}
	_, integer := logical.(*format.IntType)
	_, text := logical.(*format.StringType)
	_, date := logical.(*format.DateType)
	decimal, isDecimal := logical.(*format.DecimalType)
	whole := t.Kind() == parquet.Int32 || t.Kind() == parquet.Int64
	array := t.Kind() == parquet.ByteArray || t.Kind() == parquet.FixedLenByteArray
	switch {
	case c.words != nil && array && (text || logical == nil):
		return func(v parquet.Value) (int64, bool) { return c.word(v.ByteArray()) }, nil
	case c.day && t.Kind() == parquet.Int32 && date:
		return func(v parquet.Value) (int64, bool) {
			day := int64(v.Int32()) - daysTo1992
			return day, 0 <= day && day < months[len(months)-1]
		}, nil
	case c.words != nil || c.day:
	case whole && (integer || logical == nil):
		return func(v parquet.Value) (int64, bool) { return c.scaled(wholeValue(v), 0) }, nil
	case (whole || array) && isDecimal && 0 <= decimal.Scale && decimal.Scale <= 38:
		return func(v parquet.Value) (int64, bool) {
			x, ok := decimalValue(v)
			if !ok {
				return 0, false
			}
			return c.scaled(x, int(decimal.Scale))
		}, nil
	}
	return nil, fmt.Errorf("column %s is of type %v; allowed: %s", c.name, t, c.types())
}

// daysTo1992 is the benchmark's first day, counted from 1970-01-01.
const daysTo1992 = 8035

// types describes the types that the column may have.
func (c *column) types() string {
	switch {
	case c.words != nil:
		return "STRING"
	case c.day:
		return "DATE"
	}
	return "DECIMAL, INT"
}

// scaled converts a number with other decimals, if it is allowed.
func (c *column) scaled(v int64, places int) (int64, bool) {
	v, ok := rescale(v, places, c.places)
	return v, ok && c.least <= v && v <= c.most
}

func wholeValue(v parquet.Value) int64 {
	if v.Kind() == parquet.Int32 {
		return int64(v.Int32())
	}
	return v.Int64()
}

// decimalValue returns a decimal, without its point, if it fits and is not negative.
func decimalValue(v parquet.Value) (int64, bool) {
	if v.Kind() == parquet.Int32 || v.Kind() == parquet.Int64 {
		return wholeValue(v), true
	}
	digits := v.ByteArray() // in two's complement, the highest first
	if len(digits) == 0 || digits[0] >= 0x80 {
		return 0, false
	}
	low := digits[max(0, len(digits)-8):]
	if slices.ContainsFunc(digits[:len(digits)-len(low)], func(b byte) bool { return b != 0 }) {
		return 0, false
	}
	var whole [8]byte
	copy(whole[8-len(low):], low)
	x := binary.BigEndian.Uint64(whole[:])
	return int64(x), x < 1<<63
}
