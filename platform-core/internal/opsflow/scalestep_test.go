// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

func TestHorizontalScaleSetsReplicasAndSets(t *testing.T) {
	facts := Facts{Target: `Application "a"`, Components: []string{"node"}}
	set := facts
	set.Component, set.Set = "node", "0"
	replicas, sets := FieldEdit{"components[node].replicas", int64(3)}, FieldEdit{"components[node].sets.count", int64(4)}
	for name, c := range map[string]struct {
		facts  Facts
		values map[string]string
		want   []FieldEdit
		says   string
	}{
		"replicas":       {facts, map[string]string{"replicas": "3"}, []FieldEdit{replicas}, ""},
		"sets":           {facts, map[string]string{"sets": "4"}, []FieldEdit{sets}, ""},
		"both":           {facts, map[string]string{"replicas": "3", "sets": "4"}, []FieldEdit{sets, replicas}, ""},
		"neither":        {facts, nil, nil, "no number is given"},
		"no sets at all": {facts, map[string]string{"sets": "0"}, nil, "must be a whole number of at least 1"},
		"of a named set": {facts, map[string]string{"sets": "4", "set": "1"}, nil, "one of them is named"},
		"of a set":       {set, map[string]string{"sets": "4"}, nil, "one of them is named"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := c.facts.fields("Scale", c.values)
			if c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) || c.says == "" && (err != nil ||
				!reflect.DeepEqual(got, c.want)) {
				t.Errorf("it sets %v, %v; want %v, %q", got, err, c.want, c.says)
			}
		})
	}
}

func TestSetsComeAndGoByTheirNumber(t *testing.T) {
	zero, one := map[string]any{"name": "0"}, map[string]any{"name": "1", "storageSize": "3Gi"}
	own := map[string]any{"name": "hot"}
	spec := func(sets ...any) map[string]any {
		return map[string]any{"components": []any{map[string]any{"name": "other", "sets": []any{own}},
			map[string]any{"name": "node", "sets": sets}}}
	}
	two := map[string]any{"name": "2"}
	for name, c := range map[string]struct {
		spec  map[string]any
		count int64
		want  []any
		says  string
	}{
		"none declared": {map[string]any{}, 1, []any{zero}, ""},
		"one more":      {spec(zero, one), 3, []any{zero, one, two}, ""},
		"in any order":  {spec(one, zero), 2, []any{zero, one}, ""},
		"the last goes": {spec(zero, one, two), 2, []any{zero, one}, ""},
		"with a name":   {spec(zero, own), 3, nil, `have names of their own, such as "hot"`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := SetsOf(c.spec, "node", c.count)
			if !reflect.DeepEqual(got, c.want) && !(c.want == nil && got == nil) || !strings.Contains(fmt.Sprint(err), c.says) {
				t.Errorf("they are %v, %v; want %v, %q", got, err, c.want, c.says)
			}
		})
	}
}

func TestAnotherNumberOfSetsIsKept(t *testing.T) {
	app := &platformv1.Application{}
	app.Name = "a"
	app.Spec.Components = []platformv1.ApplicationComponent{{Name: "node", Sets: []platformv1.ComponentSet{{Name: "0"},
		{Name: "1"}, {Name: "2"}}}}
	for count, want := range map[int64]string{3: "",
		4: `Application "a" has 3 sets of component "node", and 4 were asked for`} {
		if got, err := lost(app, []FieldEdit{{"components[node].sets.count", count}}); got != want || err != nil {
			t.Errorf("of %d sets it says %q, %v; want %q", count, got, err, want)
		}
	}
}
