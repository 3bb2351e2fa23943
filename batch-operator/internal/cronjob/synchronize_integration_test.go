// SPDX-License-Identifier: Apache-2.0

//go:build integration

package cronjob

import (
	"strings"
	"testing"

	kubebatchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

// Runs of two CronJobs hold one semaphore. The controllers stop while one of them waits.
func TestRunsOfCronJobsTakeTurns(t *testing.T) {
	p := newPlace(t)
	meta := metav1.ObjectMeta{Namespace: p.namespace, Name: "limits"}
	p.create(&corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"licenses": "1"}})
	held := func(s *batchv1.CronJobSpec) {
		ref := batchv1.LimitReference{Name: "limits", Key: "licenses"}
		s.Synchronization = &batchv1.Synchronization{Semaphores: []batchv1.Semaphore{{ConfigMapKeyRef: ref}}}
	}
	a, b := p.script("a", held), p.script("b", held)
	stop := p.serve()
	p.waits(a, "is served", func(s batchv1.CronJobStatus) bool { return len(s.NextTimes) > 0 })
	p.waits(b, "is served", func(s batchv1.CronJobStatus) bool { return len(s.NextTimes) > 0 })
	p.reach(1, a)
	p.job(a, 1)
	p.reach(1, b)
	waits := func(s batchv1.CronJobStatus) bool {
		return len(s.Active) == 1 && strings.Contains(s.Active[0].Message, `held by Operation "`+nameOf(a, year(1))+`"`)
	}
	p.waits(b, "waits", waits)
	stop()
	p.serve()
	p.waits(b, "waits", waits)
	p.finish(a, 1, kubebatchv1.JobComplete)
	p.wantCounts(a, 1, 1, 0, 0)
	p.finish(b, 1, kubebatchv1.JobComplete)
	p.wantCounts(b, 1, 1, 0, 0)
	p.wantRuns(b, 1)
}
