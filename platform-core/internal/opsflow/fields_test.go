// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

func TestSetField(t *testing.T) {
	for name, tc := range map[string]struct {
		spec, field string
		value       any
		before      any
		want        string
	}{
		"present": {`{"running":true}`, "running", false, true, `{"running":false}`},
		"absent":  {`{}`, "storage.size", "2Gi", nil, `{"storage":{"size":"2Gi"}}`},
		"element": {`{"components":[{"name":"a"},{"name":"b","replicas":1}]}`, "components[b].replicas", 3, float64(1),
			`{"components":[{"name":"a"},{"name":"b","replicas":3}]}`},
		"new element": {`{"components":[{"name":"a"}]}`, "components[b].storage.size", "1Gi", nil,
			`{"components":[{"name":"a"},{"name":"b","storage":{"size":"1Gi"}}]}`},
		"nested lists": {`{}`, "components[b].sets[x].replicas", 2, nil,
			`{"components":[{"name":"b","sets":[{"name":"x","replicas":2}]}]}`},
		"taken out":     {`{"storage":{"size":"1Gi","x":"y"}}`, "storage.size", nil, "1Gi", `{"storage":{"x":"y"}}`},
		"dots":          {`{}`, "parameters." + Name(`a.b[c]\d`), "1", nil, `{"parameters":{"a.b[c]\\d":"1"}}`},
		"no object":     {`{"storage":"big"}`, "storage.size", "1Gi", nil, ""},
		"no list":       {`{"components":{}}`, "components[a].replicas", 1, nil, ""},
		"element alone": {`{}`, "components[a]", 1, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			var spec map[string]any
			if err := json.Unmarshal([]byte(tc.spec), &spec); err != nil {
				t.Fatal(err)
			}
			before, err := SetField(spec, tc.field, tc.value)
			if tc.want == "" {
				if err == nil || !strings.Contains(err.Error(), tc.field) {
					t.Errorf("it gives %v", err)
				}
				return
			}
			got, _ := json.Marshal(spec)
			if err != nil || before != tc.before || string(got) != tc.want {
				t.Errorf("got %s with %v before, %v; want %s with %v", got, before, err, tc.want, tc.before)
			}
		})
	}
}

func TestWriteThrough(t *testing.T) {
	mapping := map[string]string{"running": "running", "components[redis].resources": "resources",
		"components[redis].storage.size": "storage.size"}
	for field, want := range map[string]string{
		"running":                              "running",
		"components[redis].resources.limits.x": "resources.limits.x",
		"components[redis].storage.size":       "storage.size",
		"components[redis].replicas":           "",
		"runningly":                            "",
		"version":                              "",
	} {
		if got, ok := WriteThrough(field, mapping); got != want || ok != (want != "") {
			t.Errorf("%s comes from %q, %t; want %q", field, got, ok, want)
		}
	}
}

func TestOwnersOf(t *testing.T) {
	entry := func(manager, subresource, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Subresource: subresource,
			FieldsV1: &metav1.FieldsV1{Raw: []byte(fields)}}
	}
	entries := []metav1.ManagedFieldsEntry{
		entry("kubectl", "",
			`{"f:spec":{"f:running":{},"f:components":{".":{},"k:{\"name\":\"redis\"}":{".":{},"f:name":{},`+
				`"f:storage":{"f:size":{}}}}}}`),
		entry("argocd-controller", "",
			`{"f:spec":{"f:components":{"k:{\"name\":\"redis\"}":{"f:resources":{"f:limits":{"f:memory":{}}}},`+
				`"k:{\"name\":\"other\"}":{"f:replicas":{}}}}}`),
		entry("operation", "", `{"f:spec":{"f:running":{}}}`),
		entry("kubectl", "status", `{"f:spec":{"f:version":{}}}`),
		entry("atomic", "", `{"f:spec":{"f:lists":{}}}`),
		// All parameters of this one went, and what is left of it is that it made them.
		entry("helm-controller", "", `{"f:spec":{"f:parameters":{},"f:tls":{".":{}}}}`),
		entry("helm", "", `{"f:spec":{"f:parameters":{".":{},"f:hz":{}}}}`),
	}
	for field, want := range map[string][]string{
		"running":                        {"kubectl"},
		"version":                        nil,
		"components[redis].storage.size": {"kubectl"},
		"components[redis].resources":    {"argocd-controller"},
		"components[redis].resources.limits.memory": {"argocd-controller"},
		"components[redis].resources.limits.cpu":    nil,
		"components[redis].replicas":                nil,
		"components[other].replicas":                {"argocd-controller"},
		"lists[a].size":                             {"atomic"},
		"tls.enabled":                               nil,
		"parameters.hz":                             {"helm"},
		"parameters.port":                           nil,
	} {
		if got := OwnersOf(entries, field, "operation"); !slices.Equal(got, want) {
			t.Errorf("%s is owned by %v, want %v", field, got, want)
		}
	}
}

