// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"cmp"
	"fmt"
	"strings"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// EditsOf returns what the engine steps of an Operation would edit, for a forecast, by step; for a dry run those of
// what its steps run, too, by the path of steps that leads there. Steps whose values follow from what earlier ones
// bring about are left out.
func EditsOf(op *platformv1.Operation, facts Facts) map[string]*Edit {
	r := &run{op: op, facts: facts, status: op.Status.DeepCopy(), foretold: new(int)}
	edits := map[string]*Edit{}
	r.collect(edits)
	return edits
}

func (r *run) collect(edits map[string]*Edit) {
	for i := range r.facts.Template.Steps {
		t := &r.facts.Template.Steps[i]
		if r.facts.Others != nil {
			// A dry run does not describe all.
			if holds, known := r.condition(t); r.facts.Template.Compensates(t.Name) || known && !holds {
				continue
			}
		}
		if t.Operation != nil && r.facts.Others != nil {
			// Why one of them would be refused the description says.
			all, _ := r.foretell(t)
			for _, one := range all {
				if one.run != nil {
					one.run.collect(edits)
				}
			}
		}
		if !editsSpec(t) {
			continue
		}
		if edit, why := r.edit(t); why == "" {
			edits[r.path+t.Name] = edit
		}
	}
}

// condition says whether that of a step holds, and whether that is known before the steps before it have ended.
func (r *run) condition(t *optemplate.Step) (holds, known bool) {
	if t.When == "" {
		return true, true
	}
	holds, err := r.facts.Template.Truth(t.Name, t.When, r.variables(t, nil))
	return holds, err == nil
}

// dryRun ends a run that touches nothing with what it would do.
func (r *run) dryRun() Decision {
	if culprit, why := r.describeAll(); why != "" {
		r.end(platformv1.EndingFailed, culprit, why)
		return r.ended()
	}
	d := r.succeed()
	d.Outcome = outcome.DoneAs(ReasonDryRun,
		"it was a dry run, which touches nothing: status.plan says what would be done")
	return d
}

// describeAll puts on record what all steps would do; why says that the culprit could not.
func (r *run) describeAll() (culprit, why string) {
	for i := range r.status.Steps {
		step := &r.status.Steps[i]
		step.Phase = platformv1.OperationSkipped
		t, ok := r.facts.Template.Step(step.Name)
		if !ok || r.facts.Template.Compensates(step.Name) {
			continue
		}
		holds, known := r.condition(t)
		if known && !holds {
			r.note(t, "nothing, since its condition does not hold")
			continue
		}
		before := ""
		if !known {
			before = fmt.Sprintf("if %s: ", t.When)
		}
		if why := r.describeStep(t, before); why != "" {
			step.Phase = platformv1.OperationPending
			return t.Name, why
		}
		if point := r.point(); point != nil && point.Name == t.Name {
			r.note(t, "from here on there is no way back: "+t.Commits)
		}
	}
	return "", ""
}

// describeStep puts on record what a step would do; before goes in front of its first line.
func (r *run) describeStep(t *optemplate.Step, before string) (why string) {
	if t.Operation != nil {
		return r.describeNested(t, before)
	}
	lines, why := r.describe(t)
	for i, line := range lines {
		if i == 0 {
			line = before + line
		}
		r.note(t, line)
	}
	return why
}

// note adds a line about a step to the plan.
func (r *run) note(t *optemplate.Step, line string) {
	r.status.Plan = append(r.status.Plan, fmt.Sprintf("%s%s: %s", r.path, t.Name, line))
}

// describe says what a step would do; why says that it could not.
func (r *run) describe(t *optemplate.Step) (lines []string, why string) {
	switch {
	case t.Agent != nil:
		return r.describeAgent(t)
	case t.Engine != nil && t.Engine.Do == optemplate.EngineSwitchover:
		step := &platformv1.StepStatus{Name: t.Name, Phase: platformv1.OperationPending}
		if v := (switchoverStep{}).begin(r, t, step); !v.done() {
			return nil, v.failed
		}
		return []string{fmt.Sprintf("pod %s hands over to %s", step.Outputs[outputFrom],
			cmp.Or(step.Outputs[outputTo], "another pod"))}, ""
	case t.Engine != nil && t.Engine.Do == optemplate.EngineRotate:
		return r.describeRotation(t)
	case livesOn(*t):
		return r.describeLife(t)
	case t.Engine != nil && t.Engine.Do.OnPods():
		return r.describeWriting(t)
	case does(*t, optemplate.EngineBackup):
		return r.describeBackup(t)
	case does(*t, optemplate.EngineDrill):
		return r.describeDrill(t)
	case onData(*t):
		return r.describeData(t)
	case t.Engine != nil && t.Engine.Do == optemplate.EngineApply:
		return []string{"waits until the instance is as its spec asks"}, ""
	case t.Engine != nil:
		return r.describeEdit(t)
	case t.Approval != nil && t.Approval.Count > 1:
		return []string{fmt.Sprintf("waits for %d users other than the author to approve", t.Approval.Count)}, ""
	case t.Approval != nil:
		return []string{"waits for somebody else than the author to approve"}, ""
	case t.Wait != nil:
		return []string{fmt.Sprintf("waits until %s of %s %s", t.Wait.Until, t.Wait.Kind, r.shown(t, t.Wait.Name))}, ""
	case t.Job != nil:
		return r.describeJob(t)
	case t.Task() != nil:
		return r.describeTask(t), ""
	case t.HTTP != nil:
		return []string{fmt.Sprintf("calls %s %s", cmp.Or(t.HTTP.Method, "GET"), r.shown(t, t.HTTP.URL))}, ""
	}
	for verb, object := range map[ObjectVerb]*optemplate.ObjectStep{ObjectApply: t.Apply, ObjectPatch: t.Patch,
		ObjectDelete: t.Delete} {
		if object != nil {
			lines = append(lines, fmt.Sprintf("%s %s %s", verb, object.Kind, r.shown(t, object.Name)))
		}
	}
	return lines, ""
}

