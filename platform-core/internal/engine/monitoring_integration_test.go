// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// installPodMonitors makes the kind that the engine uses, and waits until it is served.
func installPodMonitors(t *testing.T) {
	t.Helper()
	data, err := os.ReadFile("testdata/podmonitors.yaml")
	if err != nil {
		t.Fatal(err)
	}
	definition := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(data, &definition.Object); err != nil {
		t.Fatal(err)
	}
	if err := env.Client.Create(t.Context(), definition); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, env.Client, definition, "is served", func() error {
		list, _, _ := unstructured.NestedSlice(definition.Object, "status", "conditions")
		for _, item := range list {
			if c, ok := item.(map[string]any); ok && c["type"] == "Established" && c["status"] == "True" {
				return nil
			}
		}
		return fmt.Errorf("it has %v", list)
	})
}

func podMonitor(namespace, name string) *unstructured.Unstructured {
	monitor := &unstructured.Unstructured{}
	monitor.SetGroupVersionKind(render.PodMonitorKind)
	monitor.SetNamespace(namespace)
	monitor.SetName(name)
	return monitor
}

// setMonitoring changes the spec.
func setMonitoring(t *testing.T, app *platformv1.Application, monitoring *platformv1.Monitoring) {
	t.Helper()
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(app), app); err != nil {
		t.Fatal(err)
	}
	before := app.DeepCopy()
	app.Spec.Components = []platformv1.ApplicationComponent{{Name: "redis", Monitoring: monitoring}}
	if err := env.Client.Patch(t.Context(), app, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

func wantMonitored(t *testing.T, obj interface {
	client.Object
	platformv1.Conditioned
}, status metav1.ConditionStatus, reason string) {
	t.Helper()
	testkit.WaitFor(t, env.Client, obj, "says "+reason, func() error {
		if got := conditions.Get(obj, platformv1.MonitoredCondition); got == nil || got.Status != status || got.Reason != reason {
			return fmt.Errorf("it has %v", obj.GetConditions())
		}
		return nil
	})
}

// Metrics are served where nobody can be told to read them, and hold nothing up; a PodMonitor comes with its kind, is kept as it is
// meant to be, and goes with the wish.
func TestPodMonitorComesWithItsKind(t *testing.T) {
	namespace := env.Namespace(t)
	node(t, namespace)
	_, _, stop := run(t, -1)
	app := application(namespace)
	app.Spec.Components = []platformv1.ApplicationComponent{{Name: "redis", Monitoring: &platformv1.Monitoring{Enabled: true}}}
	if err := env.Client.Create(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	testkit.WaitForReady(t, env.Client, app)
	wantMonitored(t, app, metav1.ConditionFalse, platformv1.ReasonPodMonitorNotFound)
	pod := podOf(t, app)
	if !hasExporter(pod) {
		t.Error("the exporter is missing")
	}

	installPodMonitors(t)
	monitor := podMonitor(namespace, "redis-a-redis")
	testkit.WaitFor(t, env.Client, monitor, "is made by itself", nil)
	setMonitoring(t, app, &platformv1.Monitoring{Enabled: true, Interval: "15s", Labels: map[string]string{"release": "prometheus"}})
	testkit.WaitFor(t, env.Client, monitor, "follows the spec", func() error {
		if monitor.GetLabels()["release"] != "prometheus" {
			return fmt.Errorf("its labels are %v", monitor.GetLabels())
		}
		return nil
	})
	want := map[string]any{
		"selector":            map[string]any{"matchLabels": map[string]any{platformv1.ApplicationLabel: "redis-a", platformv1.ComponentLabel: "redis"}},
		"podMetricsEndpoints": []any{map[string]any{"port": "metrics", "path": "/metrics", "scheme": "http", "interval": "15s"}},
		"podTargetLabels":     []any{platformv1.ApplicationLabel, platformv1.ComponentLabel, platformv1.SetLabel, platformv1.RoleLabel},
	}
	if got := monitor.Object["spec"]; !reflect.DeepEqual(got, want) {
		t.Errorf("the PodMonitor has %v; want %v", got, want)
	}
	if owner := metav1.GetControllerOf(monitor); owner == nil || owner.Kind != "Component" || monitor.GetLabels()["release"] != "prometheus" {
		t.Errorf("it is %+v", monitor.Object["metadata"])
	}
	wantMonitored(t, app, metav1.ConditionTrue, platformv1.ReasonPodMonitorApplied)
	if got := podOf(t, app); got.UID != pod.UID {
		t.Error("another interval replaced the pod")
	}

	first := monitor.GetUID()
	if err := env.Client.Delete(t.Context(), monitor); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, env.Client, monitor, "is made again", func() error {
		if monitor.GetUID() == first {
			return fmt.Errorf("it is still the one that was deleted")
		}
		return nil
	})

	// The engine is away while the wish ends.
	stop()
	setMonitoring(t, app, nil)
	run(t, -1)
	testkit.Eventually(t, "the PodMonitor is removed", func(ctx context.Context) error {
		err := env.Client.Get(ctx, client.ObjectKeyFromObject(monitor), podMonitor(namespace, monitor.GetName()))
		if apierrors.IsNotFound(err) {
			return nil
		}
		return fmt.Errorf("got %v", err)
	})
	testkit.WaitFor(t, env.Client, app, "says no more of metrics", func() error {
		if got := conditions.Get(app, platformv1.MonitoredCondition); got != nil {
			return fmt.Errorf("it says %v", got)
		}
		return nil
	})
	testkit.WaitForReady(t, env.Client, app)
	if got := podOf(t, app); got.UID == pod.UID || hasExporter(got) {
		t.Errorf("the pod still has its exporter")
	}
}

func hasExporter(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == "exporter" })
}
