// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

// TemplateRestore is the template that puts the data of a Backup in the place of that of a living instance.
const TemplateRestore = "Restore"

// ParameterBackup names the Backup there.
const ParameterBackup = "backup"

// Outputs of the step that prepares data, beside those of the Backup that it is of.
const (
	// OutputWorkloadSet is the set whose pods are to have it, OutputMethod and OutputRepository are those of the Backup.
	OutputWorkloadSet = "set"
	OutputMethod      = "method"
	OutputRepository  = "repository"
	// OutputData is the generation of the volumes that it is on, OutputFormer that of those that the pods have; empty for
	// those that they were made with.
	OutputData   = "data"
	OutputFormer = "formerData"
	// OutputMark is what the volumes are marked with that have all of it: the UID of the Backup.
	OutputMark = "backupUID"
	// OutputFormerTerm is one of the step that swaps: the term of the record of who wrote on the volumes of before, when
	// the pods had left them. Absent where nobody is on record.
	OutputFormerTerm = "formerTerm"
)

// outputDone says that a step has had its one effect.
const outputDone = "done"

// generationLength is how many characters of the UID of an Operation name the volumes that it prepares.
const generationLength = 8

// Data is what is to be done about the volumes of a set.
type Data struct {
	// Verb to do.
	Verb DataVerb
	// Set by name; DataPrepare finds it.
	Set string
	// Generation of the volumes that were prepared, and Former that of those that the pods had before. Mark is on the
	// former, once they have all of the data.
	Generation, Former, Mark string
	// Copy is the Backup of what the pods had before, and CopyDigest the sum of what is kept of it; empty for none. These
	// are for DataSwap and DataDrop only.
	Copy, CopyDigest string
	// FormerTerm is the term of the record of who wrote on the volumes of Former, as it was when the pods had left them; 0
	// where nobody is on record. It is for DataDrop only.
	FormerTerm int64
	// Backup by name, the name of the Job that brings its data, and how long that may take. These are for DataPrepare
	// only.
	Backup, Job string
	Deadline    time.Duration
}

// DataVerb is what is done about volumes.
type DataVerb string

// Verbs.
const (
	// DataPrepare fills volumes of Generation for the first pod, beside those that the pods have, or looks how that
	// stands.
	DataPrepare DataVerb = "prepare"
	// DataSwap has the pods begin on the volumes of Generation, and leads no client there. Copy must not be from before
	// the Operation began.
	DataSwap DataVerb = "swap"
	// DataOpen leads clients there.
	DataOpen DataVerb = "open"
	// DataReturn has the pods go back to the volumes of Former.
	DataReturn DataVerb = "return"
	// DataDiscard deletes the volumes of Generation, which the pods do not have. Without a Set, those of it that the
	// Operation made.
	DataDiscard DataVerb = "discard"
	// DataDrop deletes the volumes of Former, which the pods do not have any more and of which there is a whole copy.
	DataDrop DataVerb = "drop"
)

// DataState is on which volumes the pods of a set are.
type DataState struct {
	// Generation that the spec asks for.
	Generation string
	// Elsewhere is how many pods have others, or are on their way out.
	Elsewhere int
	// Writes is a pod on those volumes that works and takes writes by its own report; Serves is one that clients are led
	// to. Empty for none.
	Writes, Serves string
	// Message says what keeps pods from being ready; empty for nothing.
	Message string
	// InvalidGeneration says why the set does not take up what its spec asks for, so that pods stay on the volumes that
	// they have; empty when it does.
	InvalidGeneration string
	// Terms of the records of who wrote on volumes that the pods had before, by their generation.
	Terms map[string]int64
}

// verbs of steps, but for the one that prepares.
var dataVerbs = map[optemplate.EngineVerb]DataVerb{
	optemplate.EngineSwapData: DataSwap, optemplate.EngineOpenData: DataOpen, optemplate.EngineReturnData: DataReturn,
	optemplate.EngineDiscardData: DataDiscard, optemplate.EngineDropData: DataDrop,
}

// dataStep gives the pods of a set other volumes.
type dataStep struct{}

