// SPDX-License-Identifier: Apache-2.0

package batch

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// TestSmokeBatch uses the samples of the batch operator: two runs come at their times and one on request, and all go
// with the CronJob; a Workflow runs its tasks.
func TestSmokeBatch(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespaceWithOperator(t, batchOperator)
	all := s.ApplySamplesOf(batchOperator)
	for _, name := range all.Names("CronJob") {
		edit(s, name, `{"spec":{"schedules":["*/5 * * * * *"],"concurrency":{"policy":"Queue","max":2}}}`)
		succeeded(s, name, 2)
		edit(s, name, `{"spec":{"suspend":true}}`)
		idle := succeeded(s, name, 2)
		edit(s, name, `{"metadata":{"annotations":{"`+batchv1.RunAnnotation+`":"now"}}}`)
		succeeded(s, name, idle.Status.Counts.Succeeded+1)
		logs(s, name)
	}
	for _, name := range all.Names("Workflow") {
		completed(s, name)
	}
	all.DeleteAll()
	s.Eventually(framework.RemovalTimeout, "the runs are gone", func() error { return none(s) })
	s.UninstallOperator(batchOperator)
}

// edit merges a patch into a CronJob.
func edit(s *framework.Namespace, name, patch string) {
	s.Helper()
	s.Kubectl("patch", "cronjobs.batch.zeroinfra.github.com", name, "--type=merge", "--patch="+patch)
}

// succeeded waits until so many runs of a CronJob have, and none is under way.
func succeeded(s *framework.Namespace, name string, runs int64) *batchv1.CronJob {
	s.Helper()
	cj := &batchv1.CronJob{}
	s.Eventually(framework.SettleTimeout, fmt.Sprintf("%d runs of CronJob %q succeed", runs, name), func() error {
		s.MustGet(name, cj)
		if cj.Status.Counts.Succeeded < runs || cj.Spec.Suspend && (!cj.Status.Suspended || len(cj.Status.Active) > 0) {
			return fmt.Errorf("the status is %+v", cj.Status)
		}
		return nil
	})
	if cj.Status.Counts.Failed > 0 {
		s.Errorf("CronJob %q has runs that failed: %+v", name, cj.Status.LastFailure)
	}
	return cj
}

// completed waits until a Workflow has succeeded: one of its tasks is skipped, one goes through a list, one applies an
// object, and a last one notes how it ended.
func completed(s *framework.Namespace, name string) {
	s.Helper()
	wf := &batchv1.Workflow{}
	s.Eventually(framework.SettleTimeout, fmt.Sprintf("Workflow %q succeeds", name), func() error {
		s.MustGet(name, wf)
		if wf.Status.Phase != batchv1.WorkflowSucceeded {
			return fmt.Errorf("the status is %+v", wf.Status)
		}
		return nil
	})
	if wf.Status.Progress != "5/5" {
		s.Errorf("Workflow %q ended at %s: %+v", name, wf.Status.Progress, wf.Status.Tasks)
	}
	report, end := &corev1.ConfigMap{}, &corev1.ConfigMap{}
	s.MustGet("report", report)
	s.MustGet("report-end", end)
	if report.Data["rows"] != "3" || end.Data["publish"] != "Succeeded" {
		s.Errorf("the report is %v, and its end %v", report.Data, end.Data)
	}
}

// logs looks for what the script of the sample prints in the log of each run.
func logs(s *framework.Namespace, name string) {
	s.Helper()
	runs := strings.Fields(s.Kubectl("get", "operations", "-l", batchv1.CronJobLabel+"="+name, "-o", "name"))
	if len(runs) < 3 {
		s.Errorf("the runs are %v, want three at least", runs)
	}
	for _, run := range runs {
		_, of, _ := strings.Cut(run, "/")
		if out := s.Kubectl("logs", "-l", platformv1.OperationLabel+"="+of); !strings.Contains(out, "run of 20") {
			s.Errorf("the log of %s is %q", run, out)
		}
	}
}

// none says which runs and pods there are.
func none(s *framework.Namespace) error {
	var runs platformv1.OperationList
	var pods corev1.PodList
	err := errors.Join(framework.Cluster.Client.List(s.Ctx, &runs, client.InNamespace(s.Name)),
		framework.Cluster.Client.List(s.Ctx, &pods, client.InNamespace(s.Name)))
	if n := len(runs.Items) + len(pods.Items); err == nil && n > 0 {
		err = fmt.Errorf("there are %d", n)
	}
	return err
}
