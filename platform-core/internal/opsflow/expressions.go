// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

// variables are what the expressions of a step see; item is that of its forEach, nil for none.
func (r *run) variables(t *optemplate.Step, item *string) map[string]any {
	variables := r.after(r.facts.Template.Before(t.Name))
	if item != nil {
		variables["each"] = *item
	}
	return variables
}

// after is what expressions see once some steps have ended.
func (r *run) after(names []string) map[string]any {
	variables := r.facts.variables()
	steps := map[string]any{}
	for _, name := range names {
		before := r.find(name)
		if before == nil {
			continue
		}
		outputs := make(map[string]any, len(before.Outputs))
		for output, text := range before.Outputs {
			outputs[output] = r.facts.Template.Output(name, output, text)
		}
		steps[optemplate.StepVariable(name)] = map[string]any{"phase": string(before.Phase), "outputs": outputs}
	}
	variables["steps"] = steps
	if IsInline(r.op) {
		variables["tasks"] = steps
	}
	return variables
}

// variables are what preconditions see.
func (f Facts) variables() map[string]any {
	parameters := f.Parameters
	if parameters == nil {
		parameters = map[string]string{}
	}
	return map[string]any{"parameters": parameters, "target": f.target()}
}

func (f Facts) target() map[string]any {
	target := map[string]any{"kind": f.Reference.Kind, "name": f.Reference.Name, "component": f.Component,
		"namespace": "", "application": "", "version": "", "topology": "", "pods": int64(len(f.Pods)), "writers": int64(0),
		"members": f.members()}
	if f.Application != nil {
		target["namespace"], target["application"] = f.Application.Namespace, f.Application.Name
		target["version"], target["topology"] = f.Application.Spec.Version, f.Application.Spec.Topology
	}
	healthy, following := int64(0), int64(0)
	var amiss []string
	for i := range f.Pods {
		pod := &f.Pods[i]
		if pod.Access == platformv1.RoleReadWrite {
			target["writers"] = target["writers"].(int64) + 1
		}
		ill, behind := pod.unhealthyReason(), f.behind(pod)
		if ill == "" {
			healthy++
		}
		if behind == "" {
			following++
		}
		if why := cmp.Or(ill, behind); why != "" {
			amiss = append(amiss, fmt.Sprintf("pod %s %s", pod.Name, why))
		}
	}
	target["healthy"], target["following"], target["amiss"] = healthy, following, shortened(amiss)
	return target
}

// maxAmiss is how many pods a text names with what is wrong with them.
const maxAmiss = 5

// shortened are the first of some sentences as one text.
func shortened(sentences []string) string {
	slices.Sort(sentences)
	if more := len(sentences) - maxAmiss; more > 0 {
		sentences = append(sentences[:maxAmiss], fmt.Sprintf("and so with %d more", more))
	}
	return strings.Join(sentences, "; ")
}

// members are the pods that a template acts on, by set, as JSON.
func (f Facts) members() string {
	sets := [][]string{}
	last := ""
	pods := f.acted()
	slices.SortFunc(pods, func(a, b Pod) int {
		return cmp.Or(cmp.Compare(a.Component, b.Component), cmp.Compare(a.Set, b.Set), cmp.Compare(a.Ordinal, b.Ordinal))
	})
	for _, pod := range pods {
		if set := platformv1.WorkloadSetNameOf(pod.Name); set != last || len(sets) == 0 {
			sets, last = append(sets, nil), set
		}
		sets[len(sets)-1] = append(sets[len(sets)-1], pod.Name)
	}
	// Names.
	data, err := json.Marshal(sets)
	if err != nil {
		panic(err)
	}
	return string(data)
}

// Preconditions says which precondition of a template does not hold; nil when all do.
func Preconditions(facts Facts) *Refusal {
	for _, p := range facts.Template.Preconditions {
		holds, err := facts.Template.Truth("", p.Rule, facts.variables())
		switch {
		case err != nil:
			return refuse(platformv1.ReasonInvalidParameters, "a precondition of template %q cannot be checked: %v",
				facts.Template.Name, err)
		case !holds:
			message, err := facts.Template.Text("", p.Message, facts.variables())
			if err != nil {
				// Why it is refused is known all the same.
				message = p.Message
			}
			return refuse(ReasonPreconditionFailed, "%s of %s cannot begin: %s", facts.Template.Name, facts.Target, message)
		}
	}
	return nil
}

// key names an effect of a step. Another attempt has another key.
func (r *run) key(step *platformv1.StepStatus, item string) string {
	key := fmt.Sprintf("%s/%s", r.op.UID, step.Name)
	if item != "" {
		key += "/" + item
	}
	if step.Attempts > 1 {
		key += fmt.Sprintf("/%d", step.Attempts)
	}
	return key
}
