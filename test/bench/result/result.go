// SPDX-License-Identifier: Apache-2.0

// Package result is what the bench found, beside the budgets: as data, as a table and as a plot.
package result

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/zeroinfra/test/bench/audit"
)

// Actors whose requests are counted.
const (
	Operator    = "operator"
	Agents      = "agents"
	Controllers = "controller-manager"
	Scheduler   = "scheduler"
	Nodes       = "nodes"
	Bench       = "bench"
	Others      = "others"
)

// Actors lists them in the order in which they are shown.
var Actors = []string{Operator, Agents, Controllers, Scheduler, Nodes, Bench, Others}

// Report is all that one call of the bench found.
type Report struct {
	// Machine that it ran on.
	Machine Machine `json:"machine"`
	// Runs, the smallest first.
	Runs []Run `json:"runs"`
}

// Machine is what the figures depend on.
type Machine struct {
	Processor  string            `json:"processor"`
	Cores      int               `json:"cores"`
	MemoryGiB  float64           `json:"memoryGiB"`
	Kernel     string            `json:"kernel"`
	Load       string            `json:"load"`
	Date       string            `json:"date"`
	Commit     string            `json:"commit"`
	Components map[string]string `json:"components"`
}

// Run is the outcome for one number of Applications.
type Run struct {
	// Applications, and Pods in all of them.
	Applications int `json:"applications"`
	Pods         int `json:"pods"`
	Namespaces   int `json:"namespaces"`
	Nodes        int `json:"nodes"`
	// Seconds that the whole run took.
	Seconds float64 `json:"seconds"`
	// StatefulSets is what Create is compared with.
	StatefulSets Phase `json:"statefulSets"`
	Create       Phase `json:"create"`
	Idle         Phase `json:"idle"`
	// Parameter changes one of each Application; Annotation changes nothing that matters.
	Parameter  Phase `json:"parameter"`
	Annotation Phase `json:"annotation"`
	// Restart of the operator, until it has caught up.
	Restart Phase  `json:"restart"`
	Memory  Memory `json:"memory"`
	// Poisoned is what Applications that cannot be made cost others.
	Poisoned Poisoned `json:"poisoned,omitzero"`
	// PodsReplaced by the change of a parameter, and PodsTouched in any way by the restart of the operator.
	PodsReplaced int `json:"podsReplaced"`
	PodsTouched  int `json:"podsTouched"`
}

// Phase is one part of a run.
type Phase struct {
	// Seconds until all was done.
	Seconds float64 `json:"seconds"`
	// CPUSeconds that the operator worked.
	CPUSeconds float64 `json:"cpuSeconds,omitempty"`
	// Programs has the CPU seconds of every program, by name as the kernel cuts it.
	Programs map[string]float64 `json:"programs,omitempty"`
	// Requests by actor.
	Requests map[string]*audit.Tally `json:"requests"`
	// Ready has the seconds after which 0, 1, 2, … 100 percent of the objects were ready.
	Ready []float64 `json:"ready,omitempty"`
}

// of is the tally of an actor; a zero one when it asked for nothing.
func (p Phase) of(actor string) audit.Tally {
	if tally := p.Requests[actor]; tally != nil {
		return *tally
	}
	return audit.Tally{}
}

// Memory that the operator holds, in MiB.
type Memory struct {
	// Empty: before the first Application.
	Empty float64 `json:"empty"`
	// Rest: with all Applications, after the idle phase.
	Rest float64 `json:"rest"`
	// Peak is the most of the whole run but the restart.
	Peak float64 `json:"peak"`
	// Restarted: once it has caught up after a restart; RestartedPeak is the most until then.
	Restarted     float64 `json:"restarted"`
	RestartedPeak float64 `json:"restartedPeak"`
}

// Poisoned compares the time until Applications are ready beside some that hold on to what they can of the
// operator with the time that they take without those.
type Poisoned struct {
	// Healthy Applications.
	Healthy int `json:"healthy"`
	// Seconds until all were ready beside the others, and without them, before and after that.
	Beside  float64   `json:"beside"`
	Without []float64 `json:"without"`
}

// Ratio of the time beside the others and the longer one without them: by as much as those two differ nobody delays
// anybody. NaN without figures.
func (p Poisoned) Ratio() float64 {
	if len(p.Without) == 0 {
		return math.NaN()
	}
	return p.Beside / slices.Max(p.Without)
}

// Percentiles returns when 0, 1, … 100 percent were ready, of times in order.
func Percentiles(ready []time.Duration) []float64 {
	if len(ready) == 0 {
		return nil
	}
	sorted := slices.Sorted(slices.Values(ready))
	points := make([]float64, 101)
	for percent := range points {
		// The smallest time at which at least so many percent were ready; 0 percent are so with the first.
		rank := max((percent*len(sorted)+99)/100, 1)
		points[percent] = sorted[rank-1].Seconds()
	}
	return points
}

