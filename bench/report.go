package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

const dash = "–"

// A column of a table: its name, with > before it if it is aligned to the right, as
// numbers are.
type column string

func (c column) name() string { return strings.TrimPrefix(string(c), ">") }
func (c column) right() bool  { return c[0] == '>' }

// lineColumns are the columns of the table of lines.
var lineColumns = []column{
	"what", ">p", ">ours µs", ">theirs µs", ">ratio", "spread", ">of means", "target", "verdict", "ours", "theirs",
}

func rows(results []result) [][]string {
	all := make([][]string, 0, len(results))
	for _, r := range results {
		all = append(all, r.row())
	}
	return all
}

// row returns the cells of a result, under lineColumns.
func (r result) row() []string {
	ratio, spread, means, verdict := dash, dash, dash, dash
	if middle, least, greatest := r.ratios(oursIn, medianOf); middle > 0 {
		ofMeans, _, _ := r.ratios(oursIn, meanOf)
		ratio, means = fmt.Sprintf("%.2f", middle), fmt.Sprintf("%.2f", ofMeans)
		spread = fmt.Sprintf("%.2f–%.2f", least, greatest)
		verdict = r.target.verdict(middle)
	}
	switch {
	case r.failed != nil:
		verdict = "failed"
	case r.target.ratio == 0:
		verdict = ""
	}
	return []string{
		r.what, fmt.Sprint(r.p), micros(r.ours()), micros(r.theirs()), ratio, spread, means,
		r.target.String(), verdict, string(r.line.ours), string(r.line.theirs),
	}
}

// micros formats with three significant digits.
func micros(us float64) string {
	switch {
	case us == 0:
		return dash
	case us < 10:
		return fmt.Sprintf("%.2f", us)
	case us < 100:
		return fmt.Sprintf("%.1f", us)
	default:
		return fmt.Sprintf("%.0f", us)
	}
}

// table writes rows under the names of their columns.
func table(w io.Writer, columns []column, rows [][]string) error {
	var names []string
	for _, c := range columns {
		names = append(names, c.name())
	}
	all := append([][]string{names}, rows...)
	widths := make([]int, len(columns))
	for _, row := range all {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range all {
		var text strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if columns[i].right() {
				text.WriteString(pad + cell + "  ")
			} else {
				text.WriteString(cell + pad + "  ")
			}
		}
		if _, err := fmt.Fprintln(w, strings.TrimRight(text.String(), " ")); err != nil {
			return err
		}
	}
	return nil
}

// markdown writes the same rows for a page.
func markdown(w io.Writer, columns []column, rows [][]string) error {
	var names, rule []string
	for _, c := range columns {
		names = append(names, c.name())
		if c.right() {
			rule = append(rule, "---:")
		} else {
			rule = append(rule, "---")
		}
	}
	for _, row := range append([][]string{names, rule}, rows...) {
		if _, err := fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | ")); err != nil {
			return err
		}
	}
	return nil
}

// machine describes where and when the figures were taken.
type machine struct {
	Taken   string `json:"taken"`
	System  string `json:"system"`
	Cores   int    `json:"cores"`
	Go      string `json:"go"`
	OpenMPI string `json:"open_mpi,omitempty"`
	Quick   bool   `json:"quick"`
	Against string `json:"against,omitempty"`

	Disturbance *disturbance `json:"disturbance,omitempty"` // nil if the system does not report it
}

// summary returns the line below a table.
func (m machine) summary(rounds int) string {
	quiet := "whether others were at work is unknown"
	if m.Disturbance != nil {
		quiet = m.Disturbance.String()
		if m.Disturbance.loud() {
			quiet += ": NOT QUIET, do not believe these figures"
		}
	}
	return fmt.Sprintf("%s, %d cores, %s, %s; rounds: %d; %s", m.System, m.Cores, m.Go, m.peer(), rounds, quiet)
}

// peer names the side that was compared against.
func (m machine) peer() string {
	if m.Against != "" {
		return "theirs: " + m.Against
	}
	return cmp.Or(m.OpenMPI, "no Open MPI")
}

// record is a result as JSON.
type record struct {
	What      string  `json:"what"`
	P         int     `json:"p"`
	Bytes     int     `json:"bytes"`
	Ours      side    `json:"ours"`
	Theirs    side    `json:"theirs"`
	OursUS    float64 `json:"ours_us"`
	TheirsUS  float64 `json:"theirs_us"`
	Ratio     float64 `json:"ratio,omitempty"`
	RatioLow  float64 `json:"ratio_low,omitempty"`
	RatioHigh float64 `json:"ratio_high,omitempty"`
	OfMeans   float64 `json:"ratio_of_means,omitempty"`
	Target    string  `json:"target,omitempty"`
	Verdict   string  `json:"verdict,omitempty"`
	Failed    string  `json:"failed,omitempty"`

	Beside      side    `json:"beside,omitempty"` // another side of ours, compared with theirs
	BesideUS    float64 `json:"beside_us,omitempty"`
	BesideRatio float64 `json:"beside_ratio,omitempty"`
	Hogs        int     `json:"hogs,omitempty"`

	Rounds []round `json:"rounds"`
}

func (r result) record() record {
	rec := record{
		What: r.what, P: r.p, Bytes: r.bytes, Ours: r.line.ours, Theirs: r.line.theirs,
		OursUS: r.ours(), TheirsUS: r.theirs(), Target: r.target.String(), Rounds: r.rounds,
		Beside: r.beside, BesideUS: r.over(besideIn), BesideRatio: r.ratio(besideIn), Hogs: r.hogs,
	}
	if middle, least, greatest := r.ratios(oursIn, medianOf); middle > 0 {
		rec.OfMeans, _, _ = r.ratios(oursIn, meanOf)
		rec.Ratio, rec.RatioLow, rec.RatioHigh = middle, least, greatest
		rec.Verdict = r.target.verdict(middle)
	}
	if r.failed != nil {
		rec.Verdict, rec.Failed = "", r.failed.Error()
	}
	return rec
}

func writeJSON(w io.Writer, m machine, means []mean, results []result) error {
	records := make([]record, 0, len(results))
	for _, r := range results {
		records = append(records, r.record())
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(struct {
		Machine machine  `json:"machine"`
		Means   []mean   `json:"geometric_means,omitempty"`
		Lines   []record `json:"lines"`
	}{m, means, records})
}
