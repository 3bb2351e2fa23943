// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

// TemplateApply is the template of Operations that record an edited spec.
const TemplateApply = "Apply"

const (
	// maxChanges is how many changes of one edit are told in words.
	maxChanges = 20
	// maxChange is the longest of them, in bytes.
	maxChange = 200
	// maxEdits is how many edits are told that one Operation takes up: the first, and the last ones.
	maxEdits = 20
)

// noTimeout is what the spec of a record says of its deadline.
const noTimeout = 10 * 365 * 24 * time.Hour

// Change is one edit of a spec.
type Change struct {
	// Generation of the Application with the edit.
	Generation int64
	// Words say what is different, such as "components[redis].replicas: 3 → 5".
	Words []string
	// Stops says that the instance ran before and is not to run any more.
	Stops Stopping
}

// Stopping says whether an edit ends the instance's pods.
type Stopping string

// Values of Stopping; the zero value is an edit that does not.
const (
	GoesOn Stopping = ""
	Stops  Stopping = "Stops"
)

// SpecOperation is the record of an edited spec that takes effect. It holds no values: what the spec asks is in the
// spec.
func SpecOperation(app *platformv1.Application, change Change) *platformv1.Operation {
	_, target := DeclaredBy(app)
	op := &platformv1.Operation{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: app.Namespace, Name: fmt.Sprintf("%s-spec-%d", app.Name, change.Generation),
			Labels: map[string]string{
				platformv1.DomainLabel:      app.Labels[platformv1.DomainLabel],
				platformv1.ApplicationLabel: app.Name,
				platformv1.TriggerLabel:     string(platformv1.TriggerSpec),
				platformv1.ManagedByLabel:   platformv1.ManagedBy,
			},
		},
		Spec: platformv1.OperationSpec{
			TemplateRef: TemplateApply,
			TargetRef:   target,
			// The engine does not give up, and Records says that there is no deadline; the default in its place would be wrong.
			Timeout: &metav1.Duration{Duration: noTimeout},
		},
	}
	Amend(op, change)
	return op
}

// OtherName is the name of a record where somebody else has the name that it should have.
func OtherName(name string, app types.UID) string {
	return platformv1.DerivedName(platformv1.MaxObjectName, name, string(app[:min(8, len(app))]))
}

// Amend adds another edit to the record of one that has not yet taken effect.
func Amend(op *platformv1.Operation, change Change) {
	words := slices.Clone(change.Words[:min(len(change.Words), maxChanges)])
	if more := len(change.Words) - len(words); more > 0 {
		words = append(words, fmt.Sprintf("and %d more", more))
	}
	for i, word := range words {
		word = strings.Join(strings.Fields(word), " ")
		if len(word) > maxChange {
			word = strings.ToValidUTF8(word[:maxChange], "") + "…"
		}
		words[i] = word
	}
	edits := append(ChangesOf(op), Change{Generation: change.Generation, Words: words})
	if len(edits) > maxEdits {
		edits = slices.Delete(edits, 1, 2)
	}
	var lines []string
	for _, edit := range edits {
		for _, word := range edit.Words {
			lines = append(lines, fmt.Sprintf("%d %s", edit.Generation, word))
		}
	}
	metav1.SetMetaDataAnnotation(&op.ObjectMeta, platformv1.ChangesAnnotation, strings.Join(lines, "\n"))
	delete(op.Annotations, platformv1.PreemptsAnnotation)
	if change.Stops == Stops {
		op.Annotations[platformv1.PreemptsAnnotation] = "true"
	}
}

// ChangesOf returns the edits that an Operation records, the latest last; none for one that records none.
func ChangesOf(op *platformv1.Operation) []Change {
	if !RecordsSpec(op) {
		return nil
	}
	var changes []Change
	for line := range strings.SplitSeq(op.Annotations[platformv1.ChangesAnnotation], "\n") {
		number, word, _ := strings.Cut(line, " ")
		generation, err := strconv.ParseInt(number, 10, 64)
		if err != nil {
			// Somebody wrote there what is none of ours.
			continue
		}
		if last := len(changes) - 1; last >= 0 && changes[last].Generation == generation {
			changes[last].Words = append(changes[last].Words, word)
			continue
		}
		changes = append(changes, Change{Generation: generation, Words: []string{word}})
	}
	return changes
}

