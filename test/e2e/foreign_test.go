// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// nameFreeIn is how soon an instance may notice that a name which was taken is free: nothing tells it.
const nameFreeIn = 3 * time.Minute

// TestForeignObjects proves that an object of somebody else under a name that the product needs is reported and left
// exactly as it is, and that the instance goes on once the name is free.
func TestForeignObjects(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "foreign")
	var taken []*instance
	for _, c := range []struct {
		name    string
		foreign func(i *instance) client.Object
	}{
		{"service", func(i *instance) client.Object {
			return &corev1.Service{ObjectMeta: named(i.application()), Spec: corev1.ServiceSpec{
				Selector: map[string]string{"app": "other"}, Ports: []corev1.ServicePort{{Port: 80}},
			}}
		}},
		{"secret", func(i *instance) client.Object {
			return &corev1.Secret{ObjectMeta: named(platformv1.CredentialNameFor(i.application(), "default")), StringData: map[string]string{"password": "foreign"}}
		}},
		{"plan", func(i *instance) client.Object {
			return &corev1.ConfigMap{ObjectMeta: named(platformv1.PlanNameFor(i.workloadSet())), Data: map[string]string{"a": "b"}}
		}},
		{"account", func(i *instance) client.Object { return &corev1.ServiceAccount{ObjectMeta: named(i.workloadSet())} }},
		{"application", func(i *instance) client.Object {
			return &platformv1.Application{ObjectMeta: named(i.application()), Spec: platformv1.ApplicationSpec{
				Plugin: "absent", PluginVersion: "1.0.0", Version: "1", Topology: "standalone",
			}}
		}},
	} {
		t.Run(c.name+" taken", func(t *testing.T) {
			i := &instance{space: s.in(t), name: c.name}
			taken = append(taken, i.taken(c.foreign(i)))
		})
	}
	for _, i := range taken {
		t.Run(i.name+" free", func(t *testing.T) {
			i := &instance{space: s.in(t), name: i.name}
			i.eventually(nameFreeIn, "the instance takes up the name that is free now", func() error {
				if meta.IsStatusConditionTrue(i.object().Status.Conditions, platformv1.StalledCondition) {
					return fmt.Errorf("it says: %s", describe(i.object().Status.Conditions))
				}
				return nil
			})
			i.ready()
			i.checkBinding()
		})
	}
}

// taken creates a foreign object and then the instance that needs its name, has the test fail unless the one is reported and the
// other left alone, and frees the name.
func (i *instance) taken(foreign client.Object) *instance {
	i.Helper()
	i.create(foreign)
	if app, ok := foreign.(*platformv1.Application); ok {
		i.settled(app)
	}
	i.redis(i.name)
	i.stalled(stall{reason: platformv1.ReasonNameTaken, texts: []string{foreign.GetName()}})
	now, ok := foreign.DeepCopyObject().(client.Object)
	if !ok {
		i.Fatalf("a copy of %T is no object", foreign)
	}
	i.mustGet(foreign.GetName(), now)
	if now.GetResourceVersion() != foreign.GetResourceVersion() {
		i.Errorf("the foreign object was changed: its resourceVersion was %s and is %s", foreign.GetResourceVersion(), now.GetResourceVersion())
	}
	i.delete(foreign)
	return i
}

// settled waits until an Application that nobody can run says so, and reads it again.
func (s *space) settled(app *platformv1.Application) {
	s.Helper()
	s.eventually(errorIn, fmt.Sprintf("Application %q says that its plugin is not there", app.Name), func() error {
		s.mustGet(app.Name, app)
		accepted := meta.FindStatusCondition(app.Status.Conditions, platformv1.AcceptedCondition)
		if accepted == nil || accepted.Reason != platformv1.ReasonPluginNotFound {
			return fmt.Errorf("it says: %s", describe(app.Status.Conditions))
		}
		return nil
	})
}

// TestUnknownPlugin proves that an Application which no operator can run says so within seconds, whoever made it.
func TestUnknownPlugin(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "noplugin")
	for _, c := range []struct {
		name string
		spec platformv1.ApplicationSpec
		text string
	}{
		{"plugin", platformv1.ApplicationSpec{Plugin: "nosuch", PluginVersion: "1.0.0", Version: "1", Topology: "standalone"}, "nosuch"},
		{"version", platformv1.ApplicationSpec{Plugin: "redis", PluginVersion: "9.9.9", Version: "7.0", Topology: "standalone"}, "9.9.9"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := s.in(t)
			app := &platformv1.Application{ObjectMeta: named(c.name), Spec: c.spec}
			s.create(app)
			start := time.Now()
			s.settled(app)
			s.wantMessage(app, platformv1.ReasonPluginNotFound, c.text)
			t.Logf("after %s: %s", seconds(time.Since(start)), describe(app.Status.Conditions))
		})
	}
}

