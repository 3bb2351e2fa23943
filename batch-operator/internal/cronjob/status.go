// SPDX-License-Identifier: Apache-2.0

package cronjob

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/outcome"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
	"github.com/zeroinfra/batch-operator/internal/semaphore"
)

// refuse reports that a spec cannot be had. Runs that are under way go on and are counted when they end, those that
// wait have their turn, and times pass.
func refuse(cj *batchv1.CronJob, why error, waiting map[string]string, f facts) outcome.Outcome {
	p := &planner{cj: cj, facts: f}
	p.status = *cj.Status.DeepCopy()
	p.countEnded()
	cj.Status = p.status
	cj.Status.NextTimes, cj.Status.WaitingFor = nil, ""
	o := report(cj, outcome.Stalled(platformv1.ReasonInvalidSpec, why.Error()))
	if tellActive(cj, waiting, f.runs) {
		return o.Within(semaphore.Poll)
	}
	return o
}

// report writes the conditions of a CronJob.
func report(cj *batchv1.CronJob, o outcome.Outcome) outcome.Outcome {
	if o.Kind() == outcome.KindDone && cj.Spec.Suspend {
		o = outcome.Held(platformv1.ReasonSuspended, "no run begins: spec.suspend")
	}
	reportLast(cj)
	conditions.Report(cj, o, "runs begin at their times")
	return o
}

// reportLast says how the last run ended. Times have seconds: of two that ended within one the failure is told.
func reportLast(cj *batchv1.CronJob) {
	s := &cj.Status
	failed := s.LastFailure != nil && (s.LastSuccessTime == nil || !s.LastFailure.Time.Before(s.LastSuccessTime))
	switch {
	case failed:
		conditions.Set(cj, metav1.Condition{Type: batchv1.LastRunSucceededCondition, Status: metav1.ConditionFalse,
			Reason:  platformv1.ReasonOperationFailed,
			Message: "Operation " + s.LastFailure.Operation + " failed: " + s.LastFailure.Reason})
	case s.LastSuccessTime != nil:
		conditions.Set(cj, metav1.Condition{Type: batchv1.LastRunSucceededCondition, Status: metav1.ConditionTrue,
			Reason: "Succeeded", Message: "the last run succeeded"})
	}
}