// describeChanges is the text of edits for the outputs of a step.
func describeChanges(changes []Change) string {
	texts := make([]string, 0, len(changes))
	for i, change := range changes {
		text := strings.Join(change.Words, ", ")
		if i > 0 {
			text = fmt.Sprintf("then, in generation %d, %s", change.Generation, text)
		}
		texts = append(texts, text)
	}
	return strings.Join(texts, "; ")
}

// RecordsSpec says whether an Operation is the record of an edited spec.
func RecordsSpec(op *platformv1.Operation) bool { return TriggerOf(op) == platformv1.TriggerSpec }

// RecordsFailover says whether an Operation is the record of a failover that the engine decided on.
func RecordsFailover(op *platformv1.Operation) bool {
	return TriggerOf(op) == platformv1.TriggerFailover
}

// Records says whether an Operation only records what the engine does by itself: it waits for no other and has no
// deadline.
func Records(op *platformv1.Operation) bool { return RecordsSpec(op) || RecordsFailover(op) }

// RecordFor looks for who has an edit of an Application on record, out of the Operations of that; nil for nobody.
// declared is the generation of the outermost object with the edit, bundleOf the plugin that an Operation has its
// template from.
func RecordFor(declared int64, operations []*platformv1.Operation,
	bundleOf func(*platformv1.Operation) *plugin.Bundle) *platformv1.Operation {
	for _, op := range operations {
		if op.DeletionTimestamp.IsZero() && RecordsSpec(op) && !Finished(op) {
			return op
		}
	}
	for _, op := range operations {
		if op.DeletionTimestamp.IsZero() && edited(op, declared, bundleOf(op)) {
			return op
		}
	}
	return nil
}

// edited says whether it was an Operation that made the present generation of the outermost object: it says so, or is
// about to.
func edited(op *platformv1.Operation, declared int64, bundle *plugin.Bundle) bool {
	template, refusal := FindTemplate(op.Spec, bundle)
	if refusal != nil {
		return false
	}
	for _, step := range op.Status.Steps {
		t, ok := template.Step(step.Name)
		if !ok || !editsSpec(t) {
			continue
		}
		generation, said := step.Outputs[OutputGeneration]
		if said && generation == strconv.FormatInt(declared, 10) || !said && !Finished(op) &&
			step.Phase == platformv1.OperationRunning {
			return true
		}
	}
	return false
}

// editsSpec says whether a step changes the spec of the outermost object.
func editsSpec(step *optemplate.Step) bool {
	return step.Engine != nil && !step.Engine.Do.OnPods() && !livesOn(*step) && step.Engine.Do != optemplate.EngineApply &&
		step.Engine.Do != optemplate.EngineRotate &&
		!step.Engine.Do.OnCopies() && !onData(*step)
}

// Edits says whether a template changes the spec of the outermost object.
func Edits(template optemplate.Template) bool {
	return slices.ContainsFunc(template.Steps, func(step optemplate.Step) bool { return editsSpec(&step) })
}

// OnlyProgress says whether a decision on the record of an edited spec only tells how far the instance is.
func OnlyProgress(op *platformv1.Operation, d Decision) bool {
	if !RecordsSpec(op) || d.Effect != nil || op.Status.Phase != platformv1.OperationRunning ||
		d.Status.Phase != op.Status.Phase {
		return false
	}
	ready := meta.FindStatusCondition(op.Status.Conditions, platformv1.ReadyCondition)
	if ready == nil || ready.Message == d.Outcome.Message() || ready.Reason != d.Outcome.Reason() &&
		(lasts(ready.Reason) || lasts(d.Outcome.Reason())) {
		return false
	}
	return equality.Semantic.DeepEqual(silent(op.Status), silent(d.Status))
}

// silent is a status without what it tells people on the way.
func silent(status platformv1.OperationStatus) platformv1.OperationStatus {
	status = *status.DeepCopy()
	status.Progress, status.Conditions, status.ObservedGeneration = "", nil, 0
	for i := range status.Steps {
		status.Steps[i].Message = ""
	}
	return status
}
