// SPDX-License-Identifier: Apache-2.0

package crds

import (
	"reflect"
	"testing"

	"sigs.k8s.io/yaml"
)

const (
	clockTypes = `package v1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	other "github.com/zeroinfra/other/api/v1"
)

type Clock struct {
	metav1.TypeMeta ` + "`json:\",inline\"`" + `
	other.Shared    ` + "`json:\",inline\"`" + `
	Size            *resource.Quantity ` + "`json:\"size,omitempty\"`" + `
	At              *metav1.MicroTime  ` + "`json:\"at,omitempty\"`" + `
}
`
	sharedTypes = `package v1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

type Shared struct {
	Waits []metav1.Duration ` + "`json:\"waits\"`" + `
}
`
	clockDefinition = `
spec:
  names: {kind: Clock}
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        properties:
          at: {type: string, format: date-time}
          since: {type: string, format: date-time}
          count: {type: integer, format: int32, minimum: 1}
          share: {x-kubernetes-int-or-string: true}
          text: {x-kubernetes-int-or-string: true, pattern: "^a$"}
          limits:
            additionalProperties:
              pattern: '` + looseQuantityPattern + `'
              x-kubernetes-int-or-string: true
          size:
            pattern: '` + looseQuantityPattern + `'
            x-kubernetes-int-or-string: true
          waits:
            items:
              type: string
              x-kubernetes-validations: [{rule: "duration(self) > duration('0s')"}]
`
)

// Whatever the way to a field, inline and from another module too: where the schema tells the type and where it does
// not.
func TestFieldsAdmitWhatTheirTypeDecodes(t *testing.T) {
	root := t.TempDir()
	write(t, clockTypes, root, "clocks", "api", "v1", "types.go")
	write(t, sharedTypes, root, "other", "api", "v1", "types.go")
	out, err := complete(root, "clocks", []byte(clockDefinition))
	if err != nil {
		t.Fatal(err)
	}
	var got struct {
		Spec struct {
			Versions []struct {
				Schema struct {
					OpenAPIV3Schema struct{ Properties map[string]any }
				}
			}
		}
	}
	if err := yaml.Unmarshal(out, &got); err != nil {
		t.Fatal(err)
	}
	rule := func(rule, message string) any { return map[string]any{"rule": rule, "message": message} }
	want := map[string]any{
		"at":    map[string]any{"type": "string", "format": "date-time", "pattern": microTimePattern},
		"since": map[string]any{"type": "string", "format": "date-time", "pattern": timePattern},
		"count": map[string]any{"type": "integer", "format": "int32", "minimum": 1., "maximum": 2147483647.},
		"share": map[string]any{"x-kubernetes-int-or-string": true, "minimum": -2147483648., "maximum": 2147483647.},
		"text":  map[string]any{"x-kubernetes-int-or-string": true, "pattern": "^a$"},
		"limits": map[string]any{"additionalProperties": map[string]any{
			"x-kubernetes-int-or-string": true, "pattern": quantityPattern,
		}},
		"size": map[string]any{"x-kubernetes-int-or-string": true, "pattern": quantityPattern, "maxLength": 64.,
			"x-kubernetes-validations": []any{rule(quantityRule, quantityMessage)}},
		"waits": map[string]any{"items": map[string]any{"type": "string", "maxLength": 64.,
			"x-kubernetes-validations": []any{
				rule(durationRule, durationMessage), map[string]any{"rule": "duration(self) > duration('0s')"},
			}}},
	}
	for name, field := range got.Spec.Versions[0].Schema.OpenAPIV3Schema.Properties {
		if !reflect.DeepEqual(field, want[name]) {
			t.Errorf("%s: got %v, want %v", name, field, want[name])
		}
	}
}
