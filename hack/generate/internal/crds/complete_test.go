// SPDX-License-Identifier: Apache-2.0

package crds

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// Types of one module that use those of another and of Kubernetes in every way that a field can.
const (
	thingTypes = `package v1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	other "github.com/zeroinfra/other/api/v1"
)

type Thing struct {
	metav1.TypeMeta   ` + "`json:\",inline\"`" + `
	metav1.ObjectMeta ` + "`json:\"metadata,omitempty\"`" + `
	Spec              Spec ` + "`json:\"spec\"`" + `
}

type Spec struct {
	Shared       ` + "`json:\",inline\"`" + `
	Affinity     *corev1.Affinity              ` + "`json:\"affinity,omitempty\"`" + `
	Tolerations  []corev1.Toleration           ` + "`json:\"tolerations,omitempty\"`" + `
	ByName       map[string]corev1.Affinity    ` + "`json:\"byName,omitempty\"`" + `
	Others       []other.Part                  ` + "`json:\"others,omitempty\"`" + `
}

type Shared struct {
	Selector metav1.LabelSelector ` + "`json:\"selector\"`" + `
}
`
	otherTypes = `package v1

type Part struct {
	Size string ` + "`json:\"size\"`" + `
}
`
	thingDefinition = `---
spec:
  names:
    kind: Thing
  versions:
  - name: v1
    schema:
      openAPIV3Schema:
        description: Thing of ours.
        properties:
          apiVersion:
            description: what apiVersion is
            type: string
          spec:
            description: Spec of ours.
            properties:
              affinity:
                description: affinity of ours.
                properties:
                  nodeAffinity:
                    description: theirs
                    type: string
                  description:
                    description: theirs
                    type: string
              byName:
                additionalProperties:
                  description: theirs
                  type: object
                description: byName of ours.
              others:
                description: others of ours.
                items:
                  description: Part of ours.
                  properties:
                    size:
                      description: size of ours.
                      type: string
              selector:
                description: selector of ours.
                properties:
                  matchLabels:
                    additionalProperties:
                      type: string
                    description: theirs
              tolerations:
                description: tolerations of ours.
                items:
                  description: theirs
                  properties:
                    key:
                      description: theirs
                      type: string
`
)

func write(t *testing.T, content string, path ...string) {
	t.Helper()
	file := filepath.Join(path...)
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// What is ours says what it is, wherever it is declared; what is Kubernetes' says nothing. All else is as it was.
func TestComplete(t *testing.T) {
	root := t.TempDir()
	write(t, thingTypes, root, "things", "api", "v1", "types.go")
	write(t, otherTypes, root, "other", "api", "v1", "types.go")
	got, err := complete(root, "things", []byte(thingDefinition))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for line := range strings.Lines(thingDefinition) {
		if !strings.Contains(line, "description: theirs") {
			lines = append(lines, line)
		}
	}
	var want any
	if err := yaml.Unmarshal([]byte(strings.Join(lines, "")), &want); err != nil {
		t.Fatal(err)
	}
	expected, err := yaml.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != "---\n"+string(expected) {
		t.Errorf("got\n%s\nwant\n%s", got, expected)
	}
}

func TestCompleteWithoutTheType(t *testing.T) {
	root := t.TempDir()
	write(t, otherTypes, root, "things", "api", "v1", "types.go")
	_, err := complete(root, "things", []byte(thingDefinition))
	if err == nil || !strings.Contains(err.Error(), "no type Thing") {
		t.Errorf("got %v; want an error that names the type", err)
	}
}
