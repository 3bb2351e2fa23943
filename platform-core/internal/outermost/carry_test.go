// SPDX-License-Identifier: Apache-2.0

package outermost

import (
	"encoding/json"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/edits"
	"github.com/zeroinfra/platform-core/internal/opsflow"
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
		"replicas":             {[]any{"spec", "replicas"}, int64(4), Value{Field: "replicas", Path: []string{}, Value: int64(4)}, true},
		"replicas of a set":    {[]any{"spec", "sets", main, "replicas"}, int64(4), Value{Set: "main", Field: "replicas", Path: []string{}, Value: int64(4)}, true},
		"replicas taken out":   {[]any{"spec", "sets", main, "replicas"}, nil, Value{}, false},
		"a parameter":          {[]any{"spec", "parameters", "a.b"}, "1", Value{Field: "parameters", Path: []string{"a.b"}, Value: "1"}, true},
		"a parameter less":     {[]any{"spec", "parameters", "a.b"}, nil, Value{Field: "parameters", Path: []string{"a.b"}}, true},
		"a limit":              {[]any{"spec", "resources", "limits", "cpu"}, "1", Value{Field: "resources", Path: []string{"limits", "cpu"}, Value: "1"}, true},
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

// What an edit of a set or a component comes to in the Application: what it says already stays, and resources are whole.
func TestFieldsOf(t *testing.T) {
	one := &platformv1.ComponentSpec{Component: "db", Sets: []platformv1.ComponentSet{{Name: "main"}}, Resources: limits("1Gi")}
	two := &platformv1.ComponentSpec{Component: "db", Sets: []platformv1.ComponentSet{{Name: "0"}, {Name: "1", Resources: limits("3Gi")}}, Resources: limits("1Gi")}
	cpu := func(set string) Value {
		return Value{Set: set, Field: fieldResources, Path: []string{"requests", "cpu"}, Value: "1"}
	}
	for name, test := range map[string]struct {
		has    []platformv1.ApplicationComponent
		spec   *platformv1.ComponentSpec
		values []Value
		want   string
	}{
		"nothing said":         {nil, one, []Value{Replicas("main", 4)}, `[{"name":"db","replicas":4}]`},
		"the component's":      {[]platformv1.ApplicationComponent{{Name: "web"}, {Name: "db", Replicas: new(int32(1))}}, one, []Value{Replicas("main", 4)}, `[{"name":"web"},{"name":"db","replicas":4}]`},
		"the set's":            {[]platformv1.ApplicationComponent{{Name: "db", Sets: []platformv1.ComponentSet{{Name: "main"}}}}, one, []Value{Replicas("main", 4)}, `[{"name":"db","sets":[{"name":"main","replicas":4}]}]`},
		"sets that go unnamed": {nil, two, []Value{Replicas("1", 4)}, `[{"name":"db","sets":[{"name":"0"},{"name":"1","replicas":4}]}]`},
		"the component itself": {nil, two, []Value{{Field: fieldReplicas, Value: int64(4)}}, `[{"name":"db","replicas":4}]`},
		"a parameter":          {nil, one, []Value{{Field: fieldParameters, Path: []string{"a.b"}, Value: "x"}}, `[{"name":"db","parameters":{"a.b":"x"}}]`},
		"resources":            {nil, one, []Value{cpu("main")}, `[{"name":"db","resources":{"limits":{"memory":"1Gi"},"requests":{"cpu":"1"}}}]`},
		"resources of a set":   {nil, two, []Value{cpu("1")}, `[{"name":"db","sets":[{"name":"0"},{"name":"1","resources":{"limits":{"memory":"3Gi"},"requests":{"cpu":"1"}}}]}]`},
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
	spec := &platformv1.ComponentSpec{Replicas: 2, Resources: limits("1Gi"), Parameters: platformv1.Parameters{"a": "1", "b": "1"},
		Sets: []platformv1.ComponentSet{{Name: "main", Replicas: new(int32(3)), Parameters: platformv1.Parameters{"a": "2"}}}}
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
