// SPDX-License-Identifier: Apache-2.0

package outermost

import (
	"context"
	"encoding/json"
	"reflect"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/edits"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/pluginfolder"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/internal/settings"
	"github.com/zeroinfra/platform-core/sdk/testkit/example"
	"github.com/zeroinfra/platform-core/sdk/typed"
)

func limits(memory string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)}}
}

func TestValueOf(t *testing.T) {
	main := fieldpath.KeyByFields("name", "main")
	for name, test := range map[string]struct {
		path []any
		is   any
		want Value
		can  bool
	}{
		"replicas": {[]any{"spec", "replicas"}, int64(4),
			Value{Field: "replicas", Path: []string{}, Value: int64(4)}, true},
		"replicas of a set": {[]any{"spec", "sets", main, "replicas"}, int64(4),
			Value{Set: "main", Field: "replicas", Path: []string{}, Value: int64(4)}, true},
		"replicas taken out": {[]any{"spec", "sets", main, "replicas"}, nil, Value{}, false},
		"a parameter": {[]any{"spec", "parameters", "a.b"}, "1",
			Value{Field: "parameters", Path: []string{"a.b"}, Value: "1"}, true},
		"a parameter less": {[]any{"spec", "parameters", "a.b"}, nil, Value{Field: "parameters", Path: []string{"a.b"}},
			true},
		"a limit": {[]any{"spec", "resources", "limits", "cpu"}, "1",
			Value{Field: "resources", Path: []string{"limits", "cpu"}, Value: "1"}, true},
		"a claim":              {[]any{"spec", "resources", "claims"}, []any{}, Value{}, false},
		"a set":                {[]any{"spec", "sets", main}, map[string]any{}, Value{}, false},
		"the version":          {[]any{"spec", "version"}, "8.0", Value{}, false},
		"something of a label": {[]any{"metadata", "labels", "replicas"}, "8.0", Value{}, false},
	} {
		got, can := ValueOf(edits.Edit{Path: fieldpath.MakePathOrDie(test.path...), Is: test.is})
		if can != test.can || can && !reflect.DeepEqual(got, test.want) {
			t.Errorf("%s: got %+v, %v; want %+v", name, got, can, test.want)
		}
	}
}

// What an edit of a set or a component comes to in the Application: what it says already stays, and resources are
// whole.
func TestFieldsOf(t *testing.T) {
	one := &platformv1.ComponentSpec{Component: "db", Sets: []platformv1.ComponentSet{{Name: "main"}},
		Resources: limits("1Gi")}
	two := &platformv1.ComponentSpec{Component: "db",
		Sets: []platformv1.ComponentSet{{Name: "0"}, {Name: "1", Resources: limits("3Gi")}}, Resources: limits("1Gi")}
	cpu := func(set string) Value {
		return Value{Set: set, Field: fieldResources, Path: []string{"requests", "cpu"}, Value: "1"}
	}
	for name, test := range map[string]struct {
		has    []platformv1.ApplicationComponent
		spec   *platformv1.ComponentSpec
		values []Value
		want   string
	}{
		"nothing said": {nil, one, []Value{Replicas("main", 4)}, `[{"name":"db","replicas":4}]`},
		"the component's": {[]platformv1.ApplicationComponent{{Name: "web"}, {Name: "db", Replicas: new(int32(1))}}, one,
			[]Value{Replicas("main", 4)}, `[{"name":"web"},{"name":"db","replicas":4}]`},
		"the set's": {[]platformv1.ApplicationComponent{
			{Name: "db", Sets: []platformv1.ComponentSet{{Name: "main"}}}}, one, []Value{Replicas("main", 4)},
			`[{"name":"db","sets":[{"name":"main","replicas":4}]}]`},
		"sets that go unnamed": {nil, two, []Value{Replicas("1", 4)},
			`[{"name":"db","sets":[{"name":"0"},{"name":"1","replicas":4}]}]`},
		"the component itself": {nil, two, []Value{{Field: fieldReplicas, Value: int64(4)}}, `[{"name":"db","replicas":4}]`},
		"a parameter": {nil, one, []Value{{Field: fieldParameters, Path: []string{"a.b"}, Value: "x"}},
			`[{"name":"db","parameters":{"a.b":"x"}}]`},
		"resources": {nil, one, []Value{cpu("main")},
			`[{"name":"db","resources":{"limits":{"memory":"1Gi"},"requests":{"cpu":"1"}}}]`},
		"the only limit less": {nil, one, []Value{{Field: fieldResources, Path: []string{"limits", "memory"}}},
			`[{"name":"db","resources":{}}]`},
		"the last parameter": {[]platformv1.ApplicationComponent{{Name: "db", Parameters: platformv1.Parameters{"a": "1"}}},
			one, []Value{{Field: fieldParameters, Path: []string{"a"}}}, `[{"name":"db","parameters":{}}]`},
		"resources of a set": {nil, two, []Value{cpu("1")},
			`[{"name":"db","sets":[{"name":"0"},{"name":"1","resources":{"limits":{"memory":"3Gi"},"requests":{"cpu":"1"}}}]}]`},
	} {
		app := &platformv1.Application{Spec: platformv1.ApplicationSpec{Components: test.has}}
		spec := map[string]any{}
		if len(test.has) > 0 {
			data, _ := json.Marshal(map[string]any{"components": test.has})
			if err := json.Unmarshal(data, &spec); err != nil {
				t.Fatal(err)
			}
		}
		for _, field := range fieldsOf(app, test.spec, test.values) {
			if _, err := opsflow.SetField(spec, field.Field, field.Value); err != nil {
				t.Fatal(err)
			}
		}
		if got, _ := json.Marshal(spec["components"]); string(got) != test.want {
			t.Errorf("%s: got %s; want %s", name, got, test.want)
		}
	}
}

