// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// everything is a template with steps of all types, some side by side.
const everything = `name: Everything
parameters: {size: {schema: string, default: "3"}}
steps:
  - name: note
    compensate: [forget]
    apply: {apiVersion: v1, kind: ConfigMap, name: note, content: {data: {of: "${target.name}"}}}
  - name: restart
    retry: {limit: 2, backoff: 1s}
    agent: {call: Restart}
  - name: ask
    needs: [note]
    onFailure: Continue
    agent: {action: ask, pods: One, parameters: {what: "${target.name}"}}
  - name: scale
    needs: [restart]
    compensate: [look]
    engine: {do: Scale, with: {replicas: "${parameters.size}"}}
  - name: many
    needs: [ask, scale]
    forEach: "['a', 'b', 'c']"
    operation: {templateRef: Restart, parameters: {of: "${each}"}}
  - name: work
    needs: [note]
    retry: {limit: 1, backoff: 1s}
    job: {command: [work], outputs: {done: string}}
  - name: skipped
    needs: [many, work]
    when: steps.ask.phase == 'Failed'
    delete: {apiVersion: v1, kind: ConfigMap, name: never}
  - name: last
    wait: {apiVersion: v1, kind: ConfigMap, name: answer, until: object.ok, outputs: {who: object.who}}
  - name: forget
    delete: {apiVersion: v1, kind: ConfigMap, name: note}
  - name: look
    wait: {apiVersion: v1, kind: ConfigMap, name: note2, until: object.ok}
`

// happen lets something happen in the world; kind says whether that can be bad.
func (w *world) happen(rng *rand.Rand, bad func() bool) {
	w.facts.Now = w.facts.Now.Add(time.Duration(rng.IntN(3000)) * time.Millisecond)
	switch rng.IntN(6) {
	case 0, 1:
		for _, ordinal := range []int{0, 1} {
			p := w.at(ordinal)
			a := w.agents[p.UID]
			if a.latest == "" {
				continue
			}
			phase := report.CallSucceeded
			if bad() {
				phase = report.CallFailed
			}
			for _, key := range slices.Sorted(maps.Keys(a.records)) {
				if a.records[key].Phase == report.CallRunning {
					a.records[key] = report.Call{Key: key, Phase: phase, Message: "no luck"}
				}
			}
			last := a.records[a.latest]
			p.Report.LastCall = &last
		}
	case 2:
		for _, name := range slices.Sorted(maps.Keys(w.jobs)) {
			job := w.jobs[name]
			switch {
			case job.Message == "stopping":
				delete(w.jobs, name)
			case job.Phase == platformv1.OperationRunning && bad():
				*job = JobState{Phase: platformv1.OperationFailed, Message: "no luck"}
			case job.Phase == platformv1.OperationRunning:
				*job = JobState{Phase: platformv1.OperationSucceeded, Message: "done=yes"}
			}
		}
		for _, child := range w.children {
			if child.Phase == platformv1.OperationPending {
				child.Phase = platformv1.OperationSucceeded
				if bad() {
					child.Phase, child.Error = platformv1.OperationFailed, "no luck"
				}
			}
		}
	case 3:
		settled(w)
		if bad() {
			w.facts.Declared.Stalled = Condition{Status: metav1.ConditionTrue, Message: "no luck"}
		}
	case 4:
		for _, name := range []string{"answer", "note2"} {
			w.objects["ConfigMap "+name] = map[string]any{"ok": true, "who": "Ada"}
		}
	case 5:
		if worse := bad(); worse && bad() && !Finished(w.op) {
			w.op.Spec.Cancel = true
		}
	}
}

// check compares two statuses: what has ended stays as it is, and nothing begins before its time.
func (w *world) check(t *testing.T, before *platformv1.OperationStatus) {
	t.Helper()
	after := &w.op.Status
	for i := range after.Steps {
		step := &after.Steps[i]
		if i < len(before.Steps) && ended(&before.Steps[i]) &&
			fmt.Sprintf("%+v", before.Steps[i]) != fmt.Sprintf("%+v", *step) &&
			before.Steps[i].Phase != step.Phase {
			t.Fatalf("step %s went from %s to %s", step.Name, before.Steps[i].Phase, step.Phase)
		}
		begun := step.Attempts > 0
		if begun && w.facts.Template.Compensates(step.Name) && after.Ending == "" {
			t.Fatalf("step %s compensates a run that goes on", step.Name)
		}
		for _, need := range w.facts.Template.NeedsOf(step.Name) {
			i := slices.IndexFunc(after.Steps, func(s platformv1.StepStatus) bool { return s.Name == need })
			if begun && !ended(&after.Steps[i]) {
				t.Fatalf("step %s began before %s had ended", step.Name, need)
			}
		}
		if declared, _ := w.facts.Template.Step(step.Name); declared.Retry != nil && step.Attempts > declared.Retry.Limit+1 {
			t.Fatalf("step %s was begun %d times", step.Name, step.Attempts)
		}
	}
}

// TestRandomHistories has controllers die at any point of runs in which anything fails: nothing is done twice, nothing
// is lost, every run ends.
func TestRandomHistories(t *testing.T) {
	ends := map[platformv1.OperationPhase]int{}
	for seed := range uint64(250) {
		rng := rand.New(rand.NewPCG(seed, 7))
		w := worldOf(everything, pod(0, primary), pod(1, reader))
		w.facts.Actions = map[string][]plan.Action{
			"redis": {{Name: "ask", Command: []string{"ask"}, Parameters: map[string]string{"what": "string"}}}}
		w.op.Spec.Timeout = &metav1.Duration{Duration: time.Hour}
		unlucky := int(seed % 4 * 3)
		bad := func() bool { return rng.IntN(40) < unlucky }
		for round := 0; round < 400 && !Finished(w.op); round++ {
			before := w.op.Status.DeepCopy()
			if round < 100 {
				w.crash = []crashPoint{crashNever, crashNever, crashBeforeWrite, crashAfterWrite, crashAfterCall}[rng.IntN(5)]
			}
			w.happens("Something happens.", func(w *world) { w.happen(rng, bad) })
			w.check(t, before)
			if round > 100 {
				bad = func() bool { return false }
			}
		}
		w.sane(t)
		if !Finished(w.op) {
			t.Fatalf("seed %d never ends:\n%s", seed, describe(&w.op.Status))
		}
		for name, job := range w.jobs {
			if job.Phase == platformv1.OperationRunning {
				t.Fatalf("seed %d ended and left job %s running:\n%s", seed, name, w.story.String())
			}
		}
		if phase := w.op.Status.Phase; phase != platformv1.OperationSucceeded && w.op.Status.Steps[0].Attempts > 0 &&
			w.objects["ConfigMap note"] != nil {
			t.Fatalf("seed %d ended as %s and did not undo its first step:\n%s", seed, phase, w.story.String())
		} else if phase == platformv1.OperationSucceeded &&
			(len(w.children) != 3 || w.fields["components[redis].replicas"] != int64(3)) {
			t.Fatalf("seed %d succeeded and lost something: %v, %v", seed, w.children, w.fields)
		} else {
			ends[phase]++
		}
	}
	t.Logf("%v", ends)
	for _, phase := range []platformv1.OperationPhase{platformv1.OperationSucceeded, platformv1.OperationFailed,
		platformv1.OperationCancelled} {
		if ends[phase] == 0 {
			t.Errorf("no run ended as %s", phase)
		}
	}
}
