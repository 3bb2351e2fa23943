// SPDX-License-Identifier: Apache-2.0

//go:build integration

package main

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"testing"

	kubebatchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/sdk/operator"
	"github.com/zeroinfra/platform-core/sdk/testkit"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

const system = "zeroinfra-system"

var env *testkit.Env

func TestMain(m *testing.M) {
	testkit.Main(m, &env, testkit.EnvOptions{
		Own:         "the operator installs its definitions and serves all namespaces",
		AddToScheme: []func(*runtime.Scheme) error{batchv1.AddToScheme},
		System:      system, Roles: []fs.FS{os.DirFS("../config/rbac")},
	})
}

// serve runs the operator until the test ends, and returns when it is ready: it sets the logger of all clients before.
func serve(t *testing.T) {
	t.Helper()
	command, health := operator.Command(options()), testkit.FreeAddress(t)
	command.SetArgs([]string{
		"--kubeconfig=" + env.KubeconfigOf(t, env.System), "--namespace=" + system, "--agent-image=agent:test",
		"--health-probe-bind-address=" + health, "--metrics-bind-address=" + testkit.FreeAddress(t), "--log-format=console",
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- command.ExecuteContext(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the operator ended with: %v", err)
		}
	})
	testkit.Eventually(t, "the operator is ready", func(ctx context.Context) error {
		_, err := testkit.Get(ctx, "http://"+health+"/readyz")
		return err
	})
}

// The whole operator, with the rights of its chart, brings its definitions along and runs a script each second.
func TestOperatorRunsACronJob(t *testing.T) {
	serve(t)
	meta := metav1.ObjectMeta{Namespace: env.Namespace(t), Name: "worker"}
	cj := &batchv1.CronJob{ObjectMeta: metav1.ObjectMeta{Namespace: meta.Namespace, Name: "ticks"},
		Spec: batchv1.CronJobSpec{
			Schedules: []string{"* * * * * *"}, TimeZone: "UTC", ServiceAccountName: meta.Name,
			Task: batchv1.Task{Script: &batchv1.ScriptTask{PodTask: batchv1.PodTask{Image: "example/tool:1"}, Source: "true"}},
		}}
	for _, object := range []client.Object{
		&corev1.ServiceAccount{ObjectMeta: meta},
		&rbacv1.Role{ObjectMeta: meta, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"batch"}, Resources: []string{"jobs"}, Verbs: []string{"create"}}}},
		&rbacv1.RoleBinding{ObjectMeta: meta,
			RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: meta.Name},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: meta.Namespace, Name: meta.Name}}},
		cj,
	} {
		testkit.Eventually(t, fmt.Sprintf("%T is created", object),
			func(ctx context.Context) error { return env.Client.Create(ctx, object) })
	}
	testkit.Eventually(t, "two runs succeed", func(ctx context.Context) error {
		var jobs kubebatchv1.JobList
		if err := env.Client.List(ctx, &jobs, client.InNamespace(meta.Namespace)); err != nil {
			return err
		}
		for i := range jobs.Items {
			if len(jobs.Items[i].Status.Conditions) > 0 {
				continue
			}
			if err := env.EndJob(ctx, &jobs.Items[i], kubebatchv1.JobComplete); err != nil {
				return err
			}
		}
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(cj), cj); err != nil || cj.Status.Counts.Succeeded >= 2 {
			return err
		}
		return fmt.Errorf("the status is %+v", cj.Status)
	})
	if n := cj.Status.Counts.Failed; n > 0 {
		t.Errorf("%d runs failed: %+v", n, cj.Status.LastFailure)
	}
}
