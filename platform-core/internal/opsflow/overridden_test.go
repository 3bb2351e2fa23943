// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// has gives an Application a component as an edit leaves it.
func has(change func(*platformv1.ApplicationComponent)) func(*platformv1.ApplicationSpec) {
	return func(spec *platformv1.ApplicationSpec) {
		component := platformv1.ApplicationComponent{Name: "redis"}
		change(&component)
		spec.Components = []platformv1.ApplicationComponent{component}
	}
}

func replicas(n int32) func(*platformv1.ApplicationSpec) {
	return has(func(c *platformv1.ApplicationComponent) { c.Replicas = &n })
}

func memory(limit, request string) func(*platformv1.ApplicationSpec) {
	return has(func(c *platformv1.ApplicationComponent) {
		c.Resources = corev1.ResourceRequirements{Limits: corev1.ResourceList{"memory": resource.MustParse(limit)},
			Requests: corev1.ResourceList{"memory": resource.MustParse(request)}}
	})
}

// editing is a run of a template of the engine.
func editing(template string, parameters map[string]string) *world {
	w := worldOf(approved, pod(0, primary), pod(1, reader))
	w.op.Spec.TemplateRef = template
	w.op.Spec.Parameters = platformv1.Parameters{}
	for name, value := range parameters {
		w.op.Spec.Parameters[name] = platformv1.ParameterValue(value)
	}
	w.facts.Template = Defaults()[template]
	w.facts.Parameters = ParametersInForce(w.op.Spec, w.facts.Template)
	w.facts.Application.Name = "redis-a"
	return w
}

// declares has the outermost object be Ready with a spec of this generation.
func declares(generation int64, change func(*platformv1.ApplicationSpec)) func(*world) {
	return func(w *world) {
		w.facts.Declared.ObservedGeneration = generation
		change(&w.facts.Application.Spec)
	}
}

// overriddenStories are those of edits that another one follows.
var overriddenStories = map[string]func() *world{
	"edit-that-is-overridden": func() *world {
		w := editing("HorizontalScale", map[string]string{"replicas": "5"})
		w.op.Spec.Retry = &platformv1.OperationRetry{Limit: 3}
		w.happens("The Operation starts.", nil)
		w.happens("Somebody sets 3 again, and that is Ready; the controller dies.", func(w *world) {
			declares(3, replicas(3))(w)
			w.crash = crashBeforeWrite
		})
		w.happens("A controller starts.", nil)
		w.happens("10 s later.", wait(10*time.Second))
		w.happens("5 s later.", wait(5*time.Second))
		return w
	},
	"edit-that-another-one-leaves": func() *world {
		w := editing("HorizontalScale", map[string]string{"replicas": "5"})
		w.happens("The Operation starts.", nil)
		w.happens("Somebody edits another field, and the Application that was read is from before both.",
			declares(3, replicas(3)))
		w.happens("A second later the Application is there as declared.", func(w *world) {
			wait(time.Second)(w)
			replicas(5)(&w.facts.Application.Spec)
		})
		w.outputs()
		return w
	},
	"upgrade-that-is-overridden": func() *world {
		w := upgrading()
		w.facts.Application.Name = "redis-a"
		w.happens("The Operation starts.", nil)
		w.happens("Somebody sets a later version, and that is Ready.",
			declares(3, func(spec *platformv1.ApplicationSpec) { spec.Version = "8.2" }))
		w.happens("15 s later.", wait(15*time.Second))
		return w
	},
}