// Who writes a list other than by server-side apply replaces it as a whole, and with it what somebody else put beside
// his own.
func TestFieldManagersOf(t *testing.T) {
	const web = `{"f:spec":{"f:components":{"k:{\"name\":\"web\"}":{"f:replicas":{}}}}}`
	entry := func(manager string, operation metav1.ManagedFieldsOperationType, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, Operation: operation, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	entries := []metav1.ManagedFieldsEntry{
		entry("client-side", metav1.ManagedFieldsOperationUpdate, web),
		entry("server-side", metav1.ManagedFieldsOperationApply, web),
		entry("other", metav1.ManagedFieldsOperationUpdate, `{"f:spec":{"f:running":{}}}`),
	}
	for field, want := range map[string][]string{
		"components[web].parameters.hz":      {"client-side"},
		"components[db].sets[main].replicas": {"client-side"},
		"running":                            nil,
		"tls.enabled":                        nil,
		"schedules[night].cron":              nil,
	} {
		if got := FieldManagersOf(entries, field); !slices.Equal(got, want) {
			t.Errorf("%s is written by %v, want %v", field, got, want)
		}
	}
}

func TestVerbs(t *testing.T) {
	three := int32(3)
	shop := Facts{Target: `Application "shop"`, Components: []string{"web", "db"},
		Application: &platformv1.Application{Spec: platformv1.ApplicationSpec{
			Version: "7.0.2", Components: []platformv1.ApplicationComponent{
				{Name: "db", Sets: []platformv1.ComponentSet{{Name: "a", Replicas: &three}, {Name: "b"}}}}}}}
	web := shop
	web.Component, web.Target = "web", `Component "shop-web"`
	declaring := web
	declaring.Resources = map[string]corev1.ResourceRequirements{"web": {
		Requests: corev1.ResourceList{"cpu": resource.MustParse("10m"), "memory": resource.MustParse("16Mi")},
		Limits:   corev1.ResourceList{"memory": resource.MustParse("64Mi")}}}
	accelerated := web
	accelerated.Resources = map[string]corev1.ResourceRequirements{
		"web": {Limits: corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1")}}}
	declared := declaring
	declared.Application = &platformv1.Application{
		Spec: platformv1.ApplicationSpec{Components: []platformv1.ApplicationComponent{
			{Name: "web", Resources: corev1.ResourceRequirements{Limits: corev1.ResourceList{"cpu": resource.MustParse("1")}}}}}}
	set := shop
	set.Component, set.Set = "db", "b"
	type values = map[string]string
	for name, tc := range map[string]struct {
		facts  Facts
		verb   optemplate.EngineVerb
		values values
		want   string
	}{
		"stop": {shop, optemplate.EngineStop, nil, `[{"Field":"running","Value":false}]`},
		"scale": {shop, optemplate.EngineScale, values{"component": "web", "replicas": "4"},
			`[{"Field":"components[web].replicas","Value":4}]`},
		"scale sets of their own": {shop, optemplate.EngineScale, values{"component": "db", "replicas": "4"},
			`[{"Field":"components[db].replicas","Value":4},{"Field":"components[db].sets[a].replicas","Value":4}]`},
		"scale the target's set": {set, optemplate.EngineScale, values{"replicas": "4"},
			`[{"Field":"components[db].sets[b].replicas","Value":4}]`},
		"scale another set": {set, optemplate.EngineScale, values{"replicas": "4", "set": "a"}, "leave it out"},
		"scale the target": {web, optemplate.EngineScale, values{"replicas": "0"},
			`[{"Field":"components[web].replicas","Value":0}]`},
		"scale another component": {web, optemplate.EngineScale, values{"replicas": "1", "component": "db"}, "leave it out"},
		"scale which": {shop, optemplate.EngineScale, values{"replicas": "1"},
			`name one in parameter "component": "web", "db"`},
		"resize": {web, optemplate.EngineResize, values{"memory": "1Gi", "memoryRequest": "512Mi"},
			`[{"Field":"components[web].resources.limits.memory","Value":"1Gi"},` +
				`{"Field":"components[web].resources.requests.memory","Value":"512Mi"}]`},
		"resize what is not declared": {declaring, optemplate.EngineResize, values{"memory": "1Gi"},
			`[{"Field":"components[web].resources.limits.memory","Value":"1Gi"},` +
				`{"Field":"components[web].resources.requests.memory","Value":"1Gi"},` +
				`{"Field":"components[web].resources.requests.cpu","Value":"10m"}]`},
		"resize what has a GPU by its plugin": {accelerated, optemplate.EngineResize, values{"memory": "1Gi"},
			`[{"Field":"components[web].resources.limits.memory","Value":"1Gi"},` +
				`{"Field":"components[web].resources.requests.memory","Value":"1Gi"},` +
				`{"Field":"components[web].resources.limits.nvidia\\.com/gpu","Value":"1"}]`},
		"resize what is declared": {declared, optemplate.EngineResize, values{"memoryLimit": "1Gi"},
			`[{"Field":"components[web].resources.limits.memory","Value":"1Gi"}]`},
		"resize to nothing": {web, optemplate.EngineResize, nil, "no resource is given"},
		"resize to nonsense": {web, optemplate.EngineResize, values{"cpu": "1.2.3"},
			`cpu is "1.2.3": it must be a quantity`},
		"expand": {web, optemplate.EngineExpand, values{"size": "2Gi"},
			`[{"Field":"components[web].storage.size","Value":"2Gi"}]`},
		"expand to nonsense": {web, optemplate.EngineExpand, values{"size": "big"}, `size is "big": it must be a quantity`},
		"upgrade": {shop, optemplate.EngineUpgrade, values{"version": "7.10"},
			`[{"Field":"version","Value":"7.10"}]`},
		"downgrade":                {shop, optemplate.EngineUpgrade, values{"version": "7.0.1"}, "7.0.1 is older"},
		"a release line is not it": {shop, optemplate.EngineUpgrade, values{"version": "7.0"}, "7.0 is older"},
	} {
		t.Run(name, func(t *testing.T) {
			fields, err := tc.facts.fields(tc.verb, tc.values)
			got, _ := json.Marshal(fields)
			if strings.HasPrefix(tc.want, "[") && (err != nil || string(got) != tc.want) {
				t.Errorf("got %s, %v; want %s", got, err, tc.want)
			}
			if !strings.HasPrefix(tc.want, "[") && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %s, %v; want %q", got, err, tc.want)
			}
		})
	}
}

func TestOperationsOfSteps(t *testing.T) {
	controller := true
	op := func(name, parent string, phase platformv1.OperationPhase) *platformv1.Operation {
		o := &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)},
			Status: platformv1.OperationStatus{Phase: phase}}
		if parent != "" {
			o.OwnerReferences = []metav1.OwnerReference{
				{Kind: "Operation", Name: parent, UID: types.UID(parent), Controller: &controller}}
		}
		return o
	}
	parent, child, grandchild := op("parent", "", platformv1.OperationRunning),
		op("child", "parent", platformv1.OperationRunning), op("grandchild", "child", "")
	older, running := op("a-older", "", platformv1.OperationPending), op("b-running", "", platformv1.OperationRunning)
	all := []*platformv1.Operation{parent, child, grandchild, older}
	if first := (Queue{Operations: all}).Ahead(grandchild); first != nil {
		t.Errorf("a step's Operation waits for %s", first.Name)
	}
	if first := (Queue{Operations: all}).Ahead(older); first == nil {
		t.Error("another Operation does not wait")
	}
	if first := (Queue{Operations: append(all, running)}).Ahead(grandchild); first != running {
		t.Errorf("a step's Operation does not wait for one that runs beside its parent: %v", first)
	}
}
