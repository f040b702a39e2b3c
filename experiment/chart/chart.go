// Package chart draws the figures of experiments as SVG: lines, marks, whiskers
// and bands over linear, logarithmic or named axes, each point with a tooltip. Its API may change.
//
// It is small on purpose. A plotting library doubles the time in which a
// newcomer's first command compiles, and the papers' figures need no more than
// this.
package chart

import (
	"bytes"
	"errors"
	"fmt"
	"html"
	"io"
	"math"
	"strconv"
)

// Chart is one figure.
type Chart struct {
	Title  string
	X, Y   Axis
	Series []*Series
}

// Axis is one axis of a chart. Where Min and Max are equal they follow the
// data.
type Axis struct {
	Label    string
	Min, Max float64
	Log      float64  // base of a logarithmic axis; 0: linear
	Names    []string // names of the positions 0, 1, …; nil: numbers
}

// Series is a set of points that belong together: it has one colour and one line in the legend.
type Series struct {
	Name   string
	Style  Style
	Points []Point
	Like   int // takes the colour of the series with this number, counted from 1; 0: its own
}

// Add adds a series to the chart. Its points may follow.
func (c *Chart) Add(name string, style Style, points ...Point) *Series {
	s := &Series{Name: name, Style: style, Points: points}
	c.Series = append(c.Series, s)
	return s
}

// Add adds a point to the series.
func (s *Series) Add(x, y float64) { s.Points = append(s.Points, Point{X: x, Y: y}) }

// Point is one value. Where Low and High differ they are drawn as whiskers, or
// as the edges of a band.
type Point struct{ X, Y, Low, High float64 }

// Style says how a series is drawn.
type Style uint8

// What styles are made of; they combine.
const (
	Line   Style = 1 << iota // joins the points
	Dashed                   // joins the points with a dashed line
	Marks                    // marks every point
	Band                     // fills the area between Low and High
	Bars                     // a bar from the axis up to each point
)

// The page, in units of the drawing.
const (
	width, height = 760, 440
	left, right   = 70, 210
	top, bottom   = 44, 56
	plotWidth     = width - left - right
	plotHeight    = height - top - bottom
)

// The colours are those of Okabe and Ito: distinct for colour-blind eyes too.
var colours = []string{"#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#555555", "#8C6D31"}

// Check returns what is wrong with a chart that comes from a file.
func (c *Chart) Check() error {
	for _, a := range []Axis{c.X, c.Y} {
		if a.Log != 0 && a.Log != 2 && a.Log != 10 || !sane(a.Min) || !sane(a.Max) {
			return errors.New("a chart with an impossible axis")
		}
	}
	for _, s := range c.Series {
		if s == nil || s.Like < 0 || s.Like > len(c.Series) {
			return errors.New("a chart with an impossible series")
		}
		for _, p := range s.Points {
			if !sane(p.X) || !sane(p.Y) || !sane(p.Low) || !sane(p.High) {
				return errors.New("a chart with an impossible point")
			}
		}
	}
	return nil
}

// sane reports whether a number can be drawn.
func sane(v float64) bool { return v == 0 || math.Abs(v) > 1e-12 && math.Abs(v) < 1e15 }

// Write draws the chart.
func (c *Chart) Write(w io.Writer) error {
	d := &drawing{Chart: c}
	d.fit()
	d.frame()
	for i := range c.Series {
		d.series(i)
	}
	d.legend()
	d.print("</svg>\n")
	_, err := w.Write(d.out.Bytes())
	return err
}

type drawing struct {
	*Chart
	out  bytes.Buffer
	x, y scale
	bars int // series of bars
}

func (d *drawing) print(format string, args ...any) { fmt.Fprintf(&d.out, format, args...) }

// fit finds the scales.
func (d *drawing) fit() {
	d.x = scale{Axis: d.X, from: left, to: left + plotWidth}
	d.y = scale{Axis: d.Y, from: top + plotHeight, to: top}
	for _, s := range d.Series {
		if s.Style&Bars != 0 {
			d.bars++
			d.y.include(0)
		}
		for _, p := range s.Points {
			d.x.include(p.X)
			d.y.include(p.Y)
			if p.Low != p.High {
				d.y.include(p.Low)
				d.y.include(p.High)
			}
		}
	}
	d.x.finish()
	d.y.finish()
}

