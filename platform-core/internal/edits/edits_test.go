// SPDX-License-Identifier: Apache-2.0

package edits

import (
	"encoding/json"
	"fmt"
	"reflect"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/event"
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
	s := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{ManagedFields: entries,
		Labels: map[string]string{"a": "b"}}}
	s.Spec.Replicas, s.Spec.Version, s.Spec.ExcludedOrdinals = 3, "7.0", []int32{1}
	s.Spec.Template = runtime.RawExtension{Raw: []byte(`{"spec":{"x":1}}`)}
	s.Spec.Roles = []platformv1.SetRole{{Name: "primary", Access: platformv1.RoleReadWrite}}
	if change != nil {
		change(s)
	}
	return s
}

func content(t *testing.T, obj client.Object) map[string]any {
	t.Helper()
	content, err := contentOf(obj)
	if err != nil {
		t.Fatal(err)
	}
	return content
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
		"at rest":           {aSet(nil, ours(`{"f:spec":{"f:replicas":{}}}`)), nil, nil},
		"another rendering": {aSet(replicas(2), ours(`{"f:spec":{"f:replicas":{}}}`)), nil, nil},
		"another rendering, shared": {aSet(replicas(2), theirs(`{"f:spec":{"f:replicas":{}}}`),
			ours(`{"f:spec":{"f:replicas":{}}}`)), nil, nil},
		"scaled": {aSet(replicas(5), scale, ours(`{"f:spec":{"f:version":{}}}`)),
			[]string{"spec.replicas"}, nil},
		"scaled and back": {aSet(nil, scale, ours(`{"f:spec":{"f:version":{}}}`)), []string{},
			[]string{"spec.replicas"}},
		"somebody of our name": {aSet(replicas(5),
			entry(owner, metav1.ManagedFieldsOperationUpdate, `{"f:spec":{"f:replicas":{}}}`)), nil, nil},
		"a template, whole": {aSet(
			func(s *platformv1.WorkloadSet) { s.Spec.Template.Raw = []byte(`{"spec":{"x":2}}`) },
			theirs(`{"f:spec":{"f:template":{}}}`)), []string{"spec.template"}, nil},
		"added": {aSet(func(s *platformv1.WorkloadSet) { s.Spec.AdoptVolumes = "x" },
			theirs(`{"f:spec":{"f:adoptVolumes":{}}}`)), []string{"spec.adoptVolumes"}, nil},
		"an element of a list": {aSet(func(s *platformv1.WorkloadSet) { s.Spec.ExcludedOrdinals = []int32{1, 2} },
			theirs(`{"f:spec":{"f:excludedOrdinals":{"v:2":{}}}}`)), []string{"spec.excludedOrdinals"}, nil},
		"a field of an element": {aSet(
			func(s *platformv1.WorkloadSet) { s.Spec.Roles[0].Access = platformv1.RoleNone },
			theirs(`{"f:spec":{"f:roles":{"k:{\"name\":\"primary\"}":{"f:access":{}}}}}`)),
			[]string{"spec.roles[primary].access"}, nil},
		"a label": {aSet(func(s *platformv1.WorkloadSet) { s.Labels["a"] = "x" },
			theirs(`{"f:metadata":{"f:labels":{"f:a":{}}}}`)), []string{"metadata.labels.a"}, nil},
		"a label that is none of ours": {aSet(func(s *platformv1.WorkloadSet) { s.Labels["z"] = "x" },
			theirs(`{"f:metadata":{"f:labels":{"f:z":{}}}}`)), nil, nil},
	} {
		found, err := In(test.live, aSet(nil), owner, nobody)
		if err != nil || fmt.Sprint(fields(found.Edits)) != fmt.Sprint(append([]string{}, test.edits...)) ||
			fmt.Sprint(fields(found.Adopted)) != fmt.Sprint(append([]string{}, test.adopted...)) {
			t.Errorf("%s: edits %v, adopted %v, %v; want %v, %v", name, fields(found.Edits), fields(found.Adopted), err,
				test.edits, test.adopted)
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
		s.Spec.Roles, s.Spec.ExcludedOrdinals, s.Spec.Template.Raw = nil, nil, []byte(`{"metadata":{}}`)
	}, theirs(`{"f:spec":{"f:template":{}}}`))
	wanted := aSet(nil)
	wanted.Spec.Plan.Raw, live.Spec.Plan.Raw = []byte(`{"process":{"argv":["x"]}}`), []byte(`{"files":[1]}`)
	live.ManagedFields = append(live.ManagedFields, theirs(`{"f:spec":{"f:plan":{}}}`))
	found, err := In(live, wanted, owner, nobody)
	if err == nil {
		err = found.AndRemoved(live, wanted)
	}
	if want := []string{"spec.excludedOrdinals", "spec.plan", "spec.roles", "spec.template.spec.x"}; err != nil ||
		!reflect.DeepEqual(fields(found.Edits), want) {
		t.Errorf("got %v, %v; want %v", fields(found.Edits), err, want)
	}
	if found.By() != "kubectl" {
		t.Errorf("it was %s", found.By())
	}
}

