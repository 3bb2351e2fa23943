// SPDX-License-Identifier: Apache-2.0

package render

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/plugintest"
)

var settings = Settings{AgentImage: "zeroinfra/agent:1"}

// redisSources are the parts of the redis plugin.
func redisSources(t testing.TB) map[plugin.Part]plugin.Source {
	t.Helper()
	folder := filepath.Join("..", "..", "..", "database-operator", "plugins", "redis", "1.0.0")
	sources, errs := plugin.LoadFolder(os.DirFS(folder), "redis")
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return sources
}

// redis is the redis plugin with its topology standalone alone, after changes of the texts of its parts: pairs of old
// and new.
func redis(t testing.TB, changes ...string) *plugin.Bundle {
	t.Helper()
	sources := redisSources(t)
	if err := plugintest.Standalone(sources[plugin.PartComponents].Data, sources[plugin.PartParams].Data,
		sources[plugin.PartPodTemplates].Data, sources[plugin.PartOperations].Data); err != nil {
		t.Fatal(err)
	}
	return changed(t, sources, changes...)
}

// changed loads a plugin after changes of its texts.
func changed(t testing.TB, sources map[plugin.Part]plugin.Source, changes ...string) *plugin.Bundle {
	t.Helper()
	for i := 0; i+1 < len(changes); i += 2 {
		done := false
		for _, source := range sources {
			for key, text := range source.Data {
				if strings.Contains(text, changes[i]) {
					source.Data[key], done = strings.Replace(text, changes[i], changes[i+1], 1), true
				}
			}
		}
		if !done {
			t.Fatalf("there is no %q to replace", changes[i])
		}
	}
	bundle, errs := plugin.Load(sources)
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return bundle
}

func application(change func(*platformv1.Application)) *platformv1.Application {
	app := &platformv1.Application{
		ObjectMeta: metav1.ObjectMeta{Name: "cache", Namespace: "shop", UID: "u"},
		Spec: platformv1.ApplicationSpec{Plugin: "redis", PluginVersion: "1.0.0", Version: "7.0",
			Topology: "standalone"},
	}
	if change != nil {
		change(app)
	}
	return app
}

// component changes the one component of an Application.
func component(change func(*platformv1.ApplicationComponent)) func(*platformv1.Application) {
	return func(app *platformv1.Application) {
		c := platformv1.ApplicationComponent{Name: "redis"}
		change(&c)
		app.Spec.Components = []platformv1.ApplicationComponent{c}
	}
}

func render(t testing.TB, b *plugin.Bundle, s Settings, app *platformv1.Application) (*platformv1.WorkloadSet,
	*ComponentOutput) {
	t.Helper()
	specs, refusal := Components(b, app)
	if refusal != nil {
		t.Fatalf("refused: %v", refusal)
	}
	output, refusal := Component(b, s, Meta{Application: app.Name, Namespace: app.Namespace, UID: app.UID,
		Domain: "database"}, &specs[0])
	if refusal != nil {
		t.Fatalf("refused: %v", refusal)
	}
	set := output.WorkloadSets[0]
	return &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Name: set.Name, Namespace: app.Namespace},
		Spec: set.Spec}, output
}

