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

// Columns implements Query.
func (Q1) Columns() dbgen.Column {
	return dbgen.Quantity | dbgen.Price | dbgen.Discount | dbgen.Tax | dbgen.Returned | dbgen.Status | dbgen.Shipped
}

// q1Row is a row of the answer, if there are lines in it.
type q1Row struct {
	Lines      int64
	Quantity   int64
	Price      int64 // cents
	Discount   int64 // hundredths
	Discounted Wide  // ten-thousandths
	Charge     Wide  // millionths
}

// Wide is a number of 128 bits.
type Wide struct{ High, Low uint64 }

func (w *Wide) add(v Wide) {
	var carry uint64
	w.Low, carry = bits.Add64(w.Low, v.Low, 0)
	w.High, _ = bits.Add64(w.High, v.High, carry)
}

// decimals formats the number as the function decimals does.
func (w Wide) decimals(places int) string {
	n := new(big.Int).SetUint64(w.High)
	n.Lsh(n, 64).Or(n, new(big.Int).SetUint64(w.Low))
	digits := fmt.Sprintf("%0*s", places+1, n)
	at := len(digits) - places
	return digits[:at] + "." + digits[at:]
}

// Ask implements Query.
func (q Q1) Ask(ctx context.Context, t *coppice.Task, tables *Tables, _ Bounds, s Steps, options ...coppice.Option) (Answer, error) {
	s("sums")
	sums := q.sums(&tables.Lines)
	s("reduce")
	rows, err := coppice.ReduceFunc(ctx, t, sums, mergeQ1, options...)
	return answerQ1(rows), err
}

// sums returns the sums of some lines: a row for each flag and status, in their order.
func (q Q1) sums(l *LineTable) []q1Row {
	rows := make([]q1Row, len(flags)*len(states))
	for i, day := range l.Shipped {
		if day > q.Until {
			continue
		}
		c := &rows[flagNumber(l.Returned[i])*len(states)+int(l.Status[i]&1)] // F is even, O is odd
		price, discount := int64(l.Prices[i]), int64(l.Discounts[i])
		c.Lines++
		c.Quantity += int64(l.Quantities[i])
		c.Price += price
		c.Discount += discount
		discounted := price * (100 - discount)
		c.Discounted.add(Wide{Low: uint64(discounted)})
		c.Charge.add(Wide{Low: uint64(discounted * (100 + int64(l.Taxes[i])))})
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

// mergeQ1 adds up the rows of two answers.
func mergeQ1(a, b []q1Row) []q1Row {
	for i := range a {
		x, y := &a[i], &b[i]
		x.Lines += y.Lines
		x.Quantity += y.Quantity
		x.Price += y.Price
		x.Discount += y.Discount
		x.Discounted.add(y.Discounted)
		x.Charge.add(y.Charge)
	}
	return a
}

// answerQ1 returns the answer as text. Averages are rounded to what a float64 holds.
func answerQ1(rows []q1Row) Answer {
	a := Answer{Columns: []string{
		"l_returnflag", "l_linestatus", "sum_qty", "sum_base_price", "sum_disc_price", "sum_charge",
		"avg_qty", "avg_price", "avg_disc", "count_order",
	}}
	for i, r := range rows {
		if r.Lines == 0 {
			continue
		}
		average := func(sum, unit int64) string {
			mean, _ := big.NewRat(sum, unit*r.Lines).Float64()
			return strconv.FormatFloat(mean, 'g', -1, 64)
		}
		a.Rows = append(a.Rows, []any{
			string(flags[i/len(states)]), string(states[i%len(states)]), decimals(r.Quantity*100, 2), decimals(r.Price, 2), r.Discounted.decimals(4), r.Charge.decimals(6),
			average(r.Quantity, 1), average(r.Price, 100), average(r.Discount, 100), r.Lines,
		})
	}
	return a
}