func (s dataStep) advance(r *run, t *optemplate.Step, step *platformv1.StepStatus) verdict {
	if t.Engine.Do == optemplate.EnginePrepareData {
		return s.prepare(r, t, step)
	}
	if step.Phase == platformv1.OperationPending {
		r.begin(step)
	}
	prepared := r.prepared()
	switch {
	case prepared != nil:
	case t.Engine.Do == optemplate.EngineDiscardData:
		// Volumes may have been made of which nobody came to say so.
		prepared = map[string]string{OutputData: generationOf(r.op)}
	case r.facts.Template.Compensates(t.Name):
		return verdict{}
	default:
		return verdict{failed: "no data was prepared", final: yes}
	}
	if step.Outputs[outputDone] == "" {
		wanted := &Data{
			Verb: dataVerbs[t.Engine.Do], Set: prepared[OutputWorkloadSet], Generation: prepared[OutputData],
			Former: prepared[OutputFormer], Mark: prepared[OutputMark],
		}
		if wanted.Verb == DataSwap || wanted.Verb == DataDrop {
			wanted.Copy, wanted.CopyDigest = r.copied()
		}
		if wanted.Verb == DataDrop {
			wanted.FormerTerm = r.formerTerm()
		}
		answer, v := r.answer(&Effect{Key: r.key(step, ""), Data: wanted}, "the volumes "+wanted.Generation)
		if answer == nil {
			if v.failed != "" && !r.facts.Template.Compensates(t.Name) {
				// What is not as it was does not come back by itself, and another attempt would count as one that may have touched
				// something.
				v.final = yes
			}
			return v
		}
		setOutput(step, outputDone, string(platformv1.OperationSucceeded))
		for name, value := range answer.Outputs {
			setOutput(step, name, value)
		}
	}
	v := s.settled(r, t.Engine.Do, prepared)
	if term, known := r.facts.Data[prepared[OutputWorkloadSet]].Terms[prepared[OutputFormer]]; known && v.done() &&
		t.Engine.Do == optemplate.EngineSwapData {
		setOutput(step, OutputFormerTerm, strconv.FormatInt(term, 10))
	}
	return v
}

// stepThat is how the first step of the template stands that does something; nil when it has none.
func (r *run) stepThat(verb optemplate.EngineVerb) *platformv1.StepStatus {
	for i := range r.facts.Template.Steps {
		if t := &r.facts.Template.Steps[i]; does(*t, verb) {
			return r.find(t.Name)
		}
	}
	return nil
}

// prepared are the outputs of the step that prepared data; nil when it has come to nothing.
func (r *run) prepared() map[string]string {
	if step := r.stepThat(optemplate.EnginePrepareData); step != nil && step.Outputs[OutputWorkloadSet] != "" {
		return step.Outputs
	}
	return nil
}

// copied is the Backup that was made of what the pods had before; empty for none.
func (r *run) copied() (name, digest string) {
	if step := r.stepThat(optemplate.EngineBackup); step != nil && step.Phase == platformv1.OperationSucceeded {
		return step.Outputs[OutputBackup], step.Outputs[OutputDigest]
	}
	return "", ""
}

// formerTerm is the term of the record of the volumes of before, as the swap left it; 0 for none.
func (r *run) formerTerm() int64 {
	step := r.stepThat(optemplate.EngineSwapData)
	if step == nil {
		return 0
	}
	term, _ := strconv.ParseInt(step.Outputs[OutputFormerTerm], 10, 64)
	return term
}

// settled is done when the pods are where a step wants them.
func (dataStep) settled(r *run, verb optemplate.EngineVerb, prepared map[string]string) verdict {
	set, generation := prepared[OutputWorkloadSet], prepared[OutputData]
	if verb == optemplate.EngineReturnData {
		generation = prepared[OutputFormer]
	}
	state, known := r.facts.Data[set]
	wait := func(format string, args ...any) verdict {
		waiting := fmt.Sprintf(format, args...)
		if state.Message != "" {
			waiting += ": " + state.Message
		}
		return verdict{waiting: waiting, retry: declaredPoll}
	}
	switch {
	case verb == optemplate.EngineDiscardData || verb == optemplate.EngineDropData:
		return verdict{}
	case !known:
		return failedf("WorkloadSet %s is gone", set)
	case state.Generation != generation:
		return wait("WorkloadSet %s to take up the change", set)
	case verb == optemplate.EngineSwapData && state.InvalidGeneration != "":
		return verdict{failed: state.InvalidGeneration, final: yes}
	case state.Elsewhere > 0:
		return wait("%d pods of %s with the previous volumes to end", state.Elsewhere, set)
	case verb == optemplate.EngineReturnData && r.facts.Application != nil && r.facts.Application.Spec.Running != nil &&
		!*r.facts.Application.Spec.Running:
		// It was stopped meanwhile.
		return verdict{}
	case verb == optemplate.EngineSwapData && state.Writes == "":
		return wait("a pod of %s to work with the restored data", set)
	case verb == optemplate.EngineSwapData:
		return verdict{}
	case state.Serves == "":
		return wait("a pod of %s to become the primary", set)
	case verb == optemplate.EngineOpenData && r.facts.Declared.Ready.Status != metav1.ConditionTrue:
		return wait("%s to be Ready", r.facts.Declared.Object)
	}
	return verdict{}
}

