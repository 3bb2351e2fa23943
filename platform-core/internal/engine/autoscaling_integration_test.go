// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// autoscaled is the component web with an autoscaler of 2 to 4 pods, changed by what a test has it differ in.
func autoscaled(changes ...func(*platformv1.ApplicationComponent)) []platformv1.ApplicationComponent {
	web := platformv1.ApplicationComponent{
		Name: "web",
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m")}},
		Autoscaling: &platformv1.Autoscaling{MinReplicas: 2, MaxReplicas: 4,
			AutoscalingTargets: platformv1.AutoscalingTargets{CPUUtilization: new(int32(70))}},
	}
	for _, change := range changes {
		change(&web)
	}
	return []platformv1.ApplicationComponent{web}
}

// autoscaledBy waits until the set has a number of pods that the Application does not name.
func autoscaledBy(t *testing.T, app *platformv1.Application, pods int32) {
	t.Helper()
	set := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: "a-web-main"}}
	testkit.WaitFor(t, env.Client, set, fmt.Sprintf("%d pods", pods), func() error {
		if set.Spec.Replicas != pods || set.Status.ReadyReplicas != pods || set.Spec.Scaling != platformv1.SetScalingAuto {
			return fmt.Errorf("it has %d of %d, scaling %s", set.Status.ReadyReplicas, set.Spec.Replicas, set.Spec.Scaling)
		}
		return nil
	})
	testkit.WaitFor(t, env.Client, app, fmt.Sprintf("%d pods in the status", pods), func() error {
		for _, c := range app.Status.Components {
			if c.Name == "web" && (c.Replicas != pods || c.ReadyReplicas != pods || c.Sets[0].Replicas != pods) {
				return fmt.Errorf("it says %+v", c)
			}
		}
		return nil
	})
	testkit.WaitForReady(t, env.Client, app)
	if app.Spec.Components[0].Replicas != nil {
		t.Errorf("the Application was given %d replicas", *app.Spec.Components[0].Replicas)
	}
}

// goesBy waits until an autoscaler goes by these metrics of containers.
func goesBy(t *testing.T, scaler *autoscalingv2.HorizontalPodAutoscaler, want ...string) {
	t.Helper()
	testkit.WaitFor(t, env.Client, scaler, fmt.Sprint("goes by ", want), func() error {
		var got []string
		for _, metric := range scaler.Spec.Metrics {
			m := metric.ContainerResource
			if m == nil || m.Target.Type != autoscalingv2.UtilizationMetricType || m.Target.AverageUtilization == nil {
				return fmt.Errorf("it goes by %+v", metric)
			}
			got = append(got, fmt.Sprintf("%s of %s at %d%%", m.Name, m.Container, *m.Target.AverageUtilization))
		}
		if !slices.Equal(got, want) {
			return fmt.Errorf("it goes by %q", got)
		}
		return nil
	})
}

