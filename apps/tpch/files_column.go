package tpch

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/coppice-go/coppice/apps/tpch/dbgen"
)

// column is a column of a file, with the function that takes its values, row by row. Every value is a whole
// number: of units, hundredths or days, or the number of a word.
type column struct {
	is    dbgen.Column // 0: a key
	name  string
	field int // in the official order, from 0
	kind
	take func(v int64) error
}

// to returns the column with another function to take its values.
func (c column) to(take func(v int64) error) column {
	c.take = take
	return c
}

// kind describes the allowed values.
type kind struct {
	words       []string // one of these, or
	day         bool     // a day, or
	places      int      // a number with this many decimals,
	least, most int64    // in this range, in units of the last decimal,
	table       string   // whose last key is most
}

// upTo allows keys from 1 on.
func upTo(most int64) kind { return kind{least: 1, most: most} }

// keyOf allows the keys of a table.
func keyOf(table string, last int64) kind { return kind{least: 1, most: last, table: table} }

// nation is a key of table nation.
var nation = kind{most: int64(len(dbgen.Nations)) - 1}

// allowed describes the allowed values.
func (k *kind) allowed() string {
	switch {
	case k.words != nil:
		return strings.Join(k.words, ", ")
	case k.day:
		return "1992-01-01 to 1998-12-31"
	case k.table != "":
		return fmt.Sprintf("whole numbers, %d to %d, the last in table %s", k.least, k.most, k.table)
	case k.places == 0:
		return fmt.Sprintf("whole numbers, %d to %d", k.least, k.most)
	}
	return fmt.Sprintf("%s to %s", decimals(k.least, k.places), decimals(k.most, k.places))
}

// refuse returns an error that says what is wrong with a value.
func (c *column) refuse(value string) error {
	const shown = 40
	if len(value) > shown {
		value = value[:shown] + "…"
	}
	err := fmt.Errorf("%s %q; allowed: %s", c.name, value, c.allowed())
	if c.table != "" {
		return beyondError{err}
	}
	return err
}

// beyondError reports a key beyond the last key of another table.
type beyondError struct{ error }

// text takes a value as text.
func (c *column) text(field []byte) error {
	v, ok := c.parse(field)
	if !ok {
		return c.refuse(string(field))
	}
	return c.take(v)
}

// parse reads a value.
func (k *kind) parse(field []byte) (v int64, ok bool) {
	switch {
	case k.words != nil:
		return k.word(field)
	case k.day:
		return parseDay(field)
	}
	v, ok = parseNumber(field, k.places)
	return v, ok && k.least <= v && v <= k.most
}

// word returns the number of a word.
func (k *kind) word(field []byte) (int64, bool) {
	i := slices.IndexFunc(k.words, func(w string) bool { return string(field) == w })
	return int64(i), i >= 0
}

// parseNumber reads a non-negative number, exactly: decimals beyond the given places must be zeros.
func parseNumber(field []byte, places int) (v int64, ok bool) {
	digits, after := 0, -1 // digits after the point; -1: no point yet
	for _, c := range field {
		switch {
		case c == '.' && after < 0 && digits > 0:
			after = 0
			continue
		case c < '0' || c > '9':
			return 0, false
		}
		digits++
		if after >= 0 {
			if after++; after > places {
				if c != '0' {
					return 0, false
				}
				continue
			}
		}
		if v > (math.MaxInt64-9)/10 {
			return 0, false
		}
		v = v*10 + int64(c-'0')
	}
	if digits == 0 || after == 0 {
		return 0, false
	}
	return rescale(v, min(max(after, 0), places), places)
}

// rescale converts a number to another number of decimals, if that is exact.
func rescale(v int64, from, to int) (int64, bool) {
	for ; from < to; from++ {
		if v > math.MaxInt64/10 || v < math.MinInt64/10 {
			return 0, false
		}
		v *= 10
	}
	for ; from > to; from-- {
		if v%10 != 0 {
			return 0, false
		}
		v /= 10
	}
	return v, true
}

// months are the days on which months begin, from January 1992 on, and finally the first day that is not
// known.
var months = func() (days [7*12 + 1]int64) {
	first := time.Date(1992, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range days {
		days[i] = int64(first.AddDate(0, i, 0).Sub(first) / (24 * time.Hour))
	}
	return days
}()

// parseDay reads a day such as 1995-03-15. It is dbgen.ParseDate, fast enough for millions of lines.
func parseDay(field []byte) (int64, bool) {
	if len(field) != len("1995-03-15") || field[4] != '-' || field[7] != '-' {
		return 0, false
	}
	year, a := parseNumber(field[:4], 0)
	month, b := parseNumber(field[5:7], 0)
	day, c := parseNumber(field[8:], 0)
	if !a || !b || !c || year < 1992 || year > 1998 || month < 1 || month > 12 {
		return 0, false
	}
	begin := months[(year-1992)*12+month-1:]
	return begin[0] + day - 1, 1 <= day && begin[0]+day-1 < begin[1]
}
