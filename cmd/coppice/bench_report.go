package main

import (
	"bufio"
	"encoding/csv"
	"errors"
	"fmt"
	"os"
	"strconv"
)

// writeBench prints the cells for people.
func writeBench(w *bufio.Writer, cells []benchCell) {
	fmt.Fprintf(w, "%s, %s\n\n", cells[0].Transport, cells[0].how())
	table := newTable(w)
	fmt.Fprintf(table, "%-9s\tsize\tn\titerations\tmedian µs\tp99 µs\tMB/s\t\n", "")
	for _, c := range cells {
		size, rate := "", ""
		if c.Bytes > 0 {
			size, rate = sizeText(c.Bytes), fmt.Sprintf("%.2f", c.BytesPerSecond/1e6)
		}
		fmt.Fprintf(table, "%-9s\t%s\t%d\t%d\t%.1f\t%.1f\t%s\t\n", c.Op, size, c.Processes, c.Iterations, c.Median, c.P99, rate)
	}
	table.Flush()
}

// how says how the broadcasts of a cell are protected, and against what.
func (c *benchCell) how() string {
	text := c.Mode
	for _, word := range []string{c.Correction, c.Tree} {
		if word != "" {
			text += ", " + word
		}
	}
	if c.Copies > 0 {
		text += fmt.Sprintf(", copies: %d", c.Copies)
	}
	if len(c.Failed) > 0 {
		text += fmt.Sprintf(", failed: %v", c.Failed)
	}
	return text
}

// sizeText writes a number of bytes as parseSize reads it.
func sizeText(bytes int) string {
	for _, unit := range []struct {
		name  string
		bytes int
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if bytes%unit.bytes == 0 {
			return strconv.Itoa(bytes/unit.bytes) + unit.name
		}
	}
	return strconv.Itoa(bytes) + "B"
}

// writeBenchCSV writes the cells to a file, under the keys that JSON has.
func writeBenchCSV(name string, cells []benchCell) error {
	file, err := os.Create(name)
	if err != nil {
		return err
	}
	float := func(f float64) string { return strconv.FormatFloat(f, 'f', -1, 64) }
	rows := [][]string{{
		"op", "bytes", "processes", "transport", "mode", "warmup", "iterations",
		"median_us", "p99_us", "bytes_per_second",
	}}
	for _, c := range cells {
		rows = append(rows, []string{
			c.Op, strconv.Itoa(c.Bytes), strconv.Itoa(c.Processes), c.Transport, c.Mode,
			strconv.Itoa(c.Warmup), strconv.Itoa(c.Iterations), float(c.Median), float(c.P99), float(c.BytesPerSecond),
		})
	}
	return errors.Join(csv.NewWriter(file).WriteAll(rows), file.Close())
}
