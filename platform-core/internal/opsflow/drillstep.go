// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

// Outputs of a step that drills, beside OutputBackup.
const (
	// OutputInstance names the Application that it makes, and removes.
	OutputInstance = "instance"
	// OutputOutcome is what it came to, OutputFound the sentence for that, and OutputJudged when it was known.
	OutputOutcome = "outcome"
	OutputFound   = "found"
	OutputJudged  = "judged"

	outputBackupUID     = "backupUID"
	outputBackupMethod  = "method"
	outputBackupVersion = "version"
	// outputBackupSets are the names of the sets that it is of, between spaces; none where it is of a component's only
	// one.
	outputBackupSets = "sets"
	// outputBackupRoom is how many bytes its data has, where one volume is to have all of that.
	outputBackupRoom = "rawSize"
	// outputMade is there once the instance was: it is not made again.
	outputMade = "made"
	// outputDataBad is there, with any step, when the data itself was found to be bad, and not merely not looked at.
	outputDataBad = "dataBad"
)

// drillPatience is how long a drill that ended early waits for its Backup to say so and for its instance to be gone,
// which is being deleted then.
const drillPatience = 2 * time.Minute

// drillStep restores a Backup into an instance of its own, has the plugin verify what is there, and removes it. It has
// its say before that: whatever becomes of the instance, what was found is on record.
type drillStep struct{}

func (drillStep) advance(r *run, t *optemplate.Step, step *platformv1.StepStatus) verdict {
	values, why := r.values(t)
	if why != "" {
		return verdict{failed: why, final: yes, untouched: yes}
	}
	if step.Phase == platformv1.OperationPending {
		r.begin(step)
		step.Outputs = nil
	}
	if step.Outputs[OutputBackup] == "" {
		if v := r.chooseBackup(step, BackupChoice{Name: values["backup"], Repository: values["repository"],
			Schedule: values["schedule"]}); !v.done() {
			return v
		}
	}
	if step.Outputs[OutputOutcome] == "" {
		if v := r.rehearse(step); !v.done() {
			return v
		}
	}
	if v := r.tellBackup(step); !v.done() {
		return v
	}
	if v := r.removeInstance(step); !v.done() {
		return v
	}
	backup := step.Outputs[OutputBackup]
	switch platformv1.VerificationOutcome(step.Outputs[OutputOutcome]) {
	case platformv1.VerificationPassed:
		return verdict{}
	case platformv1.VerificationFailed:
		return failedf("Backup %q is not good: %s", backup, step.Outputs[OutputFound])
	}
	return failedf("it is not known whether Backup %q is good: %s", backup, step.Outputs[OutputFound])
}

// chooseBackup records which Backup is meant, and the name of the instance that is to begin with it.
func (r *run) chooseBackup(step *platformv1.StepStatus, choice BackupChoice) verdict {
	answer, v := r.answer(&Effect{Key: r.key(step, "choose"), Drill: &Drill{Verb: DrillChoose, Choice: choice}},
		"a Backup to be chosen")
	if answer == nil {
		return v
	}
	b := answer.Backup
	method, why := r.verified(b.Spec.Method)
	if why != "" {
		return verdict{failed: why, final: yes, untouched: yes}
	}
	sum := sha256.Sum256([]byte(r.key(step, "")))
	step.Outputs = map[string]string{
		OutputBackup: b.Name, outputBackupUID: string(b.UID), outputBackupMethod: method.Name,
		outputBackupVersion: cmp.Or(b.Status.Version, r.facts.Application.Spec.Version), OutputInstance: "drill-" +
			hex.EncodeToString(sum[:6]),
	}
	if method.Spread {
		step.Outputs[outputBackupRoom] = strconv.FormatInt(b.Status.RawSize, 10)
	}
	if len(b.Status.Sources) > 0 {
		var sets []string
		for i := range b.Status.Sources {
			sets = append(sets, b.Status.Sources[i].Set)
		}
		step.Outputs[outputBackupSets] = strings.Join(sets, " ")
	}
	return verdict{}
}

// verified returns the method of this name; why says why its backups cannot be verified.
func (r *run) verified(name string) (method BackupMethod, why string) {
	i := slices.IndexFunc(r.facts.BackupMethods, func(m BackupMethod) bool { return m.Name == name })
	if i < 0 || r.facts.BackupMethods[i].Verify == nil {
		return BackupMethod{}, fmt.Sprintf(
			"the plugin does not say how a backup by method %q of %s is verified: bring the instance to a later version of it",
			name, r.facts.Target)
	}
	return r.facts.BackupMethods[i], ""
}

