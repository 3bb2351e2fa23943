// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"context"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// install makes a kind that the engine uses, from a file of testdata, and waits until it is served.
func install(t *testing.T, file string) {
	t.Helper()
	data, err := os.ReadFile("testdata/" + file)
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
		if got := conditions.Get(obj, platformv1.MonitoredCondition); got == nil || got.Status != status ||
			got.Reason != reason {
			return fmt.Errorf("it has %v", obj.GetConditions())
		}
		return nil
	})
}

// noPodMonitors is what the policy of forbidPodMonitors says.
const noPodMonitors = "nobody touches a PodMonitor here"

// forbidPodMonitors has the API server refuse every write of a PodMonitor in a namespace, and its removal, until allow
// is called.
func forbidPodMonitors(t *testing.T, namespace string) (allow func()) {
	t.Helper()
	policy := &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{
				NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: namespace}},
				ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
					Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update, admissionv1.Delete},
					Rule: admissionv1.Rule{APIGroups: []string{render.PodMonitorKind.Group}, APIVersions: []string{"*"},
						Resources: []string{"podmonitors"}},
				}}}},
			Validations: []admissionv1.Validation{{Expression: "false", Message: noPodMonitors}},
		}}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{ObjectMeta: metav1.ObjectMeta{Name: namespace},
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: namespace, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny}}}
	create(t, policy)
	create(t, binding)
	end := func() {
		for _, obj := range []client.Object{binding, policy} {
			if err := client.IgnoreNotFound(env.Client.Delete(context.Background(), obj)); err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(end)
	// The server takes a while to go by another policy.
	awaitVerdict(t, namespace, noPodMonitors)
	return func() { end(); awaitVerdict(t, namespace, "") }
}

// awaitVerdict waits until the API server refuses PodMonitors with this text, or takes them where that is empty.
func awaitVerdict(t *testing.T, namespace, says string) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("a PodMonitor refused with %q", says), func(ctx context.Context) error {
		trial := podMonitor(namespace, "trial")
		trial.Object["spec"] = map[string]any{"selector": map[string]any{}}
		err := env.Client.Create(ctx, trial, client.DryRunAll)
		if refused := err != nil; refused != (says != "") || refused && !strings.Contains(err.Error(), says) {
			return fmt.Errorf("it says %v", err)
		}
		return nil
	})
}

// refusesPodMonitors waits until it is told that the PodMonitor cannot be had as it should be, and why.
func refusesPodMonitors(t *testing.T, app *platformv1.Application, says string) {
	t.Helper()
	wantMonitored(t, app, metav1.ConditionFalse, platformv1.ReasonPodMonitorRefused)
	if got := conditions.Get(app, platformv1.MonitoredCondition).Message; !strings.Contains(got, says) ||
		!strings.Contains(got, noPodMonitors) {
		t.Errorf("it says %q, want %q and %q", got, says, noPodMonitors)
	}
	testkit.WaitForReady(t, env.Client, app)
	if err := testkit.StatusLint(app); err != nil {
		t.Error(err)
	}
}

// isMadeAgain deletes a PodMonitor and waits until there is another one.
func isMadeAgain(t *testing.T, monitor *unstructured.Unstructured) {
	t.Helper()
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
}

// Metrics are served where nobody can be told to read them, and hold nothing up; a PodMonitor comes with its kind, is
// kept as it is meant to be, and goes with the wish. Where it is refused that is told, and again holds nothing up.
func TestPodMonitorComesWithItsKind(t *testing.T) {
	namespace := env.Namespace(t)
	node(t, namespace)
	_, _, stop := run(t, -1)
	app := application(namespace)
	app.Spec.Components = []platformv1.ApplicationComponent{
		{Name: "redis", Monitoring: &platformv1.Monitoring{Enabled: true}}}
	if err := env.Client.Create(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	testkit.WaitForReady(t, env.Client, app)
	wantMonitored(t, app, metav1.ConditionFalse, platformv1.ReasonPodMonitorNotFound)
	pod := podOf(t, app)
	if !hasExporter(pod) {
		t.Error("the exporter is missing")
	}

	install(t, "podmonitors.yaml")
	monitor := podMonitor(namespace, "redis-a-redis")
	testkit.WaitFor(t, env.Client, monitor, "is made by itself", nil)
	setMonitoring(t, app, &platformv1.Monitoring{Enabled: true, Interval: "15s",
		Labels: map[string]string{"release": "prometheus"}})
	testkit.WaitFor(t, env.Client, monitor, "follows the spec", func() error {
		if monitor.GetLabels()["release"] != "prometheus" {
			return fmt.Errorf("its labels are %v", monitor.GetLabels())
		}
		return nil
	})
	want := map[string]any{
		"selector": map[string]any{
			"matchLabels": map[string]any{platformv1.ApplicationLabel: "redis-a", platformv1.ComponentLabel: "redis"}},
		"podMetricsEndpoints": []any{map[string]any{"port": "metrics", "path": "/metrics", "scheme": "http",
			"interval": "15s"}},
		"podTargetLabels": []any{platformv1.ApplicationLabel, platformv1.ComponentLabel, platformv1.SetLabel,
			platformv1.RoleLabel},
	}
	if got := monitor.Object["spec"]; !reflect.DeepEqual(got, want) {
		t.Errorf("the PodMonitor has %v; want %v", got, want)
	}
	if owner := metav1.GetControllerOf(monitor); owner == nil || owner.Kind != "Component" ||
		monitor.GetLabels()["release"] != "prometheus" {
		t.Errorf("it is %+v", monitor.Object["metadata"])
	}
	wantMonitored(t, app, metav1.ConditionTrue, platformv1.ReasonPodMonitorApplied)
	if got := podOf(t, app); got.UID != pod.UID {
		t.Error("another interval replaced the pod")
	}

	allow := forbidPodMonitors(t, namespace)
	setMonitoring(t, app, &platformv1.Monitoring{Enabled: true, Interval: "20s"})
	refusesPodMonitors(t, app, "the PodMonitor cannot be made: ")
	allow()
	setMonitoring(t, app, &platformv1.Monitoring{Enabled: true, Interval: "30s"})
	wantMonitored(t, app, metav1.ConditionTrue, platformv1.ReasonPodMonitorApplied)
	isMadeAgain(t, monitor)

	// The engine is away while the wish ends.
	stop()
	setMonitoring(t, app, nil)
	allow = forbidPodMonitors(t, namespace)
	run(t, -1)
	refusesPodMonitors(t, app, "the PodMonitor cannot be removed: ")
	allow()
	mergePatch(t, aComponent(namespace, monitor.GetName()), `{"metadata":{"annotations":{"example.com/look":"again"}}}`)
	testkit.WaitGone(t, env.Client, monitor)
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
