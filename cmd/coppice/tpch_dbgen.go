package main

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/coppice-go/coppice/apps/tpch/dbgen"
)

type tpchDbgenCmd struct {
	Sf      float64  `name:"sf" default:"0.01" placeholder:"F" help:"Scale factor: 1 is about 1 GB as text (default ${default})."`
	Table   string   `required:"" placeholder:"T" help:"The table: ${tpchTables}."`
	Columns []string `placeholder:"C,..." help:"Its columns, in this order (default: all that there are)."`
	Part    string   `default:"1/1" placeholder:"I/N" help:"Only part I of N (default ${default})."`
}

func (d *tpchDbgenCmd) Run(c *console) error {
	i, n, err := parsePart(d.Part)
	if err == nil {
		err = dbgen.Scale(d.Sf).Check()
	}
	var names []string
	if err == nil {
		names, err = dbgen.Columns(d.Table)
	}
	if err != nil {
		return badInput{err}
	}
	if d.Columns == nil {
		d.Columns = names
	}
	if err := dbgen.CheckColumns(d.Table, d.Columns); err != nil {
		return badInput{err}
	}
	return dbgen.Scale(d.Sf).Write(c.stdout, d.Table, d.Columns, i, n)
}

// partsMax is in how many parts a table is at most.
const partsMax = 1 << 20

// parsePart reads I/N, and counts from 0.
func parsePart(text string) (i, n int, err error) {
	first, second, _ := strings.Cut(text, "/")
	i, wrong := strconv.Atoi(first)
	n, also := strconv.Atoi(second)
	if wrong != nil || also != nil || n < 1 || n > partsMax || i < 1 || i > n {
		return 0, 0, fmt.Errorf("part %q; allowed: 1/N to N/N, with N up to %d", text, partsMax)
	}
	return i - 1, n, nil
}