// prepare has the data of a Backup put on volumes beside those that the pods have.
func (dataStep) prepare(r *run, t *optemplate.Step, step *platformv1.StepStatus) verdict {
	values, why := r.values(t)
	if why != "" {
		return verdict{failed: why, final: yes, untouched: yes}
	}
	if step.Phase == platformv1.OperationPending {
		r.begin(step)
	}
	name := r.childName(step, item{})
	wanted := &Data{Verb: DataPrepare, Generation: generationOf(r.op), Backup: values[ParameterBackup], Job: name,
		Deadline: r.jobDeadline(t, step)}
	waiting := fmt.Sprintf("the data of Backup %q", wanted.Backup)
	answer, v := r.answer(&Effect{Key: r.key(step, ""), Data: wanted}, waiting)
	if answer == nil {
		if v.failed != "" {
			// What is wrong is in the Backup, or in what was asked for.
			v.final = yes
		}
		return v
	}
	if step.Outputs == nil {
		step.Outputs = map[string]string{}
	}
	maps.Copy(step.Outputs, answer.Outputs)
	setOutput(step, OutputData, wanted.Generation)
	switch answer.Job.Phase {
	case platformv1.OperationSucceeded:
		return verdict{}
	case platformv1.OperationFailed:
		v = failedf("%s is not there: %s", waiting, answer.Job.Message)
		if answer.Reason != "" {
			v.final = yes
		}
		return v
	}
	if answer.Job.Message != "" {
		waiting += ": " + tail(answer.Job.Message)
	}
	return verdict{waiting: waiting + ", to be on volumes of its own", retry: objectPoll}
}

// generationOf names the volumes that an Operation prepares.
func generationOf(op *platformv1.Operation) string {
	uid := string(op.UID)
	return uid[:min(len(uid), generationLength)]
}

// onData says whether a step is about which volumes pods have.
func onData(step optemplate.Step) bool {
	return step.Engine != nil && (step.Engine.Do == optemplate.EnginePrepareData || dataVerbs[step.Engine.Do] != "")
}

// carriesOver says whether what succeeded in an earlier run still holds in one that tries it again. While the pods had
// the volumes of before, clients wrote there: neither the copy of these nor what is to take their place counts then,
// but is made anew.
func carriesOver(earlier *platformv1.Operation, template optemplate.Template) bool {
	for i := range template.Steps {
		if t := &template.Steps[i]; does(*t, optemplate.EngineSwapData) {
			return slices.ContainsFunc(earlier.Status.Steps, func(step platformv1.StepStatus) bool {
				return step.Name == t.Name && step.Phase == platformv1.OperationSucceeded
			})
		}
	}
	return true
}

// ChangesData says whether a template gives pods other volumes.
func ChangesData(template optemplate.Template) bool {
	return slices.ContainsFunc(template.Steps, onData)
}

// describeData says what a step would do.
func (r *run) describeData(t *optemplate.Step) (lines []string, why string) {
	values, why := r.values(t)
	if why != "" {
		return nil, why
	}
	switch t.Engine.Do {
	case optemplate.EnginePrepareData:
		return []string{fmt.Sprintf("puts the data of Backup %q on new volumes, while the instance serves; whether it fits "+
			"is looked at first", values[ParameterBackup])}, ""
	case optemplate.EngineSwapData:
		return []string{"ends all pods of the component and begins them on the new volumes, where the other pods copy from " +
			"the first; clients are not led there yet"}, ""
	case optemplate.EngineOpenData:
		return []string{"leads clients to the restored data"}, ""
	case optemplate.EngineDropData:
		return []string{"deletes the previous volumes, whose data the safety copy has"}, ""
	case optemplate.EngineReturnData:
		return []string{"begins the pods on the previous volumes again"}, ""
	}
	return []string{"deletes the new volumes"}, ""
}