// What the engine wrote and does not want any more goes, also where somebody else is down for it as well, and where the
// engine wrote it in another way than by an apply. What is wanted is no more than to be applied.
func TestShared(t *testing.T) {
	const maintenance, suspend = `{"f:spec":{"f:maintenance":{"f:windows":{}}}}`, `{"f:spec":{"f:suspend":{}}}`
	written := func(s *platformv1.WorkloadSet) {
		s.Spec.Maintenance = &platformv1.Maintenance{Windows: []platformv1.MaintenanceWindow{{Schedule: "0 2 * * 0"}}}
		s.Spec.Suspend = true
	}
	otherwise := entry(owner, metav1.ManagedFieldsOperationUpdate, suspend)
	for name, test := range map[string]struct {
		live, wanted *platformv1.WorkloadSet
		shared       []string
	}{
		"both": {aSet(written, theirs(maintenance), ours(maintenance)), aSet(nil),
			[]string{"spec.maintenance.windows"}},
		"both, and wanted":           {aSet(written, theirs(maintenance), ours(maintenance)), aSet(written), nil},
		"ours alone":                 {aSet(written, ours(maintenance)), aSet(nil), nil},
		"both, and gone":             {aSet(nil, theirs(maintenance), ours(maintenance)), aSet(nil), nil},
		"ours otherwise":             {aSet(written, otherwise), aSet(nil), []string{"spec.suspend"}},
		"ours otherwise, and wanted": {aSet(written, otherwise), aSet(written), nil},
	} {
		found, err := In(test.live, test.wanted, owner, nobody)
		if err != nil || fmt.Sprint(fields(found.Shared)) != fmt.Sprint(append([]string{}, test.shared...)) ||
			len(found.Edits)+len(found.Adopted) > 0 || found.Any() != (len(test.shared) > 0) {
			t.Errorf("%s: %+v, %v; want %v", name, found, err, test.shared)
		}
		left, err := In(test.live, test.wanted, owner, func(Edit) bool { return true })
		if err != nil || left.Any() {
			t.Errorf("%s: what is left to others gives %+v, %v", name, left, err)
		}
	}
	found, err := In(aSet(written, theirs(maintenance), ours(maintenance), otherwise), aSet(nil), owner, nobody)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := json.Marshal(withdrawal(content(t, aSet(nil)), found))
	if string(body) != `{"spec":{"maintenance":null,"suspend":null}}` {
		t.Errorf("it is taken out by %s", body)
	}
}

// What an object gets from elsewhere goes without being an edit.
func TestHave(t *testing.T) {
	live := aSet(func(s *platformv1.WorkloadSet) { s.Spec.Suspend, s.Spec.Replicas = true, 5 },
		theirs(`{"f:spec":{"f:suspend":{},"f:replicas":{}}}`))
	found, err := In(live, aSet(nil), owner, nobody)
	if err != nil {
		t.Fatal(err)
	}
	found.Have(func(e Edit) bool { return e.Field() == "spec.suspend" })
	if got := fields(found.Edits); !reflect.DeepEqual(got, []string{"spec.replicas"}) || !found.Any() {
		t.Errorf("the edits are %v", got)
	}
	if body, _ := json.Marshal(withdrawal(content(t, aSet(nil)), found)); string(body) != `{"spec":{"suspend":null}}` {
		t.Errorf("it is taken out by %s", body)
	}
	// What has yet to be applied may be the elsewhere.
	found.Behind = true
	found.Edits = append(found.Edits, Edit{Path: fieldpath.MakePathOrDie("spec", "adoptVolumes"), Is: "x"})
	body, _ := json.Marshal(withdrawal(content(t, aSet(nil)), found))
	if string(body) != `{"spec":{"adoptVolumes":null}}` {
		t.Errorf("of one that is behind %s is taken out", body)
	}
}

