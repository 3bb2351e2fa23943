// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

// Drill is what is to be done about a restore drill.
type Drill struct {
	// Verb to do.
	Verb DrillVerb
	// Choice of the Backup, for DrillChoose.
	Choice BackupChoice
	// Backup by name, for DrillRead.
	Backup string
	// Instance as it is to be made, for DrillMake; its owner and its domain aside.
	Instance *platformv1.Application
	// Name of the instance in the namespace of the Operation, which owns it; for DrillWatch and DrillRemove.
	Name string
}

// DrillVerb is what is done about a drill.
type DrillVerb string

// Verbs.
const (
	// DrillChoose looks for the Backup.
	DrillChoose DrillVerb = "choose"
	// DrillMake makes the instance, or looks how it stands when it is there.
	DrillMake DrillVerb = "make"
	// DrillWatch looks how it stands.
	DrillWatch DrillVerb = "watch"
	// DrillRead looks what the Backup says.
	DrillRead DrillVerb = "read"
	// DrillRemove deletes the instance, and looks what is left of it.
	DrillRemove DrillVerb = "remove"
)

// BackupChoice says which Backup of an instance is meant: the one of a name, or the newest one that is whole, of a
// repository and of a schedule where they are not empty.
type BackupChoice struct {
	Name, Repository, Schedule string
}

// Among returns the Backup of the Application that is meant; why says why there is none.
func (c BackupChoice) Among(application string, backups []platformv1.Backup) (chosen *platformv1.Backup, why string) {
	for i := range backups {
		b := &backups[i]
		switch {
		case b.Spec.ApplicationRef.Name != application:
		case c.Name == b.Name && !restorable(b):
			return nil, fmt.Sprintf("Backup %q is not complete, is being deleted, or its data is missing: name another one",
				b.Name)
		case c.Name != "" && c.Name != b.Name, !restorable(b),
			c.Repository != "" && b.Spec.RepositoryRef.Name != c.Repository, c.Schedule != "" &&
				b.Labels[platformv1.ScheduleLabel] != c.Schedule:
		case chosen == nil || completed(b, chosen) > 0:
			chosen = b
		}
	}
	switch {
	case chosen != nil:
		return chosen, ""
	case c.Name != "":
		return nil, fmt.Sprintf("Application %q has no Backup %q", application, c.Name)
	}
	where := ""
	if c.Repository != "" {
		where += fmt.Sprintf(" in BackupRepository %q", c.Repository)
	}
	if c.Schedule != "" {
		where += fmt.Sprintf(" of schedule %q", c.Schedule)
	}
	return nil, fmt.Sprintf("Application %q has no Backup%s that is complete: back it up first", application, where)
}

// completed compares two Backups by when they were whole.
func completed(a, b *platformv1.Backup) int {
	if order := a.Status.CompletionTime.Compare(b.Status.CompletionTime.Time); order != 0 {
		return order
	}
	return strings.Compare(a.Name, b.Name)
}

// restorable says whether a Backup is whole, stays, and has its data as far as anybody knows.
func restorable(b *platformv1.Backup) bool {
	ready := meta.FindStatusCondition(b.Status.Conditions, platformv1.ReadyCondition)
	return b.Status.Phase == platformv1.BackupCompleted && b.Status.CompletionTime != nil &&
		b.DeletionTimestamp.IsZero() &&
		(ready == nil || ready.Reason != platformv1.ReasonBackupDataMissing)
}

