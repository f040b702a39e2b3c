package tpch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
)

// textFile is a table as the official generator writes it: one row per line, each field with a bar after it.
// Its places are bytes.
type textFile struct {
	*os.File
	size   int64
	fields int // of a row
}

const (
	lineMax   = 1 << 12 // bytes of a line: official ones have a few hundred
	textBlock = 1 << 20 // bytes read at once
)

func (f *textFile) end() int64 { return f.size }

// rows implements tableFile: it assumes that all lines are as long as those at the beginning.
func (f *textFile) rows() (int64, error) {
	b := make([]byte, min(textBlock, f.size))
	n, err := f.fill(b, 0)
	if err != nil || n == 0 {
		return 0, err
	}
	lines := bytes.Count(b[:n-1], []byte("\n")) + 1 // the last line may have no newline
	return int64(float64(f.size) / float64(n) * float64(lines)), nil
}

// begin implements tableFile.
func (f *textFile) begin(at int64) (int64, error) {
	if at <= 0 || at >= f.size {
		return min(max(at, 0), f.size), nil
	}
	var b [lineMax]byte
	n, err := f.fill(b[:], at-1)
	if err != nil {
		return 0, err
	}
	if i := bytes.IndexByte(b[:n], '\n'); i >= 0 {
		return at + int64(i), nil
	}
	if n < lineMax { // the last line may have no newline
		return f.size, nil
	}
	return 0, f.tooLong(at)
}

// last implements tableFile.
func (f *textFile) last() (int64, error) {
	from := max(0, f.size-lineMax)
	b := make([]byte, f.size-from)
	if _, err := f.fill(b, from); err != nil {
		return 0, err
	}
	at := bytes.LastIndexByte(bytes.TrimSuffix(b, []byte("\n")), '\n') + 1
	if at == 0 && from > 0 {
		return 0, f.tooLong(from)
	}
	return from + int64(at), nil
}

// read implements tableFile.
func (f *textFile) read(ctx context.Context, lo, hi int64, columns []column) error {
	b := make([]byte, min(textBlock, max(0, hi-lo)+lineMax))
	for lo < hi {
		if ctx.Err() != nil {
			return fmt.Errorf("reading %s: %w", f.Name(), context.Cause(ctx))
		}
		n, err := f.fill(b, lo)
		if err != nil {
			return err
		}
		rest := b[:n]
		for lo < hi {
			line, after, whole := bytes.Cut(rest, []byte("\n"))
			if !whole && lo+int64(len(rest)) < f.size {
				break
			}
			if err := takeLine(line, f.fields, columns); err != nil {
				return f.wrong(lo, err)
			}
			lo, rest = lo+int64(len(rest)-len(after)), after
		}
		if len(rest) == n && lo < hi {
			return f.tooLong(lo)
		}
	}
	return nil
}

// takeLine passes the fields of a line to their columns, which are in order.
func takeLine(line []byte, fields int, columns []column) error {
	switch {
	case bytes.HasSuffix(line, []byte("\r")):
		return errors.New("a carriage return at its end (CRLF); allowed: a newline alone")
	case bytes.IndexByte(line, 0) >= 0:
		return errors.New("a byte 0; allowed: text")
	}
	if n := bytes.Count(line, []byte("|")); n != fields || line[len(line)-1] != '|' {
		return fmt.Errorf("%s with a bar after each; allowed: %d, and nothing after them", countFields(n), fields)
	}
	next := 0 // next field
	for i := range columns {
		c := &columns[i]
		for ; next < c.field; next++ {
			line = line[bytes.IndexByte(line, '|')+1:]
		}
		bar := bytes.IndexByte(line, '|')
		if err := c.text(line[:bar]); err != nil {
			return err
		}
		line, next = line[bar+1:], next+1
	}
	return nil
}

func countFields(n int) string {
	if n == 1 {
		return "1 field"
	}
	return fmt.Sprintf("%d fields", n)
}

// fill reads what is at a place, up to the size that the file had when it was opened.
func (f *textFile) fill(b []byte, at int64) (int, error) {
	b = b[:min(int64(len(b)), f.size-at)]
	n, err := f.ReadAt(b, at)
	switch {
	case n == len(b):
		return n, nil
	case errors.Is(err, io.EOF):
		return n, fmt.Errorf("%s has become shorter", f.Name())
	}
	return n, err
}

func (f *textFile) tooLong(at int64) error {
	return f.wrong(at, fmt.Errorf("no end within %d bytes", lineMax))
}

// wrong returns an error with the number of the line at a place.
func (f *textFile) wrong(at int64, what error) error {
	number := 1
	for b, from := make([]byte, textBlock), int64(0); from < at; {
		n, err := f.fill(b[:min(textBlock, at-from)], from)
		if err != nil {
			return err
		}
		number, from = number+bytes.Count(b[:n], []byte("\n")), from+int64(n)
	}
	return fmt.Errorf("%s, line %d: %w", f.Name(), number, what)
}
