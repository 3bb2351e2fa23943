// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// TestDeletionRetains proves that a deleted instance leaves its volume and nothing else, that the volume is not taken
// over in silence, and that its data is still what it was.
func TestDeletionRetains(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "retain")
	i := s.CreateRedis("db", framework.WithFsyncAlways())
	i.WaitReady()
	i.MustDo("SET", "kept", "yes")
	succeededRestart(s, i)
	claim := i.Claim()
	deleteAndWait(i, []string{"persistentvolumeclaims/" + claim.Name})
	s.MustGet(claim.Name, claim)
	if claim.DeletionTimestamp != nil || claim.Status.Phase != corev1.ClaimBound {
		t.Errorf("the retained claim is %s, being deleted since %v", claim.Status.Phase, claim.DeletionTimestamp)
	}
	again := s.CreateRedis("db", framework.WithFsyncAlways())
	again.ExpectStalled(framework.ExpectedStall{Reason: platformv1.ReasonRetainedVolumesExist,
		Texts: []string{claim.Name}})
	s.MustGet(claim.Name, claim)
	if err := framework.ErrUnlessNotFound(s.Get(again.PodName(), &corev1.Pod{})); err != nil {
		t.Errorf("a pod was made on the retained volume: %v", err)
	}
	s.Delete(claim)
	t.Logf("retained claim deleted to Ready: %s", framework.FormatSeconds(again.WaitReady()))
	if got := again.MustDo("GET", "kept"); got != "" {
		t.Errorf("the new instance has the key of the old one: %q", got)
	}
}

// TestDeletionDeletes proves that the policy Delete takes the volume along, also when it was set later, and that Retain
// set later keeps it.
func TestDeletionDeletes(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "delete")
	fromStart := s.CreateRedis("early", framework.WithDeletionPolicy(platformv1.DeletionPolicyDelete))
	later := s.CreateRedis("late")
	kept := s.CreateRedis("kept", framework.WithDeletionPolicy(platformv1.DeletionPolicyDelete))
	for _, i := range []*framework.Instance{fromStart, later, kept} {
		i.WaitReady()
	}
	later.Update(framework.WithDeletionPolicy(platformv1.DeletionPolicyDelete))
	kept.Update(framework.WithDeletionPolicy(platformv1.DeletionPolicyRetain))
	later.WaitReady()
	kept.WaitReady()
	for _, i := range []*framework.Instance{fromStart, later} {
		volume := i.Claim().Spec.VolumeName
		deleteAndWait(i, nil)
		i.Eventually(framework.SettleTimeout, fmt.Sprintf("volume %q goes away", volume), func() error {
			return framework.ErrUnlessNotFound(
				framework.Cluster.Client.Get(s.Ctx, client.ObjectKey{Name: volume}, &corev1.PersistentVolume{}))
		})
	}
	deleteAndWait(kept, []string{"persistentvolumeclaims/" + kept.Claim().Name})
}

// TestDeletionOfUnready proves that an instance can be deleted in every state that it can hang in.
func TestDeletionOfUnready(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "unready")
	for name, settings := range map[string][]framework.Setting{
		"stalled":  {passwordFrom("absent"), framework.WithDeletionPolicy(platformv1.DeletionPolicyDelete)},
		"creating": {framework.WithDeletionPolicy(platformv1.DeletionPolicyDelete)},
	} {
		t.Run(name, func(t *testing.T) {
			i := s.In(t).CreateRedis(name, settings...)
			i.Eventually(framework.SettleTimeout, "somebody has looked at it", func() error {
				if len(i.Object().Status.Conditions) == 0 {
					return fmt.Errorf("it has no conditions")
				}
				return nil
			})
			deleteAndWait(i, nil)
		})
	}
}

// deleteAndWait deletes the Redis and waits until just the given objects of it are left.
func deleteAndWait(i *framework.Instance, want []string) {
	i.Helper()
	i.Delete(i.Object())
	took := i.Eventually(framework.ReadyTimeout, fmt.Sprintf("of Redis %q just %v is left", i.Name, want), func() error {
		left := slices.DeleteFunc(inventoryOf(i), func(entry string) bool {
			// The record of an Operation outlives its target, by design.
			return entry == "operations.platform.zeroinfra.github.com/restart-"+i.Name
		})
		if !slices.Equal(left, want) {
			return fmt.Errorf("there are %v", left)
		}
		return nil
	})
	i.Logf("deleted after %s", framework.FormatSeconds(took))
}

