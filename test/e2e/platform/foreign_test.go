// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// nameFreeIn is how soon an instance may notice that a name which was taken is free: nothing tells it.
const nameFreeIn = 3 * time.Minute

// TestForeignObjects proves that an object of somebody else under a name that the product needs is reported and left
// exactly as it is, and that the instance goes on once the name is free.
func TestForeignObjects(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "foreign")
	var taken []*framework.Instance
	for _, c := range []struct {
		name    string
		foreign func(i *framework.Instance) client.Object
	}{
		{"service", func(i *framework.Instance) client.Object {
			return &corev1.Service{ObjectMeta: framework.ObjectMeta(i.Application()), Spec: corev1.ServiceSpec{
				Selector: map[string]string{"app": "other"}, Ports: []corev1.ServicePort{{Port: 80}},
			}}
		}},
		{"secret", func(i *framework.Instance) client.Object {
			return &corev1.Secret{ObjectMeta: framework.ObjectMeta(platformv1.CredentialNameFor(i.Application(), "default")),
				StringData: map[string]string{"password": "foreign"}}
		}},
		{"plan", func(i *framework.Instance) client.Object {
			return &corev1.ConfigMap{ObjectMeta: framework.ObjectMeta(platformv1.PlanNameFor(i.WorkloadSet())),
				Data: map[string]string{"a": "b"}}
		}},
		{"account", func(i *framework.Instance) client.Object {
			return &corev1.ServiceAccount{ObjectMeta: framework.ObjectMeta(i.WorkloadSet())}
		}},
		{"application", func(i *framework.Instance) client.Object {
			return &platformv1.Application{ObjectMeta: framework.ObjectMeta(i.Application()), Spec: platformv1.ApplicationSpec{
				Plugin: "absent", PluginVersion: "1.0.0", Version: "1", Topology: "standalone",
			}}
		}},
	} {
		t.Run(c.name+" taken", func(t *testing.T) {
			i := &framework.Instance{Namespace: s.In(t), Name: c.name}
			taken = append(taken, ownsNames(i, c.foreign(i)))
		})
	}
	for _, i := range taken {
		t.Run(i.Name+" free", func(t *testing.T) {
			i := &framework.Instance{Namespace: s.In(t), Name: i.Name}
			i.Eventually(nameFreeIn, "the instance takes up the name that is free now", func() error {
				if meta.IsStatusConditionTrue(i.Object().Status.Conditions, platformv1.StalledCondition) {
					return fmt.Errorf("it says: %s", framework.Describe(i.Object().Status.Conditions))
				}
				return nil
			})
			i.WaitReady()
			i.CheckBinding()
		})
	}
}

// ownsNames creates a foreign object and then the instance that needs its name, has the test fail unless the one is
// reported and the other left alone, and frees the name.
func ownsNames(i *framework.Instance, foreign client.Object) *framework.Instance {
	i.Helper()
	i.Create(foreign)
	if app, ok := foreign.(*platformv1.Application); ok {
		settled(i.Namespace, app)
	}
	i.CreateRedis(i.Name)
	i.ExpectStalled(framework.ExpectedStall{Reason: platformv1.ReasonNameTaken, Texts: []string{foreign.GetName()}})
	now, ok := foreign.DeepCopyObject().(client.Object)
	if !ok {
		i.Fatalf("a copy of %T is no object", foreign)
	}
	i.MustGet(foreign.GetName(), now)
	if now.GetResourceVersion() != foreign.GetResourceVersion() {
		i.Errorf("the foreign object was changed: its resourceVersion was %s and is %s", foreign.GetResourceVersion(),
			now.GetResourceVersion())
	}
	i.Delete(foreign)
	return i
}

// settled waits until an Application that nobody can run says so, and reads it again.
func settled(s *framework.Namespace, app *platformv1.Application) {
	s.Helper()
	s.Eventually(framework.ErrorTimeout, fmt.Sprintf("Application %q says that its plugin is not there", app.Name),
		func() error {
			s.MustGet(app.Name, app)
			accepted := meta.FindStatusCondition(app.Status.Conditions, platformv1.AcceptedCondition)
			if accepted == nil || accepted.Reason != platformv1.ReasonPluginNotFound {
				return fmt.Errorf("it says: %s", framework.Describe(app.Status.Conditions))
			}
			return nil
		})
}

