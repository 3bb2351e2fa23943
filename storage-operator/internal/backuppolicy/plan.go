// SPDX-License-Identifier: Apache-2.0

package backuppolicy

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	storagev1 "github.com/zeroinfra/storage-operator/api/v1"
)

const (
	// annotationPrefix is that of the annotation of an Application whose schedule of the name that follows is that of a
	// policy; the value is the policy's UID.
	annotationPrefix = "backup-policy.storage.zeroinfra.github.com/"
	// drillPrefix is that of the annotation of one that has the schedule of the policy's drill, too; the value is the
	// same.
	drillPrefix = "backup-drill.storage.zeroinfra.github.com/"
	// template that is run, and drillTemplate for a drill.
	template      = "Backup"
	drillTemplate = "VerifyBackup"
	// drillSuffix follows the name of the policy in that of the schedule of its drill.
	drillSuffix = "-drill"
	// backupSuffix follows the name of an Operation of that template in the name of its Backup.
	backupSuffix = "-backup"
	// grace is how long after its time an Operation may take to make its Backup before that counts as a failure.
	grace = 5 * time.Minute
	// applicationKind is the kind of what nothing else declares.
	applicationKind = "Application"
)

// facts are what a policy is decided on.
type facts struct {
	now time.Time
	// name of the policy; policy is nil when it is gone.
	name   string
	policy *storagev1.BackupPolicy
	// applications that there are, and backups of the policy.
	applications []platformv1.Application
	backups      []platformv1.Backup
	// repositories by namespace, those of the name that the policy gives.
	repositories map[string]struct{}
	// refusal says why the schedule of the policy cannot be; empty when it can.
	refusal string
}

// edit is a schedule to bring into an Application, or to take away.
type edit struct {
	application *platformv1.Application
	// schedules; none to take them away.
	schedules []platformv1.Schedule
}

// plan is what comes of a policy.
type plan struct {
	edits   []edit
	sources []storagev1.BackupPolicySource
	// pending is how many of the sources wait for their operator to take the schedule up.
	pending int
	// next is when something changes without anybody telling; zero for never.
	next time.Time
}

// decide says what a policy asks for.
func decide(f facts) (plan, error) {
	var p plan
	chosen := func(*platformv1.Application) bool { return false }
	var wanted []platformv1.Schedule
	if f.policy != nil && f.policy.DeletionTimestamp.IsZero() {
		selector, err := selectorOf(&f.policy.Spec.Selector)
		if err != nil {
			return p, err
		}
		chosen, wanted = selector, schedulesOf(f.policy)
	}
	of := map[types.NamespacedName][]*platformv1.Backup{}
	for i := range f.backups {
		b := &f.backups[i]
		key := types.NamespacedName{Namespace: b.Namespace, Name: b.Spec.ApplicationRef.Name}
		of[key] = append(of[key], b)
	}
	for i := range f.applications {
		app := &f.applications[i]
		if !app.DeletionTimestamp.IsZero() {
			continue
		}
		if !chosen(app) {
			if _, ours := app.Annotations[annotationPrefix+f.name]; ours {
				p.edits = append(p.edits, edit{application: app})
			}
			continue
		}
		p.take(f, app, wanted, of[types.NamespacedName{Namespace: app.Namespace, Name: app.Name}])
	}
	return p, nil
}

// notTakenUp is the message of a source that is pending.
const notTakenUp = "the operator of its domain has not taken the schedule up yet: " +
	"is it installed, and the instance accepted?"

// take decides on an instance that the policy chooses.
func (p *plan) take(f facts, app *platformv1.Application, wanted []platformv1.Schedule, backups []*platformv1.Backup) {
	source := storagev1.BackupPolicySource{Namespace: app.Namespace, Application: app.Name, Kind: kindOf(app),
		State: storagev1.SourceUncovered}
	succeeded(&source, backups)
	_, ours := app.Annotations[annotationPrefix+f.name]
	taken := slices.IndexFunc(wanted, func(s platformv1.Schedule) bool { return scheduleIn(app, s.Name) != nil })
	_, kept := f.repositories[app.Namespace]
	switch {
	case f.refusal != "":
		source.Message = f.refusal
	case taken >= 0 && !ours:
		source.Message = fmt.Sprintf("it has a schedule %q of its own: give one of the two another name", wanted[taken].Name)
	case !kept && f.policy.Spec.RepositoryRef.Name != "":
		source.Message = fmt.Sprintf("there is no BackupRepository %q in namespace %q: create it",
			f.policy.Spec.RepositoryRef.Name, app.Namespace)
		if ours {
			p.edits = append(p.edits, edit{application: app})
		}
	default:
		if !ours || app.Annotations[annotationPrefix+f.name] != string(f.policy.UID) || !placedIn(app, f.policy, wanted) {
			p.edits = append(p.edits, edit{app, wanted})
		}
		p.judge(f, app, &source, backups)
		p.judgeDrill(f, app, &source, backups)
	}
	p.sources = append(p.sources, source)
}