// describeWriting says what becomes of the pod that writes, or of one that follows it.
func (r *run) describeWriting(t *optemplate.Step) (lines []string, why string) {
	step := &platformv1.StepStatus{Name: t.Name, Phase: platformv1.OperationPending}
	values, why := r.values(t)
	if why != "" {
		return nil, why
	}
	if t.Engine.Do == optemplate.EngineRebuild {
		if v := (rebuildStep{}).begin(r, step, values); !v.done() {
			return nil, v.failed
		}
		return []string{fmt.Sprintf("deletes pod %s and its volumes %s, and makes them anew", step.Outputs[outputPod],
			step.Outputs[outputClaims])}, ""
	}
	if v := (failoverStep{}).begin(r, step, values); !v.done() {
		return nil, v.failed
	}
	return []string{fmt.Sprintf("%s takes over from pod %s", cmp.Or(step.Outputs[outputTo], "another pod"),
		step.Outputs[outputFrom])}, ""
}

// describeEdit says what a step of the engine would change, and what the engine would do for that.
func (r *run) describeEdit(t *optemplate.Step) (lines []string, why string) {
	edit, why := r.edit(t)
	if why != "" {
		return nil, why
	}
	for _, field := range edit.Fields {
		lines = append(lines, fmt.Sprintf("sets %s to %v", Plain(field.Field), field.Value))
	}
	forecast, known := r.facts.Forecast[r.path+t.Name]
	if edit.Spec != nil {
		lines = append(lines, forecast.Fields...)
	}
	if known && len(forecast.Fields) == 0 {
		lines = append(lines, "changes nothing: it is so already")
	}
	for _, change := range forecast.Changes {
		lines = append(lines, change.String())
	}
	r.status.Changes = append(r.status.Changes, forecast.Changes...)
	return lines, ""
}

func (r *run) describeAgent(t *optemplate.Step) (lines []string, why string) {
	what := "calls " + string(t.Agent.Call)
	if t.Agent.Action != "" {
		what = "runs action " + t.Agent.Action
	}
	if _, v := r.text(t, t.Agent.Pod, item{}); !v.done() {
		// It goes by what a step before it says.
		return []string{fmt.Sprintf("%s in pod %s", what, t.Agent.Pod)}, ""
	}
	all, v := agentStep{}.pods(r, t)
	if !v.done() {
		return nil, v.failed
	}
	if t.Agent.Pods == optemplate.PodsOne {
		all = oneOf(all)
	}
	var pods []string
	for _, pod := range all {
		if chosen(t.Agent.Pods, pod) {
			pods = append(pods, pod.Name)
		}
	}
	switch {
	case len(pods) == 0 && len(all) > 0 && t.Agent.Pods == optemplate.PodsOthers:
		return []string{fmt.Sprintf("%s in no pod: %s has none but primaries", what, r.facts.Target)}, ""
	case len(pods) == 0:
		return nil, fmt.Sprintf("%s has no pods that step %q could act on", r.facts.Target, t.Name)
	}
	for _, name := range pods {
		if (agentStep{}).handsOver(r, t, r.facts.pod(name)) {
			lines = append(lines, fmt.Sprintf("pod %s hands over to another pod before it is called", name))
		}
	}
	return append(lines, fmt.Sprintf("%s in %s", what, strings.Join(pods, ", then "))), ""
}

func (r *run) describeJob(t *optemplate.Step) (lines []string, why string) {
	if t.Job.Component == "" {
		if _, err := r.facts.componentFor(""); err != nil {
			return nil, err.Error()
		}
	}
	words := make([]string, 0, len(t.Job.Command))
	for _, word := range t.Job.Command {
		words = append(words, r.shown(t, word))
	}
	where := "runs in a pod of its own: "
	if t.Job.Volumes == optemplate.JobVolumesWriter {
		where = "runs in a pod of its own, with the volumes of the pod that took writes: "
	}
	return []string{where + strings.Join(words, " ")}, ""
}

// shown is a text as it is known now.
func (r *run) shown(t *optemplate.Step, source string) string {
	text, err := r.facts.Template.Text(t.Name, source, r.variables(t, nil))
	if err != nil {
		return source
	}
	return text
}
