// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// runsVersion has the one pod of an instance report that it runs what is wanted by now, as this version.
func runsVersion(t *testing.T, app *platformv1.Application, version string) {
	t.Helper()
	set := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name + "-redis-main"}}
	refresh(t, set)
	plan, err := render.Plan(set)
	if err != nil {
		t.Fatal(err)
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: set.Name + "-0"}}
	refresh(t, pod)
	reported := pod.DeepCopy()
	reported.Annotations[platformv1.ReportAnnotation] = report.Report{
		Health: report.Healthy, Role: roleOf(set, pod), Version: version, ConfigDigest: plan.Digest,
		RestartDigest: plan.RestartDigest, Starts: 2,
	}.String()
	if err := env.Client.Patch(t.Context(), reported, client.MergeFrom(pod)); err != nil {
		t.Fatal(err)
	}
}

// upgraded begins an upgrade of an instance to 8.0, and returns it once it waits for the pod, which was made for that
// and reports the former version.
func upgraded(t *testing.T, app *platformv1.Application) *platformv1.Operation {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name + "-redis-main-0"}}
	refresh(t, pod)
	before := pod.Spec.DeepCopy()
	op := operate(t, app, app.Name+"-upgrade", "UpgradePaaS", nil, "version", "8.0")
	testkit.WaitFor(t, env.Client, pod, "the image of the other version", func() error {
		if pod.Spec.Containers[0].Image == before.Containers[0].Image {
			return fmt.Errorf("it is %s", pod.Spec.Containers[0].Image)
		}
		return nil
	})
	runsVersion(t, app, "7.0.15")
	waitsForPod(t, op, pod.Name)
	return op
}

// waitsForPod waits until an upgrade waits for a pod that reports the former version.
func waitsForPod(t *testing.T, op *platformv1.Operation, pod string) {
	t.Helper()
	says := fmt.Sprintf("waiting for pod %s to report version 8.0: it reports 7.0.15", pod)
	testkit.WaitFor(t, env.Client, op, says, func() error {
		if op.Status.Phase != platformv1.OperationRunning || op.Status.Steps[0].Message != says {
			return fmt.Errorf("it is %s: %s, %+v", op.Status.Phase, op.Status.Error, op.Status.Steps)
		}
		return nil
	})
}

// An upgrade is done when the pods report the version that was asked for. One of which a pod goes on to report the
// former version fails, and says so.
func TestAnUpgradeIsDoneWhenPodsReportTheVersion(t *testing.T) {
	app := served(t, ownMemory)
	op := upgraded(t, app)
	runsVersion(t, app, "8.0.3")
	if done := ends(t, op, platformv1.OperationSucceeded); done.Steps[0].Outputs["from"] != "7.0" ||
		done.Steps[0].Outputs["changed"] != "spec.version: 7.0 → 8.0" {
		t.Errorf("it says %v", done.Steps[0].Outputs)
	}

	other := application(app.Namespace)
	other.Name = "redis-b"
	ownMemory(&other.Spec)
	create(t, other)
	testkit.WaitForReady(t, env.Client, other)
	op = upgraded(t, other)
	earlier := op.DeepCopy()
	op.Status.Steps[0].Outputs["doubted"] = time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	if err := env.Client.Status().Patch(t.Context(), op, client.MergeFrom(earlier)); err != nil {
		t.Fatal(err)
	}
	failed := ends(t, op, platformv1.OperationFailed)
	for _, says := range []string{`Application "redis-b" is Ready with version 8.0, and pod redis-b-redis-main-0 still ` +
		`reports 7.0.15`, "have it pulled anew"} {
		if !strings.Contains(failed.Error, says) {
			t.Errorf("it says %q, want %q", failed.Error, says)
		}
	}
	if failed.Steps[0].Attempts != 1 {
		t.Errorf("it was tried %d times", failed.Steps[0].Attempts)
	}
	again := operate(t, other, "again", "UpgradePaaS", func(s *platformv1.OperationSpec) { s.RetryOf = op.Name },
		"version", "8.0")
	waitsForPod(t, again, "redis-b-redis-main-0")
	runsVersion(t, other, "8.0.3")
	ends(t, again, platformv1.OperationSucceeded)
}