// TestUnknownPlugin proves that an Application which no operator can run says so within seconds, whoever made it.
func TestUnknownPlugin(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "noplugin")
	for _, c := range []struct {
		name string
		spec platformv1.ApplicationSpec
		text string
	}{
		{"plugin", platformv1.ApplicationSpec{Plugin: "nosuch", PluginVersion: "1.0.0", Version: "1", Topology: "standalone"},
			"nosuch"},
		{"version", platformv1.ApplicationSpec{Plugin: "redis", PluginVersion: "9.9.9", Version: "7.0",
			Topology: "standalone"}, "9.9.9"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := s.In(t)
			app := &platformv1.Application{ObjectMeta: framework.ObjectMeta(c.name), Spec: c.spec}
			s.Create(app)
			start := time.Now()
			settled(s, app)
			wantMessage(s, app, platformv1.ReasonPluginNotFound, c.text)
			t.Logf("after %s: %s", framework.FormatSeconds(time.Since(start)), framework.Describe(app.Status.Conditions))
		})
	}
}

// TestBadApplications proves that what only the plugin can judge of an Application is said within seconds, and that the
// rules of its schema hold.
func TestBadApplications(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "badapp")
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
			a.Components = []platformv1.ApplicationComponent{{Name: framework.RedisComponent, Replicas: &three}}
		}},
		{"parameter", platformv1.ReasonInvalidParameters, "maxclients", func(a *platformv1.ApplicationSpec) {
			a.Components = []platformv1.ApplicationComponent{
				{Name: framework.RedisComponent, Parameters: platformv1.Parameters{"maxclients": "many"}}}
		}},
		{"credential", platformv1.ReasonSecretNotFound, "absent", func(a *platformv1.ApplicationSpec) {
			a.Credentials = []platformv1.Credential{
				{Name: "default", PasswordFrom: platformv1.SecretKeyReference{Name: "absent"}}}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := s.In(t)
			app := &platformv1.Application{ObjectMeta: framework.ObjectMeta(c.name), Spec: *base.DeepCopy()}
			c.edit(&app.Spec)
			if err := s.TryCreate(app); err != nil {
				s.ExpectRefused(err, c.text)
				return
			}
			s.Eventually(framework.ErrorTimeout, "the Application says what is wrong", func() error {
				s.MustGet(app.Name, app)
				if stalled := meta.FindStatusCondition(app.Status.Conditions, platformv1.StalledCondition); stalled == nil ||
					stalled.Reason != c.reason {
					return fmt.Errorf("it says: %s", framework.Describe(app.Status.Conditions))
				}
				return nil
			})
			wantMessage(s, app, c.reason, c.text)
		})
	}
	t.Run("immutable fields", func(t *testing.T) {
		s := s.In(t)
		app := &platformv1.Application{ObjectMeta: framework.ObjectMeta("fixed"), Spec: *base.DeepCopy()}
		// It never gets a pod.
		app.Spec.Credentials = []platformv1.Credential{
			{Name: "default", PasswordFrom: platformv1.SecretKeyReference{Name: "absent"}}}
		s.Create(app)
		for field, edit := range map[string]func(*platformv1.ApplicationSpec){
			"plugin":        func(a *platformv1.ApplicationSpec) { a.Plugin = "valkey" },
			"pluginVersion": func(a *platformv1.ApplicationSpec) { a.PluginVersion = "1.1.0" },
		} {
			s.MustGet(app.Name, app)
			before := app.DeepCopy()
			edit(&app.Spec)
			s.ExpectRefused(framework.Cluster.Client.Patch(s.Ctx, app, client.MergeFrom(before)), field+" is immutable")
		}
	})
	t.Run("name too long", func(t *testing.T) {
		s := s.In(t)
		name := "a123456789b123456789c123456789d12345678"
		s.ExpectRefused(s.TryCreate(&platformv1.Application{ObjectMeta: framework.ObjectMeta(name), Spec: base}),
			"at most 38 characters")
	})
}

// wantMessage has the test fail unless the conditions with this reason name what is wrong.
func wantMessage(s *framework.Namespace, app *platformv1.Application, reason, text string) {
	s.Helper()
	for _, kind := range []string{platformv1.AcceptedCondition, platformv1.StalledCondition} {
		c := meta.FindStatusCondition(app.Status.Conditions, kind)
		if c == nil || c.Reason != reason {
			s.Errorf("condition %s does not say %s: %s", kind, reason, framework.Describe(app.Status.Conditions))
			continue
		}
		if !strings.Contains(c.Message, text) {
			s.Errorf("condition %s says nothing of %q: %s", kind, text, c.Message)
		}
	}
}
