// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

func TestHas(t *testing.T) {
	type object = map[string]any
	type list = []any
	tests := map[string]struct {
		live, want any
		has        bool
	}{
		"the same":                       {object{"a": "1"}, object{"a": "1"}, true},
		"a default beside it":            {object{"a": "1", "b": "2"}, object{"a": "1"}, true},
		"another value":                  {object{"a": "1"}, object{"a": "2"}, false},
		"a field that is gone":           {object{}, object{"a": "1"}, false},
		"zero is a value":                {object{"replicas": int64(3)}, object{"replicas": int64(0)}, false},
		"false is a value":               {object{}, object{"on": false}, false},
		"an empty text is a value":       {object{}, object{"a": ""}, false},
		"an empty map for none":          {object{}, object{"resources": object{}}, true},
		"empty maps within for none":     {object{}, object{"a": object{"b": object{}}}, true},
		"an empty list for none":         {object{}, object{"items": list{}}, true},
		"an empty list for a full one":   {object{"items": list{"a"}}, object{"items": list{}}, false},
		"a default in an item":           {list{object{"port": 1, "protocol": "TCP"}}, list{object{"port": 1}}, true},
		"another order":                  {list{"a", "b"}, list{"b", "a"}, false},
		"an item too many":               {list{"a", "b"}, list{"a"}, false},
		"an item too few":                {list{"a"}, list{"a", "b"}, false},
		"a map where there was a string": {object{"a": "x"}, object{"a": object{"b": "c"}}, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := has(test.live, test.want); got != test.has {
				t.Errorf("has(%v, %v) = %v", test.live, test.want, got)
			}
		})
	}
}

func TestContainsLeavesOthersInSharedSets(t *testing.T) {
	live := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Finalizers:      []string{"theirs", "ours"},
		OwnerReferences: []metav1.OwnerReference{{UID: "2"}, {UID: "1"}},
		Labels:          map[string]string{"a": "1", "b": "2"},
	}}
	want := &corev1.Service{ObjectMeta: metav1.ObjectMeta{
		Finalizers: []string{"ours"}, OwnerReferences: []metav1.OwnerReference{{UID: "1"}},
		Labels: map[string]string{"a": "1"},
	}}
	if !contains(content(t, live), content(t, want)) {
		t.Error("finalizers and owners of others count as drift")
	}
	live.Finalizers = []string{"theirs"}
	if contains(content(t, live), content(t, want)) {
		t.Error("a finalizer of ours that is gone does not count as drift")
	}
}

func TestContentSpellsValuesInOneWay(t *testing.T) {
	set := func(size string) *platformv1.Application {
		return &platformv1.Application{Spec: platformv1.ApplicationSpec{Components: []platformv1.ApplicationComponent{{
			Name: "redis", Storage: &platformv1.Storage{Size: quantity(t, size)},
		}}}}
	}
	if a, b := fingerprint(content(t, set("1024Mi"))), fingerprint(content(t, set("1Gi"))); a != b {
		t.Errorf("the same quantity has digests %s and %s", a, b)
	}
	if a, b := fingerprint(content(t, set("1Gi"))), fingerprint(content(t, set("2Gi"))); a == b {
		t.Error("two quantities have one digest")
	}
}

func TestDigestIsOfTheDesiredPartOnly(t *testing.T) {
	bare := &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 6379}}}}
	full := bare.DeepCopy()
	full.ResourceVersion, full.UID, full.Generation = "7", "u", 3
	full.Annotations = map[string]string{platformv1.AppliedAnnotation: "old"}
	full.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "10.0.0.1"}}
	a, b := content(t, bare), content(t, full)
	if !contains(b, a) || len(b["metadata"].(map[string]any)) != 1 {
		t.Errorf("content is %v and %v", a, b)
	}
	if _, found := b["status"]; found {
		t.Error("the status is part of the content")
	}
}

