// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// Outputs of a step that makes a Backup.
const (
	// OutputBackup names the Backup that was made.
	OutputBackup = "backup"
	// OutputDigest, OutputSize and OutputSource tell of it once it is whole.
	OutputDigest = "digest"
	OutputSize   = "size"
	OutputSource = "source"
)

// Backup is what is to be done about a Backup.
type Backup struct {
	// Verb to do.
	Verb BackupVerb
	// Name of the Backup in the namespace of the Operation.
	Name string
	// Type of it. This and what follows is for BackupMake only.
	Type platformv1.BackupType
	// Repository, Method, Compression and DeletionPolicy of it.
	Repository, Method, Compression, DeletionPolicy string
	// Retention of it; nil for none.
	Retention *platformv1.BackupRetention
	// Series that it is counted in, as if a schedule of that name had made it; that of the Operation when empty.
	Series string
	// Timeout of it.
	Timeout time.Duration
}

// BackupVerb is what is done about a Backup.
type BackupVerb string

// Verbs.
const (
	// BackupMake makes it, or looks how it stands when it is there.
	BackupMake BackupVerb = "make"
	// BackupLook looks how it stands.
	BackupLook BackupVerb = "look"
	// BackupStop ends one that is not whole yet.
	BackupStop BackupVerb = "stop"
)

// BackupMethod is a method that the plugin of the target declares.
type BackupMethod struct {
	// Name of it.
	Name string
	// Component that it is of.
	Component string
	// Type says how it keeps the data; empty is BackupStream.
	Type platformv1.BackupType
	// Default says whether it is the one where nobody names one.
	Default bool
	// Spread says that the source has the data on the volumes of all its pods, whatever sets there are.
	Spread bool
	// Verify says how a drill judges what is restored of it; nil when nobody can.
	Verify *schema.VerifyMethod
}

// backupStep makes a Backup, whose controller does the work, and waits until it has ended.
type backupStep struct{}

func (s backupStep) advance(r *run, t *optemplate.Step, step *platformv1.StepStatus) verdict {
	values, why := r.values(t)
	if why != "" {
		return verdict{failed: why, final: yes, untouched: yes}
	}
	method, why := r.facts.backupMethod(values["method"])
	if why == "" {
		why = method.keptAs(values)
	}
	if why != "" {
		return verdict{failed: why, final: yes, untouched: yes}
	}
	retention, why := retentionOf(values)
	if why != "" {
		return verdict{failed: why, final: yes, untouched: yes}
	}
	if step.Phase == platformv1.OperationPending {
		r.begin(step)
		step.Outputs = nil
	}
	name := r.childName(step, item{})
	wanted := &Backup{Verb: BackupLook, Name: name}
	if step.Outputs[OutputBackup] == "" {
		wanted = &Backup{Verb: BackupMake, Name: name, Type: method.Type, Repository: values["repository"],
			Method: method.Name, Compression: values["compression"], DeletionPolicy: values["deletionPolicy"],
			Retention: retention,
			Series:    values["series"], Timeout: r.jobDeadline(t, step)}
	}
	waiting := fmt.Sprintf("Backup %q", name)
	answer, v := r.answer(&Effect{Key: r.key(step, ""), Backup: wanted}, waiting)
	if answer == nil {
		if wanted.Verb == BackupLook {
			v.untouched = ""
		}
		return v
	}
	state := answer.Backup
	if state == nil {
		if wanted.Verb == BackupLook {
			return failedf("%s is gone before it was complete: somebody deleted it", waiting)
		}
		return verdict{waiting: waiting, retry: objectPoll}
	}
	setOutput(step, OutputBackup, name)
	switch state.Status.Phase {
	case platformv1.BackupCompleted:
		setOutput(step, OutputDigest, state.Status.Digest)
		setOutput(step, OutputSize, strconv.FormatInt(state.Status.Size, 10))
		setOutput(step, OutputSource, state.Status.SourcePods)
		return verdict{}
	case platformv1.BackupFailed, platformv1.BackupDeleting:
		return failedf("%s failed: %s", waiting, cmp.Or(state.Status.Message, "it is being deleted"))
	}
	if state.Status.Message != "" {
		waiting += ": " + state.Status.Message
	}
	return verdict{waiting: waiting}
}

// leastAge is the least that a retention by age can say.
const leastAge = time.Minute