func TestIn(t *testing.T) {
	spec := &platformv1.ComponentSpec{Replicas: 2, Resources: limits("1Gi"),
		Parameters: platformv1.Parameters{"a": "1", "b": "1"},
		Sets: []platformv1.ComponentSet{
			{Name: "main", Replicas: new(int32(3)), Parameters: platformv1.Parameters{"a": "2"}}}}
	memory := func(value any) Value {
		return Value{Set: "main", Field: fieldResources, Path: []string{"limits", "memory"}, Value: value}
	}
	parameter := func(name string, value any) Value {
		return Value{Set: "main", Field: fieldParameters, Path: []string{name}, Value: value}
	}
	for name, test := range map[string]struct {
		value Value
		want  bool
	}{
		"replicas":            {Replicas("main", 3), true},
		"of the component":    {Value{Field: fieldReplicas, Value: int64(2)}, true},
		"others":              {Replicas("main", 2), false},
		"spelt otherwise":     {memory("1024Mi"), true},
		"in bytes":            {memory("1073741824"), true},
		"no quantity":         {memory("much"), false},
		"more memory":         {memory("2Gi"), false},
		"no memory":           {memory(nil), false},
		"the set's parameter": {parameter("a", "2"), true},
		"the component's":     {parameter("b", "1"), true},
		"one that is there":   {parameter("b", nil), false},
		"one that is not":     {parameter("c", nil), true},
		"one that is to come": {parameter("c", "1"), false},
	} {
		if got := test.value.In(spec); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// An edit stands against what was declared before it, and what an edit of the same objects left there. To the second,
// in doubt the edit.
func TestDeclaredLater(t *testing.T) {
	entry := func(manager string, second int64, fields string) metav1.ManagedFieldsEntry {
		at := metav1.NewTime(time.Unix(second, 0))
		return metav1.ManagedFieldsEntry{Manager: manager, Time: &at, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	const replicas, version = `{"f:spec":{"f:components":{"k:{\"name\":\"web\"}":{"f:replicas":{}}}}}`,
		`{"f:spec":{"f:version":{}}}`
	scaled := entry("kubectl", 20, `{"f:spec":{"f:replicas":{}}}`)
	scaled.Subresource = "scale"
	for name, test := range map[string]struct {
		field   string
		entries []metav1.ManagedFieldsEntry
		later   bool
	}{
		"before": {"components[web].replicas",
			[]metav1.ManagedFieldsEntry{entry("kubectl", 9, replicas)}, false},
		"in the same second": {"components[web].replicas",
			[]metav1.ManagedFieldsEntry{entry("kubectl", 10, replicas)}, false},
		"after": {"components[web].replicas",
			[]metav1.ManagedFieldsEntry{entry("kubectl", 11, replicas)}, true},
		"after, by an Operation": {"components[web].replicas",
			[]metav1.ManagedFieldsEntry{entry("operation", 11, replicas)}, true},
		"after, by an edit that went up": {"components[web].replicas",
			[]metav1.ManagedFieldsEntry{entry("component", 11, replicas)}, false},
		"something else after": {"components[web].replicas",
			[]metav1.ManagedFieldsEntry{entry("kubectl", 9, replicas), entry("helm", 20, version)}, false},
		"taken out after": {"components[web].replicas", []metav1.ManagedFieldsEntry{entry("kubectl", 20, version)}, true},
		"never declared":  {"components[web].replicas", []metav1.ManagedFieldsEntry{entry("kubectl", 1, version)}, false},
		"scaled after":    {"replicas", []metav1.ManagedFieldsEntry{entry("helm", 1, version), scaled}, true},
	} {
		before := &unstructured.Unstructured{}
		before.SetManagedFields(test.entries)
		change := &Change{Before: before, Live: &platformv1.Application{}, fields: []string{test.field}}
		if said := (Editor{Owner: "component"}).declaredLater(change, time.Unix(10, 0)); (said != "") != test.later {
			t.Errorf("%s: %q", name, said)
		}
	}
}

// A set that there is not cannot be declared by giving it something.
func TestKnown(t *testing.T) {
	spec := &platformv1.ComponentSpec{Sets: []platformv1.ComponentSet{{Name: "main"}}}
	if !Replicas("main", 1).Known(spec) || !Replicas("", 1).Known(spec) || Replicas("extra", 1).Known(spec) {
		t.Error("sets are taken for others")
	}
}

// nothing is a cluster with nothing in it.
type nothing struct{ client.Reader }

func (nothing) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: "applications"}, key.Name)
}

// Where what declares is gone, nothing can be declared, and that is no error to try again after.
func TestCarryToWhatIsGone(t *testing.T) {
	app := &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}
	spec := &platformv1.ComponentSpec{Component: "web", Sets: []platformv1.ComponentSet{{Name: "main"}}}
	_, refusal, err := Editor{Live: nothing{}}.Carry(t.Context(), app, spec, Edited{Values: []Value{Replicas("main", 2)}})
	if want := `Application "a" is gone`; err != nil || refusal != want {
		t.Errorf("got %q, %v; want %q", refusal, err, want)
	}
}

