// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strings"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// plannedObject is what applying one object would do.
type plannedObject struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Namespace  string `json:"namespace"`
	Name       string `json:"name"`
	// New says that there is no such object yet.
	New bool `json:"new,omitempty"`
	// Fields that change, in words.
	Fields []string `json:"fields,omitempty"`
	// Changes that the operator would make then, in order.
	Changes []platformv1.PlannedChange `json:"changes,omitempty"`
	// Template of an Operation, what it would do, in words, and how long it might take at most.
	Template string           `json:"template,omitempty"`
	Plan     []string         `json:"plan,omitempty"`
	Timeout  *metav1.Duration `json:"timeout,omitempty"`
}

// String names the object.
func (p *plannedObject) String() string { return fmt.Sprintf("%s %s/%s", p.Kind, p.Namespace, p.Name) }

func (p *plannedObject) reference() platformv1.TargetReference {
	return platformv1.TargetReference{APIVersion: p.APIVersion, Kind: p.Kind, Name: p.Name}
}

// changes says whether anything would change.
func (p *plannedObject) changes() bool {
	return p.New || len(p.Fields) > 0 || len(p.Changes) > 0 || len(p.Plan) > 0
}

// print writes it for people.
func (p *plannedObject) print(out io.Writer) {
	switch {
	case p.Template != "":
		p.printRun(out)
		return
	case p.New:
		fmt.Fprintf(out, "%s is new\n", p)
	case !p.changes():
		fmt.Fprintf(out, "%s: nothing changes\n", p)
		return
	}
	if !p.New {
		fmt.Fprintln(out, p)
	}
	for _, field := range p.Fields {
		fmt.Fprintf(out, "  %s\n", field)
	}
	if len(p.Changes) == 0 {
		fmt.Fprintln(out, "\nThe operator would change nothing: no pod, no volume, no Service.")
		return
	}
	fmt.Fprintln(out, "\nThe operator would, in this order:")
	p.steps(out)
	fmt.Fprintf(out, "\nIn all: %s.\n", p.summary())
}

// printRun writes what an Operation would do.
func (p *plannedObject) printRun(out io.Writer) {
	within := ""
	if p.Timeout != nil {
		within = fmt.Sprintf(", within %s at most", p.Timeout.Duration)
	}
	fmt.Fprintf(out, "%s of template %s would%s:\n", p, p.Template, within)
	for _, line := range p.Plan {
		fmt.Fprintf(out, "  %s\n", line)
	}
	if len(p.Changes) > 0 {
		fmt.Fprintf(out, "\nBy the engine in all: %s.\n", p.summary())
	}
}

// steps writes the changes by component, numbered, in columns.
func (p *plannedObject) steps(out io.Writer) {
	action, object := 0, 0
	for _, change := range p.Changes {
		action, object = max(action, len(change.Action)), max(object, utf8.RuneCountInString(objectOf(change)))
	}
	number, component := 0, "\x00"
	for _, change := range p.Changes {
		if change.Component != component {
			component = change.Component
			fmt.Fprintf(out, "  %s\n", whose(component))
		}
		number++
		line := fmt.Sprintf("  %4d. %-*s  %-*s  %s", number, action, change.Action, object, objectOf(change), change.Reason)
		fmt.Fprintln(out, strings.TrimRight(line, " "))
	}
}

func whose(component string) string {
	if component == "" {
		return "the Application"
	}
	return "component " + component
}

func objectOf(change platformv1.PlannedChange) string {
	text := change.Kind + " " + change.Name
	if change.To != "" {
		text += " → " + change.To
	}
	return text
}

// summary counts the changes by what they are.
func (p *plannedObject) summary() string {
	var order []string
	counts := map[string]int{}
	for _, change := range p.Changes {
		kind := change.Kind
		if kind == "PersistentVolumeClaim" {
			kind = "volume"
		}
		what := strings.ToLower(string(change.Action)) + " " + kind
		if kind == "Pod" {
			what = podWords[change.Action]
		}
		if counts[what] == 0 {
			order = append(order, what)
		}
		counts[what]++
	}
	for i, what := range order {
		order[i] = fmt.Sprintf("%d × %s", counts[what], what)
	}
	return strings.Join(order, ", ")
}

// podWords say what becomes of a pod.
var podWords = map[platformv1.PlannedAction]string{
	platformv1.PlannedCreate:     "new pod",
	platformv1.PlannedDelete:     "pod that goes",
	platformv1.PlannedRecreate:   "another pod in place of one",
	platformv1.PlannedRestart:    "restart within a pod",
	platformv1.PlannedResize:     "other resources for a pod that runs on",
	platformv1.PlannedReload:     "reload within a pod that runs on",
	platformv1.PlannedSwitchOver: "switchover",
}
