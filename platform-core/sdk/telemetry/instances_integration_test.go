// SPDX-License-Identifier: Apache-2.0

//go:build integration

package telemetry_test

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/config/crd"
	"github.com/zeroinfra/platform-core/sdk/telemetry"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

var env *testkit.Env

func TestMain(m *testing.M) { testkit.Main(m, &env, testkit.EnvOptions{CRDs: []fs.FS{crd.FS}}) }

// scraped returns a check of what is collected from a cache that follows the API server, without the names' common
// beginning.
func scraped(t *testing.T, namespace string) func(want string) {
	t.Helper()
	objects, err := cache.New(env.Config,
		cache.Options{Scheme: env.Scheme, DefaultNamespaces: map[string]cache.Config{namespace: {}}})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = objects.Start(t.Context()) }() // It ends with the test.
	if _, err := objects.GetInformer(t.Context(), &platformv1.Application{}); err != nil {
		t.Fatal(err)
	}
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(telemetry.NewInstances(objects))
	return func(want string) {
		t.Helper()
		testkit.Eventually(t, "the metrics say what the status does", func(context.Context) error {
			families, err := registry.Gather()
			if err != nil {
				return err
			}
			var got strings.Builder
			for _, family := range families {
				for _, metric := range family.GetMetric() {
					var labels []string
					for _, label := range metric.GetLabel() {
						labels = append(labels, fmt.Sprintf("%s=%q", label.GetName(), label.GetValue()))
					}
					fmt.Fprintf(&got, "%s{%s} %v\n", strings.TrimPrefix(family.GetName(), "zeroinfra_application_"),
						strings.Join(labels, ","), metric.GetGauge().GetValue())
				}
			}
			if want := strings.ReplaceAll(want, "NAMESPACE", namespace); got.String() != want {
				return fmt.Errorf("got\n%swant\n%s", got.String(), want)
			}
			return nil
		})
	}
}

func TestInstances(t *testing.T) {
	namespace := env.Namespace(t)
	scraped := scraped(t, namespace)
	app := &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "db"},
		Spec: platformv1.ApplicationSpec{Plugin: "postgresql", PluginVersion: "1.0.0", Version: "17",
			Topology: "replication"}}
	if err := env.Client.Create(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	write := func(status platformv1.ApplicationStatus) {
		t.Helper()
		app.Status = status
		if err := env.Client.Status().Update(t.Context(), app); err != nil {
			t.Fatal(err)
		}
	}
	ready := func(status metav1.ConditionStatus) []metav1.Condition {
		return []metav1.Condition{{Type: platformv1.ReadyCondition, Status: status, Reason: "Tested",
			LastTransitionTime: metav1.Now()}}
	}
	scraped(`ready{application="db",namespace="NAMESPACE"} 0
`)
	write(platformv1.ApplicationStatus{Conditions: ready(metav1.ConditionTrue), Term: 7, Primary: "db-0",
		Durability: platformv1.DurabilitySynchronous, LossWindowSeconds: new(int64(0)),
		Components: []platformv1.ComponentState{{Name: "postgresql", Pods: []platformv1.PodState{
			{Name: "db-0", Role: "primary"}, {Name: "db-1", Role: "replica"}, {Name: "db-2", Role: "replica"},
			{Name: "db-3"}}}}})
	scraped(`durability{application="db",durability="Synchronous",namespace="NAMESPACE"} 1
loss_window_seconds{application="db",namespace="NAMESPACE"} 0
pods{application="db",namespace="NAMESPACE",role="primary"} 1
pods{application="db",namespace="NAMESPACE",role="replica"} 2
primary{application="db",namespace="NAMESPACE"} 1
ready{application="db",namespace="NAMESPACE"} 1
term{application="db",namespace="NAMESPACE"} 7
`)
	write(platformv1.ApplicationStatus{Conditions: ready(metav1.ConditionFalse), Term: 8,
		Durability: platformv1.DurabilityAsynchronous})
	scraped(`durability{application="db",durability="Asynchronous",namespace="NAMESPACE"} 1
primary{application="db",namespace="NAMESPACE"} 0
ready{application="db",namespace="NAMESPACE"} 0
term{application="db",namespace="NAMESPACE"} 8
`)
	if err := env.Client.Delete(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	scraped("")
}