// judge says how it is with an instance that has the schedule, or is to have it.
func (p *plan) judge(f facts, app *platformv1.Application, source *storagev1.BackupPolicySource,
	backups []*platformv1.Backup) {
	i := slices.IndexFunc(app.Status.Schedules, func(s platformv1.ScheduleStatus) bool { return s.Name == f.name })
	var status platformv1.ScheduleStatus
	if i >= 0 {
		status = app.Status.Schedules[i]
	}
	source.NextTime, source.LastTime = status.NextTime, status.LastTime
	switch {
	case f.policy.Spec.Suspend:
		source.Message, source.NextTime = "the policy is suspended", nil
	case app.Spec.Suspend:
		source.Message = "the instance is suspended"
	case status.Reason == platformv1.ReasonNotPossible:
		source.Message = status.Message
	case status.NextTime == nil:
		p.pending++
		source.Message = notTakenUp
	default:
		source.State = storagev1.SourceCovered
		if source.Message = p.against(f, status, source, backups); source.Message != "" {
			source.State = storagev1.SourceFailing
		}
	}
}

// against says why the last time did not lead to a backup that is there; empty when it did, or still may.
func (p *plan) against(f facts, status platformv1.ScheduleStatus, source *storagev1.BackupPolicySource,
	backups []*platformv1.Backup) string {
	if status.Message != "" {
		return status.Message
	}
	i := slices.IndexFunc(backups, func(b *platformv1.Backup) bool { return b.Name == status.LastOperation+backupSuffix })
	last := newest(backups)
	switch {
	case i >= 0 && backups[i].Status.Phase == platformv1.BackupFailed:
		return cmp.Or(backups[i].Status.Message, "the last backup failed")
	case i >= 0 && !backups[i].Ended():
		return ""
	case last != nil && missing(last):
		return fmt.Sprintf("the last Backup %q has no data any more: %s", last.Name,
			cmp.Or(last.Status.Message, "put it back, or delete that Backup"))
	case i >= 0, status.LastTime == nil, source.LastSuccessTime != nil &&
		!source.LastSuccessTime.Time.Before(status.LastTime.Time):
		return ""
	}
	if until := status.LastTime.Add(grace); f.now.Before(until) {
		if p.next.IsZero() || until.Before(p.next) {
			p.next = until
		}
		return ""
	}
	return fmt.Sprintf("Operation %q has made no Backup, or somebody deleted it: see what it says", status.LastOperation)
}

// succeeded notes the latest backup that is whole, and has its data as far as is known.
func succeeded(source *storagev1.BackupPolicySource, backups []*platformv1.Backup) {
	there := slices.DeleteFunc(slices.Clone(backups), missing)
	if last := newest(there); last != nil {
		source.LastSuccessTime, source.LastBackup = last.Status.CompletionTime, last.Name
	}
}

// newest is the Backup that was whole last; nil for none.
func newest(backups []*platformv1.Backup) *platformv1.Backup {
	var last *platformv1.Backup
	for _, b := range backups {
		at := b.Status.CompletionTime
		if b.Status.Phase == platformv1.BackupCompleted && at != nil &&
			(last == nil || last.Status.CompletionTime.Before(at)) {
			last = b
		}
	}
	return last
}

// placedIn says whether an instance has the schedules of a policy, and none of a drill that the policy has no more.
func placedIn(app *platformv1.Application, policy *storagev1.BackupPolicy, wanted []platformv1.Schedule) bool {
	for i := range wanted {
		if there := scheduleIn(app, wanted[i].Name); there == nil || !equality.Semantic.DeepEqual(*there, wanted[i]) {
			return false
		}
	}
	_, drills := app.Annotations[drillPrefix+policy.Name]
	return drills == (policy.Spec.Drill != nil)
}

