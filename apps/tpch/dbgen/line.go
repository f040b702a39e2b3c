package dbgen

// LineRows are rows of table lineitem, in the order of their orders.
type LineRows struct {
	First     int64   // the row of their first order in table orders, counted from 0
	Counts    []uint8 // lines of each order
	Lines     int     // of all orders
	Quantity  []uint8
	Prices    []int32 // cents
	Discounts []uint8 // hundredths
	Taxes     []uint8 // hundredths
	Returned  []byte  // R, A or N
	Status    []byte  // O or F
	Shipped   []Date
	Suppliers []int32
}

// linesMax is the largest number of lines of an order, and so the number of draws reserved for them.
const linesMax = 7

// LineRows generates columns of table lineitem, for the orders of rows lo … hi−1 of table orders.
func (s Scale) LineRows(lo, hi int64, columns Column) LineRows {
	g := lineRange{lo: lo, counts: numbers[uint8](1434868289, lo, hi, 1, linesMax)}
	for _, n := range g.counts {
		g.lines += int(n)
	}
	rows := LineRows{First: lo, Counts: g.counts, Lines: g.lines}
	if columns&(Quantity|Price) != 0 {
		rows.Quantity = lineNumbers[uint8](&g, 209208115, 1, 50)
	}
	if columns&Discount != 0 {
		rows.Discounts = lineNumbers[uint8](&g, 554590007, 0, 11)
	}
	if columns&Tax != 0 {
		rows.Taxes = lineNumbers[uint8](&g, 721958466, 0, 9)
	}
	if columns&(Price|Supplier) != 0 {
		s.parts(&g, &rows, columns)
	}
	if columns&(Shipped|Status|Returned) != 0 {
		g.shipping(hi, &rows, columns)
	}
	return rows
}

// lineRange is the lines of some orders.
type lineRange struct {
	lo     int64
	counts []uint8 // lines of each order
	lines  int     // of all orders
}

// lineNumbers draws first … first+n−1 for each line.
func lineNumbers[E uint8 | Date | int32](g *lineRange, seed uint64, first, n int) []E {
	all := make([]E, 0, g.lines)
	st := at(seed, linesMax, g.lo)
	for _, count := range g.counts {
		x := st.next()
		for range count {
			x = draw(x)
			all = append(all, E(first+below(x, n)))
		}
	}
	return all
}

// parts generates what depends on l_partkey: the price, and the supplier, one of the part's four.
func (s Scale) parts(g *lineRange, rows *LineRows, columns Column) {
	part := lineNumbers[int32](g, 1808217256, 1, int(parts*float64(s)))
	if columns&Price != 0 {
		rows.Prices = make([]int32, g.lines)
		for i, key := range part {
			rows.Prices[i] = (90_000 + key/10%20_001 + 100*(key%1000)) * int32(rows.Quantity[i])
		}
	}
	if columns&Supplier != 0 {
		which, n := lineNumbers[uint8](g, 2095021727, 0, 4), s.Suppliers()
		rows.Suppliers = part
		for i := range part {
			key := int64(part[i])
			rows.Suppliers[i] = int32((key+int64(which[i])*(n/4+(key-1)/n))%n + 1)
		}
	}
}

// shipping generates what depends on the days on which a line is shipped and received.
func (g *lineRange) shipping(hi int64, rows *LineRows, columns Column) {
	shipped := lineNumbers[Date](g, 1769349045, 1, 121)
	rows.Shipped = make([]Date, g.lines)
	at := 0
	for i, day := range orderDates(g.lo, hi) {
		for range g.counts[i] {
			rows.Shipped[at] = day + shipped[at]
			at++
		}
	}
	if columns&Status != 0 {
		rows.Status = make([]byte, g.lines)
		for i, day := range rows.Shipped {
			if rows.Status[i] = 'O'; day <= today {
				rows.Status[i] = 'F'
			}
		}
	}
	if columns&Returned != 0 {
		rows.Returned = g.returned(rows.Shipped)
	}
}

// returned draws l_returnflag, of lines that were received.
func (g *lineRange) returned(shipped []Date) []byte {
	transit := lineNumbers[uint8](g, 373135028, 1, 30)
	all := make([]byte, g.lines)
	st := at(717419739, linesMax, g.lo)
	i := 0
	for _, count := range g.counts {
		x := st.next()
		for range count {
			if all[i] = 'N'; shipped[i]+Date(transit[i]) <= today {
				x = draw(x)
				all[i] = "RA"[below(x, 2)]
			}
			i++
		}
	}
	return all
}
