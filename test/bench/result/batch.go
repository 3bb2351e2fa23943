// SPDX-License-Identifier: Apache-2.0

package result

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Batch is what the benches of the batch operator found. Each can be run without the other.
type Batch struct {
	Workflows *BatchRun `json:"workflows,omitempty"`
	CronJobs  *BatchRun `json:"cronJobs,omitempty"`
}

// BatchRun is the outcome of one of them.
type BatchRun struct {
	// Machine that it ran on.
	Machine Machine `json:"machine"`
	BatchFigures
}

// BatchFigures are what the test of the bench writes.
type BatchFigures struct {
	// Objects that were made.
	Objects int `json:"objects"`
	// Minutes that the CronJobs are due in.
	Minutes int `json:"minutes,omitempty"`
	// Seconds from the first creation to the end of the last Workflow. Not of CronJobs, which are spread over a minute.
	Seconds float64 `json:"seconds,omitempty"`
	// Ended has the seconds after which 0, 1, 2, … 100 percent of the Workflows had ended.
	Ended []float64 `json:"ended,omitempty"`
	// Took has the seconds that 0, 1, 2, … 100 percent of the objects took at most: a Workflow from its creation to its
	// end, a CronJob from the time of its schedule to the creation of its run.
	Took []float64 `json:"took"`
	// Writes of the operator, and milliseconds that it computed, for each object.
	Writes float64 `json:"writes"`
	// Resources has the writes of all programs, the test included, by resource.
	Resources       map[string]float64 `json:"resources,omitempty"`
	CPUMilliseconds float64            `json:"cpuMilliseconds"`
	// PeakMiB is the most memory that the operator had.
	PeakMiB float64 `json:"peakMiB"`
}

// Budgets of the batch operator.
const (
	workflowsPerMinute = 1200
	latestP99          = 2
	// workflowsMade and cronJobsDue are how many objects the budgets are for.
	workflowsMade = 2000
	cronJobsDue   = 20000
)

// PerMinute is how many Workflows ended in a minute.
func (f BatchFigures) PerMinute() float64 { return 60 * float64(f.Objects) / f.Seconds }

// percentile of what objects took.
func (f BatchFigures) percentile(percent int) float64 {
	if percent >= len(f.Took) {
		return 0
	}
	return f.Took[percent]
}

// due says in which time the CronJobs are due.
func (f BatchFigures) due() string {
	if f.Minutes > 1 {
		return fmt.Sprintf("%d minutes", f.Minutes)
	}
	return "one minute"
}

// Judge puts the figures beside the budgets.
func (b Batch) Judge() (all []Verdict) {
	if w := b.Workflows; w != nil {
		v := Verdict{What: "Workflows of one pod that end in a minute", Budget: "≥ " + number(workflowsPerMinute),
			Figure: number(w.PerMinute()), Met: Kept}
		if !(w.PerMinute() >= workflowsPerMinute) {
			v.Met = Missed
		}
		all = append(all, v)
	}
	if c := b.CronJobs; c != nil {
		all = append(all, verdict(fmt.Sprintf("how late 99 %% of the runs of %d CronJobs are created that are due in %s",
			c.Objects, c.due()), " s", c.percentile(99), latestP99))
	}
	return all
}

// Markdown writes the figures as a page. plot is the path of the picture, seen from the page.
func (b Batch) Markdown(plot string) string {
	var page strings.Builder
	page.WriteString("# What the benches of the batch operator found\n\n" +
		"Written by `make bench-workflows` and `make bench-cronjobs`; what is real in them, and how to repeat them, is in " +
		"[README.md](README.md#workflows-and-cronjobs).\n\n" +
		"| what | figure | budget | |\n|---|---:|---:|---|\n")
	for _, v := range b.Judge() {
		word := string(v.Met)
		if v.Met == Missed {
			word = "**" + word + "**"
		}
		fmt.Fprintf(&page, "| %s | %s | %s | %s |\n", v.What, v.Figure, v.Budget, word)
	}
	fmt.Fprintf(&page, "\nThe budgets are for %d Workflows, and for %d CronJobs that are due in one minute, on a quiet "+
		"machine. Smaller runs show that the benches work.\n\n![Workflows that have ended, and how late runs of CronJobs "+
		"are created](%s)\n", workflowsMade, cronJobsDue, plot)
	if w := b.Workflows; w != nil {
		fmt.Fprintf(&page, "\n## %d Workflows of one pod\n\nThe last one ended after %s s.\n\n", w.Objects, number(w.Seconds))
		w.write(&page, "from the creation of a Workflow to its end", "Workflow")
	}
	if c := b.CronJobs; c != nil {
		fmt.Fprintf(&page, "\n## %d CronJobs that are due in %s\n\n", c.Objects, c.due())
		c.write(&page, "from the time of a schedule to the creation of its run", "run")
	}
	return page.String()
}

func (r BatchRun) write(page *strings.Builder, took, each string) {
	page.WriteString("| what | figure |\n|---|---:|\n")
	for _, percent := range []int{50, 90, 99, 100} {
		fmt.Fprintf(page, "| %s, %d %% of them within | %s s |\n", took, percent, number(r.percentile(percent)))
	}
	for _, row := range [][2]string{
		{"API writes of the operator for each " + each, number(r.Writes)},
		{"of all writes, those of the test included", r.byResource()},
		{"computing time of the operator for each " + each, number(r.CPUMilliseconds) + " ms"},
		{"most memory of the operator", number(r.PeakMiB) + " MiB"},
	} {
		fmt.Fprintf(page, "| %s | %s |\n", row[0], row[1])
	}
	page.WriteString("\n")
	r.Machine.write(page)
}

// byResource lists the writes for each object.
func (f BatchFigures) byResource() string {
	var parts []string
	for _, resource := range slices.Sorted(maps.Keys(f.Resources)) {
		parts = append(parts, resource+" "+number(f.Resources[resource]))
	}
	return strings.Join(parts, ", ")
}

// SVG draws how many percent of the Workflows had ended over time, and how many of the runs of CronJobs were created
// over how late they were. The same figures give the same bytes.
func (b Batch) SVG() string {
	var picture strings.Builder
	panels := 0
	for _, run := range []*BatchRun{b.Workflows, b.CronJobs} {
		if run != nil {
			panels++
		}
	}
	canvas(&picture, panels)
	at := 0
	if w := b.Workflows; w != nil {
		budget := 60 * float64(w.Objects) / workflowsPerMinute
		p := newPanel(&picture, at, max(w.Seconds, budget))
		p.grid(fmt.Sprintf("%d Workflows: percent ended over seconds", w.Objects))
		p.budget(budget)
		p.curve(w.Ended, colourApplications)
		p.legend([]label{{colourApplications, "all: " + number(w.Seconds) + " s"},
			{colourBudget, "budget: " + number(budget) + " s"}})
		at++
	}
	if c := b.CronJobs; c != nil {
		p := newPanel(&picture, at, max(c.percentile(100), latestP99))
		p.grid(fmt.Sprintf("%d CronJobs: percent of runs over seconds late", c.Objects))
		p.budget(latestP99)
		p.curve(c.Took, colourApplications)
		p.legend([]label{{colourApplications, "99 %: " + number(c.percentile(99)) + " s"},
			{colourBudget, "budget: " + number(latestP99) + " s"}})
	}
	picture.WriteString("</svg>\n")
	return picture.String()
}
