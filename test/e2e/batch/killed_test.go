// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// TestRunsGoOnWhenTheOperatorIsKilled kills every process of the operator three times while runs are under way. Each
// attempt has one Job, each time of a schedule one run, and all end.
func TestRunsGoOnWhenTheOperatorIsKilled(t *testing.T) {
	p := newPlace(framework.NewNamespace(t, "killed"))
	cj := p.cronJob("ticks", "concurrency: {policy: Allow}\nmissedRuns: {policy: All, max: 1000}\nhistory: {succeeded: "+
		"1000}\ntask: {http: {url: '"+p.url("/ticks")+"'}}")
	wf := p.workflow("killed", `
tasks:
  - {name: first, script: {`+shell+`, source: sleep 5}}
  - {name: many, dependsOn: [{name: first}], forEach: {items: [a, b, c, d, e, f], parallelism: 2}, script: {`+shell+
		`, source: sleep 3}}
  - {name: last, dependsOn: [{name: many}], http: {url: '`+p.url("/killed")+`'}}
`)
	var killed []time.Time
	for kill := range 3 {
		jobs := 1 + 2*kill
		p.Eventually(framework.ReadyTimeout, fmt.Sprintf("%d Jobs were made", jobs), func() error {
			p.MustGet(wf.Name, wf)
			return expect(wf.Status.Operation != "" && len(p.jobs(wf.Status.Operation)) >= jobs, wf.Status)
		})
		killed = append(killed, time.Now())
		p.KillOperator(batchOperator)
	}
	p.ended(wf, batchv1.WorkflowSucceeded)
	if n := len(p.jobs(wf.Status.Operation)); n != 7 {
		t.Errorf("the run has %d Jobs, want 7: one for each attempt", n)
	}
	p.logNextPods(wf.Status.Operation, killed)
	p.until(cj, "has runs", func(s batchv1.CronJobStatus) bool { return s.Counts.Succeeded >= 3 })
	p.change(cj, "suspend: true")
	p.once(cj)
}

// logNextPods tells how long after each kill the next pod of an Operation was created. API servers tell that in whole
// seconds, and the kill takes a moment to begin: it was not longer.
func (p *place) logNextPods(operation string, killed []time.Time) {
	p.Helper()
	var pods corev1.PodList
	if err := framework.Cluster.Client.List(p.Ctx, &pods, client.InNamespace(p.Name),
		client.MatchingLabels{platformv1.OperationLabel: operation}); err != nil {
		p.Fatal(err)
	}
	for n, at := range killed {
		next := time.Time{}
		for i := range pods.Items {
			created := pods.Items[i].CreationTimestamp.Time
			if created.After(at) && (next.IsZero() || created.Before(next)) {
				next = created
			}
		}
		if next.IsZero() {
			p.Logf("no pod was left to be created after kill %d", n+1)
			continue
		}
		p.Logf("the next pod was created %s after kill %d", next.Sub(at).Round(time.Second), n+1)
	}
}