// Others who own a field are warned of, GitOps tools respected, and what any Editor wrote is nobody's to write back.
func TestRespect(t *testing.T) {
	owned := func(manager string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, FieldsV1: metav1.NewFieldsV1(`{"f:spec":{"f:replicas":{}}}`)}
	}
	for name, test := range map[string]struct {
		manager  string
		warnings int
		refused  bool
	}{
		"a person": {"kubectl", 1, false}, "an Operation": {"operation", 0, false}, "a Component": {"application", 0, false},
		"a WorkloadSet": {"component", 0, false}, "GitOps": {"argocd-controller", 0, true},
	} {
		change := &Change{Before: &unstructured.Unstructured{}}
		change.Before.SetManagedFields([]metav1.ManagedFieldsEntry{owned(test.manager)})
		editor := Editor{Owner: "component", Settings: settings.New(render.Settings{})}
		refusal := editor.respect(change, "it", "replicas", opsflow.RespectOwners)
		if len(change.Warnings) != test.warnings || (refusal != "") != test.refused {
			t.Errorf("%s: %q, %q", name, refusal, change.Warnings)
		}
	}
}

// stored is a cluster that has one object.
type stored struct {
	client.Reader
	object client.Object
}

func (s stored) Get(_ context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(s.object)
	obj.(*unstructured.Unstructured).Object = content
	return err
}

// What is written of resources as a whole is what is declared by now but for what was edited, whatever the caches still
// have.
func TestResourcesAreThoseDeclaredByNow(t *testing.T) {
	bundle, _, problems := pluginfolder.Load("../engine/testdata/plugins/shop/1.0.0")
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	index := plugin.NewIndex()
	index.Set("shop", "1.0.0", bundle, nil)
	declaring := func(memory string) *platformv1.Application {
		app := &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "a"}}
		app.Spec = platformv1.ApplicationSpec{Plugin: "shop", PluginVersion: "1.0.0", Version: "1.0", Topology: "tiers",
			Components: []platformv1.ApplicationComponent{{Name: "web", Resources: limits(memory)}}}
		return app
	}
	editor := Editor{Live: stored{object: declaring("2Gi")}, Index: index}
	cached := declaring("1Gi")
	spec, refusal := editor.Component(cached, "web")
	if refusal != "" {
		t.Fatal(refusal)
	}
	before, kind, err := editor.Read(t.Context(), cached)
	if err != nil {
		t.Fatal(err)
	}
	app, now := editor.declared(before, kind, cached, spec)
	edited := []Value{{Field: fieldResources, Path: []string{"limits", "cpu"}, Value: "1"}}
	want := []opsflow.FieldEdit{{Field: "components[web].resources",
		Value: map[string]any{"limits": map[string]any{"cpu": "1", "memory": "2Gi"}}}}
	if got := fieldsOf(app, now, edited); !reflect.DeepEqual(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// What compiles to no instance has nothing that an edit or an Operation of one could change.
func TestAnObjectWithoutAnApplication(t *testing.T) {
	object := &unstructured.Unstructured{Object: map[string]any{"kind": "Bundle", "metadata": map[string]any{"name": "a"},
		"spec": map[string]any{}}}
	kind := typed.Register[*example.Bundle](example.BundleKind{})
	_, err := (Editor{}).Compile(object, kind, &platformv1.Application{})
	if err == nil || !strings.Contains(err.Error(), `Bundle "a" declares no Application`) {
		t.Errorf("got %v", err)
	}
}