// schedulesOf are the schedules that a policy compiles to.
func schedulesOf(policy *storagev1.BackupPolicy) []platformv1.Schedule {
	schedules := []platformv1.Schedule{scheduleOf(policy)}
	if drill := policy.Spec.Drill; drill != nil {
		schedules = append(schedules, platformv1.Schedule{
			Name: policy.Name + drillSuffix, Schedule: drill.Schedule, TimeZone: cmp.Or(drill.TimeZone, policy.Spec.TimeZone),
			Suspend:    policy.Spec.Suspend,
			MissedRuns: platformv1.MissedLatest, Concurrency: platformv1.ConcurrencySkip,
			Operation: platformv1.ScheduledOperation{TemplateRef: drillTemplate,
				Parameters: platformv1.Parameters{"schedule": platformv1.ParameterValue(policy.Name)},
				Timeout:    drill.Timeout, TTLSecondsAfterFinished: policy.Spec.TTLSecondsAfterFinished},
		})
	}
	return schedules
}

// scheduleOf is the schedule of the backups of a policy.
func scheduleOf(policy *storagev1.BackupPolicy) platformv1.Schedule {
	spec := policy.Spec.DeepCopy()
	parameters := platformv1.Parameters{}
	if spec.RepositoryRef.Name != "" {
		parameters["repository"] = platformv1.ParameterValue(spec.RepositoryRef.Name)
	}
	if spec.Method != "" {
		parameters["method"] = platformv1.ParameterValue(spec.Method)
	}
	if spec.Compression != "" {
		parameters["compression"] = platformv1.ParameterValue(spec.Compression)
	}
	if r := spec.Retention; r != nil && r.MaxCount != nil {
		parameters["maxCount"] = platformv1.ParameterValue(strconv.Itoa(int(*r.MaxCount)))
	}
	if r := spec.Retention; r != nil && r.MaxAge != nil {
		parameters["maxAge"] = platformv1.ParameterValue(r.MaxAge.Duration.String())
	}
	return platformv1.Schedule{
		Name: policy.Name, Schedule: spec.Schedule, TimeZone: spec.TimeZone, Suspend: spec.Suspend,
		MissedRuns: platformv1.MissedLatest, Concurrency: platformv1.ConcurrencySkip,
		Operation: platformv1.ScheduledOperation{TemplateRef: template, Parameters: parameters, Timeout: spec.Timeout,
			TTLSecondsAfterFinished: spec.TTLSecondsAfterFinished},
	}
}

func scheduleIn(app *platformv1.Application, name string) *platformv1.Schedule {
	i := slices.IndexFunc(app.Spec.Schedules, func(s platformv1.Schedule) bool { return s.Name == name })
	if i < 0 {
		return nil
	}
	return &app.Spec.Schedules[i]
}

// selectorOf returns what chooses instances.
func selectorOf(selector *storagev1.BackupSelector) (func(*platformv1.Application) bool, error) {
	among := labels.Everything()
	if selector.Labels != nil {
		var err error
		if among, err = metav1.LabelSelectorAsSelector(selector.Labels); err != nil {
			return nil, fmt.Errorf("selector.labels: %w", err)
		}
	}
	return func(app *platformv1.Application) bool {
		if _, drill := app.Labels[platformv1.DrillLabel]; drill {
			// It is a copy that is removed at once.
			return false
		}
		return (len(selector.Namespaces) == 0 || slices.Contains(selector.Namespaces, app.Namespace)) &&
			(len(selector.Kinds) == 0 || slices.Contains(selector.Kinds, kindOf(app))) && among.Matches(labels.Set(app.Labels))
	}, nil
}

// kindOf is the kind of the object that declares an instance.
func kindOf(app *platformv1.Application) string {
	if declarer := metav1.GetControllerOf(app); declarer != nil {
		return declarer.Kind
	}
	return applicationKind
}

// sorted has what somebody has to look at first.
func sorted(sources []storagev1.BackupPolicySource) []storagev1.BackupPolicySource {
	order := map[storagev1.BackupSourceState]int{storagev1.SourceUncovered: 0, storagev1.SourceFailing: 1,
		storagev1.SourceCovered: 2}
	slices.SortFunc(sources, func(a, b storagev1.BackupPolicySource) int {
		return cmp.Or(cmp.Compare(order[a.State], order[b.State]), strings.Compare(a.Namespace, b.Namespace),
			strings.Compare(a.Application, b.Application))
	})
	return sources
}
