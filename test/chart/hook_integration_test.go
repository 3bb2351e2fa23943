// SPDX-License-Identifier: Apache-2.0

//go:build integration

package chart_test

import (
	"bytes"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// TestHookKnowsAnUninstallation proves that the Job of the hook does nothing when something else than "helm uninstall"
// runs it, such as "helm template | kubectl apply", and stops the operator when Helm does, also after a rollback.
func TestHookKnowsAnUninstallation(t *testing.T) {
	namespace, chart := env.Namespace(t), filepath.Join(root(), "charts", chartName)
	kubeconfig := env.Kubeconfig(t)
	helm := func(ctx context.Context, arguments ...string) (string, error) {
		command := exec.CommandContext(ctx, filepath.Join(root(), "bin", "helm"),
			append(arguments, "--namespace", namespace, "--kubeconfig", kubeconfig)...)
		text, err := command.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("cannot run helm %s: %w: %s", arguments[0], err, text)
		}
		return string(text), err
	}
	rendered, err := helm(t.Context(), "template", chartName, chart, "--show-only", "templates/uninstall.yaml")
	if err != nil {
		t.Fatal(err)
	}
	applied := &batchv1.Job{}
	if err := yaml.Unmarshal([]byte(rendered), applied); err != nil {
		t.Fatal(err)
	}
	if _, err := helm(t.Context(), "install", chartName, chart, "--set", "webhooks.enabled=false"); err != nil {
		t.Fatal(err)
	}
	account, err := env.Account(t.Context(), namespace, chartName, nil)
	if err != nil {
		t.Fatal(err)
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: chartName}}
	testkit.Eventually(t, "the Job, applied like any other, does nothing", func(ctx context.Context) error {
		said, err := runHook(ctx, env.KubeconfigOf(t, account), applied)
		if err == nil && !strings.Contains(said, "nothing is done") {
			err = fmt.Errorf("it says %q", said)
		}
		return err // The API server may not know of the rights yet.
	})
	testkit.WaitFor(t, env.Client, deployment, "is as it was", func() error { return replicas(deployment, 1) })

	// The hook of a rollback is that of the first revision.
	for _, arguments := range [][]string{
		{"upgrade", chartName, chart, "--set", "webhooks.enabled=false"}, {"rollback", chartName, "1"},
	} {
		if _, err := helm(t.Context(), arguments...); err != nil {
			t.Fatal(err)
		}
	}
	ended := make(chan error, 1)
	go func() {
		_, err := helm(context.Background(), "uninstall", chartName)
		ended <- err
	}()
	job := &batchv1.Job{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: chartName + "-uninstall"}}
	testkit.WaitFor(t, env.Client, job, "is made by Helm", nil)
	if said, err := runHook(t.Context(), env.KubeconfigOf(t, account), job); err != nil {
		t.Errorf("the hook failed: %v: %s", err, said)
	}
	testkit.WaitFor(t, env.Client, deployment, "is scaled to 0", func() error { return replicas(deployment, 0) })
	complete(t, job)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// runHook runs the container of a Job.
func runHook(ctx context.Context, kubeconfig string, job *batchv1.Job) (string, error) {
	path, err := operators[chartName]()
	if err != nil {
		return "", err
	}
	arguments := job.Spec.Template.Spec.Containers[0].Args
	command := exec.CommandContext(ctx, path, append(arguments, "--kubeconfig="+kubeconfig)...)
	var said bytes.Buffer
	command.Stdout, command.Stderr = &said, &said
	err = command.Run()
	return said.String(), err
}

// complete does what the controller of Jobs would do.
func complete(t *testing.T, job *batchv1.Job) {
	t.Helper()
	now := metav1.Now()
	before := job.DeepCopy()
	job.Status.StartTime, job.Status.CompletionTime, job.Status.Succeeded = &now, &now, 1
	job.Status.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
	job.Status.Terminating, job.Status.Ready = ptr.To[int32](0), ptr.To[int32](0)
	for _, condition := range []batchv1.JobConditionType{batchv1.JobSuccessCriteriaMet, batchv1.JobComplete} {
		job.Status.Conditions = append(job.Status.Conditions, batchv1.JobCondition{
			Type: condition, Status: corev1.ConditionTrue, LastTransitionTime: now,
		})
	}
	if err := env.Client.Status().Patch(t.Context(), job, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}