// succeededRestart runs one Operation, so that a record of it exists.
func succeededRestart(s *framework.Namespace, i *framework.Instance) {
	s.Helper()
	s.Create(framework.NewRestartOperation("restart-"+i.Name, i.Reference()))
	s.ExpectOperationSucceeded("restart-" + i.Name)
	i.WaitReady()
}

// TestNamespaceDeletion proves that nothing hangs when a whole namespace with instances of both policies is deleted.
func TestNamespaceDeletion(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "nsdel")
	inner := *s
	inner.Name = "e2e-whole-" + rand.String(5)
	inner.Client = &framework.ClientPod{}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: inner.Name, Labels: map[string]string{
		"pod-security.kubernetes.io/enforce": "restricted",
	}}}
	if err := framework.Cluster.Client.Create(s.Ctx, namespace); err != nil {
		t.Fatal(err)
	}
	keeps, deletes := inner.CreateRedis("keeps"),
		inner.CreateRedis("deletes", framework.WithDeletionPolicy(platformv1.DeletionPolicyDelete))
	keeps.WaitReady()
	deletes.WaitReady()
	succeededRestart(&inner, keeps)
	if err := framework.DeleteNamespace(inner.Name); err != nil {
		t.Fatal(err)
	}
	took := s.Eventually(framework.RemovalTimeout, "the namespace goes away",
		func() error { return framework.NamespaceGone(s.Ctx, inner.Name) })
	t.Logf("namespace with two instances gone after %s", framework.FormatSeconds(took))
}

// TestDriftIsRepaired proves that what somebody deletes or bends beneath an instance comes back.
func TestDriftIsRepaired(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "drift")
	i := s.CreateRedis("db", framework.WithFsyncAlways())
	i.WaitReady()
	i.MustDo("SET", "kept", "yes")
	before := i.Footprint()
	password := i.Account().Password
	for _, c := range []struct {
		name   string
		object client.Object
	}{
		{"Service", &corev1.Service{ObjectMeta: framework.ObjectMeta(i.Application())}},
		{"binding", &corev1.Secret{ObjectMeta: framework.ObjectMeta(platformv1.BindingNameFor(i.Application()))}},
		{"plan", &corev1.ConfigMap{ObjectMeta: framework.ObjectMeta(platformv1.PlanNameFor(i.WorkloadSet()))}},
	} {
		t.Run("deleted "+c.name, func(t *testing.T) {
			s := s.In(t)
			s.MustGet(c.object.GetName(), c.object)
			uid := c.object.GetUID()
			s.Delete(c.object)
			took := s.Eventually(framework.SettleTimeout, "it is made again", func() error {
				if err := s.Get(c.object.GetName(), c.object); err != nil {
					return err
				}
				if c.object.GetUID() == uid {
					return fmt.Errorf("it is still the old one")
				}
				return nil
			})
			t.Logf("made again after %s", framework.FormatSeconds(took))
		})
	}
	t.Run("changed Service", func(t *testing.T) {
		s := s.In(t)
		service := &corev1.Service{}
		s.MustGet(i.Application(), service)
		before := service.DeepCopy()
		service.Spec.Selector = map[string]string{"app": "nothing"}
		if err := framework.Cluster.Client.Patch(s.Ctx, service, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
		s.Eventually(framework.SettleTimeout, "the selector is mended", func() error {
			s.MustGet(i.Application(), service)
			if _, bent := service.Spec.Selector["app"]; bent ||
				service.Spec.Selector[platformv1.ApplicationLabel] != i.Application() {
				return fmt.Errorf("it is %v", service.Spec.Selector)
			}
			return nil
		})
	})
	i.WaitReady()
	unharmed(i, before)
	if i.Account().Password != password {
		t.Error("the binding carries another password than before")
	}
}