// frame draws everything except the data.
func (d *drawing) frame() {
	d.print(`<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" height="%d" font-family="Helvetica,Arial,sans-serif" font-size="12" fill="#222">`+"\n", width, height, width, height)
	d.print(`<rect width="%d" height="%d" fill="#fff"/>`+"\n", width, height)
	d.print(`<text x="%d" y="24" font-size="15" font-weight="bold">%s</text>`+"\n", left, html.EscapeString(d.Title))
	for _, t := range d.y.ticks() {
		y := d.y.at(t)
		d.print(`<line x1="%d" x2="%d" y1="%.1f" y2="%.1f" stroke="#e4e4e4"/>`+"\n", left, left+plotWidth, y, y)
		d.print(`<text x="%d" y="%.1f" text-anchor="end">%s</text>`+"\n", left-8, y+4, d.y.name(t))
	}
	for _, t := range d.x.ticks() {
		x := d.x.at(t)
		d.print(`<line x1="%.1f" x2="%.1f" y1="%d" y2="%d" stroke="#222"/>`+"\n", x, x, top+plotHeight, top+plotHeight+5)
		d.print(`<text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n", x, top+plotHeight+19, html.EscapeString(d.x.name(t)))
	}
	d.print(`<path d="M%d %dV%dH%d" fill="none" stroke="#222"/>`+"\n", left, top, top+plotHeight, left+plotWidth)
	d.print(`<text x="%d" y="%d" text-anchor="middle">%s</text>`+"\n", left+plotWidth/2, height-14, html.EscapeString(d.X.Label))
	d.print(`<text transform="translate(18 %d) rotate(-90)" text-anchor="middle">%s</text>`+"\n", top+plotHeight/2, html.EscapeString(d.Y.Label))
}

// colour returns the colour of series i: series with colours of their own get them one after the other.
func (d *drawing) colour(i int) string {
	if like := d.Series[i].Like; like > 0 {
		i = like - 1
	}
	own := 0
	for k := range d.Series[:i] {
		if d.Series[k].Like == 0 {
			own++
		}
	}
	return colours[own%len(colours)]
}

// series draws one series.
func (d *drawing) series(i int) {
	s, colour := d.Series[i], d.colour(i)
	if s.Style&Band != 0 && len(s.Points) > 0 {
		d.print(`<path fill="%s" fill-opacity="0.18" d="`, colour)
		for k, p := range s.Points {
			d.print("%c%.1f %.1f", "ML"[min(k, 1)], d.x.at(p.X), d.y.at(p.High))
		}
		for k := len(s.Points) - 1; k >= 0; k-- {
			d.print("L%.1f %.1f", d.x.at(s.Points[k].X), d.y.at(s.Points[k].Low))
		}
		d.print("Z\"/>\n")
	}
	if s.Style&(Line|Dashed) != 0 && len(s.Points) > 1 {
		d.print(`<path fill="none" stroke="%s" stroke-width="1.8"%s d="`, colour, dash(s.Style))
		for k, p := range s.Points {
			d.print("%c%.1f %.1f", "ML"[min(k, 1)], d.x.at(p.X), d.y.at(p.Y))
		}
		d.print("\"/>\n")
	}
	for _, p := range s.Points {
		d.point(s, i, colour, p)
	}
}

func dash(s Style) string {
	if s&Dashed != 0 {
		return ` stroke-dasharray="6 4"`
	}
	return ""
}

// point draws one point: a bar, whiskers, a mark.
func (d *drawing) point(s *Series, i int, colour string, p Point) {
	x, y := d.x.at(p.X), d.y.at(p.Y)
	if s.Style&Bars != 0 {
		step := plotWidth / float64(max(len(d.X.Names), 1)) * 0.8 / float64(d.bars)
		x += (float64(i) - float64(d.bars-1)/2) * step
		d.print(`<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s">%s</rect>`+"\n", x-step/2, y, step*0.92, d.y.at(0)-y, colour, d.tip(s, p))
	}
	if p.Low != p.High && s.Style&Band == 0 {
		low, high := d.y.at(p.Low), d.y.at(p.High)
		d.print(`<path stroke="%s" d="M%.1f %.1fV%.1fM%.1f %.1fh8M%.1f %.1fh8"/>`+"\n", colour, x, low, high, x-4, low, x-4, high)
	}
	if s.Style&Marks != 0 {
		d.mark(i, colour, x, y, d.tip(s, p))
	}
}

// tip returns the text that appears over a point.
func (d *drawing) tip(s *Series, p Point) string {
	text := fmt.Sprintf("%s: %s, %s", s.Name, d.x.name(p.X), number(p.Y))
	if p.Low != p.High {
		text += fmt.Sprintf(" (%s to %s)", number(p.Low), number(p.High))
	}
	return "<title>" + html.EscapeString(text) + "</title>"
}

// mark draws the mark of series i.
func (d *drawing) mark(i int, colour string, x, y float64, tip string) {
	m := marks[i%len(marks)]
	d.print(`<path fill="%s" stroke="%s" stroke-width="1.6" d="M%.1f %.1f%s">%s</path>`+"\n", colour, colour, x+m.dx, y+m.dy, m.path, tip)
}

// marks describes how to draw each mark: its offset from the point, and its path.
var marks = [...]struct {
	dx, dy float64
	path   string
}{
	{-4.2, 0, "a4.2 4.2 0 1 0 8.4 0a4.2 4.2 0 1 0 -8.4 0Z"},
	{-4.2, -4.2, "h8.4v8.4h-8.4Z"},
	{0, -4.2, "l4.2 8.4h-8.4Z"},
	{0, -5.04, "l5.04 5.04l-5.04 5.04l-5.04 -5.04Z"},
	{-4.2, -4.2, "l8.4 8.4m0 -8.4l-8.4 8.4"},
	{-4.2, 0, "h8.4m-4.2 -4.2v8.4"},
}

// legend lists the series at the right.
func (d *drawing) legend() {
	x, y := left+plotWidth+18, top+8
	for i, s := range d.Series {
		colour := d.colour(i)
		if s.Name == "" {
			continue
		}
		if s.Style&Band != 0 {
			d.print(`<rect x="%d" y="%d" width="24" height="10" fill="%s" fill-opacity="0.18"/>`+"\n", x, y-5, colour)
		}
		if s.Style&(Line|Dashed) != 0 {
			d.print(`<path stroke="%s" stroke-width="1.8"%s d="M%d %dh24"/>`+"\n", colour, dash(s.Style), x, y)
		}
		if s.Style&Bars != 0 {
			d.print(`<rect x="%d" y="%d" width="14" height="10" fill="%s"/>`+"\n", x+5, y-5, colour)
		}
		if s.Style&Marks != 0 {
			d.mark(i, colour, float64(x+12), float64(y), "")
		}
		d.print(`<text x="%d" y="%d">%s</text>`+"\n", x+32, y+4, html.EscapeString(s.Name))
		y += 20
	}
}

// scale maps an axis to the page.
type scale struct {
	Axis
	from, to float64
	low, up  float64
	some     bool
}

func (s *scale) include(v float64) {
	if s.Log > 0 && v <= 0 {
		return
	}
	if !s.some {
		s.low, s.up, s.some = v, v, true
	}
	s.low, s.up = min(s.low, v), max(s.up, v)
}

func (s *scale) finish() {
	switch {
	case s.Names != nil:
		s.low, s.up = -0.5, float64(len(s.Names))-0.5
		return
	case s.Min != s.Max:
		s.low, s.up = s.Min, s.Max
		return
	}
	if s.Log > 0 {
		if !s.some { // no value has a place on such an axis
			s.low, s.up = 1, s.Log
		}
		if s.Log == 10 { // room, and at least two names
			s.low, s.up = s.low/1.3, max(s.up*1.3, s.low*4)
		} else if s.low == s.up {
			s.up *= s.Log
		}
		return
	}
	if s.low == s.up {
		s.low, s.up = s.low-1, s.up+1
	}
	room := (s.up - s.low) * 0.05
	if s.low >= 0 && s.low < room {
		s.low = room // the axis then begins at 0
	}
	s.low, s.up = s.low-room, s.up+room
}

func (s *scale) at(v float64) float64 {
	share := (v - s.low) / (s.up - s.low)
	if s.Log > 0 {
		share = math.Log(max(v, s.low)/s.low) / math.Log(s.up/s.low)
	}
	return s.from + share*(s.to-s.from)
}

// ticks returns the values that get a name: about six.
func (s *scale) ticks() []float64 {
	var out []float64
	switch {
	case s.Names != nil:
		for i := range s.Names {
			out = append(out, float64(i))
		}
	case s.Log > 0:
		first, last := math.Floor(math.Log(s.low)/math.Log(s.Log)+1e-9), math.Ceil(math.Log(s.up)/math.Log(s.Log)-1e-9)
		if s.Log == 10 && last-first <= 3 {
			for e := first; e <= last; e++ {
				for _, f := range []float64{1, 2, 5} {
					if v := f * math.Pow(10, e); v >= s.low*0.999 && v <= s.up*1.001 {
						out = append(out, v)
					}
				}
			}
			return out
		}
		step := max(1, math.Round((last-first)/8))
		for e := first; e <= last; e += step {
			if v := math.Pow(s.Log, e); v >= s.low*0.999 && v <= s.up*1.001 {
				out = append(out, v)
			}
		}
	default:
		step := math.Pow(10, math.Floor(math.Log10((s.up-s.low)/5)))
		for _, f := range []float64{1, 2, 5, 10} {
			if (s.up-s.low)/(step*f) <= 7 {
				step *= f
				break
			}
		}
		for v := math.Ceil(s.low/step) * step; v <= s.up; v += step {
			out = append(out, math.Round(v/step)*step)
		}
	}
	return out
}

// name returns a value of the axis as it is written.
func (s *scale) name(v float64) string {
	if i := int(v); s.Names != nil && i >= 0 && i < len(s.Names) {
		return s.Names[i]
	}
	if s.Log == 2 && v >= 1024 {
		switch {
		case math.Mod(v, 1<<20) == 0:
			return strconv.Itoa(int(v)>>20) + "M"
		case math.Mod(v, 1<<10) == 0:
			return strconv.Itoa(int(v)>>10) + "K"
		}
	}
	return number(v)
}

func number(v float64) string {
	if v == math.Trunc(v) && math.Abs(v) < 1e7 {
		return strconv.FormatFloat(v, 'f', -1, 64)
	}
	return strconv.FormatFloat(v, 'g', 4, 64)
}
