// SPDX-License-Identifier: Apache-2.0

package backuppolicy

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"

	storagev1 "github.com/zeroinfra/storage-operator/api/v1"
)

// defaultDrillTimeout is that of a policy whose API server fills in none.
const defaultDrillTimeout = 6 * time.Hour

// judgeDrill says how it is with the drills of an instance, where the policy asks for some.
func (p *plan) judgeDrill(f facts, app *platformv1.Application, source *storagev1.BackupPolicySource,
	backups []*platformv1.Backup) {
	if f.policy.Spec.Drill == nil {
		return
	}
	var last *platformv1.BackupVerification
	for _, b := range backups {
		if v := b.Status.Verified; v != nil && (last == nil || last.Time.Before(&v.Time)) {
			last, source.Verified, source.VerifiedTime, source.VerifiedBackup = v, v.Outcome, &v.Time, b.Name
		}
	}
	i := slices.IndexFunc(app.Status.Schedules,
		func(s platformv1.ScheduleStatus) bool { return s.Name == f.name+drillSuffix })
	var status platformv1.ScheduleStatus
	if i >= 0 {
		status = app.Status.Schedules[i]
	}
	if !f.policy.Spec.Suspend {
		source.NextDrillTime = status.NextTime
	}
	switch {
	case status.Reason == platformv1.ReasonNotPossible:
		source.DrillReason, source.DrillMessage = status.Reason, status.Message
	case last != nil && last.Outcome == platformv1.VerificationFailed:
		source.DrillMessage = fmt.Sprintf("Backup %q is not good: %s", source.VerifiedBackup, last.Message)
	case last != nil && last.Outcome != platformv1.VerificationPassed:
		source.DrillMessage = fmt.Sprintf("it is not known whether Backup %q is good: %s", source.VerifiedBackup,
			last.Message)
	case status.LastTime == nil || last != nil && !last.Time.Before(status.LastTime):
	default:
		source.DrillMessage = p.overdue(f, status)
	}
}

// overdue says that the last drill has come to nothing; empty while it still may.
func (p *plan) overdue(f facts, status platformv1.ScheduleStatus) string {
	timeout := defaultDrillTimeout
	if given := f.policy.Spec.Drill.Timeout; given != nil {
		timeout = given.Duration
	}
	if until := status.LastTime.Add(timeout + grace); f.now.Before(until) {
		if p.next.IsZero() || until.Before(p.next) {
			p.next = until
		}
		return ""
	}
	return fmt.Sprintf("Operation %q has verified nothing: see what it says", status.LastOperation)
}

// reportVerified says whether the backups of all instances were found good.
func reportVerified(policy *storagev1.BackupPolicy, sources []storagev1.BackupPolicySource) {
	if policy.Spec.Drill == nil {
		conditions.Remove(policy, platformv1.BackupsVerifiedCondition)
		return
	}
	var verified int32
	var unverified, undrillable list
	for i := range sources {
		one := &sources[i]
		switch {
		case one.DrillReason == platformv1.ReasonNotPossible:
			undrillable.add(one)
		case one.DrillMessage != "":
			unverified.add(one)
		case one.Verified != "":
			verified++
		}
	}
	policy.Status.Unverified, policy.Status.Undrillable = unverified.count, undrillable.count
	condition := metav1.Condition{Type: platformv1.BackupsVerifiedCondition, Status: metav1.ConditionTrue,
		Reason: platformv1.ReasonVerified,
		Message: fmt.Sprintf("of %d instances %d had a drill, and it found the last backup of each good", len(sources),
			verified)}
	switch {
	case unverified.count > 0:
		condition.Status, condition.Reason = metav1.ConditionFalse, platformv1.ReasonVerificationFailed
		condition.Message = fmt.Sprintf("%d of %d instances have no backup that the last drill found good%s",
			unverified.count, len(sources), unverified.text)
	case verified == 0 && len(sources) > 0 && int(undrillable.count) == len(sources):
		condition.Status, condition.Reason, condition.Message = metav1.ConditionUnknown, platformv1.ReasonNotPossible,
			"no drill is possible of any instance"+undrillable.text
	case verified == 0:
		condition.Status, condition.Reason, condition.Message = metav1.ConditionUnknown, platformv1.ReasonProgressing,
			"no drill has come to an end yet"
	case undrillable.count > 0:
		condition.Message += fmt.Sprintf("; no drill is possible of %d others%s", undrillable.count, undrillable.text)
	}
	conditions.Set(policy, condition)
}

// list counts sources, and says of the first ones what there is about their drills.
type list struct {
	count int32
	text  string
}

func (l *list) add(source *storagev1.BackupPolicySource) {
	if l.count++; l.count <= mostNamed {
		l.text += fmt.Sprintf("; %s/%s: %s", source.Namespace, source.Application, source.DrillMessage)
	}
}
