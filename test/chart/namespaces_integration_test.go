// SPDX-License-Identifier: Apache-2.0

//go:build integration

package chart_test

import (
	"context"
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// An operator that is limited to namespaces makes the pods of an instance there, leaves instances
// elsewhere alone, and never asks for what it has no right to; also for one that nobody has claimed.
func TestWatchNamespaces(t *testing.T) {
	for _, name := range []string{"inside-a", "inside-b", "outside"} {
		makeNamespace(t, name)
	}
	class := &storagev1.StorageClass{
		ObjectMeta: metav1.ObjectMeta{Name: "standard",
			Annotations: map[string]string{"storageclass.kubernetes.io/is-default-class": "true"}},
		Provisioner: "example.com/none",
	}
	if err := env.Client.Create(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	r := install(t, "watchNamespaces={inside-a,inside-b}")
	r.start()
	outside := application("outside")
	for _, app := range []*platformv1.Application{outside, application("inside-a"), application("inside-b")} {
		if app.Namespace == "inside-b" {
			app.Labels = map[string]string{platformv1.DomainLabel: "database"}
		}
		if err := env.Client.Create(t.Context(), app); err != nil {
			t.Fatal(err)
		}
	}
	for _, namespace := range []string{"inside-a", "inside-b"} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "redis-a-redis-main-0"}}
		testkit.WaitFor(t, env.Client, pod, "is made", nil)
	}
	plugin := &platformv1.Plugin{ObjectMeta: metav1.ObjectMeta{Name: "redis-1.0.0"}}
	testkit.WaitFor(t, env.Client, plugin, "is published", nil)
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(outside), outside); err != nil {
		t.Fatal(err)
	}
	if len(outside.Status.Conditions) > 0 || outside.Labels[platformv1.DomainLabel] != "" {
		t.Errorf("the instance elsewhere was looked after: labels %v, status %+v", outside.Labels, outside.Status)
	}
	components := &platformv1.ComponentList{}
	if err := env.Client.List(t.Context(), components, client.InNamespace("outside")); err != nil ||
		len(components.Items) > 0 {
		t.Errorf("elsewhere there are %d components: %v", len(components.Items), err)
	}
	r.nothingDenied()

	// Of Secrets and pods it sees those of its namespaces only.
	c, err := client.New(r.account.Config, client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	for name, list := range map[string]client.ObjectList{"Secrets": &corev1.SecretList{}, "pods": &corev1.PodList{}} {
		if err := c.List(t.Context(), list, client.InNamespace("inside-a")); err != nil {
			t.Errorf("%s inside: %v", name, err)
		}
		if err := c.List(t.Context(), list, client.InNamespace("outside")); err == nil {
			t.Errorf("it may list %s elsewhere", name)
		}
	}
}

// The same in the whole cluster.
func TestAllNamespaces(t *testing.T) {
	r := install(t)
	r.start()
	app := application(env.Namespace(t))
	if err := env.Client.Create(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, env.Client, app, "is looked after", func() error {
		if len(app.Status.Conditions) == 0 {
			return fmt.Errorf("it has no conditions")
		}
		return nil
	})
	r.nothingDenied()

	// What the chart puts into the ConfigMap is what the operator can take.
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: chartName + "-settings"}}
	if err := testkit.Edit(t.Context(), env.Client, settings, func() { settings.Data["workers"] = "4" }); err != nil {
		t.Fatal(err)
	}
	testkit.Eventually(t, "a log line about 4 workers", func(context.Context) error { return r.output.has(`"workers":4`) })
	if err := r.output.has("refused settings"); err == nil {
		t.Error("settings were refused")
	}
}

func application(namespace string) *platformv1.Application {
	app := testkit.BuildApplication(namespace, "redis-a").Plugin("redis", "1.0.0").Version("7.0").Topology("standalone").
		Build()
	app.Labels = nil
	return app
}
