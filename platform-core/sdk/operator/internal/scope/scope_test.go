// SPDX-License-Identifier: Apache-2.0

package scope

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
)

func TestHolderAt(t *testing.T) {
	now := time.Now()
	held := func(by string, ago time.Duration) coordinationv1.LeaseSpec {
		return coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To(by), LeaseDurationSeconds: ptr.To[int32](15),
			RenewTime: ptr.To(metav1.NewMicroTime(now.Add(-ago))),
		}
	}
	for name, test := range map[string]struct {
		spec coordinationv1.LeaseSpec
		want string
	}{
		"held":          {held("a", 14*time.Second), "a"},
		"run out":       {held("a", 16*time.Second), ""},
		"given back":    {held("", 0), ""},
		"never renewed": {coordinationv1.LeaseSpec{HolderIdentity: ptr.To("a")}, ""},
	} {
		if got := HolderAt(&coordinationv1.Lease{Spec: test.spec}, now); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}

func TestOverlap(t *testing.T) {
	for _, test := range []struct {
		a, b []string
		want bool
	}{
		{nil, nil, true},
		{nil, []string{"a"}, true},
		{[]string{"a", "b"}, []string{"c", "b"}, true},
		{[]string{"a", "b"}, []string{"c", "ab"}, false},
	} {
		there, back := overlap(scopeOf(test.a), scopeOf(test.b)), overlap(scopeOf(test.b), scopeOf(test.a))
		if there != test.want || back != test.want {
			t.Errorf("%q and %q: %v, the other way round %v", test.a, test.b, there, back)
		}
	}
}

const leader = "database-operator.zeroinfra.github.com"

// world is an API server without a network and a clock that the test moves.
type world struct {
	*testing.T
	client.Client
	now time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	byName := func(obj client.Object) []string { return []string{obj.GetName()} }
	// Unlike the API server, the fake one makes no Lease by an update.
	empty := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: leaseNamespace, Name: LeaseName("database")}}
	return &world{T: t, now: time.Now(), Client: fake.NewClientBuilder().WithScheme(clientgoscheme.Scheme).
		WithIndex(&coordinationv1.Lease{}, "metadata.name", byName).WithObjects(empty).Build()}
}

// operator returns the registry of an operator in a namespace.
func (w *world) operator(namespace string, serves ...string) *Registry {
	return &Registry{
		Client: w.Client, Domain: "database", Namespace: namespace, Serves: serves, LeaderLease: leader,
		Now: func() time.Time { return w.now },
	}
}

// lead has a replica take or renew the leader lease of its namespace; "" gives it back.
func (w *world) lead(namespace, replica string) {
	w.Helper()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: leader}}
	err := w.Get(w.Context(), client.ObjectKeyFromObject(lease), lease)
	lease.Spec = coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To(replica), LeaseDurationSeconds: ptr.To[int32](15),
		RenewTime: ptr.To(metav1.NewMicroTime(w.now)),
	}
	if apierrors.IsNotFound(err) {
		err = w.Create(w.Context(), lease)
	} else if err == nil {
		err = w.Update(w.Context(), lease)
	}
	if err != nil {
		w.Fatal(err)
	}
}

// stands fails unless an error says that an operator stands by for the one in a namespace.
func (w *world) stands(err error, namespace string) {
	w.Helper()
	if served := (*ServedError)(nil); !errors.As(err, &served) || served.Namespace != namespace {
		w.Fatalf("got %v, want to stand by for %q", err, namespace)
	}
}

func (w *world) may(err error) {
	w.Helper()
	if err != nil {
		w.Fatal(err)
	}
}

func TestSecondOperatorStandsByUntilTheFirstIsQuiet(t *testing.T) {
	w := newWorld(t)
	first, second := w.operator("one"), w.operator("two", "shop")
	w.may(first.Check(t.Context()))
	w.lead("one", "one-0")
	w.may(first.Take(t.Context(), "one-0"))
	err := second.Check(t.Context())
	w.stands(err, "one")
	for _, part := range []string{
		`database operator in namespace "one"`, `leader "one-0"`, "serves all namespaces", "watchNamespaces",
	} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("it does not say %q: %v", part, err)
		}
	}
	w.stands(second.Elsewhere(t.Context()), "one")

	// As long as the lease changes the first one lives, and also while it is given back for the next replica.
	for _, replica := range []string{"one-0", "", "one-1"} {
		w.now = w.now.Add(TakeoverAfter - time.Second)
		w.stands(second.Check(t.Context()), "one")
		w.lead("one", replica)
		w.stands(second.Check(t.Context()), "one")
	}
	w.now = w.now.Add(TakeoverAfter)
	w.may(second.Check(t.Context()))
	w.may(second.Elsewhere(t.Context()))
	w.lead("two", "two-0")
	w.may(second.Take(t.Context(), "two-0"))

	// The first one is back, and is now the one that stands by; a third one of other namespaces does not care.
	again := w.operator("one")
	w.stands(again.Check(t.Context()), "two")
	w.stands(again.Take(t.Context(), "one-2"), "two")
	w.may(w.operator("three", "bank").Check(t.Context()))
	w.may(second.Release(t.Context()))
	w.may(again.Check(t.Context()))
}

// A replica of the first operator that comes to lead just before the second one registers is not overlooked.
func TestOneOfTwoThatComeTogetherHasAConflict(t *testing.T) {
	w := newWorld(t)
	first, second := w.operator("one"), w.operator("two")
	w.lead("one", "one-0")
	w.may(first.Take(t.Context(), "one-0"))
	_ = second.Check(t.Context()) // It begins to watch the lease.
	w.now = w.now.Add(TakeoverAfter)

	second.Client = &before{Client: w.Client, do: func() {
		w.lead("one", "one-1")
		w.may(w.operator("one").Take(t.Context(), "one-1"))
	}}
	w.lead("two", "two-0")
	if err := second.Take(t.Context(), "two-0"); !apierrors.IsConflict(err) {
		t.Fatalf("got %v, want a conflict", err)
	}
	w.stands(second.Take(t.Context(), "two-0"), "one")
}

// before does something once before an object is updated.
type before struct {
	client.Client
	do func()
}

func (b *before) Update(ctx context.Context, obj client.Object, options ...client.UpdateOption) error {
	if do := b.do; do != nil {
		b.do = nil
		do()
	}
	return b.Client.Update(ctx, obj, options...)
}