// An edit that another one has overridden has failed, and is not made again; one that the spec still has is done, in
// whatever words.
func TestOverriddenEdits(t *testing.T) {
	running := func(is bool) func(*platformv1.ApplicationSpec) {
		return func(spec *platformv1.ApplicationSpec) { spec.Running = &is }
	}
	size := func(text string) func(*platformv1.ApplicationSpec) {
		return has(func(c *platformv1.ApplicationComponent) {
			c.Storage = &platformv1.Storage{Size: resource.MustParse(text)}
		})
	}
	const advice = "; change it where that edit comes from, or run the Operation again"
	for name, tc := range map[string]struct {
		template   string
		parameters map[string]string
		is         func(*platformv1.ApplicationSpec)
		says       string
	}{
		"replicas": {"HorizontalScale", map[string]string{"replicas": "5"}, replicas(5), ""},
		"other replicas": {"HorizontalScale", map[string]string{"replicas": "5"}, replicas(4),
			`spec.components[redis].replicas of Application "redis-a" is 4, and 5 was asked for` + advice},
		"replicas taken away": {"HorizontalScale", map[string]string{"replicas": "5"}, func(*platformv1.ApplicationSpec) {},
			`spec.components[redis].replicas of Application "redis-a" is none, and 5 was asked for` + advice},
		"of a set": {"HorizontalScale", map[string]string{"replicas": "5"}, has(func(c *platformv1.ApplicationComponent) {
			c.Replicas, c.Sets = new(int32(5)), []platformv1.ComponentSet{{Name: "main", Replicas: new(int32(1))}}
		}), `spec.components[redis].sets[main].replicas of Application "redis-a" is 1, and 5 was asked for` + advice},
		"memory in other words": {"VerticalScaleResource", map[string]string{"memory": "1024Mi"}, memory("1Gi", "1Gi"), ""},
		"memory": {"VerticalScaleResource", map[string]string{"memory": "1024Mi"}, memory("1Gi", "512Mi"),
			`spec.components[redis].resources.requests.memory of Application "redis-a" is 512Mi, and 1Gi was asked for` +
				advice},
		"other memory than was asked about": {"VerticalScaleResource", map[string]string{"memoryLimit": "1Gi"},
			memory("1Gi", "64Mi"), ""},
		"a size": {"VerticalScaleVolume", map[string]string{"size": "2Gi"}, size("2048Mi"), ""},
		"another size": {"VerticalScaleVolume", map[string]string{"size": "2Gi"}, size("4Gi"),
			`spec.components[redis].storage.size of Application "redis-a" is 4Gi, and 2Gi was asked for` + advice},
		"stopped": {"Stop", nil, running(false), ""},
		"started again": {"Stop", nil, running(true),
			`spec.running of Application "redis-a" is true, and false was asked for` + advice},
		"the version": {"UpgradePaaS", map[string]string{"version": "8.0"},
			func(spec *platformv1.ApplicationSpec) { spec.Version = "8.0" }, ""},
		"the former version": {"UpgradePaaS", map[string]string{"version": "8.0"}, func(*platformv1.ApplicationSpec) {},
			`spec.version of Application "redis-a" is 7.0, and 8.0 was asked for` + advice},
		"a component that is gone": {"HorizontalScale", map[string]string{"replicas": "5", "component": "redis"}, nil,
			`Redis "a" has no component "redis"; it has: "other"` + advice},
	} {
		t.Run(name, func(t *testing.T) {
			w := editing(tc.template, tc.parameters)
			w.op.Spec.Retry = &platformv1.OperationRetry{Limit: 3}
			w.happens("The Operation starts.", nil)
			if tc.is == nil {
				w.facts.Components, tc.is = []string{"other"}, func(*platformv1.ApplicationSpec) {}
			}
			w.happens("Another edit.", declares(3, tc.is))
			w.happens("15 s later.", wait(15*time.Second))
			got := w.op.Status
			if tc.says == "" && got.Phase != platformv1.OperationSucceeded {
				t.Errorf("it is %s: %s", got.Phase, w.story.String())
			}
			if want := `another edit of Redis "a" has overridden that of this step: ` + tc.says; tc.says != "" &&
				(got.Phase != platformv1.OperationFailed || !strings.HasPrefix(got.Error, want)) {
				t.Errorf("it is %s: %q, want %q", got.Phase, got.Error, want)
			}
			if edits := strings.Count(w.story.String(), "waiting for the edit"); edits != 1 {
				t.Errorf("it has edited %d times", edits)
			}
		})
	}
}

// What was Ready with the very edit is done, whatever has become of that since; what is not Ready goes on as it did.
func TestAnEditIsLookedForOnlyUnderLaterOnes(t *testing.T) {
	w := editing("HorizontalScale", map[string]string{"replicas": "5"})
	w.happens("The Operation starts.", nil)
	w.happens("It is Ready with the edit, and somebody sets 3 again.", declares(2, replicas(3)))
	if w.op.Status.Phase != platformv1.OperationSucceeded {
		t.Error(w.story.String())
	}
	w = editing("HorizontalScale", map[string]string{"replicas": "5"})
	w.happens("The Operation starts.", nil)
	w.happens("Somebody sets 3 again, and that is not Ready.", func(w *world) {
		declares(3, replicas(3))(w)
		w.facts.Declared.Ready = Condition{Status: metav1.ConditionFalse, Message: "pod 1 ends"}
	})
	w.happens("A minute later.", wait(time.Minute))
	if step := w.op.Status.Steps[0]; step.Phase != platformv1.OperationRunning ||
		step.Message != `waiting for Redis "a" to be Ready: pod 1 ends` {
		t.Error(w.story.String())
	}
}