// rehearse makes the instance, waits until it has the data, and has that verified. It is done when it is known what
// came of it.
func (r *run) rehearse(step *platformv1.StepStatus) verdict {
	method, why := r.verified(step.Outputs[outputBackupMethod])
	if why != "" {
		return verdict{failed: why, final: yes}
	}
	name := step.Outputs[OutputInstance]
	wanted := &Drill{Verb: DrillWatch, Name: name}
	if step.Outputs[outputMade] == "" {
		wanted = &Drill{Verb: DrillMake, Name: name, Instance: drilled(name, r.facts.Application, step.Outputs, method)}
	}
	waiting := fmt.Sprintf("Application %q to begin with Backup %q", name, step.Outputs[OutputBackup])
	answer, v := r.answer(&Effect{Key: r.key(step, string(wanted.Verb)), Drill: wanted}, waiting)
	if answer == nil {
		if v.failed != "" {
			r.judge(step, platformv1.VerificationUnfinished, v.failed)
			return verdict{}
		}
		return v
	}
	step.Outputs[outputMade] = string(yes)
	app := answer.Instance
	if app == nil || !app.DeletionTimestamp.IsZero() {
		r.judge(step, platformv1.VerificationUnfinished, fmt.Sprintf("somebody deleted its instance, Application %q", name))
		return verdict{}
	}
	if outcome, why := spoiled(app); why != "" {
		r.judge(step, outcome, why)
		return verdict{}
	}
	accepted := conditionIn(app, platformv1.AcceptedCondition)
	if accepted.Status == metav1.ConditionFalse &&
		conditionIn(app, platformv1.StalledCondition).Status == metav1.ConditionTrue {
		r.judge(step, platformv1.VerificationUnfinished, "no instance can begin with it: "+accepted.Message)
		return verdict{}
	}
	ready := conditionIn(app, platformv1.ReadyCondition)
	if ready.Status != metav1.ConditionTrue || app.Status.RestoredFrom == nil ||
		app.Status.ObservedGeneration < app.Generation {
		if ready.Message != "" {
			waiting += ": " + ready.Message
		}
		return verdict{waiting: waiting, retry: declaredPoll}
	}
	return r.verify(step, app, method)
}

// verify runs the template of the plugin on the instance.
func (r *run) verify(step *platformv1.StepStatus, app *platformv1.Application, method BackupMethod) verdict {
	child := &Child{Name: r.childName(step, item{}), Application: app.Name, Spec: platformv1.OperationSpec{
		TemplateRef: method.Verify.Operation, Timeout: &metav1.Duration{Duration: TimeoutOf(r.op)},
		TargetRef: platformv1.TargetReference{APIVersion: platformv1.GroupVersion.String(), Kind: string(TargetApplication),
			Name: app.Name},
	}}
	waiting := fmt.Sprintf("Operation %s, which verifies the data", child.Name)
	answer, v := r.answer(&Effect{Key: r.key(step, "verify"), Child: child}, waiting)
	switch {
	case v.failed != "":
		r.judge(step, platformv1.VerificationUnfinished, v.failed)
		return verdict{}
	case answer == nil:
		return v
	}
	switch answer.Child.Phase {
	case platformv1.OperationSucceeded:
		r.judge(step, platformv1.VerificationPassed,
			fmt.Sprintf("an instance of version %s began with it, and Operation %s found the data good", app.Spec.Version,
				method.Verify.Operation))
		return verdict{}
	case platformv1.OperationFailed:
		if foundDataBad(&answer.Child) {
			r.judge(step, platformv1.VerificationFailed,
				fmt.Sprintf("Operation %s says: %s", method.Verify.Operation, answer.Child.Error))
		} else {
			r.judge(step, platformv1.VerificationUnfinished,
				fmt.Sprintf("Operation %s did not get to the end of the data: %s", method.Verify.Operation, answer.Child.Error))
		}
		return verdict{}
	case platformv1.OperationCancelled:
		r.judge(step, platformv1.VerificationUnfinished, fmt.Sprintf("Operation %s was cancelled", child.Name))
		return verdict{}
	}
	if answer.Child.Progress != "" {
		waiting += " (" + answer.Child.Progress + ")"
	}
	return verdict{waiting: waiting, retry: declaredPoll}
}