// TestBadApplications proves that what only the plugin can judge of an Application is said within seconds, and that the
// rules of its schema hold.
func TestBadApplications(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "badapp")
	base := platformv1.ApplicationSpec{Plugin: "redis", PluginVersion: "1.0.0", Version: "7.0", Topology: "standalone"}
	for _, c := range []struct {
		name, reason, text string
		edit               func(*platformv1.ApplicationSpec)
	}{
		{"topology", platformv1.ReasonTopologyNotFound, "ring", func(a *platformv1.ApplicationSpec) { a.Topology = "ring" }},
		{"component", platformv1.ReasonComponentNotFound, "proxy", func(a *platformv1.ApplicationSpec) {
			a.Components = []platformv1.ApplicationComponent{{Name: "proxy"}}
		}},
		{"version", platformv1.ReasonVersionNotSupported, "5.0", func(a *platformv1.ApplicationSpec) { a.Version = "5.0" }},
		{"replicas", platformv1.ReasonInvalidSpec, "replicas", func(a *platformv1.ApplicationSpec) {
			three := int32(3)
			a.Components = []platformv1.ApplicationComponent{{Name: redisComponent, Replicas: &three}}
		}},
		{"parameter", platformv1.ReasonInvalidParameters, "maxclients", func(a *platformv1.ApplicationSpec) {
			a.Components = []platformv1.ApplicationComponent{{Name: redisComponent, Parameters: platformv1.Parameters{"maxclients": "many"}}}
		}},
		{"credential", platformv1.ReasonSecretNotFound, "absent", func(a *platformv1.ApplicationSpec) {
			a.Credentials = []platformv1.Credential{{Name: "default", PasswordFrom: platformv1.SecretKeyReference{Name: "absent"}}}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := s.in(t)
			app := &platformv1.Application{ObjectMeta: named(c.name), Spec: *base.DeepCopy()}
			c.edit(&app.Spec)
			if err := s.tryCreate(app); err != nil {
				s.wantRefused(err, c.text)
				return
			}
			s.eventually(errorIn, "the Application says what is wrong", func() error {
				s.mustGet(app.Name, app)
				if stalled := meta.FindStatusCondition(app.Status.Conditions, platformv1.StalledCondition); stalled == nil || stalled.Reason != c.reason {
					return fmt.Errorf("it says: %s", describe(app.Status.Conditions))
				}
				return nil
			})
			s.wantMessage(app, c.reason, c.text)
		})
	}
	t.Run("immutable fields", func(t *testing.T) {
		s := s.in(t)
		app := &platformv1.Application{ObjectMeta: named("fixed"), Spec: *base.DeepCopy()}
		// It never gets a pod.
		app.Spec.Credentials = []platformv1.Credential{{Name: "default", PasswordFrom: platformv1.SecretKeyReference{Name: "absent"}}}
		s.create(app)
		for field, edit := range map[string]func(*platformv1.ApplicationSpec){
			"plugin":        func(a *platformv1.ApplicationSpec) { a.Plugin = "valkey" },
			"pluginVersion": func(a *platformv1.ApplicationSpec) { a.PluginVersion = "1.1.0" },
		} {
			s.mustGet(app.Name, app)
			before := app.DeepCopy()
			edit(&app.Spec)
			s.wantRefused(world.client.Patch(s.ctx, app, client.MergeFrom(before)), field+" is immutable")
		}
	})
	t.Run("name too long", func(t *testing.T) {
		s := s.in(t)
		name := "a123456789b123456789c123456789d12345678"
		s.wantRefused(s.tryCreate(&platformv1.Application{ObjectMeta: named(name), Spec: base}), "at most 38 characters")
	})
}

// wantMessage has the test fail unless the conditions with this reason name what is wrong.
func (s *space) wantMessage(app *platformv1.Application, reason, text string) {
	s.Helper()
	for _, kind := range []string{platformv1.AcceptedCondition, platformv1.StalledCondition} {
		c := meta.FindStatusCondition(app.Status.Conditions, kind)
		if c == nil || c.Reason != reason {
			s.Errorf("condition %s does not say %s: %s", kind, reason, describe(app.Status.Conditions))
			continue
		}
		if !strings.Contains(c.Message, text) {
			s.Errorf("condition %s says nothing of %q: %s", kind, text, c.Message)
		}
	}
}
