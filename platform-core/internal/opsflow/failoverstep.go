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

// failoverStep has another pod take over from the one that writes, whatever that says, and waits until it does. With a
// term it asks for nothing: it is the record of what the engine did in that term.
type failoverStep struct{}

// TemplateFailover is the template of a failover, also of those that the engine decides on.
const TemplateFailover = "Failover"

// ParameterTerm is its parameter for the term that is recorded.
const ParameterTerm = "term"

// parameterLoss says that a loss of data is accepted.
const parameterLoss = "acceptDataLoss"

// Outputs of a failover, beside those of a switchover.
const (
	outputTerm    = "term"
	outputReason  = "reason"
	outputDeposed = "deposed"
	outputNamed   = "named"
	outputChoice  = "choice"
	outputOrder   = "order"
	outputLag     = "lag"
	// outputSeconds is how long nobody took writes by the record: from the deposal until the label of the role was given.
	outputSeconds = "seconds"
)

// AcceptsLoss says whether somebody approved that an Operation may lose data.
func AcceptsLoss(op *platformv1.Operation) bool {
	approval := op.Spec.Approval
	return op.Spec.Parameters[parameterLoss] == "true" && op.Spec.Author != "" &&
		approval != nil && approval.Decision == platformv1.OperationApproved && approval.By != op.Spec.Author
}

func (s failoverStep) advance(r *run, t *optemplate.Step, step *platformv1.StepStatus) verdict {
	values, why := r.values(t)
	if why != "" {
		return verdict{failed: why}
	}
	if values[ParameterTerm] != "" {
		return s.follow(r, step, values[ParameterTerm])
	}
	if step.Phase == platformv1.OperationPending {
		if v := s.begin(r, step, values); !v.done() {
			return v
		}
		r.begin(step)
	}
	from, to := step.Outputs[outputFrom], step.Outputs[outputTo]
	set := platformv1.WorkloadSetNameOf(from)
	record := r.facts.Writing[set].Record
	primary := r.facts.primaryOf(set)
	if record != nil && record.Member != nil && record.Member.Name != from && primary != nil &&
		primary.Name == record.Member.Name {
		if v := withdraw(r, step); !v.done() {
			return v
		}
		if change := changeOf(record, record.Term); change != nil {
			tellChange(step, change)
			r.tellLength(step, change)
		}
		step.Outputs[outputTo] = primary.Name
		if to != "" && primary.Name != to {
			return verdict{failed: fmt.Sprintf("pod %s took over from %s since its data is the most advanced, and %s was to",
				primary.Name, from, to), final: yes}
		}
		return verdict{}
	}
	v := handedOver(r, step, &Effect{Key: r.key(step, ""),
		Handover: &Handover{Set: set, From: from, To: to, Way: platformv1.TakeOver}})
	if v.failed != "" && v.untouched != yes {
		// It is asked anew by another Operation.
		v.final = yes
	}
	return v
}

// committed says whether the one that wrote was deposed: before that the request can be taken back.
func (failoverStep) committed(r *run, step *platformv1.StepStatus) bool {
	record := r.facts.Writing[platformv1.WorkloadSetNameOf(step.Outputs[outputFrom])].Record
	return record != nil && (record.Member == nil || record.Member.Name != step.Outputs[outputFrom])
}

// begin says who is replaced.
func (failoverStep) begin(r *run, step *platformv1.StepStatus, values map[string]string) verdict {
	component, err := r.facts.componentOrAny(values["component"])
	if err != nil {
		return verdict{failed: err.Error()}
	}
	var sets []string
	for _, name := range slices.Sorted(maps.Keys(r.facts.Writing)) {
		if component == "" || r.facts.Writing[name].Component == component {
			sets = append(sets, name)
		}
	}
	switch len(sets) {
	case 0:
		return failedf("the engine does not choose the primary of %s: there is one pod only, or the members elect a "+
			"primary themselves", r.facts.Target)
	case 1:
	default:
		return failedf("%s has several sets with a primary each: name a Component or WorkloadSet as the target",
			r.facts.Target)
	}
	record, to := r.facts.Writing[sets[0]].Record, values["to"]
	from := ""
	switch {
	case record != nil && record.Member != nil:
		from = record.Member.Name
	case record != nil && record.Former != nil:
		from = record.Former.Name
	default:
		return failedf("no primary is on record for %s: the engine is electing one already", sets[0])
	}
	if v := r.facts.checkCandidate(from, to); !v.done() {
		return v
	}
	step.Outputs = map[string]string{outputFrom: from, outputTo: to, outputSet: sets[0]}
	return verdict{}
}