// spoiled says why the data of its Backup does not come, whoever tries, and whether that tells of the Backup; empty
// when it is there, or may be.
func spoiled(app *platformv1.Application) (outcome platformv1.VerificationOutcome, why string) {
	for _, component := range app.Status.Components {
		for _, set := range component.Sets {
			switch {
			case set.Restore == nil || !set.Restore.Final:
			case set.Restore.Reason == mover.ReasonDamaged, set.Restore.Reason == mover.ReasonNotFound:
				return platformv1.VerificationFailed, "its data cannot be restored: " + set.Restore.Message
			default:
				return platformv1.VerificationUnfinished, "its data could not be put on a volume: " + set.Restore.Message
			}
		}
	}
	return "", ""
}

// noteDataBad records that a step failed since the data itself is bad.
func noteDataBad(step *platformv1.StepStatus) { setOutput(step, outputDataBad, string(yes)) }

// foundDataBad says whether a step of a run that failed has found the data itself to be bad.
func foundDataBad(run *platformv1.OperationStatus) bool {
	return slices.ContainsFunc(run.Steps, func(step platformv1.StepStatus) bool {
		return step.Phase == platformv1.OperationFailed && step.Outputs[outputDataBad] != ""
	})
}

func conditionIn(app *platformv1.Application, of string) Condition {
	if found := meta.FindStatusCondition(app.Status.Conditions, of); found != nil {
		return Condition{Status: found.Status, Reason: found.Reason, Message: found.Message}
	}
	return Condition{}
}

// judge records what a drill came to.
func (r *run) judge(step *platformv1.StepStatus, outcome platformv1.VerificationOutcome, found string) {
	setOutput(step, OutputOutcome, string(outcome))
	setOutput(step, OutputFound, tail(found))
	setOutput(step, OutputJudged, r.facts.Now.UTC().Format(time.RFC3339))
}

// tellBackup is done when the Backup says what the drill came to, or cannot say anything any more.
func (r *run) tellBackup(step *platformv1.StepStatus) verdict {
	name := step.Outputs[OutputBackup]
	waiting := fmt.Sprintf("Backup %q to say what was found", name)
	answer, v := r.answer(&Effect{Key: r.key(step, "tell"), Drill: &Drill{Verb: DrillRead, Backup: name}}, waiting)
	if answer == nil {
		return v
	}
	b := answer.Backup
	if b == nil || string(b.UID) != step.Outputs[outputBackupUID] || !b.DeletionTimestamp.IsZero() ||
		b.Status.Phase != platformv1.BackupCompleted {
		return verdict{}
	}
	if v := verdictOf(r.op, step); v == nil || v.ToldBy(b) {
		return verdict{}
	}
	return verdict{waiting: waiting, retry: objectPoll}
}

// removeInstance is done when nothing is left of the instance.
func (r *run) removeInstance(step *platformv1.StepStatus) verdict {
	name := step.Outputs[OutputInstance]
	waiting := fmt.Sprintf("Application %q to be gone", name)
	answer, v := r.answer(&Effect{Key: r.key(step, "remove"), Drill: &Drill{Verb: DrillRemove, Name: name}}, waiting)
	switch {
	case answer == nil:
		return v
	case len(answer.Remains) > 0:
		return verdict{waiting: fmt.Sprintf("%s: there is still %s", waiting, answer.Remains[0]), retry: objectPoll}
	}
	return verdict{}
}

// withdrawDrill ends what a step left that was stopped: the instance goes, and where nobody wanted it to end the Backup
// says that the drill did not get there. What takes longer than that may is on its way, and keeps nobody waiting.
func (r *run) withdrawDrill(step *platformv1.StepStatus) verdict {
	if step.Phase != platformv1.OperationCancelled && step.Phase != platformv1.OperationFailed ||
		step.Outputs[OutputInstance] == "" ||
		step.CompletionTime != nil && r.facts.Now.After(step.CompletionTime.Add(drillPatience)) {
		return verdict{}
	}
	if r.status.Ending == platformv1.EndingFailed && step.Outputs[OutputOutcome] == "" {
		r.judge(step, platformv1.VerificationUnfinished, step.Message)
	}
	if step.Outputs[OutputOutcome] != "" {
		if v := r.tellBackup(step); v.waiting != "" {
			return v
		}
	}
	if v := r.removeInstance(step); v.waiting != "" {
		return v
	}
	return verdict{}
}

func (r *run) describeDrill(t *optemplate.Step) (lines []string, why string) {
	values, why := r.values(t)
	if why != "" {
		return nil, why
	}
	which := "the newest Backup that is complete"
	if values["backup"] != "" {
		which = fmt.Sprintf("Backup %q", values["backup"])
	}
	return []string{fmt.Sprintf("restores %s into an instance of its own, has the plugin verify the data there, notes "+
		"on the Backup what came of it, and removes that instance", which)}, ""
}