func TestCheckOwner(t *testing.T) {
	type meta = metav1.ObjectMeta
	controlled := func(name string, uid types.UID) meta {
		return meta{OwnerReferences: []metav1.OwnerReference{{Kind: "Redis", Name: name, UID: uid, Controller: ptr.To(true)}}}
	}
	labelled := func(labels ...string) meta {
		m := meta{Labels: map[string]string{}}
		for i := 0; i < len(labels); i += 2 {
			m.Labels[labels[i]] = labels[i+1]
		}
		return m
	}
	deleted := controlled("b", "2")
	deleted.DeletionTimestamp = ptr.To(metav1.Now())

	tests := map[string]struct {
		want, live meta
		kind       outcome.Kind
	}{
		"our controller":                  {controlled("a", "1"), controlled("a", "1"), outcome.KindDone},
		"another controller":              {controlled("a", "1"), controlled("b", "2"), outcome.KindStalled},
		"another, being deleted":          {controlled("a", "1"), deleted, outcome.KindWaiting},
		"an earlier one of the same name": {controlled("a", "1"), controlled("a", "0"), outcome.KindWaiting},
		"a controller where we want none": {meta{}, controlled("b", "2"), outcome.KindStalled},
		"nobody's":                        {controlled("a", "1"), meta{}, outcome.KindStalled},
		"orphaned, with our label": {controlled("a", "1"), labelled(platformv1.ManagedByLabel, platformv1.ManagedBy),
			outcome.KindDone},
		"managed by another tool": {controlled("a", "1"), labelled(platformv1.ManagedByLabel, "Helm"), outcome.KindStalled},
		"of another domain": {
			labelled(platformv1.DomainLabel, "database"),
			labelled(platformv1.ManagedByLabel, platformv1.ManagedBy, platformv1.DomainLabel, "message"), outcome.KindStalled,
		},
		"of an earlier Application": {
			labelled(platformv1.ApplicationUIDLabel, "2"),
			labelled(platformv1.ManagedByLabel, platformv1.ManagedBy, platformv1.ApplicationUIDLabel, "1"), outcome.KindStalled,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			err := checkOwner(clientgoscheme.Scheme, &corev1.Service{ObjectMeta: test.want},
				&corev1.Service{ObjectMeta: test.live})
			o := Outcome(err)
			if o.Kind() != test.kind {
				t.Fatalf("got %v (%v), want %v", o.Kind(), err, test.kind)
			}
			if err != nil && (o.Reason() != platformv1.ReasonNameTaken || o.Message() != err.Error()) {
				t.Errorf("reason %q, message %q", o.Reason(), o.Message())
			}
		})
	}
}

func TestOutcomeOfOtherErrors(t *testing.T) {
	if got := Outcome(nil).Kind(); got != outcome.KindDone {
		t.Errorf("no error: %v", got)
	}
	if got := Outcome(errors.New("boom")).Kind(); got != outcome.KindFailed {
		t.Errorf("an error: %v", got)
	}
}

