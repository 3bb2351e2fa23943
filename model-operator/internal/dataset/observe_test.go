// SPDX-License-Identifier: Apache-2.0

package dataset

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/apply"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// A claim that was made a moment ago, and that the cache does not have yet, goes with its Dataset: nothing else would
// ever delete it.
func TestDatasetThatGoesTakesAClaimThatTheCacheDoesNotHave(t *testing.T) {
	p := newPlace(t, web("1.0"))
	p.ds.Spec.Retention = &aiv1.DatasetRetention{DeletionPolicy: aiv1.DatasetDelete}
	p.ds.DeletionTimestamp = new(metav1.NewTime(noon))
	claim := claimOf(p.ds, &p.ds.Spec.Versions[0])
	f, err := behind(t, claim).observe(t.Context(), p.ds)
	if err != nil {
		t.Fatal(err)
	}
	if d := decide(p.ds, f); len(d.remove) != 1 || d.remove[0].Name != claim.Name || !d.finalizer {
		t.Errorf("the plan is %+v", d)
	}
}

// behind is a controller whose cache has nothing of what there is.
func behind(t *testing.T, objects ...client.Object) *Controller {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, platformv1.AddToScheme,
		aiv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c := &Controller{client: fake.NewClientBuilder().WithScheme(scheme).Build(), ask: newAsker(),
		live: fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).Build(),
		now:  func() time.Time { return noon }}
	c.apply = apply.NewWithReader(c.client, c.live, owner)
	return c
}

// A claim that was made a moment ago takes its part of maxSize before the cache has it.
func TestMaxSizeCountsAClaimThatTheCacheDoesNotHave(t *testing.T) {
	p := newPlace(t, web("1.0"), web("2.0"))
	p.ds.Spec.MaxSize = new(resource.MustParse("1Gi"))
	d := decide(p.ds, facts{now: noon, check: func(string) error { return nil }})
	if len(d.claims) != 1 || len(d.operations) != 1 {
		t.Fatalf("the first plan is %+v", d)
	}
	op := d.operations[0]
	op.OwnerReferences = []metav1.OwnerReference{{APIVersion: "ai.zeroinfra.github.com/v1", Kind: "Dataset",
		Name: p.ds.Name, UID: p.ds.UID, Controller: new(true)}}
	c := behind(t, d.claims[0], op)
	c.check = func(string) error { return nil }
	f, err := c.observe(t.Context(), p.ds)
	if err != nil {
		t.Fatal(err)
	}
	if d := decide(p.ds, f); len(d.claims)+len(d.operations) > 0 || p.ds.Status.Versions[1].Phase != aiv1.DatasetPending {
		t.Errorf("the second plan is %+v, and version 2.0 is %+v", d, p.ds.Status.Versions[1])
	}
}
