package tpch

import (
	"context"
	"fmt"
	"math/big"
	"math/bits"
	"strconv"

	"github.com/coppice-go/coppice"
	"github.com/coppice-go/coppice/apps/tpch/dbgen"
)

// Q1 is query 1, pricing summary: sums and averages of all lines that were shipped up to a day, by
// whether they were returned and by their status.
type Q1 struct {
	Until dbgen.Date
}

// Columns are those that it needs.
func (Q1) Columns() dbgen.Column {
	return dbgen.Quantity | dbgen.Price | dbgen.Discount | dbgen.Tax | dbgen.Returned | dbgen.Status | dbgen.Shipped
}

// q1Row is a row of the answer.
type q1Row struct {
	Returned, Status byte
	Lines            int64
	Quantity         int64
	Price            int64 // cents
	Discount         int64 // hundredths
	Discounted       Wide  // ten-thousandths
	Charge           Wide  // millionths
}

// Wide is a number of 128 bits.
type Wide struct{ High, Low uint64 }

func (w *Wide) add(v Wide) {
	var carry uint64
	w.Low, carry = bits.Add64(w.Low, v.Low, 0)
	w.High, _ = bits.Add64(w.High, v.High, carry)
}

// decimals writes it as decimals does.
func (w Wide) decimals(places int) string {
	n := new(big.Int).SetUint64(w.High)
	n.Lsh(n, 64).Or(n, new(big.Int).SetUint64(w.Low))
	digits := fmt.Sprintf("%0*s", places+1, n)
	at := len(digits) - places
	return digits[:at] + "." + digits[at:]
}

// Ask implements Query.
func (q Q1) Ask(ctx context.Context, t *coppice.Task, tables *Tables, _ Bounds, s Steps, options ...coppice.Option) (Answer, error) {
	s.next("sums")
	sums := q.sums(&tables.Lines)
	s.next("reduce")
	rows, err := coppice.ReduceFunc(ctx, t, sums, mergeQ1, options...)
	return answerQ1(rows), err
}

// sums are those of some lines.
func (q Q1) sums(l *LineTable) (rows []q1Row) {
	var cells [3][2]q1Row // by flag and status
	for i, day := range l.Shipped {
		if day > q.Until {
			continue
		}
		c := &cells[flagNumber(l.Returned[i])][l.Status[i]&1] // F is even, O is odd
		price, discount := int64(l.Prices[i]), int64(l.Discounts[i])
		c.Lines++
		c.Quantity += int64(l.Quantities[i])
		c.Price += price
		c.Discount += discount
		discounted := price * (100 - discount)
		c.Discounted.add(Wide{Low: uint64(discounted)})
		c.Charge.add(Wide{Low: uint64(discounted * (100 + int64(l.Taxes[i])))})
	}
	for flag := range cells {
		for status := range cells[flag] {
			if c := cells[flag][status]; c.Lines > 0 {
				c.Returned, c.Status = flags[flag], states[status]
				rows = append(rows, c)
			}
		}
	}
	return rows
}

// The values of l_returnflag and l_linestatus, in order.
const (
	flags  = "ANR"
	states = "FO"
)

func flagNumber(flag byte) int {
	switch flag {
	case 'A':
		return 0
	case 'N':
		return 1
	}
	return 2
}

// mergeQ1 adds up rows of two answers, which are in order.
func mergeQ1(a, b []q1Row) (sum []q1Row) {
	for len(a) > 0 || len(b) > 0 {
		switch order := compareQ1(a, b); {
		case order < 0:
			sum, a = append(sum, a[0]), a[1:]
		case order > 0:
			sum, b = append(sum, b[0]), b[1:]
		default:
			x, y := a[0], b[0]
			x.Lines += y.Lines
			x.Quantity += y.Quantity
			x.Price += y.Price
			x.Discount += y.Discount
			x.Discounted.add(y.Discounted)
			x.Charge.add(y.Charge)
			sum, a, b = append(sum, x), a[1:], b[1:]
		}
	}
	return sum
}

// compareQ1 tells which of two lists has the first row.
func compareQ1(a, b []q1Row) int {
	switch {
	case len(a) == 0:
		return 1
	case len(b) == 0:
		return -1
	case a[0].Returned != b[0].Returned:
		return int(a[0].Returned) - int(b[0].Returned)
	}
	return int(a[0].Status) - int(b[0].Status)
}

// answerQ1 is the answer in words. Averages are rounded to what a float64 holds.
func answerQ1(rows []q1Row) Answer {
	a := Answer{Columns: []string{
		"l_returnflag", "l_linestatus", "sum_qty", "sum_base_price", "sum_disc_price", "sum_charge",
		"avg_qty", "avg_price", "avg_disc", "count_order",
	}}
	for _, r := range rows {
		average := func(sum, unit int64) string {
			mean, _ := big.NewRat(sum, unit*r.Lines).Float64()
			return strconv.FormatFloat(mean, 'g', -1, 64)
		}
		a.Rows = append(a.Rows, []any{
			string(r.Returned), string(r.Status), decimals(r.Quantity*100, 2), decimals(r.Price, 2), r.Discounted.decimals(4), r.Charge.decimals(6),
			average(r.Quantity, 1), average(r.Price, 100), average(r.Discount, 100), r.Lines,
		})
	}
	return a
}
