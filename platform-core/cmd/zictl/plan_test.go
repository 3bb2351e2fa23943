// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

func TestReadObjects(t *testing.T) {
	objects, err := readObjects([]byte(`
kind: Redis
apiVersion: database.zeroinfra.github.com/v1
metadata:
  name: a
  namespace: shop
  uid: "1"
  resourceVersion: "7"
  managedFields: [{manager: x}]
  labels: {team: a}
  annotations: {note: x, kubectl.kubernetes.io/last-applied-configuration: "{}"}
spec: {replicas: 3}
status: {phase: Ready}
---
# nothing
---
{"kind": "Redis", "apiVersion": "database.zeroinfra.github.com/v1", "metadata": {"name": "b"}}
`))
	if err != nil || len(objects) != 2 {
		t.Fatalf("got %d objects, %v", len(objects), err)
	}
	data, err := objects[0].MarshalJSON()
	want := `{"apiVersion":"database.zeroinfra.github.com/v1","kind":"Redis","metadata":{"annotations":{"note":"x"},` +
		`"labels":{"team":"a"},"name":"a","namespace":"shop"},"spec":{"replicas":3}}`
	if err != nil || strings.TrimSpace(string(data)) != want {
		t.Errorf("got %s, %v; want %s", data, err, want)
	}
	if objects[1].GetName() != "b" {
		t.Errorf("the second one is %q", objects[1].GetName())
	}
	for text, says := range map[string]string{
		"kind: Redis\napiVersion: x/v1\n":              "a Redis has no metadata.name",
		"spec: {}":                                     "cannot read an object",
		"kind: A\nkind: B\napiVersion: v1\n":           "cannot read YAML",
		"apiVersion: v1\nkind: A\nmetadata: {name: [}": "cannot read YAML",
	} {
		if _, err := readObjects([]byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q gives %v, want %q", text, err, says)
		}
	}
}

// As kubectl apply does: what is in the file, and null for what was applied last and no longer is; nothing of what
// others set.
func TestThreeWay(t *testing.T) {
	object := func(text string) *unstructured.Unstructured {
		objects, err := readObjects([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return objects[0]
	}
	live := object("{kind: Redis, apiVersion: x/v1, metadata: {name: a}, spec: {replicas: 5, memory: 1Gi, running: true}}")
	live.SetAnnotations(map[string]string{
		lastApplied: `{"kind":"Redis","apiVersion":"x/v1","metadata":{"name":"a"},"spec":{"replicas":3,"memory":"1Gi"}}`})
	patch, err := threeWay(live, object("{kind: Redis, apiVersion: x/v1, metadata: {name: a}, spec: {replicas: 4}}"))
	if err != nil || string(patch) != `{"spec":{"memory":null,"replicas":4}}` {
		t.Errorf("got %s, %v", patch, err)
	}
}

func TestPrint(t *testing.T) {
	p := plannedObject{Kind: "Redis", Namespace: "shop", Name: "a", Fields: []string{"spec.version: 7.0 → 8.0"},
		Changes: []platformv1.PlannedChange{
			{Component: "redis", Kind: "Service", Name: "a", Action: platformv1.PlannedUpdate},
			{Component: "redis", Kind: "PersistentVolumeClaim", Name: "data-a-0", Action: platformv1.PlannedGrow,
				Reason: "from 1Gi to 2Gi"},
			{Component: "redis", Kind: "Pod", Name: "a-1", Action: platformv1.PlannedRestart, Reason: "its image changed"},
			{Component: "redis", Kind: "Pod", Name: "a-0", To: "a-1", Action: platformv1.PlannedSwitchOver, Reason: "it writes"},
			{Component: "redis", Kind: "Pod", Name: "a-0", Action: platformv1.PlannedRestart, Reason: "its image changed"},
			{Kind: "Secret", Name: "x", Action: platformv1.PlannedDelete},
		}}
	want := `Redis shop/a
  spec.version: 7.0 → 8.0

The operator would, in this order:
  component redis
     1. Update      Service a
     2. Grow        PersistentVolumeClaim data-a-0  from 1Gi to 2Gi
     3. Restart     Pod a-1                         its image changed
     4. SwitchOver  Pod a-0 → a-1                   it writes
     5. Restart     Pod a-0                         its image changed
  the Application
     6. Delete      Secret x

In all: 1 × update Service, 1 × grow volume, 2 × restart within a pod, 1 × switchover, 1 × delete Secret.
`
	var out bytes.Buffer
	if p.print(&out); out.String() != want {
		t.Errorf("got\n%s\nwant\n%s", out.String(), want)
	}
}