func pod(t testing.TB, ws *platformv1.WorkloadSet, ordinal int32) *corev1.Pod {
	t.Helper()
	p, err := Pod(ws, ordinal)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestComponentsRefuses(t *testing.T) {
	quantity := resource.MustParse
	for name, tc := range map[string]struct {
		change       func(*platformv1.Application)
		reason, says string
	}{
		"long name": {func(a *platformv1.Application) { a.Name = strings.Repeat("a", 39) },
			platformv1.ReasonInvalidSpec, "has 39 characters: at most 38 are allowed"},
		"version": {func(a *platformv1.Application) { a.Spec.Version = "6.2" },
			platformv1.ReasonVersionNotSupported, `plugin "redis" 1.0.0 does not support version "6.2": it supports 7.0, 8.0`},
		"topology": {func(a *platformv1.Application) { a.Spec.Topology = "cluster" },
			platformv1.ReasonTopologyNotFound, `plugin "redis" has no topology "cluster": it has standalone`},
		"component": {component(func(c *platformv1.ApplicationComponent) { c.Name = "sentinel" }),
			platformv1.ReasonComponentNotFound, `topology "standalone" has no component "sentinel": it has redis`},
		"too many": {component(func(c *platformv1.ApplicationComponent) { c.Replicas = new(int32(3)) }),
			platformv1.ReasonInvalidSpec, `component "redis" has 3 replicas: topology "standalone" takes exactly 1`},
		"none": {component(func(c *platformv1.ApplicationComponent) { c.Replicas = new(int32(0)) }),
			platformv1.ReasonInvalidSpec, `component "redis" has 0 replicas`},
		"parameters": {component(func(c *platformv1.ApplicationComponent) {
			c.Parameters = platformv1.Parameters{"maxmemroy": "1", "hz": "0"}
		}), platformv1.ReasonInvalidParameters, `parameter "hz" has value "0": it must be a whole number from 1 to 500; ` +
			`parameter "maxmemroy" is not known to redis 7.0: did you mean "maxmemory"?`},
		"many parameters": {component(func(c *platformv1.ApplicationComponent) {
			c.Parameters = platformv1.Parameters{"a": "", "b": "", "c": "", "d": "", "e": "", "f": "", "g": ""}
		}), platformv1.ReasonInvalidParameters, "and 2 more"},
		"size": {component(func(c *platformv1.ApplicationComponent) { c.Storage = &platformv1.Storage{Size: quantity("0")} }),
			platformv1.ReasonInvalidSpec, "storage of size 0: it must be greater than 0"},
		"size in milli units": {component(func(c *platformv1.ApplicationComponent) {
			c.Storage = &platformv1.Storage{Size: quantity("500m")}
		}), platformv1.ReasonInvalidSpec, `component "redis" has storage of size 500m: that is less than 1Ki, ` +
			"since m means thousandths, here of a byte; write 500Mi for mebibytes"},
		"request in milli units": {component(func(c *platformv1.ApplicationComponent) {
			c.Resources.Requests = corev1.ResourceList{"memory": quantity("400m")}
		}), platformv1.ReasonInvalidSpec, `component "redis" requests 400m of memory: that is less than 1Ki`},
		"limit in whole milli units": {component(func(c *platformv1.ApplicationComponent) {
			c.Resources.Limits = corev1.ResourceList{"memory": quantity("2000m")}
		}), platformv1.ReasonInvalidSpec, "has a limit of 2 of memory: that is less than 1Ki, since m means thousandths"},
		"scratch space in milli units": {component(func(c *platformv1.ApplicationComponent) {
			c.Resources.Limits = corev1.ResourceList{"ephemeral-storage": quantity("1m")}
		}), platformv1.ReasonInvalidSpec, `a limit of 1m of ephemeral-storage`},
		"request above limit": {component(func(c *platformv1.ApplicationComponent) {
			c.Resources.Requests = corev1.ResourceList{"memory": quantity("2Gi")}
			c.Resources.Limits = corev1.ResourceList{"memory": quantity("1Gi")}
		}), platformv1.ReasonInvalidSpec, "requests 2Gi of memory and has a limit of 1Gi"},
		"no limit": {component(func(c *platformv1.ApplicationComponent) {
			c.Resources.Limits = corev1.ResourceList{"cpu": quantity("0")}
		}), platformv1.ReasonInvalidSpec, "a limit of 0 of cpu"},
		"claims": {component(func(c *platformv1.ApplicationComponent) {
			c.Resources.Claims = []corev1.ResourceClaim{{Name: "x"}}
		}), platformv1.ReasonInvalidSpec, "resource claims, which are not supported"},
		"credential": {func(a *platformv1.Application) { a.Spec.Credentials = []platformv1.Credential{{Name: "admin"}} },
			platformv1.ReasonInvalidSpec, `plugin "redis" has no credential "admin": it has default`},
		"secret": {func(a *platformv1.Application) {
			a.Spec.Credentials = []platformv1.Credential{
				{Name: "default", PasswordFrom: platformv1.SecretKeyReference{Name: "${pod.name}"}}}
		}, platformv1.ReasonInvalidSpec, `passwordFrom.name "${pod.name}", which is no name of a Secret`},
		"secret's key": {func(a *platformv1.Application) {
			a.Spec.Credentials = []platformv1.Credential{
				{Name: "default", PasswordFrom: platformv1.SecretKeyReference{Name: "x", Key: "../y"}}}
		}, platformv1.ReasonInvalidSpec, `passwordFrom.key "../y", which is no key of a Secret`},
		"failover": {func(a *platformv1.Application) { a.Spec.Failover = &platformv1.Failover{MaxLag: new(quantity("1Mi"))} },
			platformv1.ReasonInvalidSpec, `the engine chooses the primary of no component of topology "standalone" of plugin ` +
				`"redis": take it out`},
	} {
		specs, refusal := Components(redis(t), application(tc.change))
		if refusal == nil || specs != nil || refusal.Reason != tc.reason || !strings.Contains(refusal.Message, tc.says) {
			t.Errorf("%s: got %+v, %v; want %s: %s", name, specs, refusal, tc.reason, tc.says)
		}
	}
}

func TestStorageAndServiceNeedAPluginThatHasThem(t *testing.T) {
	stateless := redis(t, "    volumes:\n      - name: data\n        size: 1Gi\n", "",
		"      volumeMounts:\n        - name: data\n          mountPath: /data\n", "",
		"        exposure: Client\n", "        exposure: Internal\n", "binding:\n  type: redis\n  component: redis\n  "+
			"port: redis\n  credential: default\n  uriScheme: redis\n  uriSchemeTLS: rediss\n", "")
	for says, change := range map[string]func(*platformv1.ApplicationComponent){
		"keeps no data on volumes": func(c *platformv1.ApplicationComponent) {
			c.Storage = &platformv1.Storage{Size: resource.MustParse("1Gi")}
		},
		"has no Service for clients": func(c *platformv1.ApplicationComponent) { c.Service = &platformv1.ServiceExposure{} },
	} {
		_, refusal := Components(stateless, application(component(change)))
		if refusal == nil || refusal.Reason != platformv1.ReasonInvalidSpec || !strings.Contains(refusal.Message, says) {
			t.Errorf("got %v; want %q", refusal, says)
		}
	}
	ws, output := render(t, stateless, settings, application(nil))
	if len(ws.Spec.Volumes) != 0 || len(output.Endpoints) != 0 || len(output.Services) != 2 {
		t.Errorf("got %+v and %+v", ws.Spec.Volumes, output)
	}
	if Binding(stateless, "cache", "standalone", output.Endpoints, Login{Username: "u", Password: "p"}, nil) != nil {
		t.Error("a plugin without a binding gives one")
	}
}

func TestComponentRefuses(t *testing.T) {
	b := redis(t)
	specs, refusal := Components(b, application(nil))
	if refusal != nil {
		t.Fatal(refusal)
	}
	for says, change := range map[string]func(*platformv1.ComponentSpec, *Settings){
		`no component "x"`:         func(c *platformv1.ComponentSpec, _ *Settings) { c.Component = "x" },
		"does not support version": func(c *platformv1.ComponentSpec, _ *Settings) { c.Version = "1" },
		"is not known to redis": func(c *platformv1.ComponentSpec, _ *Settings) {
			c.Parameters = platformv1.Parameters{"zz": "1"}
		},
		"no agent image": func(_ *platformv1.ComponentSpec, s *Settings) { s.AgentImage = "" },
	} {
		spec, s := specs[0].DeepCopy(), settings
		change(spec, &s)
		if output, refusal := Component(b, s, Meta{Application: "cache", Namespace: "shop"}, spec); refusal == nil ||
			output != nil || !strings.Contains(refusal.Error(), says) {
			t.Errorf("got %+v, %v; want %q", output, refusal, says)
		}
	}
}

func TestPodPassesPodSecurityRestricted(t *testing.T) {
	evaluator, err := policy.NewEvaluator(policy.DefaultChecks(), nil)
	if err != nil {
		t.Fatal(err)
	}
	ws, _ := render(t, redis(t), settings, application(nil))
	p := pod(t, ws, 0)
	restricted := api.LevelVersion{Level: api.LevelRestricted, Version: api.LatestVersion()}
	for _, result := range evaluator.EvaluatePod(restricted, &p.ObjectMeta, &p.Spec) {
		if !result.Allowed {
			t.Errorf("%s: %s", result.ForbiddenReason, result.ForbiddenDetail)
		}
	}
	for _, c := range append(p.Spec.InitContainers, p.Spec.Containers...) {
		if s := c.SecurityContext; s.ReadOnlyRootFilesystem == nil || !*s.ReadOnlyRootFilesystem {
			t.Errorf("container %s can write to its root", c.Name)
		}
	}
}

func TestOnlyTheStatusContainerHasTheToken(t *testing.T) {
	ws, _ := render(t, redis(t), settings, application(nil))
	p := pod(t, ws, 0)
	if *p.Spec.AutomountServiceAccountToken {
		t.Error("the token is mounted everywhere")
	}
	want := map[string]string{
		"agent-init": "zeroinfra-bin",
		"redis":      "data zeroinfra-bin zeroinfra-run zeroinfra-config zeroinfra-plan zeroinfra-tls zeroinfra-secrets",
		"status":     "zeroinfra-bin zeroinfra-run zeroinfra-plan zeroinfra-token zeroinfra-secrets",
		"ops":        "zeroinfra-bin zeroinfra-run zeroinfra-plan zeroinfra-tls zeroinfra-config zeroinfra-secrets",
	}
	for _, c := range append(p.Spec.InitContainers, p.Spec.Containers...) {
		var mounts []string
		for _, m := range c.VolumeMounts {
			mounts = append(mounts, m.Name)
		}
		if got := strings.Join(mounts, " "); got != want[c.Name] {
			t.Errorf("container %s mounts %q; want %q", c.Name, got, want[c.Name])
		}
	}
}

func TestGracePeriod(t *testing.T) {
	for want, changes := range map[int64][]string{
		65: nil,
		35: {"      stop:\n        # Redis writes what its persistence asks for and then exits.\n        signal: " +
			"SIGTERM\n        timeoutSeconds: 60\n", ""},
		200: {"spec:\n", "spec:\n  terminationGracePeriodSeconds: 200\n"},
		// Of a hook that may take long, a part counts.
		65 + plan.MaxPodHookSeconds: {"      stop:\n        # Redis writes", "      hooks:\n        preStop:\n" +
			"          command: [\"true\"]\n          timeoutSeconds: 1800\n      stop:\n        # Redis writes"},
	} {
		ws, _ := render(t, redis(t, changes...), settings, application(nil))
		if got := *pod(t, ws, 0).Spec.TerminationGracePeriodSeconds; got != want {
			t.Errorf("grace period is %d; want %d", got, want)
		}
	}
}

func TestImageRegistry(t *testing.T) {
	c := &context{}
	for _, tc := range []struct{ registry, image, want string }{
		{"", "zeroinfra/redis:7.0", "zeroinfra/redis:7.0"},
		{"r.example.com", "zeroinfra/redis:7.0", "r.example.com/zeroinfra/redis:7.0"},
		{"r.example.com/mirror/", "redis", "r.example.com/mirror/redis"},
		{"r", "docker.io/library/redis:7", "r/library/redis:7"},
		{"r", "localhost:5000/a/b", "r/a/b"},
		{"r", "localhost/a", "r/a"},
	} {
		c.settings.ImageRegistry = tc.registry
		if got := c.image(tc.image); got != tc.want {
			t.Errorf("image(%q, %q) = %q; want %q", tc.registry, tc.image, got, tc.want)
		}
	}
	s := settings
	s.ImageRegistry = "r.example.com"
	ws, _ := render(t, redis(t), s, application(nil))
	for _, c := range pod(t, ws, 0).Spec.Containers {
		if c.Image != "r.example.com/zeroinfra/redis:7.0" {
			t.Errorf("container %s has image %q", c.Name, c.Image)
		}
	}
}

func TestRenderingIsDeterministic(t *testing.T) {
	b := redis(t)
	app := application(component(func(c *platformv1.ApplicationComponent) {
		c.Parameters = platformv1.Parameters{"maxmemory": "1mb", "hz": "5", "save": "", "timeout": "1", "databases": "3"}
	}))
	first, _ := render(t, b, settings, app)
	for range 20 {
		again, _ := render(t, b, settings, app)
		if !reflect.DeepEqual(first, again) {
			t.Fatal("the same input gives different sets")
		}
		if !reflect.DeepEqual(pod(t, first, 0), pod(t, again, 0)) {
			t.Fatal("the same input gives different pods")
		}
	}
	if app.Spec.Components[0].Storage != nil {
		t.Error("the Application was changed")
	}
}
