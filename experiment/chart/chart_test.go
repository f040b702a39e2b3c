package chart_test

import (
	"encoding/xml"
	"io"
	"strings"
	"testing"

	"github.com/coppice-go/coppice/experiment/chart"

	"pgregory.net/rapid"
)

func draw(t interface{ Fatal(...any) }, c *chart.Chart) string {
	var out strings.Builder
	if err := c.Write(&out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func TestEverySeriesIsDrawnAndNamed(t *testing.T) {
	c := &chart.Chart{
		Title: "a < b", X: chart.Axis{Label: "x", Names: []string{"one", "two"}}, Y: chart.Axis{Label: "y & z"},
		Series: []*chart.Series{
			{Name: "line", Style: chart.Line | chart.Marks, Points: []chart.Point{{X: 0, Y: 1}, {X: 1, Y: 2, Low: 1.5, High: 3}}},
			{Name: "like it", Style: chart.Dashed, Like: 1, Points: []chart.Point{{X: 0, Y: 2}, {X: 1, Y: 1}}},
			{Name: "band", Style: chart.Band, Points: []chart.Point{{X: 0, Y: 2, Low: 1, High: 3}, {X: 1, Y: 1, Low: 0, High: 2}}},
			{Style: chart.Marks, Points: []chart.Point{{X: 1, Y: 1}}},
		},
	}
	svg := draw(t, c)
	for what, n := range map[string]int{
		"a &lt; b": 1, "y &amp; z": 1, ">one<": 1, ">two<": 1, ">line<": 1, ">like it<": 1, ">band<": 1,
		"<title>line: two, 2 (1.5 to 3)</title>": 1, "stroke-dasharray": 2, `fill-opacity="0.18"`: 2,
		"<title>": 3,                       // one for each mark
		"#0072B2": 2*3 + 1 + 1 + 1 + 1 + 1, // marks in drawing and legend, the line and its Like, likewise; whiskers
	} {
		if got := strings.Count(svg, what); got != n {
			t.Errorf("%q %d times, want %d", what, got, n)
		}
	}
}

// TestAnyChartIsWellFormed draws random charts: every position is a number, and what is drawn lies on the
// page.
func TestAnyChartIsWellFormed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		thousandths := rapid.OneOf(rapid.IntRange(-1e9, 1e9), rapid.IntRange(0, 1000))
		value := rapid.Map(thousandths, func(n int) float64 { return float64(n) / 1000 })
		c := &chart.Chart{Title: rapid.StringMatching(`[ -~é«»]*`).Draw(t, "title")}
		c.X.Log = rapid.SampledFrom([]float64{0, 2, 10}).Draw(t, "x base")
		c.Y.Log = rapid.SampledFrom([]float64{0, 2, 10}).Draw(t, "y base")
		for range rapid.IntRange(0, 4).Draw(t, "series") {
			s := c.Add("s", chart.Style(rapid.IntRange(1, 31).Draw(t, "style")))
			for range rapid.IntRange(0, 5).Draw(t, "points") {
				s.Points = append(s.Points, chart.Point{X: value.Draw(t, "x"), Y: value.Draw(t, "y"), Low: value.Draw(t, "low"), High: value.Draw(t, "high")})
			}
		}
		svg := draw(t, c)
		if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") {
			t.Fatal("a point without a place:", svg)
		}
		d := xml.NewDecoder(strings.NewReader(svg))
		for {
			if _, err := d.Token(); err == io.EOF {
				break
			} else if err != nil {
				t.Fatal(err, svg)
			}
		}
	})
}
