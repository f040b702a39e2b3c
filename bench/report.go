package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

const dash = "–"

var header = []string{"what", "p", "ours µs", "theirs µs", "ratio", "spread", "of means", "target", "verdict", "ours", "theirs"}

// row returns the cells of a result, under header.
func (r result) row() []string {
	ratio, spread, means, verdict := dash, dash, dash, dash
	if middle, least, greatest, ok := r.ratios(medianOf); ok {
		ofMeans, _, _, _ := r.ratios(meanOf)
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

// micros writes three digits that matter.
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

// table writes rows in columns, numbers to the right.
func table(w io.Writer, rows [][]string) error {
	widths := make([]int, len(header))
	for _, row := range append([][]string{header}, rows...) {
		for i, cell := range row {
			widths[i] = max(widths[i], utf8.RuneCountInString(cell))
		}
	}
	for _, row := range append([][]string{header}, rows...) {
		var text strings.Builder
		for i, cell := range row {
			pad := strings.Repeat(" ", widths[i]-utf8.RuneCountInString(cell))
			if (i >= 1 && i <= 4) || i == 6 {
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
func markdown(w io.Writer, rows [][]string) error {
	rule := []string{"---", "---:", "---:", "---:", "---:", "---", "---:", "---", "---", "---", "---"}
	for _, row := range append([][]string{header, rule}, rows...) {
		if _, err := fmt.Fprintf(w, "| %s |\n", strings.Join(row, " | ")); err != nil {
			return err
		}
	}
	return nil
}

// machine is where and when the figures were taken.
type machine struct {
	Taken   string `json:"taken"`
	System  string `json:"system"`
	Cores   int    `json:"cores"`
	Go      string `json:"go"`
	OpenMPI string `json:"open_mpi,omitempty"`
	Quick   bool   `json:"quick"`

	Disturbance *disturbance `json:"disturbance,omitempty"` // nil if the system does not tell
}

// summary is the line below a table.
func (m machine) summary(rounds int) string {
	mpi, quiet := m.OpenMPI, "whether others were at work is unknown"
	if mpi == "" {
		mpi = "no Open MPI"
	}
	if m.Disturbance != nil {
		quiet = m.Disturbance.String()
		if m.Disturbance.loud() {
			quiet += ": NOT QUIET, do not believe these figures"
		}
	}
	return fmt.Sprintf("%s, %d cores, %s, %s; rounds: %d; %s", m.System, m.Cores, m.Go, mpi, rounds, quiet)
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
	Rounds    []round `json:"rounds"`
}

func (r result) record() record {
	rec := record{
		What: r.what, P: r.p, Bytes: r.bytes, Ours: r.line.ours, Theirs: r.line.theirs,
		OursUS: r.ours(), TheirsUS: r.theirs(), Target: r.target.String(), Rounds: r.rounds,
	}
	if middle, least, greatest, ok := r.ratios(medianOf); ok {
		rec.OfMeans, _, _, _ = r.ratios(meanOf)
		rec.Ratio, rec.RatioLow, rec.RatioHigh = middle, least, greatest
		rec.Verdict = r.target.verdict(middle)
	}
	if r.failed != nil {
		rec.Verdict, rec.Failed = "", r.failed.Error()
	}
	return rec
}

func writeJSON(w io.Writer, m machine, results []result) error {
	records := make([]record, 0, len(results))
	for _, r := range results {
		records = append(records, r.record())
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(struct {
		Machine machine  `json:"machine"`
		Lines   []record `json:"lines"`
	}{m, records})
}