// drilled is the instance of a drill: one pod for each set that the Backup is of, as large as those of the source, that
// begins with it. It has nothing that the source has for others or for later: no clients, users, schedules, metrics,
// certificates or windows. A step's outputs say which Backup it is.
func drilled(name string, source *platformv1.Application, backup map[string]string,
	method BackupMethod) *platformv1.Application {
	pinned := PinnedTo(source)
	part := platformv1.ApplicationComponent{Name: method.Component, Replicas: new(int32(1))}
	for set := range strings.FieldsSeq(backup[outputBackupSets]) {
		part.Sets = append(part.Sets, platformv1.ComponentSet{Name: set})
	}
	i := slices.IndexFunc(source.Spec.Components,
		func(c platformv1.ApplicationComponent) bool { return c.Name == method.Component })
	if i >= 0 {
		like := source.Spec.Components[i].DeepCopy()
		maps.DeleteFunc(like.Parameters, func(name string, _ platformv1.ParameterValue) bool {
			return !method.Verify.Takes(name)
		})
		part.Resources, part.Storage, part.Parameters, part.Scheduling = like.Resources, like.Storage, like.Parameters,
			like.Scheduling
	}
	if method.Spread {
		part.Storage = roomFor(part.Storage, backup[outputBackupRoom])
	}
	for name, value := range method.Verify.With {
		if part.Parameters == nil {
			part.Parameters = platformv1.Parameters{}
		}
		part.Parameters[name] = platformv1.ParameterValue(value)
	}
	itself := networkingv1.NetworkPolicyPeer{
		PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{platformv1.ApplicationLabel: name}}}
	return &platformv1.Application{
		ObjectMeta: metav1.ObjectMeta{Namespace: source.Namespace, Name: name,
			Labels: map[string]string{platformv1.DrillLabel: source.Name}},
		Spec: platformv1.ApplicationSpec{
			Plugin: pinned.Name, PluginVersion: pinned.Version, Version: backup[outputBackupVersion],
			Topology:       method.Verify.Topology,
			Components:     []platformv1.ApplicationComponent{part},
			NetworkPolicy:  &platformv1.NetworkPolicy{From: []networkingv1.NetworkPolicyPeer{itself}},
			DeletionPolicy: platformv1.DeletionPolicyDelete, RestoreFrom: &platformv1.RestoreFrom{Backup: backup[OutputBackup]},
		},
	}
}

// roomFor is the storage of a pod that has all of what the source has on the volumes of many: at least that of one of
// these, else a quarter more than the data, and a GiB.
func roomFor(like *platformv1.Storage, data string) *platformv1.Storage {
	bytes, _ := strconv.ParseInt(data, 10, 64)
	const gib = 1 << 30
	storage := &platformv1.Storage{Size: *resource.NewQuantity((bytes+bytes/4+gib-1)/gib*gib+gib, resource.BinarySI)}
	if like != nil {
		storage.StorageClassName = like.StorageClassName
		if like.Size.Cmp(storage.Size) > 0 {
			storage.Size = like.Size
		}
	}
	return storage
}

// Apart says whether a template touches nothing of its target, so that it waits for no other Operation but its like,
// and none for it.
func Apart(template optemplate.Template) bool {
	return len(template.Steps) > 0 && !slices.ContainsFunc(template.Steps,
		func(step optemplate.Step) bool { return !does(step, optemplate.EngineDrill) })
}

// Drilled are the names of the instances that the steps of an Operation may have made.
func Drilled(op *platformv1.Operation) []string {
	var names []string
	for i := range op.Status.Steps {
		if name := op.Status.Steps[i].Outputs[OutputInstance]; name != "" {
			names = append(names, name)
		}
	}
	return names
}

// Verdict is what a drill that runs has come to.
type Verdict struct {
	// Backup by name, and its UID.
	Backup string
	UID    types.UID
	// Verification to be noted there.
	Verification platformv1.BackupVerification
}

// VerdictOf returns what the latest drill of an Operation has come to that has not ended: it does not before its Backup
// says so. It is nil for none.
func VerdictOf(op *platformv1.Operation) *Verdict {
	if Finished(op) {
		return nil
	}
	var latest *Verdict
	for i := range op.Status.Steps {
		if v := verdictOf(op, &op.Status.Steps[i]); v != nil &&
			(latest == nil || latest.Verification.Time.Before(&v.Verification.Time)) {
			latest = v
		}
	}
	return latest
}

// ToldBy says whether a Backup says so already, or something newer.
func (v Verdict) ToldBy(b *platformv1.Backup) bool {
	said := b.Status.Verified
	return said != nil && (said.OperationUID == v.Verification.OperationUID && said.Time.Equal(&v.Verification.Time) ||
		v.Verification.Time.Before(&said.Time))
}

func verdictOf(op *platformv1.Operation, step *platformv1.StepStatus) *Verdict {
	at, err := time.Parse(time.RFC3339, step.Outputs[OutputJudged])
	if err != nil || step.Outputs[OutputOutcome] == "" {
		return nil
	}
	return &Verdict{Backup: step.Outputs[OutputBackup], UID: types.UID(step.Outputs[outputBackupUID]),
		Verification: platformv1.BackupVerification{
			Outcome: platformv1.VerificationOutcome(step.Outputs[OutputOutcome]), Time: metav1.NewTime(at),
			Message:   step.Outputs[OutputFound],
			Operation: op.Name, OperationUID: op.UID,
		}}
}