// retentionOf returns the retention that parameters ask for, nil for none; why says why there can be no such one.
func retentionOf(values map[string]string) (retention *platformv1.BackupRetention, why string) {
	count, age := values["maxCount"], values["maxAge"]
	if count == "" && age == "" {
		return nil, ""
	}
	if values["deletionPolicy"] == string(platformv1.BackupRetain) {
		return nil, "parameters \"maxCount\" and \"maxAge\" have Backups deleted with what is kept, and \"deletionPolicy\" " +
			"Retain has that stay: leave out one or the other"
	}
	retention = &platformv1.BackupRetention{}
	if count != "" {
		most, err := strconv.ParseInt(count, 10, 32)
		if err != nil || most < 1 {
			return nil, fmt.Sprintf("parameter \"maxCount\" is %q: give a whole number from 1 on", count)
		}
		retention.MaxCount = new(int32(most))
	}
	if age != "" {
		longest, err := time.ParseDuration(age)
		if err != nil || longest < leastAge {
			return nil, fmt.Sprintf("parameter \"maxAge\" is %q: give a duration of a minute at least, such as 720h", age)
		}
		retention.MaxAge = &metav1.Duration{Duration: longest}
	}
	return retention, ""
}

// keptAs says why a Backup by the method cannot be kept as parameters ask for; empty when it can.
func (m BackupMethod) keptAs(values map[string]string) string {
	if m.Type == platformv1.BackupSnapshot && values["compression"] != "" {
		return fmt.Sprintf("method %q keeps its data as VolumeSnapshots, which are not compressed: leave parameter "+
			"\"compression\" out", m.Name)
	}
	if m.Type == platformv1.BackupFiles && values["compression"] != "" {
		return fmt.Sprintf("method %q has restic keep its data, which chooses the compression itself: leave parameter "+
			"\"compression\" out", m.Name)
	}
	return Misplaced(m.Name, m.Type, values["repository"])
}

// Misplaced says why a Backup by a method cannot be kept in a repository, or in none when that is empty; empty when it
// can.
func Misplaced(method string, kept platformv1.BackupType, repository string) string {
	switch snapshot := kept == platformv1.BackupSnapshot; {
	case snapshot && repository != "":
		return fmt.Sprintf("method %q keeps its data as VolumeSnapshots, in no BackupRepository: leave parameter "+
			"\"repository\" out", method)
	case !snapshot && repository == "":
		return fmt.Sprintf("method %q keeps its data in a BackupRepository: name one in parameter \"repository\"", method)
	}
	return ""
}

// backupMethod returns the method that is meant; why says why there is none.
func (f Facts) backupMethod(named string) (method BackupMethod, why string) {
	var known []string
	var only BackupMethod
	for _, m := range f.BackupMethods {
		if f.Component != "" && m.Component != f.Component {
			continue
		}
		known, only = append(known, m.Name), m
		if m.Name == named || named == "" && m.Default {
			method = m
		}
	}
	switch {
	case len(known) == 0:
		return method, fmt.Sprintf("the plugin declares no method by which %s could be backed up", f.Target)
	case method.Name == "" && named == "" && len(known) == 1:
		return only, ""
	case method.Name == "" && named == "":
		return method, fmt.Sprintf("name a method in parameter \"method\": %s has %s", f.Target, list(known))
	case method.Name == "":
		slices.Sort(known)
		return method, fmt.Sprintf("%s has no backup method %q; it has: %s", f.Target, named, list(known))
	}
	return method, ""
}

// withdrawBackup ends what a step left running that was stopped, and is done when its Backup says so.
func (r *run) withdrawBackup(step *platformv1.StepStatus) verdict {
	if step.Phase != platformv1.OperationCancelled && step.Phase != platformv1.OperationFailed {
		return verdict{}
	}
	name := r.childName(step, item{})
	waiting := fmt.Sprintf("Backup %q to end", name)
	answer, v := r.answer(&Effect{Key: string(r.op.UID) + "/stop/" + name, Backup: &Backup{Verb: BackupStop, Name: name}},
		waiting)
	switch {
	case v.failed != "":
		return verdict{}
	case answer == nil:
		return v
	case answer.Backup != nil && !answer.Backup.Ended():
		return verdict{waiting: waiting}
	}
	return verdict{}
}

func (r *run) describeBackup(t *optemplate.Step) (lines []string, why string) {
	values, why := r.values(t)
	if why != "" {
		// What an earlier step finds out is not known before.
		return []string{fmt.Sprintf("backs the data up into BackupRepository %s by the method %s",
			r.shown(t, t.Engine.With["repository"]), r.shown(t, t.Engine.With["method"]))}, ""
	}
	method, why := r.facts.backupMethod(values["method"])
	if why != "" {
		return nil, why
	}
	if why = method.keptAs(values); why != "" {
		return nil, why
	}
	if _, why = retentionOf(values); why != "" {
		return nil, why
	}
	if method.Type == platformv1.BackupSnapshot {
		return []string{fmt.Sprintf("backs the data up as VolumeSnapshots by the method %q", method.Name)}, ""
	}
	return []string{fmt.Sprintf("backs the data up into BackupRepository %q by the method %q", values["repository"],
		method.Name)}, ""
}
