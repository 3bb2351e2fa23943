// SPDX-License-Identifier: Apache-2.0

package application

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
)

// judgedField indexes Backups that a drill has judged, by the name of their Application: few are, of all that are kept.
const judgedField = "judgedOf"

func judgedOf(obj client.Object) []string {
	if b := obj.(*platformv1.Backup); b.Status.Verified != nil {
		return []string{b.Spec.ApplicationRef.Name}
	}
	return nil
}

// observeDrills looks which Backup of the instance was judged last.
func (c *Controller) observeDrills(ctx context.Context, app *platformv1.Application, f *facts) error {
	var list platformv1.BackupList
	err := c.client.List(ctx, &list, client.InNamespace(app.Namespace), client.MatchingFields{judgedField: app.Name}, client.UnsafeDisableDeepCopy)
	if err != nil {
		return fmt.Errorf("cannot list the Backups of Application %q: %w", app.Name, err)
	}
	f.judged = lastJudged(app, list.Items)
	return nil
}

// lastJudged is the Backup of an instance that a drill judged last, as far as it is there; nil for none. One of an instance of this name that is gone tells
// nothing of this one.
func lastJudged(app *platformv1.Application, backups []platformv1.Backup) *platformv1.Backup {
	var last *platformv1.Backup
	for i := range backups {
		b := &backups[i]
		if b.Status.Verified == nil || b.Spec.ApplicationRef.Name != app.Name || !b.DeletionTimestamp.IsZero() || b.Status.Verified.Time.Before(&app.CreationTimestamp) {
			continue
		}
		if last == nil || last.Status.Verified.Time.Before(&b.Status.Verified.Time) {
			last = b
		}
	}
	return last
}

// reportVerified says what the last drill came to.
func reportVerified(app *platformv1.Application, f *facts) {
	if f.judged == nil {
		conditions.Remove(app, platformv1.BackupsVerifiedCondition)
		return
	}
	v := f.judged.Status.Verified
	at := v.Time.UTC().Format(time.RFC3339)
	condition := metav1.Condition{Type: platformv1.BackupsVerifiedCondition, Status: metav1.ConditionFalse}
	switch v.Outcome {
	case platformv1.VerificationPassed:
		condition.Status, condition.Reason = metav1.ConditionTrue, platformv1.ReasonVerified
		condition.Message = fmt.Sprintf("Backup %q was restored and found good at %s", f.judged.Name, at)
	case platformv1.VerificationFailed:
		condition.Reason = platformv1.ReasonVerificationFailed
		condition.Message = fmt.Sprintf("Backup %q is not good, as drill %q found at %s: %s", f.judged.Name, v.Operation, at, v.Message)
	default:
		condition.Reason = platformv1.ReasonDrillUnfinished
		condition.Message = fmt.Sprintf("it is not known whether Backup %q is good, since drill %q came to no end at %s: %s", f.judged.Name, v.Operation, at, v.Message)
	}
	conditions.Set(app, condition)
}

// tellVerified publishes a drill that did not find what it should have, once for each.
func (c *Controller) tellVerified(app *platformv1.Application, before *metav1.Condition) {
	now := conditions.Get(app, platformv1.BackupsVerifiedCondition)
	if now != nil && now.Status == metav1.ConditionFalse && (before == nil || before.Message != now.Message) {
		c.events.Warning(app, now.Reason, "%s.", now.Message)
	}
}
