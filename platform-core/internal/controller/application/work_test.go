// SPDX-License-Identifier: Apache-2.0

package application

import (
	"encoding/json"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/pluginfolder"
	"github.com/zeroinfra/platform-core/internal/render"
)

// stored is a spec as the API server gives it back.
func stored(t *testing.T, spec platformv1.ComponentSpec) platformv1.ComponentSpec {
	t.Helper()
	var back platformv1.ComponentSpec
	data, err := json.Marshal(spec)
	if err == nil {
		err = json.Unmarshal(data, &back)
	}
	if err != nil {
		t.Fatal(err)
	}
	return back
}

// redis edits the component.
func redis(set func(*platformv1.ApplicationComponent)) func(*platformv1.ApplicationSpec) {
	return func(s *platformv1.ApplicationSpec) {
		s.Components = []platformv1.ApplicationComponent{{Name: "redis"}}
		set(&s.Components[0])
	}
}

// specChanges are edits of an Application.
var specChanges = map[string]struct {
	edit  func(*platformv1.ApplicationSpec)
	words string // empty for an edit that takes no work
}{
	"nothing": {func(*platformv1.ApplicationSpec) {}, ""},
	"history": {func(s *platformv1.ApplicationSpec) {
		s.OperationHistory = &platformv1.OperationHistory{Limit: new(int32(1))}
	}, ""},
	"deletion": {func(s *platformv1.ApplicationSpec) { s.DeletionPolicy, s.DeletionProtection = "Delete", true }, ""},
	"windows": {func(s *platformv1.ApplicationSpec) {
		s.Maintenance = &platformv1.Maintenance{
			Windows: []platformv1.MaintenanceWindow{{Schedule: "0 2 * * *", Duration: metav1.Duration{Duration: time.Hour}}}}
	}, ""},
	"network": {func(s *platformv1.ApplicationSpec) { s.NetworkPolicy = &platformv1.NetworkPolicy{} }, ""},
	"service": {redis(func(c *platformv1.ApplicationComponent) {
		c.Service = &platformv1.ServiceExposure{
			ServiceSettings: platformv1.ServiceSettings{Annotations: map[string]string{"a": "b"}}}
	}), ""},
	"budget": {redis(func(c *platformv1.ApplicationComponent) {
		c.PodDisruptionBudget = &platformv1.PodDisruptionBudget{Disabled: true}
	}), ""},
	"stop":    {func(s *platformv1.ApplicationSpec) { s.Running = new(false) }, "spec.running: true → false"},
	"version": {func(s *platformv1.ApplicationSpec) { s.Version = "8.0" }, "spec.version: 7.0 → 8.0"},
	"storage": {redis(func(c *platformv1.ApplicationComponent) {
		c.Storage = &platformv1.Storage{Size: resource.MustParse("9Gi")}
	}),
		"spec.components[redis].storage.size: 1Gi → 9Gi"},
	"parameter": {redis(func(c *platformv1.ApplicationComponent) {
		c.Parameters = platformv1.Parameters{"maxclients": "77"}
	}),
		"spec.components[redis].parameters.maxclients: none → 77"},
	"place": {redis(func(c *platformv1.ApplicationComponent) {
		c.Scheduling = &platformv1.Scheduling{NodeSelector: map[string]string{"disk": "fast"}}
	}), "spec.components[redis].scheduling.nodeSelector.disk: none → fast"},
	"memory": {redis(func(c *platformv1.ApplicationComponent) {
		c.Resources.Limits = corev1.ResourceList{"memory": resource.MustParse("768Mi")}
	}), "spec.components[redis].resources.limits.memory: none → 768Mi"},
	"password": {func(s *platformv1.ApplicationSpec) {
		s.Credentials = []platformv1.Credential{
			{Name: "default", PasswordFrom: platformv1.SecretKeyReference{Name: "mine", Key: "p"}}}
	}, "spec.credentials[default].passwordFrom: redis-a-default/password → mine/p"},
}

// What an edit says in words, and whether it takes work on pods or volumes.
func TestNeedsWork(t *testing.T) {
	bundle, _, problems := pluginfolder.Load("../../../../database-operator/plugins/redis/1.0.0")
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for name, tc := range specChanges {
		t.Run(name, func(t *testing.T) {
			app := testApp()
			was, refusal := render.Components(bundle, app)
			if refusal != nil {
				t.Fatal(refusal)
			}
			f := &facts{state: plugin.State{Bundle: bundle}, components: map[string]*platformv1.Component{}}
			for _, spec := range was {
				for i := range spec.Credentials {
					spec.Credentials[i].Revision = "r1"
				}
				f.components[spec.Component] = &platformv1.Component{Spec: stored(t, spec)}
			}
			tc.edit(&app.Spec)
			wanted, refusal := render.Components(bundle, app)
			if refusal != nil {
				t.Fatal(refusal)
			}
			words := (&Controller{}).words(app, differences(app, f, wanted))
			if got := needsWork(app, f, wanted); got != (tc.words != "") {
				t.Errorf("it needs work: %t; %q; was %+v, is %+v", got, words, demandsOf(app, bundle, &f.components["redis"].Spec),
					demandsOf(app, bundle, &wanted[0]))
			}
			if tc.words != "" && !slices.Contains(words, tc.words) {
				t.Errorf("it says %q; want %q", words, tc.words)
			}
		})
	}
}
