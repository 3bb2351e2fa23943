// SPDX-License-Identifier: Apache-2.0

package unit

import (
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode"

	"sigs.k8s.io/yaml"
)

// schema is as much of the schema of a field as is looked at.
type schema struct {
	Description          string
	Properties           map[string]*schema
	Items                *schema
	AdditionalProperties *schema
}

// ofKubernetes are the ends of the paths of fields of ours whose type is one of Kubernetes. What is below them is
// documented there, and left out of the definitions, which would be several times as large with it.
var ofKubernetes = []string{
	"affinity", "conditions", "from", "metadata", "monitoringFrom", "resources", "selector.labels", "tolerations",
	"topologySpreadConstraints",
}

// TestFieldsAreDescribed has "kubectl explain" say more of every field of ours than what it is called.
func TestFieldsAreDescribed(t *testing.T) {
	fields := 0
	for path, data := range definitions(t) {
		if !strings.Contains(filepath.ToSlash(path), "/config/crd/bases/") {
			continue
		}
		var definition struct {
			Spec struct {
				Names    struct{ Kind string }
				Versions []struct {
					Schema struct{ OpenAPIV3Schema *schema }
				}
			}
		}
		if err := yaml.Unmarshal(data, &definition); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, version := range definition.Spec.Versions {
			described(version.Schema.OpenAPIV3Schema, definition.Spec.Names.Kind, func(field, problem string) {
				fields++
				if problem != "" {
					t.Errorf("%s: %s", field, problem)
				}
			})
		}
	}
	if fields < 500 {
		t.Errorf("only %d fields were found: the search is broken", fields)
	}
}

// described goes through the fields of a type of ours, and says what is wrong with the description of each; nothing
// when it is well.
func described(s *schema, path string, visit func(field, problem string)) {
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		property, field := s.Properties[name], path+"."+name
		problem := ""
		switch {
		case name == "metadata":
		case property.Description == "":
			problem = "nothing is said of it"
		case saysItsNameAlone(name, property.Description):
			problem = fmt.Sprintf("%q says no more than its name", property.Description)
		}
		visit(field, problem)
		if slices.ContainsFunc(ofKubernetes, func(end string) bool { return strings.HasSuffix(field, "."+end) }) {
			continue
		}
		for within, suffix := range map[*schema]string{property: "", property.Items: "[]",
			property.AdditionalProperties: "{}"} {
			if within != nil {
				described(within, field+suffix, visit)
			}
		}
	}
}

// fillers are words that say nothing by themselves.
var fillers = []string{"a", "an", "the", "of", "is", "are", "this", "that", "its"}

// saysItsNameAlone is true of "storageSize is the size of the storage".
func saysItsNameAlone(name, description string) bool {
	var parts []string
	for _, r := range name {
		if unicode.IsUpper(r) || len(parts) == 0 {
			parts = append(parts, "")
		}
		parts[len(parts)-1] += string(unicode.ToLower(r))
	}
	parts = append(parts, strings.ToLower(name))
	words := strings.FieldsFunc(strings.ToLower(description),
		func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return !slices.ContainsFunc(words, func(word string) bool {
		return !slices.Contains(parts, word) && !slices.Contains(fillers, word)
	})
}

func TestADescriptionThatIsTheNameIsNone(t *testing.T) {
	for description, alone := range map[string]bool{
		"storageSize": true,
		"storageSize is the size of the storage.":    true,
		"storageSize of each volume.":                false,
		"storageSize is the size in whole gibibytes": false,
	} {
		if got := saysItsNameAlone("storageSize", description); got != alone {
			t.Errorf("%q: %t, want %t", description, got, alone)
		}
	}
}
