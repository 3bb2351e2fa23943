// SPDX-License-Identifier: Apache-2.0

//go:build integration

package cronjob

import (
	"strings"
	"testing"

	kubebatchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

// licensed has the runs of CronJobs hold the one place of a semaphore.
func (p *place) licensed(priority int32) func(*batchv1.CronJobSpec) {
	return func(s *batchv1.CronJobSpec) {
		ref := batchv1.LimitReference{Name: "limits", Key: "licenses"}
		s.Synchronization = &batchv1.Synchronization{Priority: priority,
			Semaphores: []batchv1.Semaphore{{ConfigMapKeyRef: ref}}}
	}
}

// limit creates the ConfigMap of that semaphore.
func (p *place) limit() {
	p.Helper()
	meta := metav1.ObjectMeta{Namespace: p.namespace, Name: "limits"}
	p.create(&corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"licenses": "1"}})
}

// waitsFor waits until the run of a CronJob waits, and its message has a text.
func (p *place) waitsFor(cj *batchv1.CronJob, text string) {
	p.Helper()
	p.waits(cj, "waits: "+text, func(s batchv1.CronJobStatus) bool {
		return len(s.Active) == 1 && strings.Contains(s.Active[0].Message, text)
	})
}

// Runs of two CronJobs hold one semaphore. The controllers stop while one of them waits.
func TestRunsOfCronJobsTakeTurns(t *testing.T) {
	p := newPlace(t)
	p.limit()
	a, b := p.script("a", p.licensed(0)), p.script("b", p.licensed(0))
	p.after(10, b)
	stop := p.serve()
	p.waits(a, "is served", func(s batchv1.CronJobStatus) bool { return len(s.NextTimes) > 0 })
	p.waits(b, "is served", func(s batchv1.CronJobStatus) bool { return len(s.NextTimes) > 0 })
	p.reach(1, a)
	p.job(a, 1)
	p.reach(1, b)
	held := `held by Operation "` + nameOf(a, p.due(a, 1)) + `"`
	p.waitsFor(b, held)
	stop()
	p.serve()
	p.waitsFor(b, held)
	p.finish(a, 1, kubebatchv1.JobComplete)
	p.wantCounts(a, 1, 1, 0, 0)
	p.finish(b, 1, kubebatchv1.JobComplete)
	p.wantCounts(b, 1, 1, 0, 0)
	p.wantRuns(b, 1)
}

// One waits whose CronJob was made invalid meanwhile: it has its turn, which is the first, and others theirs after it.
func TestRunOfACronJobThatBecameInvalidHasItsTurn(t *testing.T) {
	p := newPlace(t)
	p.limit()
	a, b, c := p.script("a", p.licensed(0)), p.script("b", p.licensed(0)), p.script("c", p.licensed(5))
	p.after(10, c)
	p.after(20, b)
	p.serve()
	for _, cj := range []*batchv1.CronJob{a, b, c} {
		p.waits(cj, "is served", func(s batchv1.CronJobStatus) bool { return len(s.NextTimes) > 0 })
	}
	p.reach(1, a)
	p.job(a, 1)
	held := `held by Operation "` + nameOf(a, p.due(a, 1)) + `"`
	p.reach(1, c)
	p.waitsFor(c, held)
	p.reach(1, b)
	p.waitsFor(b, held+`; ahead of it: Operation "`+nameOf(c, p.due(c, 1))+`"`)
	p.edit(c, func() { c.Spec.TimeZone = "Europe/Berln" })
	p.says(c, platformv1.StalledCondition, platformv1.ReasonInvalidSpec, `time zone "Europe/Berln" does not exist`)
	p.waitsFor(c, held)
	p.finish(a, 1, kubebatchv1.JobComplete)
	p.job(c, 1)
	p.waits(c, "does not wait", func(s batchv1.CronJobStatus) bool { return s.Active[0].Message == "" })
	p.annotate(b, "test/wake", "again")
	p.waitsFor(b, `held by Operation "`+nameOf(c, p.due(c, 1))+`"`)
	p.finish(c, 1, kubebatchv1.JobComplete)
	p.job(b, 1)
	p.finish(b, 1, kubebatchv1.JobComplete)
	p.wantCounts(b, 1, 1, 0, 0)
	p.edit(c, func() { c.Spec.TimeZone = "UTC" })
	p.wantCounts(c, 1, 1, 0, 0)
	p.wantRuns(c, 1)
}