// Ratio of the times of Applications and StatefulSets.
func (r Run) Ratio() float64 { return r.Create.Seconds / r.StatefulSets.Seconds }

// PerApplication is the memory that each Application costs, in MiB.
func (r Run) PerApplication() float64 {
	return (r.Memory.Rest - r.Memory.Empty) / float64(r.Applications)
}

// Growth is the memory that each further Application costs from the first run to the last, in MiB: without
// what the operator holds once it serves any. There is none with less than two runs.
func (r Report) Growth() (mebibytes float64, found bool) {
	if len(r.Runs) < 2 {
		return 0, false
	}
	first, last := r.Runs[0], r.Runs[len(r.Runs)-1]
	return (last.Memory.Rest - first.Memory.Rest) / float64(last.Applications-first.Applications), true
}

// product counts the writes of operator and agents in a phase.
func (p Phase) product() int { return p.of(Operator).Writes + p.of(Agents).Writes }

func (p Phase) conflicts() int { return p.of(Operator).Conflicts + p.of(Agents).Conflicts }

// Verdict is one figure beside its budget.
type Verdict struct {
	What, Budget, Figure string
	// Missed budgets are said so.
	Met Met
	// Firm budgets hold on every machine, however fast and busy it is: the bench fails when one is missed.
	Firm bool
}

// firm is the same verdict of a budget that holds on every machine.
func (v Verdict) firm() Verdict {
	v.Firm = true
	return v
}

// Met says whether a budget was kept.
type Met string

// Values of Met.
const (
	Kept   Met = "kept"
	Missed Met = "MISSED"
)

func verdict(what, unit string, figure, budget float64) Verdict {
	v := Verdict{What: what, Budget: "≤ " + number(budget) + unit, Figure: number(figure) + unit, Met: Kept}
	// Written so that a figure that is none counts as missed.
	if !(figure <= budget) {
		v.Met = Missed
	}
	return v
}

// Budgets of the design.
const (
	slowest     = 1.5
	residentMiB = 300
	perInstance = 0.25
	caughtUp    = 30
	// measurable is how far apart two rounds of the same may be; the design asks for nothing measurable.
	measurable    = 1.2
	componentsOf  = 1
	setsOf        = 1
	perPod        = 6
	perOwner      = 6
	perInstanceOf = 30
)

// writesBudget is what the design grants operator and agents for the creation of an Application of so many pods.
func writesBudget(pods int) int { return perPod*pods + perOwner*(componentsOf+setsOf) + perInstanceOf }

// Judge puts the figures of a run beside the budgets. Firm are those of requests and of pods, which are counted, and
// the ratio of two times that the operator itself takes in one run. Seconds and memory depend on the machine, and so
// does how the operator compares with a program that asks for less: the fewer the cores, the more of the time is the
// API server's.
func (r Run) Judge() []Verdict {
	apps := float64(r.Applications)
	return []Verdict{
		verdict("time until all are Ready, as a multiple of StatefulSets", " ×", r.Ratio(), slowest),
		verdict("operator, most memory resident", " MiB", max(r.Memory.Peak, r.Memory.RestartedPeak), residentMiB),
		verdict("operator, memory per Application at rest", " MiB", r.PerApplication(), perInstance),
		verdict("API writes per Application until Ready and quiet, operator and agents", "", float64(r.Create.product())/apps,
			float64(writesBudget(r.Pods/r.Applications))).firm(),
		verdict("conflicts while they are made", "", float64(r.Create.conflicts()), 0).firm(),
		verdict("API writes while idle", "", float64(r.Idle.product()), 0).firm(),
		verdict("API writes after an annotation that changes nothing", "", float64(r.Annotation.product()), 0).firm(),
		verdict("pods replaced by the change of a parameter", "", float64(r.PodsReplaced), 0).firm(),
		verdict("operator restarted: time until caught up", " s", r.Restart.Seconds, caughtUp),
		verdict("operator restarted: API writes", "", float64(r.Restart.product()), 0).firm(),
		verdict("operator restarted: pods touched", "", float64(r.PodsTouched), 0).firm(),
		verdict("time until Ready beside 3 that cannot be made, as a multiple of that without", " ×", r.Poisoned.Ratio(),
			measurable).firm(),
	}
}

// Failed returns an error that names each firm budget that a run has missed; nil when there is none.
func (r Report) Failed() error {
	var missed []error
	for _, run := range r.Runs {
		for _, v := range run.Judge() {
			if v.Firm && v.Met != Kept {
				missed = append(missed, fmt.Errorf("%d Applications: %s is %s, budget %s", run.Applications, v.What, v.Figure,
					v.Budget))
			}
		}
	}
	return errors.Join(missed...)
}

// number writes a figure with the digits that mean something.
func number(v float64) string {
	switch {
	case v == float64(int64(v)):
		return fmt.Sprintf("%.0f", v)
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v >= 1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}
