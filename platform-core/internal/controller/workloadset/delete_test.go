// SPDX-License-Identifier: Apache-2.0

package workloadset

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/facts"
	"github.com/zeroinfra/platform-core/sdk/outcome"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// Volumes go by the policy as it is: somebody who sees his data about to go may still have it stay, also where the
// cache is behind.
func TestVolumesStayThatAreToStayByNow(t *testing.T) {
	kinds := testkit.Scheme(t, platformv1.AddToScheme, corev1.AddToScheme)
	set := testSet()
	set.UID, set.Spec.DeletionPolicy = "1", platformv1.DeletionPolicyDelete
	set.Finalizers, set.DeletionTimestamp = []string{platformv1.VolumesFinalizer}, new(metav1.Now())
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: set.Namespace,
		Name: "data-redis-a-redis-main-0", Labels: facts.Selector(set)}}
	claim.UID, claim.Labels[platformv1.ApplicationUIDLabel] = "2", set.Labels[platformv1.ApplicationUIDLabel]
	api := fake.NewClientBuilder().WithScheme(kinds).WithObjects(set, claim).Build()
	c := newController(Deps{}, access{client: api, live: api})
	before := testkit.Outdated(t, api, set, func() { set.Spec.DeletionPolicy = platformv1.DeletionPolicyRetain })
	if o := c.delete(t.Context(), before); !apierrors.IsConflict(o.Err()) {
		t.Errorf("it comes to %s: %s", o.Kind(), o.Message())
	}
	if o := c.delete(t.Context(), set); o.Kind() != outcome.KindDone {
		t.Errorf("as it is, it comes to %s: %s", o.Kind(), o.Message())
	}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(claim), claim); err != nil {
		t.Errorf("the volume does not stay: %v", err)
	}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(set), set); !apierrors.IsNotFound(err) {
		t.Errorf("the set stays: %v", err)
	}
}