func content(t *testing.T, obj client.Object) map[string]any {
	t.Helper()
	c, err := contentOf(obj)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func quantity(t *testing.T, text string) resource.Quantity {
	t.Helper()
	q, err := resource.ParseQuantity(text)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

// An object cannot be made in a namespace that is being deleted: that is no failure.
func TestOutcomeInANamespaceThatEnds(t *testing.T) {
	refused := apierrors.NewForbidden(corev1.Resource("pods"), "a", errors.New("it is being terminated"))
	refused.ErrStatus.Details.Causes = append(refused.ErrStatus.Details.Causes,
		metav1.StatusCause{Type: corev1.NamespaceTerminatingCause})
	if o := Outcome(fmt.Errorf("cannot create Pod: %w", refused)); o.Kind() != outcome.KindWaiting ||
		o.Reason() != platformv1.ReasonDeleting {
		t.Errorf("got %v %s", o.Kind(), o.Reason())
	}
	refused.ErrStatus.Details.Causes = nil
	if o := Outcome(refused); o.Kind() != outcome.KindFailed {
		t.Errorf("any other refusal is %v", o.Kind())
	}
}

// What was compared once is compared again after every change of what is compared, and after no other.
func TestStamp(t *testing.T) {
	of := func(change func(*platformv1.WorkloadSet)) string {
		set := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{
			Generation: 1, ResourceVersion: "5", Labels: map[string]string{"a": "1", "b": "2"},
			OwnerReferences: []metav1.OwnerReference{{UID: "u", Controller: ptr.To(true)}},
		}}
		change(set)
		return stampOf(set)
	}
	same := of(func(*platformv1.WorkloadSet) {})
	if of(func(s *platformv1.WorkloadSet) { s.ResourceVersion, s.Status.Replicas = "6", 3 }) != same {
		t.Error("a status changes the stamp")
	}
	for what, change := range map[string]func(*platformv1.WorkloadSet){
		"spec":       func(s *platformv1.WorkloadSet) { s.Generation = 2 },
		"label":      func(s *platformv1.WorkloadSet) { s.Labels["a"] = "2" },
		"annotation": func(s *platformv1.WorkloadSet) { s.Annotations = map[string]string{"a": "1"} },
		"owner":      func(s *platformv1.WorkloadSet) { s.OwnerReferences[0].Controller = ptr.To(false) },
		"finalizer":  func(s *platformv1.WorkloadSet) { s.Finalizers = []string{"a"} },
	} {
		if of(change) == same {
			t.Errorf("another %s does not change the stamp", what)
		}
	}
	first := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "1"}}
	second := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{ResourceVersion: "2"}}
	if stampOf(first) == stampOf(second) {
		t.Error("without a generation, another version does not change the stamp")
	}
}

// What is taken for checked without looking at its content has to differ with everything that a caller can ask for.
func TestFingerprintOfWhatIsGiven(t *testing.T) {
	object := func(change func(*corev1.ConfigMap)) *corev1.ConfigMap {
		cm := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b",
			Labels: map[string]string{"c": "d", "e": "f"}}, Data: map[string]string{"g": "h"}}
		change(cm)
		return cm
	}
	of := func(obj client.Object, without ...string) string {
		t.Helper()
		got, err := fingerprintOf(obj, without...)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	plain := object(func(*corev1.ConfigMap) {})
	if of(plain) != of(plain.DeepCopy()) {
		t.Error("two copies differ")
	}
	if of(plain) == of(plain, "data") {
		t.Error("a field that is left out makes no difference")
	}
	for what, change := range map[string]func(*corev1.ConfigMap){
		"content":  func(cm *corev1.ConfigMap) { cm.Data["g"] = "i" },
		"a label":  func(cm *corev1.ConfigMap) { delete(cm.Labels, "c") },
		"an owner": func(cm *corev1.ConfigMap) { cm.OwnerReferences = []metav1.OwnerReference{{UID: "j"}} },
	} {
		if of(object(change)) == of(plain) {
			t.Errorf("%s makes no difference", what)
		}
	}
}

// A quota is told with a reason of its own, and tried again as every failure is.
func TestOutcomeOfAQuota(t *testing.T) {
	refused := apierrors.NewForbidden(corev1.Resource("pods"), "a-0", errors.New("exceeded quota: few, requested: pods=1"))
	o := Outcome(fmt.Errorf("cannot create Pod: %w", refused))
	if o.Kind() != outcome.KindFailed || o.Reason() != platformv1.ReasonQuotaExceeded || !errors.Is(o.Err(), refused) {
		t.Errorf("got %v %s: %v", o.Kind(), o.Reason(), o.Err())
	}
	for _, want := range []string{`pods "a-0" is forbidden: exceeded quota: few`, "raise the ResourceQuota or ask"} {
		if !strings.Contains(o.Message(), want) {
			t.Errorf("it says %q, want %q", o.Message(), want)
		}
	}
	other := apierrors.NewForbidden(corev1.Resource("pods"), "a-0", errors.New("violates PodSecurity"))
	if o := Outcome(other); o.Reason() != outcome.ReasonFailed {
		t.Errorf("of another refusal it says %s", o.Reason())
	}
}
