package tpch

import (
	"embed"
	"fmt"
)

//go:embed testdata/q*.csv
var published embed.FS

// Official is the official answer to a query with its usual parameters, as comma-separated values, where it
// is at hand.
func Official(query int, scale float64) (csv string, ok bool) {
	b, err := published.ReadFile(fmt.Sprintf("testdata/q%d_sf%g.csv", query, scale))
	return string(b), err == nil
}