// Where an edit was withdrawn and the rest has yet to be taken back, the former is told of: the next turn finds no
// trace of it.
func TestTellWithdrawn(t *testing.T) {
	sink := events.NewFakeRecorder(1)
	live := aSet(func(s *platformv1.WorkloadSet) { s.Spec.AdoptVolumes, s.Spec.Replicas = "x", 5 },
		theirs(`{"f:spec":{"f:adoptVolumes":{},"f:replicas":{}}}`))
	found, err := In(live, aSet(nil), owner, nobody)
	if err != nil {
		t.Fatal(err)
	}
	r := Reverter{Events: event.New(sink)}
	r.tellWithdrawn(live, live, found, "it is so")
	r.tellWithdrawn(live, aSet(func(s *platformv1.WorkloadSet) { s.Spec.Replicas = 5 }), found, "it is so")
	close(sink.Events)
	var told []string
	for one := range sink.Events {
		told = append(told, one)
	}
	if want := "Warning EditReverted spec.adoptVolumes, edited by kubectl, was taken back: it is so"; len(told) != 1 ||
		told[0] != want {
		t.Errorf("it tells %q, want %q", told, want)
	}
}

// Of an object that somebody took out as a whole each field is told, the last of its fields like one of several.
func TestTheLastIsRemoved(t *testing.T) {
	live, wanted := &platformv1.Component{}, &platformv1.Component{}
	wanted.Spec.Parameters = platformv1.Parameters{"a": "1"}
	wanted.Spec.Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}
	found := Found{}
	if err := found.AndRemoved(live, wanted); err != nil {
		t.Fatal(err)
	}
	want := []string{"spec.parameters.a", "spec.resources.limits.memory"}
	if !reflect.DeepEqual(fields(found.Edits), want) {
		t.Errorf("got %v, want %v", fields(found.Edits), want)
	}
}

// An element of a list that somebody took out is told as such, and not each of its fields: nobody chose those.
func TestAnElementIsRemoved(t *testing.T) {
	live, wanted := &platformv1.Component{}, &platformv1.Component{}
	live.Spec.Sets = []platformv1.ComponentSet{{Name: "0"}}
	wanted.Spec.Sets = []platformv1.ComponentSet{{Name: "0"}, {Name: "1", Parameters: platformv1.Parameters{"a": "1"}}}
	found := Found{}
	if err := found.AndRemoved(live, wanted); err != nil ||
		!reflect.DeepEqual(fields(found.Edits), []string{"spec.sets[1]"}) {
		t.Errorf("got %v, %v", fields(found.Edits), err)
	}
}

// Labels of the engine that somebody took out are told, but for that of the domain, which is not for edits to change,
// and nothing else of the metadata.
func TestLabelsAreRemoved(t *testing.T) {
	live, wanted := aSet(nil), aSet(nil)
	live.Labels = nil
	wanted.Labels[platformv1.DomainLabel], wanted.Annotations = "database", map[string]string{"c": "d"}
	found := Found{}
	if err := found.AndRemoved(live, wanted); err != nil ||
		!reflect.DeepEqual(fields(found.Edits), []string{"metadata.labels.a"}) {
		t.Errorf("got %v, %v", fields(found.Edits), err)
	}
}

