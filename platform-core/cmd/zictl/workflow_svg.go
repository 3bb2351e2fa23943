// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"html"
	"io"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Sizes of the picture of a graph, in pixels.
const (
	nodeWidth  = 210
	nodeHeight = 44
	columnGap  = 60
	rowGap     = 16
	margin     = 20
)

// stateColors fill the tasks of a picture, by the first word of their state.
var stateColors = map[string]string{
	"Succeeded": "#c8e6c9", "Failed": "#ffcdd2", "Cancelled": "#ffcdd2", "Running": "#bbdefb",
	"AwaitingApproval": "#fff9c4", "Skipped": "#e0e0e0",
}

// drawGraph draws the tasks of a Workflow as SVG: one column for each level, and lines from what tasks depend on.
func drawGraph(out io.Writer, wf *unstructured.Unstructured) error {
	if err := checkWorkflow(wf); err != nil {
		return err
	}
	nodes := nodesOf(wf)
	left, top, columns, rows := arrange(nodes)
	width := 2*margin + columns*(nodeWidth+columnGap) - columnGap
	height := 2*margin + rows*(nodeHeight+rowGap) - rowGap
	var svg strings.Builder
	fmt.Fprintf(&svg, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" viewBox="0 0 %d %d"`+
		` font-family="sans-serif" font-size="12">`+"\n", width, height, width, height)
	fmt.Fprintf(&svg, "<title>Workflow %s</title>\n", html.EscapeString(wf.GetName()))
	svg.WriteString(`<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8"` +
		` orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#616161"/></marker></defs>` + "\n")
	for i, n := range nodes {
		for k, need := range n.needs {
			from := slices.IndexFunc(nodes, func(other *node) bool { return other.name == need })
			if from < 0 {
				continue
			}
			x1, y1, x2, y2 := left[from]+nodeWidth, top[from]+nodeHeight/2, left[i], top[i]+nodeHeight/2
			fmt.Fprintf(&svg, `<path d="M%d,%d C%d,%d %d,%d %d,%d" fill="none" stroke="#616161" marker-end="url(#arrow)">`+
				"<title>%s</title></path>\n", x1, y1, x1+columnGap/2, y1, x2-columnGap/2, y2, x2, y2, html.EscapeString(n.after[k]))
		}
	}
	for i, n := range nodes {
		drawNode(&svg, n, left[i], top[i])
	}
	svg.WriteString("</svg>\n")
	_, err := io.WriteString(out, svg.String())
	return err
}

// arrange places tasks: the column of each is its level, and those that run at the end have a column of their own.
func arrange(nodes []*node) (left, top []int, columns, rows int) {
	last := 0
	for _, n := range nodes {
		last = max(last, n.level)
	}
	filled := map[int]int{}
	for _, n := range nodes {
		column := n.level
		if len(n.needs) == 0 && len(n.after) > 0 {
			column = last + 1
		}
		left = append(left, margin+column*(nodeWidth+columnGap))
		top = append(top, margin+filled[column]*(nodeHeight+rowGap))
		filled[column]++
		columns, rows = max(columns, column+1), max(rows, filled[column])
	}
	return left, top, columns, rows
}

// drawNode draws a task. Its message is a title, which browsers show at the pointer.
func drawNode(svg *strings.Builder, n *node, x, y int) {
	state, _, _ := strings.Cut(n.state, " ")
	color, dashes := stateColors[state], ""
	if color == "" {
		color = "#ffffff"
	}
	if len(n.needs) == 0 && len(n.after) > 0 {
		dashes = ` stroke-dasharray="4 3"`
	}
	title := n.name + ": " + n.state
	if n.message != "" {
		title += ": " + n.message
	}
	fmt.Fprintf(svg, `<g><title>%s</title>`, html.EscapeString(title))
	fmt.Fprintf(svg, `<rect x="%d" y="%d" width="%d" height="%d" rx="6" fill="%s" stroke="#616161"%s/>`,
		x, y, nodeWidth, nodeHeight, color, dashes)
	fmt.Fprintf(svg, `<text x="%d" y="%d" font-weight="bold">%s</text>`, x+10, y+18, html.EscapeString(n.name))
	fmt.Fprintf(svg, `<text x="%d" y="%d">%s</text></g>`+"\n", x+10, y+35, html.EscapeString(n.state))
}
