// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

func deletionPolicy(policy platformv1.DeletionPolicy) setting {
	return func(s *databasev1.RedisSpec) { s.DeletionPolicy = policy }
}

// TestDeletionRetains proves that a deleted instance leaves its volume and nothing else, that the volume is not taken
// over in silence, and that its data is still what it was.
func TestDeletionRetains(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "retain")
	i := s.redis("db", safe())
	i.ready()
	i.must("SET", "kept", "yes")
	s.succeededRestart(i)
	claim := i.claim()
	i.deleteAndWait([]string{"persistentvolumeclaims/" + claim.Name})
	s.mustGet(claim.Name, claim)
	if claim.DeletionTimestamp != nil || claim.Status.Phase != corev1.ClaimBound {
		t.Errorf("the retained claim is %s, being deleted since %v", claim.Status.Phase, claim.DeletionTimestamp)
	}
	again := s.redis("db", safe())
	again.stalled(stall{reason: platformv1.ReasonRetainedVolumesExist, texts: []string{claim.Name}})
	s.mustGet(claim.Name, claim)
	if err := gone(s.get(again.podName(), &corev1.Pod{})); err != nil {
		t.Errorf("a pod was made on the retained volume: %v", err)
	}
	s.delete(claim)
	t.Logf("retained claim deleted to Ready: %s", seconds(again.ready()))
	if got := again.must("GET", "kept"); got != "" {
		t.Errorf("the new instance has the key of the old one: %q", got)
	}
}

// TestDeletionDeletes proves that the policy Delete takes the volume along, also when it was set later, and that Retain
// set later keeps it.
func TestDeletionDeletes(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "delete")
	fromStart := s.redis("early", deletionPolicy(platformv1.DeletionPolicyDelete))
	later := s.redis("late")
	kept := s.redis("kept", deletionPolicy(platformv1.DeletionPolicyDelete))
	for _, i := range []*instance{fromStart, later, kept} {
		i.ready()
	}
	later.update(deletionPolicy(platformv1.DeletionPolicyDelete))
	kept.update(deletionPolicy(platformv1.DeletionPolicyRetain))
	later.ready()
	kept.ready()
	for _, i := range []*instance{fromStart, later} {
		volume := i.claim().Spec.VolumeName
		i.deleteAndWait(nil)
		i.eventually(settleIn, fmt.Sprintf("volume %q goes away", volume), func() error {
			return gone(world.client.Get(s.ctx, client.ObjectKey{Name: volume}, &corev1.PersistentVolume{}))
		})
	}
	kept.deleteAndWait([]string{"persistentvolumeclaims/" + kept.claim().Name})
}

// TestDeletionOfUnready proves that an instance can be deleted in every state that it can hang in.
func TestDeletionOfUnready(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "unready")
	for name, settings := range map[string][]setting{
		"stalled":  {passwordFrom("absent"), deletionPolicy(platformv1.DeletionPolicyDelete)},
		"creating": {deletionPolicy(platformv1.DeletionPolicyDelete)},
	} {
		t.Run(name, func(t *testing.T) {
			i := s.in(t).redis(name, settings...)
			i.eventually(settleIn, "somebody has looked at it", func() error {
				if len(i.object().Status.Conditions) == 0 {
					return fmt.Errorf("it has no conditions")
				}
				return nil
			})
			i.deleteAndWait(nil)
		})
	}
}

// deleteAndWait deletes the Redis and waits until just the given objects of it are left.
func (i *instance) deleteAndWait(want []string) {
	i.Helper()
	i.delete(i.object())
	took := i.eventually(readyIn, fmt.Sprintf("of Redis %q just %v is left", i.name, want), func() error {
		left := slices.DeleteFunc(i.inventoryOf(), func(entry string) bool {
			// The record of an Operation outlives its target, by design.
			return entry == "operations.platform.zeroinfra.github.com/restart-"+i.name
		})
		if !slices.Equal(left, want) {
			return fmt.Errorf("there are %v", left)
		}
		return nil
	})
	i.Logf("deleted after %s", seconds(took))
}

// succeededRestart runs one Operation, so that a record of it exists.
func (s *space) succeededRestart(i *instance) {
	s.Helper()
	s.create(restartOf("restart-"+i.name, i.reference()))
	s.succeeded("restart-" + i.name)
	i.ready()
}

// TestNamespaceDeletion proves that nothing hangs when a whole namespace with instances of both policies is deleted.
func TestNamespaceDeletion(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "nsdel")
	inner := *s
	inner.name = "e2e-whole-" + rand.String(5)
	inner.client = &clientPod{}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: inner.name, Labels: map[string]string{
		"pod-security.kubernetes.io/enforce": "restricted",
	}}}
	if err := world.client.Create(s.ctx, namespace); err != nil {
		t.Fatal(err)
	}
	keeps, deletes := inner.redis("keeps"), inner.redis("deletes", deletionPolicy(platformv1.DeletionPolicyDelete))
	keeps.ready()
	deletes.ready()
	inner.succeededRestart(keeps)
	if err := remove(inner.name); err != nil {
		t.Fatal(err)
	}
	took := s.eventually(removalIn, "the namespace goes away", func() error { return namespaceGone(s.ctx, inner.name) })
	t.Logf("namespace with two instances gone after %s", seconds(took))
}

// TestDriftIsRepaired proves that what somebody deletes or bends beneath an instance comes back.
func TestDriftIsRepaired(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "drift")
	i := s.redis("db", safe())
	i.ready()
	i.must("SET", "kept", "yes")
	before := i.footprint()
	password := i.account().password
	for _, c := range []struct {
		name   string
		object client.Object
	}{
		{"Service", &corev1.Service{ObjectMeta: named(i.application())}},
		{"binding", &corev1.Secret{ObjectMeta: named(platformv1.BindingNameFor(i.application()))}},
		{"plan", &corev1.ConfigMap{ObjectMeta: named(platformv1.PlanNameFor(i.workloadSet()))}},
	} {
		t.Run("deleted "+c.name, func(t *testing.T) {
			s := s.in(t)
			s.mustGet(c.object.GetName(), c.object)
			uid := c.object.GetUID()
			s.delete(c.object)
			took := s.eventually(settleIn, "it is made again", func() error {
				if err := s.get(c.object.GetName(), c.object); err != nil {
					return err
				}
				if c.object.GetUID() == uid {
					return fmt.Errorf("it is still the old one")
				}
				return nil
			})
			t.Logf("made again after %s", seconds(took))
		})
	}
	t.Run("changed Service", func(t *testing.T) {
		s := s.in(t)
		service := &corev1.Service{}
		s.mustGet(i.application(), service)
		before := service.DeepCopy()
		service.Spec.Selector = map[string]string{"app": "nothing"}
		if err := world.client.Patch(s.ctx, service, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
		s.eventually(settleIn, "the selector is mended", func() error {
			s.mustGet(i.application(), service)
			if _, bent := service.Spec.Selector["app"]; bent || service.Spec.Selector[platformv1.ApplicationLabel] != i.application() {
				return fmt.Errorf("it is %v", service.Spec.Selector)
			}
			return nil
		})
	})
	i.ready()
	i.unharmed(before)
	if i.account().password != password {
		t.Error("the binding carries another password than before")
	}
}