// Who first put something into an object of fields is down for that object: it is no edit of what others have in it,
// and none that was taken over.
func TestWhoMadeAnObjectOfFields(t *testing.T) {
	with := func(parameters platformv1.Parameters, entries ...metav1.ManagedFieldsEntry) *platformv1.Component {
		c := &platformv1.Component{ObjectMeta: metav1.ObjectMeta{ManagedFields: entries}}
		c.Spec.Parameters = parameters
		return c
	}
	const itself, key = `{"f:spec":{"f:parameters":{".":{}}}}`, `{"f:spec":{"f:parameters":{"f:a":{}}}}`
	is := platformv1.Parameters{"a": "1"}
	for name, test := range map[string]struct {
		live   *platformv1.Component
		wanted platformv1.Parameters
		edits  []string
	}{
		"as wanted":     {with(is, theirs(itself), ours(key)), is, nil},
		"to be applied": {with(is, theirs(itself), ours(key)), platformv1.Parameters{"a": "2"}, nil},
		"of two of them": {with(is, theirs(itself), theirs(key)), platformv1.Parameters{"a": "2"},
			[]string{"spec.parameters.a"}},
		"emptied": {with(platformv1.Parameters{}, theirs(itself)), is, nil},
		"ours, and one key theirs": {with(platformv1.Parameters{"a": "1", "b": "1"},
			theirs(`{"f:spec":{"f:parameters":{"f:b":{}}}}`), ours(`{"f:spec":{"f:parameters":{".":{},"f:a":{}}}}`)), is,
			[]string{"spec.parameters.b"}},
		"theirs, and one key, both": {with(platformv1.Parameters{"a": "1", "b": "1"},
			theirs(`{"f:spec":{"f:parameters":{".":{},"f:b":{}}}}`), ours(key)), is, []string{"spec.parameters.b"}},
	} {
		found, err := In(test.live, with(test.wanted), owner, nobody)
		if err != nil || fmt.Sprint(fields(found.Edits)) != fmt.Sprint(append([]string{}, test.edits...)) ||
			len(found.Adopted) > 0 {
			t.Errorf("%s: edits %v, adopted %v, %v; want %v", name, fields(found.Edits), fields(found.Adopted), err, test.edits)
		}
	}
}

// Edits are as old as the oldest of them, and each is down for who wrote it last.
func TestWhen(t *testing.T) {
	at := func(second int, entry metav1.ManagedFieldsEntry) metav1.ManagedFieldsEntry {
		entry.Time = &metav1.Time{Time: time.Unix(int64(second), 0)}
		return entry
	}
	first := at(10, entry("kubectl", metav1.ManagedFieldsOperationUpdate, `{"f:spec":{"f:replicas":{},"f:version":{}}}`))
	second := at(20, entry("autoscaler", metav1.ManagedFieldsOperationUpdate, `{"f:spec":{"f:replicas":{}}}`))
	live := aSet(func(s *platformv1.WorkloadSet) { s.Spec.Replicas = 5 }, first, second)
	found, err := In(live, aSet(nil), owner, nobody)
	if err != nil || len(found.Edits) != 1 || found.Edits[0].Manager != "autoscaler" ||
		!found.At().Equal(second.Time.Time) {
		t.Errorf("got %+v of %s, %v", found.Edits, found.At(), err)
	}
	live.Spec.Version = "x"
	if found, err = In(live, aSet(nil), owner, nobody); err != nil || len(found.Edits) != 2 ||
		!found.At().Equal(first.Time.Time) {
		t.Errorf("got %+v of %s, %v", found.Edits, found.At(), err)
	}
	if !(Found{}).At().IsZero() {
		t.Error("nothing was edited at some time")
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
	body, _ := json.Marshal(withdrawal(content(t, aSet(nil)), found))
	if want := `{"spec":{"excludedOrdinals":[1],"maintenance":null}}`; string(body) != want {
		t.Errorf("got %s, want %s", body, want)
	}
}

// Which pods a set has changes in one write: what is taken back of it takes the rest back.
func TestSetTogether(t *testing.T) {
	for name, test := range map[string]struct{ body, want string }{
		"one of them": {`{"spec":{"excludedOrdinals":null}}`,
			`{"spec":{"excludedOrdinals":[1],"members":null,"replicas":3}}`},
		"none": {`{"spec":{"maintenance":null}}`, `{"spec":{"maintenance":null}}`},
	} {
		body := map[string]any{}
		if err := json.Unmarshal([]byte(test.body), &body); err != nil {
			t.Fatal(err)
		}
		setTogether(body, content(t, aSet(nil)))
		if got, _ := json.Marshal(body); string(got) != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}
