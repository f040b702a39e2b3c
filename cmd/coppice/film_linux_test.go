package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// The picture, in pixels, and its times.
const (
	charWidth  = 8.4
	lineHeight = 18
	margin     = 14

	briefest = 40 * time.Millisecond // shorter frames are not kept
	longest  = 900 * time.Millisecond
	ending   = 6 * time.Second // the last frame stays
)

// film is what a screen showed, and for how long.
type film struct{ frames []frame }

type frame struct {
	lines [screenRows]string // as SVG
	stays time.Duration
}

// add takes a picture of the screen.
func (f *film) add(s *screen, stays time.Duration) {
	next := frame{stays: stays}
	for i, line := range s.lines {
		next.lines[i] = drawLine(line)
	}
	if n := len(f.frames); n > 0 && (f.frames[n-1].lines == next.lines || f.frames[n-1].stays < briefest) {
		next.stays += f.frames[n-1].stays
		f.frames = f.frames[:n-1]
	}
	f.frames = append(f.frames, next)
}

// hold lets the last picture stay.
func (f *film) hold(d time.Duration) {
	last := &f.frames[len(f.frames)-1]
	last.stays = min(last.stays+d, longest)
}

// drawLine draws the cells of a line, those of one color together.
func drawLine(line []cell) string {
	for len(line) > 0 && line[len(line)-1].r == ' ' {
		line = line[:len(line)-1]
	}
	var b strings.Builder
	for from := 0; from < len(line); {
		to := from
		var text strings.Builder
		for ; to < len(line) && line[to].paint == line[from].paint; to++ {
			text.WriteRune(line[to].r)
		}
		x := margin + float64(from)*charWidth
		escaped := strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;").Replace(text.String())
		if paint := line[from].paint; paint != "" {
			fmt.Fprintf(&b, `<tspan x="%.1f" class="%s">%s</tspan>`, x, paint, escaped)
		} else {
			fmt.Fprintf(&b, `<tspan x="%.1f">%s</tspan>`, x, escaped)
		}
		from = to
	}
	return b.String()
}

const style = `text{font:14px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:#d4d4d4;white-space:pre}
.bold{font-weight:bold;fill:#fff}.faint{fill:#8a8a8a}.red{fill:#f47067}.green{fill:#57ab5a}.yellow{fill:#e0b341}`

// draw writes the film. A line is drawn once for each time that it shows the same; who cannot play films sees the end.
func (f *film) draw(w io.Writer) {
	last := len(f.frames) - 1
	f.frames[last].stays = ending
	starts := []time.Duration{0}
	for _, frame := range f.frames {
		starts = append(starts, starts[len(starts)-1]+frame.stays)
	}
	whole := starts[len(starts)-1]
	width, height := 2*margin+screenColumns*charWidth, 2*margin+screenRows*lineHeight
	fmt.Fprintf(w, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%d\" viewBox=\"0 0 %.0f %d\">\n", width, height, width, height)
	fmt.Fprintf(w, "<style>%s</style>\n<rect width=\"100%%\" height=\"100%%\" rx=\"8\" fill=\"#1c1f24\"/>\n", style)
	for row := range screenRows {
		for from := 0; from <= last; {
			to := from + 1
			for to <= last && f.frames[to].lines[row] == f.frames[from].lines[row] {
				to++
			}
			hidden := ""
			if to <= last {
				hidden = ` visibility="hidden"`
			}
			if line := f.frames[from].lines[row]; line != "" {
				fmt.Fprintf(w, `<text y="%d" xml:space="preserve"%s>%s%s</text>`+"\n", margin+(row+1)*lineHeight-4,
					hidden, line, visibleWithin(starts[from], starts[to], whole))
			}
			from = to
		}
	}
	fmt.Fprintln(w, "</svg>")
}

// visibleWithin is an animation that shows its parent from one time to another of a whole that repeats.
func visibleWithin(from, to, whole time.Duration) string {
	values, times := []string{"hidden"}, []string{"0"}
	add := func(value string, at time.Duration) {
		if at == 0 {
			values[0] = value
		} else if at < whole {
			values, times = append(values, value), append(times, fmt.Sprintf("%.4f", at.Seconds()/whole.Seconds()))
		}
	}
	add("visible", from)
	add("hidden", to)
	if slices.Equal(values, []string{"visible"}) {
		return "" // always
	}
	return fmt.Sprintf(`<animate attributeName="visibility" values="%s" keyTimes="%s" dur="%.2fs" calcMode="discrete" repeatCount="indefinite"/>`,
		strings.Join(values, ";"), strings.Join(times, ";"), whole.Seconds())
}
