// SPDX-License-Identifier: Apache-2.0

package result

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Markdown writes the report as a page. plot is the path of the picture, seen from the page.
func (r Report) Markdown(plot string) string {
	var page strings.Builder
	page.WriteString("# What the bench found\n\n" +
		"Written by `make bench`; how it works and how to repeat it is in [README.md](README.md).\n\n")
	r.Machine.write(&page)
	fmt.Fprintf(&page, "\n![Applications and StatefulSets that are Ready, over time](%s)\n", plot)
	page.WriteString("\nThe budgets are for 1,000 Applications on a quiet machine; " +
		"smaller runs show how the figures grow.\n")
	if growth, found := r.Growth(); found {
		fmt.Fprintf(&page, "From the first run to the last, each further Application costs the operator %s MiB at rest.\n",
			number(growth))
	}
	missed := 0
	for _, run := range r.Runs {
		fmt.Fprintf(&page, "\n## %d Applications × %d pods\n\n", run.Applications, run.Pods/run.Applications)
		fmt.Fprintf(&page, "In %d namespaces, on %d simulated nodes. The run took %s s.\n\n", run.Namespaces, run.Nodes,
			number(run.Seconds))
		missed += run.writeVerdicts(&page)
		run.writePhases(&page)
		run.writeRequests(&page)
	}
	page.WriteString("\n## Missed budgets\n\n")
	if missed == 0 {
		page.WriteString("None.\n")
	}
	for _, run := range r.Runs {
		for _, v := range run.Judge() {
			if v.Met == Missed {
				fmt.Fprintf(&page, "- %d Applications: %s: %s, budget %s\n", run.Applications, v.What, v.Figure, v.Budget)
			}
		}
	}
	return page.String()
}

func (m Machine) write(page *strings.Builder) {
	fmt.Fprintf(page, "| machine | |\n|---|---|\n| processor | %s, %d cores |\n| memory | %s GiB |\n| kernel | %s |\n| "+
		"load before the start | %s |\n| date | %s |\n| commit | %s |\n",
		m.Processor, m.Cores, number(m.MemoryGiB), m.Kernel, m.Load, m.Date, m.Commit)
	for _, name := range slices.Sorted(maps.Keys(m.Components)) {
		fmt.Fprintf(page, "| %s | %s |\n", name, m.Components[name])
	}
}

// writeVerdicts returns how many budgets are missed.
func (r Run) writeVerdicts(page *strings.Builder) int {
	page.WriteString("| what | figure | budget | |\n|---|---:|---:|---|\n")
	missed := 0
	for _, v := range r.Judge() {
		word := string(v.Met)
		if v.Met == Missed {
			missed++
			word = "**" + word + "**"
		}
		fmt.Fprintf(page, "| %s | %s | %s | %s |\n", v.What, v.Figure, v.Budget, word)
	}
	return missed
}

// phase is one part of a run with its title.
type phase struct {
	title string
	Phase
}

func (r Run) phases() []phase {
	return []phase{
		{fmt.Sprintf("make %d StatefulSets", r.Applications), r.StatefulSets},
		{fmt.Sprintf("make %d Applications", r.Applications), r.Create},
		{"idle", r.Idle},
		{"change a parameter of each", r.Parameter},
		{"annotate each", r.Annotation},
		{"restart the operator", r.Restart},
	}
}

func (r Run) writePhases(page *strings.Builder) {
	page.WriteString("\n| phase | seconds | operator CPU s | operator CPU ms per Application | writes by the operator | " +
		"by agents | by others | conflicts |\n|---|---:|---:|---:|---:|---:|---:|---:|\n")
	for _, p := range r.phases() {
		others := 0
		for actor, tally := range p.Requests {
			if actor != Operator && actor != Agents {
				others += tally.Writes
			}
		}
		fmt.Fprintf(page, "| %s | %s | %s | %s | %d | %d | %d | %d |\n", p.title, number(p.Seconds), number(p.CPUSeconds),
			number(1000*p.CPUSeconds/float64(r.Applications)), p.of(Operator).Writes, p.of(Agents).Writes, others, p.conflicts())
	}
	if p := r.Poisoned; p.Healthy > 0 {
		var without []string
		for _, seconds := range p.Without {
			without = append(without, number(seconds))
		}
		fmt.Fprintf(page, "\n%d more Applications were Ready after %s s beside one whose plugin is broken, one whose pods "+
			"hang in an admission and one whose pods never start; without these after %s s.\n",
			p.Healthy, number(p.Beside), strings.Join(without, " and "))
	}
	fmt.Fprintf(page, "\nMemory of the operator, MiB: %s before the first Application, %s at rest with all, %s at most; "+
		"after a restart %s, %s at most.\n",
		number(r.Memory.Empty), number(r.Memory.Rest), number(r.Memory.Peak), number(r.Memory.Restarted),
		number(r.Memory.RestartedPeak))
}

// writeRequests lists who asked for what, by verb, and what each wrote, and the CPU time that it took.
func (r Run) writeRequests(page *strings.Builder) {
	page.WriteString("\n<details><summary>Requests by verb and by who sent them</summary>\n\n| phase | who | requests | " +
		"conflicts | refused |\n|---|---|---|---:|---:|\n")
	for _, p := range r.phases() {
		for _, actor := range Actors {
			tally := p.of(actor)
			if len(tally.Verbs) > 0 {
				fmt.Fprintf(page, "| %s | %s | %s | %d | %d |\n", p.title, actor, list(tally.Verbs), tally.Conflicts, tally.Refused)
			}
		}
	}
	page.WriteString("\nWrites:\n\n| phase | who | writes |\n|---|---|---|\n")
	for _, p := range r.phases() {
		for _, actor := range Actors {
			if tally := p.of(actor); tally.Writes > 0 {
				fmt.Fprintf(page, "| %s | %s | %s |\n", p.title, actor, list(tally.Changes))
			}
		}
	}
	r.writePrograms(page)
	page.WriteString("\n</details>\n")
}

// writePrograms lists the CPU time that each program took.
func (r Run) writePrograms(page *strings.Builder) {
	page.WriteString("\nCPU seconds of all programs (bench: the agents, and who makes and watches):\n\n" +
		"| phase | CPU s |\n|---|---|\n")
	for _, p := range r.phases() {
		names := slices.SortedFunc(maps.Keys(p.Programs), func(a, b string) int {
			return cmp.Or(cmp.Compare(p.Programs[b], p.Programs[a]), strings.Compare(a, b))
		})
		var parts []string
		for _, name := range names {
			if p.Programs[name] > 0 {
				parts = append(parts, fmt.Sprintf("%s %.2f", name, p.Programs[name]))
			}
		}
		if len(parts) > 0 {
			fmt.Fprintf(page, "| %s | %s |\n", p.title, strings.Join(parts, ", "))
		}
	}
}

// list writes counts, the largest first.
func list(counts map[string]int) string {
	keys := slices.SortedFunc(maps.Keys(counts), func(a, b string) int {
		if d := counts[b] - counts[a]; d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	parts := make([]string, len(keys))
	for i, key := range keys {
		parts[i] = fmt.Sprintf("%s %d", key, counts[key])
	}
	return strings.Join(parts, ", ")
}
