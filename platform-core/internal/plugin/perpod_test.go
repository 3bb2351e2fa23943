// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"encoding/json"
	"maps"
	"reflect"
	"strings"
	"testing"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/internal/plugin/document"
)

// fill puts a text into every string below a value, and one element into every list and map.
func fill(v reflect.Value) {
	switch v.Kind() {
	case reflect.String:
		v.SetString("before")
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem())
	case reflect.Struct:
		for i := range v.NumField() {
			fill(v.Field(i))
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fill(v.Index(0))
	case reflect.Map:
		value := reflect.New(v.Type().Elem()).Elem()
		fill(value)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf("name"), value)
	}
}

// texts lists the texts of a plan by their path in components.yaml.
func texts(t *testing.T, p *plan.Plan) map[string]string {
	t.Helper()
	data, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	var tree map[string]any
	if err := json.Unmarshal(data, &tree); err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	var walk func(value any, path document.Path)
	walk = func(value any, path document.Path) {
		switch node := value.(type) {
		case map[string]any:
			for key, child := range node {
				walk(child, path.With(key))
			}
		case []any:
			for i, child := range node {
				walk(child, path.Index(i))
			}
		case string:
			found[path.Key()] = node
		}
	}
	for _, key := range []string{"process", "files", "probe"} {
		walk(tree[key], componentPath(0, key))
	}
	return found
}

// The loader escapes, and allows the pod in, just those texts that the agents expand.
func TestPerPodIsWhatTheAgentsExpand(t *testing.T) {
	p := &plan.Plan{}
	fill(reflect.ValueOf(p).Elem())
	rewritten, err := p.Rewrite(func(string) (string, error) { return "after", nil })
	if err != nil {
		t.Fatal(err)
	}
	before, after := texts(t, p), texts(t, rewritten)
	if len(before) < 20 || !maps.EqualFunc(before, after, func(string, string) bool { return true }) {
		t.Fatalf("the plan has texts at %v, and rewritten at %v", before, after)
	}
	for key := range before {
		path := document.Path(strings.Split(key, "\x00"))
		if want := after[key] == "after"; perPod(path) != want {
			t.Errorf("perPod(%s) = %v; the agents expand it: %v", path, !want, want)
		}
	}
}