// TestAutoscaling proves that the autoscaler of a component decides the number of its pods, that nobody writes that
// number beside it, and that it stays when the autoscaler goes.
func TestAutoscaling(t *testing.T) {
	namespace := env.Namespace(t)
	f, _, _ := run(t, -1)
	node(t, namespace)
	app := shop(namespace, "a", "tiers")
	app.Spec.Components = autoscaled(func(c *platformv1.ApplicationComponent) {
		c.Resources.Requests[corev1.ResourceMemory] = resource.MustParse("64Mi")
	})
	create(t, app)
	autoscaledBy(t, app, 2)
	autoscalers := &autoscalingv2.HorizontalPodAutoscalerList{}
	wait(t, app, autoscalers, "a-web-main")
	scaler := autoscalers.Items[0]
	if target := scaler.Spec.ScaleTargetRef; target.Kind != "WorkloadSet" || target.Name != "a-web-main" ||
		target.APIVersion != platformv1.GroupVersion.String() {
		t.Errorf("it scales %+v", target)
	}
	goesBy(t, &scaler, "cpu of main at 70%")
	if *scaler.Spec.MinReplicas != 2 || scaler.Spec.MaxReplicas != 4 ||
		!metav1.IsControlledBy(&scaler, component(t, namespace, "a-web")) {
		t.Errorf("it is %+v", scaler)
	}

	before := len(f.spent())
	scale(t, namespace, "a-web-main", 4)
	autoscaledBy(t, app, 4)
	budgets := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a-web-main"}}
	testkit.WaitFor(t, env.Client, budgets, "the budget follows", func() error {
		if budgets.Spec.MinAvailable.IntValue() != 3 {
			return fmt.Errorf("it has %s stay", budgets.Spec.MinAvailable)
		}
		return nil
	})
	// A change of something else leaves the number alone.
	change(t, app, func(s *platformv1.ApplicationSpec) { s.Components[0].Autoscaling.MaxReplicas = 5 })
	testkit.WaitFor(t, env.Client, &scaler, "the new bounds", func() error {
		if scaler.Spec.MaxReplicas != 5 {
			return fmt.Errorf("at most %d", scaler.Spec.MaxReplicas)
		}
		return nil
	})
	// A set may be one of more pods at least for a while.
	least := []platformv1.ComponentSet{{Name: "main", MinReplicas: new(int32(3))}}
	for _, set := range []struct {
		sets []platformv1.ComponentSet
		want int32
	}{{least, 3}, {nil, 2}} {
		change(t, app, func(s *platformv1.ApplicationSpec) { s.Components[0].Sets = set.sets })
		testkit.WaitFor(t, env.Client, &scaler, fmt.Sprintf("at least %d", set.want), func() error {
			if *scaler.Spec.MinReplicas != set.want {
				return fmt.Errorf("at least %d", *scaler.Spec.MinReplicas)
			}
			return nil
		})
	}
	change(t, app, func(s *platformv1.ApplicationSpec) { s.Components[0].Autoscaling.MemoryUtilization = new(int32(60)) })
	goesBy(t, &scaler, "cpu of main at 70%", "memory of main at 60%")
	change(t, app, func(s *platformv1.ApplicationSpec) { s.Components[0].Autoscaling.CPUUtilization = nil })
	goesBy(t, &scaler, "memory of main at 60%")
	autoscaledBy(t, app, 4)
	scale(t, namespace, "a-web-main", 3)
	autoscaledBy(t, app, 3)
	for _, write := range f.spent()[before:] {
		if strings.HasSuffix(write, "/workloadsets/a-web-main") || strings.HasSuffix(write, "/applications/a") {
			t.Errorf("the engine wrote beside the autoscaler: %s", write)
		}
	}

	change(t, app, func(s *platformv1.ApplicationSpec) { s.Components[0].Autoscaling = nil })
	wait(t, app, autoscalers)
	replicasOf(t, app, "a-web-main", 3)
	if want := new(int32(3)); !equality.Semantic.DeepEqual(app.Spec.Components[0].Replicas, want) {
		t.Errorf("the Application has %v replicas, want %d", app.Spec.Components[0].Replicas, *want)
	}
}

// TestAutoscalingOfWhatRuns proves that a component that gets an autoscaler goes on with the pods that it has, and that
// a number that is given when the autoscaler is taken away counts.
func TestAutoscalingOfWhatRuns(t *testing.T) {
	namespace, app := standing(t, "tiers")
	change(t, app, func(s *platformv1.ApplicationSpec) {
		s.Components = []platformv1.ApplicationComponent{
			{Name: "web", Replicas: new(int32(3)), Resources: autoscaled()[0].Resources}}
	})
	replicasOf(t, app, "a-web-main", 3)
	pods := recordPods(t, namespace)
	change(t, app, func(s *platformv1.ApplicationSpec) { s.Components = autoscaled() })
	autoscaledBy(t, app, 3)
	// Suspended and back, the number is still the autoscaler's.
	change(t, app, func(s *platformv1.ApplicationSpec) { s.Suspend = true })
	held := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "a-web-main"}}
	testkit.WaitFor(t, env.Client, held, "to be suspended", func() error {
		if !held.Spec.Suspend {
			return errors.New("it is not")
		}
		return nil
	})
	change(t, app, func(s *platformv1.ApplicationSpec) { s.Suspend = false })
	autoscaledBy(t, app, 3)
	scale(t, namespace, "a-web-main", 2)
	autoscaledBy(t, app, 2)
	change(t, app, func(s *platformv1.ApplicationSpec) {
		s.Components[0].Autoscaling, s.Components[0].Replicas = nil, new(int32(4))
	})
	replicasOf(t, app, "a-web-main", 4)
	wait(t, app, &autoscalingv2.HorizontalPodAutoscalerList{})
	if want := new(int32(4)); !equality.Semantic.DeepEqual(app.Spec.Components[0].Replicas, want) {
		t.Errorf("the Application has %v replicas, want %d", app.Spec.Components[0].Replicas, *want)
	}
	if pods.first("-a-web-main-0") >= 0 || pods.first("-a-web-main-1") >= 0 {
		t.Errorf("pods that are wanted at all times went: %v", pods.events)
	}
}

