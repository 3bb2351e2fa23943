// SPDX-License-Identifier: Apache-2.0

package typed

import (
	"errors"
	"reflect"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/apply"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// The state of an Object follows from its conditions, for kinds of Kubernetes from their own status fields.
func TestStateOfAnObject(t *testing.T) {
	condition := func(kind, status, reason string) string {
		return `"status":{"observedGeneration":2,"conditions":[{"type":"` + kind + `","status":"` + status + `","reason":"` +
			reason + `","message":"m"}]}`
	}
	for name, test := range map[string]struct {
		object string
		kind   outcome.Kind
		reason string
	}{
		"no conditions": {`"kind":"Thing"`, outcome.KindDone, ""},
		"ready":         {`"kind":"Thing",` + condition("Ready", "True", "Fine"), outcome.KindDone, ""},
		"not ready": {`"kind":"Thing",` + condition("Ready", "False", "Painting"), outcome.KindWaiting,
			"Painting"},
		"a reason that is none": {`"kind":"Thing",` + condition("Ready", "False", "is being painted"),
			outcome.KindWaiting, platformv1.ReasonProgressing},
		"reconciling": {`"kind":"Thing",` + condition("Reconciling", "True", "Painting"),
			outcome.KindWaiting, "Painting"},
		"stalled": {`"kind":"Thing",` + condition("Stalled", "True", "NoPaint"), outcome.KindStalled,
			"NoPaint"},
		"an older generation": {`"kind":"Thing","status":{"observedGeneration":1}`, outcome.KindWaiting,
			"LatestGenerationNotObserved"},
		"a claim that is not bound": {`"kind":"PersistentVolumeClaim","status":{"phase":"Pending"}`, outcome.KindWaiting,
			"NotBound"},
		"a claim that is bound":       {`"kind":"PersistentVolumeClaim","status":{"phase":"Bound"}`, outcome.KindDone, ""},
		"a ConfigMap":                 {`"kind":"ConfigMap"`, outcome.KindDone, ""},
		"a Service of type ClusterIP": {`"kind":"Service","spec":{"type":"ClusterIP"}`, outcome.KindDone, ""},
		"a Service without an address": {`"kind":"Service","spec":{"type":"LoadBalancer"}`, outcome.KindWaiting,
			"NoIPAssigned"},
	} {
		t.Run(name, func(t *testing.T) {
			u := &unstructured.Unstructured{}
			version := `"apiVersion":"v1"`
			if err := u.UnmarshalJSON([]byte(`{` + version + `,"metadata":{"name":"a","generation":2},` + test.object +
				`}`)); err != nil {
				t.Fatal(err)
			}
			o := ofObject(keyOf(u), u)
			if o.Kind() != test.kind || o.Reason() != test.reason {
				t.Errorf("got %s %s %q, want %s %s", o.Kind(), o.Reason(), o.Message(), test.kind, test.reason)
			}
		})
	}
}

// What only a person can mend stalls, and is tried again though no watch tells of it; all else is tried again with
// back-off.
func TestRefusalsOfAnObject(t *testing.T) {
	resource := schema.GroupResource{Group: "apps", Resource: "deployments"}
	kind := schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}
	for name, test := range map[string]struct {
		err    error
		kind   outcome.Kind
		reason string
	}{
		"forbidden": {apierrors.NewForbidden(resource, "a", errors.New("no")), outcome.KindStalled,
			platformv1.ReasonForbidden},
		"no quota left": {apierrors.NewForbidden(resource, "a", errors.New("exceeded quota: q")), outcome.KindFailed,
			platformv1.ReasonQuotaExceeded},
		"rejected": {apierrors.NewInvalid(kind.GroupKind(), "a", nil), outcome.KindStalled, platformv1.ReasonInvalidSpec},
		"no such kind": {&meta.NoKindMatchError{GroupKind: kind.GroupKind()}, outcome.KindStalled,
			platformv1.ReasonKindNotInstalled},
		"name taken":   {&apply.NameTakenError{Object: "a", Owner: "b"}, outcome.KindStalled, platformv1.ReasonNameTaken},
		"server fault": {apierrors.NewInternalError(errors.New("boom")), outcome.KindFailed, outcome.ReasonFailed},
	} {
		t.Run(name, func(t *testing.T) {
			o := refusedObject(objectKey{gvk: kind}, test.err)
			if o.Kind() != test.kind || o.Reason() != test.reason {
				t.Errorf("got %s %s, want %s %s", o.Kind(), o.Reason(), test.kind, test.reason)
			}
			if o.Kind() == outcome.KindStalled && o.After() == 0 {
				t.Error("it is not tried again")
			}
		})
	}
}

// An Operation has the same name whenever the same object declares it, and another one when another object of its name
// does.
func TestNamesOfOperations(t *testing.T) {
	one := &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "1"}}
	two := &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Name: "a", UID: "2"}}
	if operationNameFor("Training", one, "run") != operationNameFor("Training", one.DeepCopy(), "run") ||
		operationNameFor("Training", one, "run") == operationNameFor("Training", one, "again") {
		t.Error("names do not follow from what is declared")
	}
	if operationNameFor("Training", one, "run") == operationNameFor("Training", two, "run") {
		t.Error("an object that was made anew has the Operation of the earlier one")
	}
}

// What declares Entities is written when one is made and when it is ready, and not in between: an Entity that says
// nothing yet, or that its change is under way, is told of in the words of one that has just been made.
func TestStepsOfAnEntityAreToldOfOnce(t *testing.T) {
	spec := &platformv1.EntitySpec{Type: "topic", Name: "orders"}
	entity := func(generation int64, o outcome.Outcome) *platformv1.Entity {
		e := &platformv1.Entity{}
		e.SetGeneration(generation)
		conditions.Report(e, o, "")
		e.SetGeneration(2)
		return e
	}
	want := ofEntity(nil, spec)
	for name, e := range map[string]*platformv1.Entity{
		"just made":              {},
		"of an older generation": entity(1, outcome.Done()),
		"under way":              entity(2, outcome.Waiting(platformv1.ReasonProgressing, conditions.BeingApplied)),
	} {
		if got := ofEntity(e, spec); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: got %s %q, want %s %q", name, got.Kind(), got.Message(), want.Kind(), want.Message())
		}
	}
	if got := ofEntity(entity(2, outcome.Done()), spec); got.Kind() != outcome.KindDone {
		t.Errorf("one that is ready is %s", got.Kind())
	}
}
