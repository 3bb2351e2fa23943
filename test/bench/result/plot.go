// SPDX-License-Identifier: Apache-2.0

package result

import (
	"fmt"
	"html"
	"math"
	"strings"
)

// Sizes of the plot, in pixels.
const (
	panelWidth, panelHeight = 420, 260
	marginLeft, marginTop   = 56, 40
	gap, marginBottom       = 72, 64
)

// Colours of the lines.
const (
	colourStatefulSets = "#4c72b0"
	colourApplications = "#c44e52"
	colourBudget       = "#8c8c8c"
)

// SVG draws, for each run, how many percent were ready over time. The same report gives the same bytes.
func (r Report) SVG() string {
	var picture strings.Builder
	canvas(&picture, len(r.Runs))
	for i, run := range r.Runs {
		newPanel(&picture, i, run.lastSecond()).draw(run)
	}
	picture.WriteString("</svg>\n")
	return picture.String()
}

// canvas begins a picture with so many panels side by side.
func canvas(picture *strings.Builder, panels int) {
	width := marginLeft + panels*(panelWidth+gap)
	height := marginTop + panelHeight + marginBottom
	fmt.Fprintf(picture, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d" `+
		`font-family="sans-serif" font-size="12">`+"\n", width, height, width, height)
	picture.WriteString(`<rect width="100%" height="100%" fill="white"/>` + "\n")
}

// lastSecond is how far the time axis has to go.
func (r Run) lastSecond() float64 {
	return max(r.StatefulSets.Seconds*slowest, r.StatefulSets.Seconds, r.Create.Seconds)
}

// panel is one of the pictures that stand side by side.
type panel struct {
	picture *strings.Builder
	left    int
	seconds float64
}

// newPanel returns the panel of a number, whose time axis has room for so many seconds.
func newPanel(picture *strings.Builder, at int, seconds float64) panel {
	return panel{picture: picture, left: marginLeft + at*(panelWidth+gap), seconds: ceiling(seconds)}
}

func (p panel) x(seconds float64) float64 {
	return float64(p.left) + seconds/p.seconds*panelWidth
}

func (p panel) y(percent float64) float64 { return marginTop + panelHeight*(1-percent/100) }

func (p panel) draw(run Run) {
	p.grid(fmt.Sprintf("%d × %d pods: percent Ready over seconds", run.Applications, run.Pods/run.Applications))
	budget := run.StatefulSets.Seconds * slowest
	p.budget(budget)
	p.curve(run.StatefulSets.Ready, colourStatefulSets)
	p.curve(run.Create.Ready, colourApplications)
	p.legend([]label{
		{colourStatefulSets, "StatefulSets: " + number(run.StatefulSets.Seconds) + " s"},
		{colourApplications, "Applications: " + number(run.Create.Seconds) + " s"},
		{colourBudget, "budget: " + number(budget) + " s"},
	})
}

// grid draws the title and the axes.
func (p panel) grid(title string) {
	p.text(float64(p.left)+panelWidth/2, marginTop-16, "middle", title)
	const ticks = 5
	for i := range ticks + 1 {
		percent, seconds := float64(i)*100/ticks, float64(i)*p.seconds/ticks
		p.line(p.x(0), p.y(percent), p.x(p.seconds), p.y(percent), "#e5e5e5", "")
		p.text(p.x(0)-6, p.y(percent)+4, "end", number(percent))
		p.text(p.x(seconds), p.y(0)+16, "middle", number(seconds))
	}
}

// budget draws a line at a time.
func (p panel) budget(seconds float64) {
	p.line(p.x(seconds), p.y(0), p.x(seconds), p.y(100), colourBudget, "4 3")
}

// label is an entry of a legend.
type label struct{ colour, text string }

func (p panel) legend(labels []label) {
	for i, entry := range labels {
		left, base := p.x(0)+float64(i)*panelWidth/3, p.y(0)+44
		p.line(left, base-4, left+16, base-4, entry.colour, "")
		p.text(left+20, base, "start", entry.text)
	}
}

func (p panel) curve(ready []float64, colour string) {
	if len(ready) < 2 {
		return
	}
	points := make([]string, len(ready))
	for i, seconds := range ready {
		points[i] = fmt.Sprintf("%.1f,%.1f", p.x(seconds), p.y(float64(i)*100/float64(len(ready)-1)))
	}
	fmt.Fprintf(p.picture, `<polyline fill="none" stroke="%s" stroke-width="2" points="%s"/>`+"\n", colour,
		strings.Join(points, " "))
}

func (p panel) line(x1, y1, x2, y2 float64, colour, dashes string) {
	fmt.Fprintf(p.picture, `<line x1="%.1f" y1="%.1f" x2="%.1f" y2="%.1f" stroke="%s" stroke-dasharray="%s"/>`+"\n", x1,
		y1, x2, y2, colour, dashes)
}

func (p panel) text(x, y float64, anchor, text string) {
	fmt.Fprintf(p.picture, `<text x="%.1f" y="%.1f" text-anchor="%s">%s</text>`+"\n", x, y, anchor,
		html.EscapeString(text))
}

// ceiling is the next number above that divides well into five parts.
func ceiling(v float64) float64 {
	if v <= 0 {
		return 1
	}
	unit := math.Pow(10, math.Floor(math.Log10(v)))
	for _, step := range []float64{1, 1.5, 2, 2.5, 3, 4, 5, 7.5, 10} {
		if v <= step*unit {
			return step * unit
		}
	}
	return 10 * unit
}