// TestAutoscalingThatCannotBeIsRefused proves that nothing is made for an autoscaler that makes no sense.
func TestAutoscalingThatCannotBeIsRefused(t *testing.T) {
	namespace := env.Namespace(t)
	run(t, -1)
	for name, test := range map[string]struct {
		change func(*platformv1.ApplicationComponent)
		says   string
	}{
		"replicas": {func(c *platformv1.ApplicationComponent) { c.Replicas = new(int32(2)) }, "take one of the two out"},
		"sets": {func(c *platformv1.ApplicationComponent) {
			c.Sets = []platformv1.ComponentSet{{Name: "main", Replicas: new(int32(2))}}
		}, `replicas in set "main"`},
		"least": {func(c *platformv1.ApplicationComponent) {
			c.Sets = []platformv1.ComponentSet{{Name: "main", MinReplicas: new(int32(5))}}
		}, `minReplicas 5 in set "main", and autoscaling from 2 to 4 replicas`},
		"bounds": {func(c *platformv1.ApplicationComponent) { c.Autoscaling.MinReplicas = 5 },
			"minReplicas 5 and maxReplicas 4"},
		"range": {func(c *platformv1.ApplicationComponent) { c.Autoscaling.MaxReplicas = 9 }, "takes 0 to 5"},
		"target": {func(c *platformv1.ApplicationComponent) { c.Autoscaling.CPUUtilization = nil },
			"set cpuUtilization, memoryUtilization or both"},
		"metric": {goBy("web:requests_waiting", "2"),
			"does not have: it has web:requests_processing, web:requests_deferred"},
		"nobody": {func(c *platformv1.ApplicationComponent) {
			goBy("web:requests_deferred", "2")(c)
			c.Monitoring = nil
		}, "set monitoring.enabled"},
		"requests": {func(c *platformv1.ApplicationComponent) { c.Autoscaling.MemoryUtilization = new(int32(50)) },
			"set resources.requests.memory"},
	} {
		app := shop(namespace, name, "tiers")
		app.Spec.Components = autoscaled(test.change)
		refusedWith(t, app, test.says)
	}
	fixed := shop(namespace, "fixed", "quorum")
	fixed.Spec.Components = autoscaled(func(c *platformv1.ApplicationComponent) { c.Name = "quorum" })
	refusedWith(t, fixed, "cannot be scaled once it is made")
	list := &autoscalingv2.HorizontalPodAutoscalerList{}
	if err := env.Client.List(t.Context(), list, client.InNamespace(namespace)); err != nil || len(list.Items) > 0 {
		t.Errorf("there are %v: %v", namesOf(t, list), err)
	}
}

// refusedWith creates an Application and waits until it is refused with a text.
func refusedWith(t *testing.T, app *platformv1.Application, says string) {
	t.Helper()
	create(t, app)
	testkit.WaitForCondition(t, env.Client, app, platformv1.StalledCondition, metav1.ConditionTrue)
	accepted := conditions.Get(app, platformv1.AcceptedCondition)
	if accepted.Reason != platformv1.ReasonInvalidSpec || !strings.Contains(accepted.Message, says) ||
		accepted.Status != metav1.ConditionFalse {
		t.Errorf("%s: Accepted is %+v, want %q", app.Name, accepted, says)
	}
}
