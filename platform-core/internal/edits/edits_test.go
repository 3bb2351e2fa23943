// SPDX-License-Identifier: Apache-2.0

package edits

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

const owner = "component"

func nobody(Edit) bool { return false }

func entry(manager string, operation metav1.ManagedFieldsOperationType, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{Manager: manager, Operation: operation, FieldsV1: metav1.NewFieldsV1(fields)}
}

func ours(fields string) metav1.ManagedFieldsEntry {
	return entry(owner, metav1.ManagedFieldsOperationApply, fields)
}

func theirs(fields string) metav1.ManagedFieldsEntry {
	return entry("kubectl", metav1.ManagedFieldsOperationUpdate, fields)
}

func aSet(change func(*platformv1.WorkloadSet), entries ...metav1.ManagedFieldsEntry) *platformv1.WorkloadSet {
	s := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{ManagedFields: entries, Labels: map[string]string{"a": "b"}}}
	s.Spec.Replicas, s.Spec.Version, s.Spec.ExcludedOrdinals = 3, "7.0", []int32{1}
	s.Spec.Template = runtime.RawExtension{Raw: []byte(`{"spec":{"x":1}}`)}
	s.Spec.Roles = []platformv1.SetRole{{Name: "primary", Access: platformv1.RoleReadWrite}}
	if change != nil {
		change(s)
	}
	return s
}

func fields(list []Edit) []string {
	out := []string{}
	for _, e := range list {
		out = append(out, e.Field())
	}
	return out
}

// What others wrote alone and is not as wanted is an edit; what is merely rendered otherwise is none.
func TestIn(t *testing.T) {
	replicas := func(n int32) func(*platformv1.WorkloadSet) {
		return func(s *platformv1.WorkloadSet) { s.Spec.Replicas = n }
	}
	scale := theirs(`{"f:spec":{"f:replicas":{}}}`)
	scale.Subresource = "scale"
	for name, test := range map[string]struct {
		live           *platformv1.WorkloadSet
		edits, adopted []string
	}{
		"at rest":                      {aSet(nil, ours(`{"f:spec":{"f:replicas":{}}}`)), nil, nil},
		"another rendering":            {aSet(replicas(2), ours(`{"f:spec":{"f:replicas":{}}}`)), nil, nil},
		"another rendering, shared":    {aSet(replicas(2), theirs(`{"f:spec":{"f:replicas":{}}}`), ours(`{"f:spec":{"f:replicas":{}}}`)), nil, nil},
		"scaled":                       {aSet(replicas(5), scale, ours(`{"f:spec":{"f:version":{}}}`)), []string{"spec.replicas"}, nil},
		"scaled and back":              {aSet(nil, scale, ours(`{"f:spec":{"f:version":{}}}`)), []string{}, []string{"spec.replicas"}},
		"somebody of our name":         {aSet(replicas(5), entry(owner, metav1.ManagedFieldsOperationUpdate, `{"f:spec":{"f:replicas":{}}}`)), []string{"spec.replicas"}, nil},
		"a template, whole":            {aSet(func(s *platformv1.WorkloadSet) { s.Spec.Template.Raw = []byte(`{"spec":{"x":2}}`) }, theirs(`{"f:spec":{"f:template":{}}}`)), []string{"spec.template"}, nil},
		"added":                        {aSet(func(s *platformv1.WorkloadSet) { s.Spec.AdoptVolumes = "x" }, theirs(`{"f:spec":{"f:adoptVolumes":{}}}`)), []string{"spec.adoptVolumes"}, nil},
		"an element of a list":         {aSet(func(s *platformv1.WorkloadSet) { s.Spec.ExcludedOrdinals = []int32{1, 2} }, theirs(`{"f:spec":{"f:excludedOrdinals":{"v:2":{}}}}`)), []string{"spec.excludedOrdinals"}, nil},
		"a field of an element":        {aSet(func(s *platformv1.WorkloadSet) { s.Spec.Roles[0].Access = platformv1.RoleNone }, theirs(`{"f:spec":{"f:roles":{"k:{\"name\":\"primary\"}":{"f:access":{}}}}}`)), []string{"spec.roles[primary].access"}, nil},
		"a label":                      {aSet(func(s *platformv1.WorkloadSet) { s.Labels["a"] = "x" }, theirs(`{"f:metadata":{"f:labels":{"f:a":{}}}}`)), []string{"metadata.labels.a"}, nil},
		"a label that is none of ours": {aSet(func(s *platformv1.WorkloadSet) { s.Labels["z"] = "x" }, theirs(`{"f:metadata":{"f:labels":{"f:z":{}}}}`)), nil, nil},
	} {
		found, err := In(test.live, aSet(nil), owner, nobody)
		if err != nil || fmt.Sprint(fields(found.Edits)) != fmt.Sprint(append([]string{}, test.edits...)) || fmt.Sprint(fields(found.Adopted)) != fmt.Sprint(append([]string{}, test.adopted...)) {
			t.Errorf("%s: edits %v, adopted %v, %v; want %v, %v", name, fields(found.Edits), fields(found.Adopted), err, test.edits, test.adopted)
		}
	}
	if _, err := In(aSet(nil, theirs(`{"f:spec":`)), aSet(nil), owner, nobody); err == nil {
		t.Error("what cannot be read is no error")
	}
	left, err := In(aSet(replicas(5), scale), aSet(nil), owner, func(e Edit) bool { return e.Field() == "spec.replicas" })
	if err != nil || left.Any() {
		t.Errorf("what is left to others gives %+v, %v", left, err)
	}
}

// What was taken out is told once, also where something else of it was written.
func TestAndRemoved(t *testing.T) {
	live := aSet(func(s *platformv1.WorkloadSet) {
		s.Spec.Roles, s.Spec.ExcludedOrdinals, s.Spec.Template.Raw = nil, nil, []byte(`{}`)
	}, theirs(`{"f:spec":{"f:template":{}}}`))
	found, err := In(live, aSet(nil), owner, nobody)
	if err == nil {
		err = found.AndRemoved(live, aSet(nil))
	}
	if want := []string{"spec.excludedOrdinals", "spec.roles", "spec.template"}; err != nil || !reflect.DeepEqual(fields(found.Edits), want) {
		t.Errorf("got %v, %v; want %v", fields(found.Edits), err, want)
	}
	if found.By() != "kubectl" {
		t.Errorf("it was %s", found.By())
	}
}

// What others added is taken out at the first thing that is not wanted; a list that they lengthened is given as it was.
func TestWithdrawal(t *testing.T) {
	live := aSet(func(s *platformv1.WorkloadSet) {
		s.Spec.ExcludedOrdinals = []int32{1, 2}
		s.Spec.Maintenance = &platformv1.Maintenance{Windows: []platformv1.MaintenanceWindow{{Schedule: "0 2 * * 0"}}}
		s.Spec.Replicas = 5
	}, theirs(`{"f:spec":{"f:replicas":{},"f:excludedOrdinals":{"v:2":{}},"f:maintenance":{"f:windows":{}}}}`))
	found, err := In(live, aSet(nil), owner, nobody)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := json.Marshal(withdrawal(aSet(nil), found))
	if want := `{"spec":{"excludedOrdinals":[1],"maintenance":null}}`; string(body) != want {
		t.Errorf("got %s, want %s", body, want)
	}
}
