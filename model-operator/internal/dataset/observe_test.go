// SPDX-License-Identifier: Apache-2.0

package dataset

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// A claim that was made a moment ago, and that the cache does not have yet, goes with its Dataset: nothing else would
// ever delete it.
func TestDatasetThatGoesTakesAClaimThatTheCacheDoesNotHave(t *testing.T) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, platformv1.AddToScheme,
		aiv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	p := newPlace(t, web("1.0"))
	p.ds.Spec.Retention = &aiv1.DatasetRetention{DeletionPolicy: aiv1.DatasetDelete}
	p.ds.DeletionTimestamp = new(metav1.NewTime(noon))
	claim := claimOf(p.ds, &p.ds.Spec.Versions[0])
	c := &Controller{client: fake.NewClientBuilder().WithScheme(scheme).Build(), ask: newAsker(),
		live: fake.NewClientBuilder().WithScheme(scheme).WithObjects(claim).Build(),
		now:  func() time.Time { return noon }}
	f, err := c.observe(t.Context(), p.ds)
	if err != nil {
		t.Fatal(err)
	}
	if d := decide(p.ds, f); len(d.remove) != 1 || d.remove[0].Name != claim.Name || !d.finalizer {
		t.Errorf("the plan is %+v", d)
	}
}