// follow records what the engine does in a term, until a pod takes writes in it.
func (failoverStep) follow(r *run, step *platformv1.StepStatus, text string) verdict {
	term, err := strconv.ParseInt(text, 10, 64)
	switch {
	case !RecordsFailover(r.op):
		return failedf("parameter %q is for the records of the engine: leave it out", ParameterTerm)
	case err != nil:
		return failedf("parameter %q is %q: it must be a number", ParameterTerm, text)
	case !slices.Contains(r.facts.Sets, RecordedSet(r.op)):
		return failedf("WorkloadSet %q is gone", RecordedSet(r.op))
	}
	if step.Phase == platformv1.OperationPending {
		r.begin(step)
	}
	writing := r.facts.Writing[RecordedSet(r.op)]
	change := changeOf(writing.Record, term)
	if change == nil {
		return failedf("the record of term %d is not kept any more", term)
	}
	tellChange(step, change)
	switch {
	case change.Named == nil && writing.Record.Term > term:
		return failedf("no primary was named in term %d before term %d began, which has a record of its own", term,
			writing.Record.Term)
	case change.Named == nil:
		waiting := "another pod to be named"
		if writing.Pending != "" {
			waiting += ": " + writing.Pending
		}
		return verdict{waiting: waiting}
	case writing.Record.Term > term:
		// Whoever was named then is no more.
		return verdict{}
	}
	if primary := r.facts.primaryOf(RecordedSet(r.op)); primary == nil || primary.Name != change.To {
		return verdict{waiting: fmt.Sprintf("pod %s, which was named, to become the primary", change.To)}
	}
	r.tellLength(step, change)
	return verdict{}
}

// RecordedSet is the name of the WorkloadSet whose failover an Operation records. Its target is the object that
// declares the instance, which may have several; records from before name the set there.
func RecordedSet(op *platformv1.Operation) string {
	if op.Spec.TargetRef.Kind == string(TargetWorkloadSet) {
		return op.Spec.TargetRef.Name
	}
	return platformv1.WorkloadSetNameFor(op.Labels[platformv1.ApplicationLabel], op.Labels[platformv1.ComponentLabel],
		op.Labels[platformv1.SetLabel])
}

// Noted says whether a set knows that the failover of its term is on record.
func Noted(set *platformv1.WorkloadSet, op *platformv1.Operation) bool {
	noted, _ := strconv.ParseInt(set.Annotations[platformv1.RecordedTermAnnotation], 10, 64)
	term, _ := strconv.ParseInt(string(op.Spec.Parameters[ParameterTerm]), 10, 64)
	return noted >= term
}

// changeOf is what is known of a term; nil for nothing.
func changeOf(record *platformv1.PrimaryRecord, term int64) *platformv1.PrimaryChange {
	if record == nil {
		return nil
	}
	i := slices.IndexFunc(record.Changes, func(c platformv1.PrimaryChange) bool { return c.Term == term })
	if i < 0 {
		return nil
	}
	return &record.Changes[i]
}

// tellChange has the outputs of a step say what is known of a change.
func tellChange(step *platformv1.StepStatus, change *platformv1.PrimaryChange) {
	tell := func(name, value string) {
		if value != "" {
			setOutput(step, name, value)
		}
	}
	number := func(n *int64) string {
		if n == nil {
			return ""
		}
		return strconv.FormatInt(*n, 10)
	}
	clock := func(at *metav1.MicroTime) string {
		if at == nil {
			return ""
		}
		return at.UTC().Format("2006-01-02T15:04:05.000Z")
	}
	tell(outputTerm, strconv.FormatInt(change.Term, 10))
	tell(outputFrom, change.From)
	tell(outputReason, change.Reason)
	tell(outputDeposed, clock(&change.Deposed))
	tell(outputTo, change.To)
	tell(outputNamed, clock(change.Named))
	tell(outputChoice, change.Choice)
	tell(outputOrder, number(change.Order))
	tell(outputLag, number(change.Lag))
}

// tellLength says how long nobody took writes, now that somebody does.
func (r *run) tellLength(step *platformv1.StepStatus, change *platformv1.PrimaryChange) {
	length := max(0, r.facts.Now.Sub(change.Deposed.Time)).Round(time.Millisecond)
	setOutput(step, outputSeconds, strconv.FormatFloat(length.Seconds(), 'f', -1, 64))
}
