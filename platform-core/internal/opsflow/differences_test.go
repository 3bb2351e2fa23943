// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"slices"
	"strings"
	"testing"
)

func TestDifferences(t *testing.T) {
	long := strings.Repeat("é", 100)
	for name, tc := range map[string]struct {
		before, after string
		want          []string
	}{
		"none": {`{"replicas":3,"list":[1]}`, `{"list":[1],"replicas":3.0}`, nil},
		"changed": {`{"replicas":3,"on":true}`, `{"replicas":5,"on":false}`,
			[]string{"on: true → false", "replicas: 3 → 5"}},
		"new and gone": {`{"a":"x"}`, `{"b":{"c":1}}`, []string{"a: x → none", "b.c: none → 1"}},
		"by name": {`{"components":[{"name":"b","n":1},{"name":"a","n":1}]}`,
			`{"components":[{"name":"a","n":1},{"name":"b","n":2}]}`, []string{"components[b].n: 1 → 2"}},
		"a new one": {`{"components":[]}`, `{"components":[{"name":"b","n":1}]}`,
			[]string{"components[b].n: none → 1", "components[b].name: none → b"}},
		"by place":       {`{"list":["x","y"]}`, `{"list":["x","z","w"]}`, []string{"list[1]: y → z", "list[2]: none → w"}},
		"another kind":   {`{"a":{"b":1}}`, `{"a":"text"}`, []string{`a: {"b":1} → text`}},
		"a long value":   {`{"a":"` + long + `"}`, `{}`, []string{"a: " + strings.Repeat("é", 80) + "… → none"}},
		"emptied object": {`{"a":{"b":1}}`, `{"a":{}}`, []string{"a.b: 1 → none"}},
	} {
		t.Run(name, func(t *testing.T) {
			before, err := ParseSpec(tc.before)
			if err != nil {
				t.Fatal(err)
			}
			after, err := ParseSpec(tc.after)
			if err != nil {
				t.Fatal(err)
			}
			if got := Differences(before, after); !slices.Equal(got, tc.want) {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}
