package tpch

import (
	"context"
	"embed"
	"fmt"
	"strings"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/apps/tpch/dbgen"
)

// Answer is a table of results, in the order that the query asks for.
type Answer struct {
	Columns []string
	Rows    [][]any // keys and counts are whole numbers, other values are text
}

// CSV returns the answer as comma-separated values, with a line for the names of its columns.
func (a Answer) CSV() string {
	var b strings.Builder
	fmt.Fprintln(&b, strings.Join(a.Columns, ","))
	for _, row := range a.Rows {
		cells := make([]string, len(row))
		for i, c := range row {
			cells[i] = fmt.Sprint(c)
		}
		fmt.Fprintln(&b, strings.Join(cells, ","))
	}
	return b.String()
}

//go:embed testdata/q*.csv
var published embed.FS

// Official returns the official answer to a query with its usual parameters, as comma-separated values, if
// this package has it.
func Official(query int, scale float64) (csv string, ok bool) {
	b, err := published.ReadFile(fmt.Sprintf("testdata/q%d_sf%g.csv", query, scale))
	return string(b), err == nil
}

// decimals formats n units of 10^−places each.
func decimals(n int64, places int) string {
	sign := ""
	if n < 0 {
		sign, n = "-", -n
	}
	digits := fmt.Sprintf("%0*d", places+1, n)
	at := len(digits) - places
	return sign + digits[:at] + "." + digits[at:]
}

// keySet is a set of keys, which start at 1.
type keySet []uint64

func newKeySet(largest int64) keySet { return make(keySet, largest/64+1) }

func (s keySet) add(keys []int32) {
	for _, k := range keys {
		s[k/64] |= 1 << (k % 64)
	}
}

func (s keySet) has(key int32) bool { return s[key/64]>>(key%64)&1 == 1 }

// Query is a query with its parameters.
type Query interface {
	// Columns returns the columns that the query needs.
	Columns() dbgen.Column
	// Ask answers the query at task 0; at other tasks the answer is empty. It passes the options to all
	// operations.
	Ask(ctx context.Context, t *coppice.Task, tables *Tables, b Bounds, s Steps, options ...coppice.Option) (Answer, error)
}

// Steps is called with the name of each step before the task takes it.
type Steps func(step string)
