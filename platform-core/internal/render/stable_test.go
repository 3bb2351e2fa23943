// SPDX-License-Identifier: Apache-2.0

package render

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
)

// reorder does to JSON what an API server may do: other order of keys, other blanks.
func reorder(t *testing.T, data []byte) []byte {
	t.Helper()
	var tree any
	if err := json.Unmarshal(data, &tree); err != nil {
		t.Fatal(err)
	}
	out, err := json.MarshalIndent(reversed(tree), "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// reversed writes the keys of maps in falling order.
func reversed(value any) any {
	switch node := value.(type) {
	case map[string]any:
		pairs := reversedMap{}
		for key, child := range node {
			pairs[key] = reversed(child)
		}
		return pairs
	case []any:
		for i := range node {
			node[i] = reversed(node[i])
		}
	}
	return value
}

type reversedMap map[string]any

func (m reversedMap) MarshalJSON() ([]byte, error) {
	keys := slices.Sorted(maps.Keys(m))
	slices.Reverse(keys)
	var parts []string
	for _, key := range keys {
		value, err := json.Marshal(m[key])
		if err != nil {
			return nil, err
		}
		name, err := json.Marshal(key)
		if err != nil {
			return nil, err
		}
		parts = append(parts, string(name)+":"+string(value))
	}
	return []byte("{" + strings.Join(parts, ",") + "}"), nil
}

// inPlace are changes that leave the revision as it is.
var inPlace = map[string]func(*platformv1.ApplicationComponent){
	"resources": func(c *platformv1.ApplicationComponent) {
		c.Resources.Limits = corev1.ResourceList{"memory": resource.MustParse("1Gi")}
	},
	"parameters": func(c *platformv1.ApplicationComponent) { c.Parameters = platformv1.Parameters{"hz": "20"} },
	"storage size": func(c *platformv1.ApplicationComponent) {
		c.Storage = &platformv1.Storage{Size: resource.MustParse("9Gi")}
	},
	"service": func(c *platformv1.ApplicationComponent) {
		c.Service = &platformv1.ServiceExposure{
			ServiceSettings: platformv1.ServiceSettings{Type: corev1.ServiceTypeNodePort}}
	},
	"empty scheduling": func(c *platformv1.ApplicationComponent) { c.Scheduling = &platformv1.Scheduling{} },
}

// What can be given to a running pod, and what belongs to the engine or the operator's settings, is
// no part of the revision: it would replace every pod.
func TestRevision(t *testing.T) {
	b := redis(t)
	base, _ := render(t, b, settings, application(nil))
	want := base.Spec.Revision
	if len(want) != 16 {
		t.Errorf("revision is %q", want)
	}
	same := map[string]*platformv1.WorkloadSet{}
	s := Settings{AgentImage: "elsewhere/agent:2", ImageRegistry: "r.example.com", OperatorNamespace: "elsewhere"}
	same["settings of the operator"], _ = render(t, b, s, application(nil))
	same["version"], _ = render(t, b, settings, application(func(a *platformv1.Application) { a.Spec.Version = "8.0" }))
	for name, change := range inPlace {
		same[name], _ = render(t, b, settings, application(component(change)))
	}
	for name, change := range map[string]func(*platformv1.Application){
		"deletion policy": func(a *platformv1.Application) { a.Spec.DeletionPolicy = platformv1.DeletionPolicyDelete },
		"running":         func(a *platformv1.Application) { a.Spec.Running = new(false) },
		"suspend":         func(a *platformv1.Application) { a.Spec.Suspend = true },
		"network policy":  func(a *platformv1.Application) { a.Spec.NetworkPolicy = &platformv1.NetworkPolicy{} },
		"adopted volumes": func(a *platformv1.Application) { a.Spec.AdoptVolumes = "u" },
	} {
		same[name], _ = render(t, b, settings, application(change))
	}
	same["plugin's digest"], _ = render(t, redis(t, "# The user redis of the image.", "# A user."), settings,
		application(nil))
	for name, ws := range same {
		if got := ws.Spec.Revision; got != want {
			t.Errorf("%s: the revision changes from %s to %s", name, want, got)
		}
	}
	different := map[string]*platformv1.WorkloadSet{}
	different["pod template"], _ = render(t, redis(t, "runAsGroup: 999", "runAsGroup: 998"), settings, application(nil))
	different["port"], _ = render(t, redis(t, "        port: 6379", "        port: 6380"), settings, application(nil))
	different["volume"], _ = render(t, redis(t, "      - name: data\n        size", "      - name: other\n        size",
		"        - name: data\n", "        - name: other\n"), settings, application(nil))
	different["time to stop"], _ = render(t, redis(t, "timeoutSeconds: 60", "timeoutSeconds: 61"), settings,
		application(nil))
	different["Secret"], _ = render(t, b, settings, application(func(a *platformv1.Application) {
		a.Spec.Credentials = []platformv1.Credential{
			{Name: "default", PasswordFrom: platformv1.SecretKeyReference{Name: "mine"}}}
	}))
	different["scheduling"], _ = render(t, b, settings, application(component(func(c *platformv1.ApplicationComponent) {
		c.Scheduling = &platformv1.Scheduling{NodeSelector: map[string]string{"disk": "fast"}}
	})))
	for name, ws := range different {
		if got := ws.Spec.Revision; got == want {
			t.Errorf("%s: the revision stays %s", name, got)
		}
	}
	// Another password restarts the process, and replaces no pod.
	rotated := withCredentials(t, b, "r2", nil)
	if was, is := planOf(t, base), planOf(t, rotated); rotated.Spec.Revision != want || was.Digest == is.Digest ||
		was.RestartDigest == is.RestartDigest ||
		is.Credentials["default"] != "r2" {
		t.Errorf("another password: revision %s, was %s; plan %+v", rotated.Spec.Revision, want, is)
	}
	exported := func(revision string) string {
		ws := withCredentials(t, b, revision, func(a *platformv1.Application) {
			a.Spec.Components = []platformv1.ApplicationComponent{
				{Name: "redis", Monitoring: &platformv1.Monitoring{Enabled: true}}}
		})
		return ws.Spec.Revision
	}
	if exported("r1") == exported("r2") {
		t.Error("an exporter keeps the password before")
	}
	moved := base.DeepCopy()
	moved.Spec.Template.Raw = reorder(t, base.Spec.Template.Raw)
	if got := pod(t, moved, 0); !reflect.DeepEqual(got, pod(t, base, 0)) {
		t.Error("the order of keys changes the pod")
	}
}

// TestPasswordsThatAReloadTakesOver restart nothing.
func TestPasswordsThatAReloadTakesOver(t *testing.T) {
	b := redis(t, "      # A server that ran",
		"      reload:\n        signal: SIGHUP\n        credentials: [default]\n      # A server that ran")
	if was, is := planOf(t, withCredentials(t, b, "r1", nil)),
		planOf(t, withCredentials(t, b, "r2", nil)); was.Digest == is.Digest || was.RestartDigest != is.RestartDigest {
		t.Errorf("another password: %+v", is)
	}
}

func withCredentials(t *testing.T, b *plugin.Bundle, revision string,
	change func(*platformv1.Application)) *platformv1.WorkloadSet {
	t.Helper()
	specs, refusal := Components(b, application(change))
	if refusal != nil {
		t.Fatal(refusal)
	}
	specs[0].Credentials[0].Revision = revision
	output, refusal := Component(b, settings, Meta{Application: "cache", Namespace: "shop", UID: "u", Domain: "database"},
		&specs[0])
	if refusal != nil {
		t.Fatal(refusal)
	}
	return &platformv1.WorkloadSet{Spec: output.WorkloadSets[0].Spec}
}

func planOf(t *testing.T, ws *platformv1.WorkloadSet) plan.Plan {
	t.Helper()
	p, err := Plan(ws)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func digestOf(t *testing.T, ws *platformv1.WorkloadSet) string {
	t.Helper()
	return planOf(t, ws).Digest
}

func TestPlanDigest(t *testing.T) {
	b := redis(t)
	base, _ := render(t, b, settings, application(nil))
	want := digestOf(t, base)
	if !strings.HasPrefix(want, "sha256:") || len(want) != 71 {
		t.Errorf("digest is %q", want)
	}
	probe, _ := render(t, redis(t, "intervalSeconds: 2", "intervalSeconds: 3"), settings, application(nil))
	if got := digestOf(t, probe); got != want {
		t.Errorf("another probe changes the digest: the process would be restarted")
	}
	version, _ := render(t, b, settings, application(func(a *platformv1.Application) { a.Spec.Version = "8.0" }))
	if got := digestOf(t, version); got != want {
		t.Errorf("another version with the same files changes the digest")
	}
	for name, change := range map[string]func(*platformv1.ApplicationComponent){
		"parameter": func(c *platformv1.ApplicationComponent) { c.Parameters = platformv1.Parameters{"hz": "20"} },
	} {
		ws, _ := render(t, b, settings, application(component(change)))
		if got := digestOf(t, ws); got == want {
			t.Errorf("%s: the digest stays the same", name)
		}
	}
	stop, _ := render(t, redis(t, "timeoutSeconds: 60", "timeoutSeconds: 61"), settings, application(nil))
	if digestOf(t, stop) == want {
		t.Error("another stop leaves the digest the same")
	}
}

func TestPlanConfigMap(t *testing.T) {
	ws, _ := render(t, redis(t), settings, application(nil))
	data, err := PlanConfigMapData(ws)
	if err != nil {
		t.Fatal(err)
	}
	var p plan.Plan
	if err := json.Unmarshal([]byte(data[plan.PlanFile]), &p); err != nil || p.Version != 1 ||
		p.Process.Command[0] != "redis-server" {
		t.Errorf("plan is %+v, %v", p, err)
	}
	moved := ws.DeepCopy()
	moved.Spec.Plan.Raw = reorder(t, ws.Spec.Plan.Raw)
	if again, err := PlanConfigMapData(moved); err != nil || again[plan.PlanFile] != data[plan.PlanFile] {
		t.Errorf("the order of keys changes the ConfigMap: %v", err)
	}
	for _, raw := range []string{"", "{", "{}{}", `{"colour": 1}`} {
		moved.Spec.Plan.Raw = []byte(raw)
		if _, err := Plan(moved); raw != "{}{}" && err == nil {
			t.Errorf("Plan of %q is accepted", raw)
		}
		if _, err := PlanConfigMapData(moved); raw != `{"colour": 1}` && err == nil {
			t.Errorf("PlanConfigMapData of %q is accepted", raw)
		}
	}
}
