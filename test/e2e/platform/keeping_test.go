// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"fmt"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// TestTypedDeletionProtection proves that neither a protected Redis nor its Application can be deleted, that the server
// goes on meanwhile, and that both go, with the volume, once protection is lifted and the WorkloadSet has the deletion
// policy.
func TestTypedDeletionProtection(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "protected")
	i := s.CreateRedis("safe", framework.WithDeletionPolicy(platformv1.DeletionPolicyDelete),
		func(spec *databasev1.RedisSpec) { spec.DeletionProtection = true })
	i.WaitReady()
	i.MustDo("SET", "kept", "yes")
	before := i.Footprint()
	app := &platformv1.Application{}
	s.MustGet(i.Application(), app)
	for _, obj := range []client.Object{i.Object(), app} {
		if err := framework.Cluster.Client.Delete(s.Ctx, obj); err == nil ||
			!strings.Contains(err.Error(), "set spec.deletionProtection") || !strings.Contains(err.Error(), "Redis safe") {
			t.Errorf("deleting %T gives %v", obj, err)
		}
	}
	if err := before.SameProcess(i.Footprint()); err != nil {
		t.Error(err)
	}
	if got := i.MustDo("GET", "kept"); got != "yes" {
		t.Errorf("the key is %q", got)
	}
	i.Update(func(spec *databasev1.RedisSpec) { spec.DeletionProtection = false })
	s.Eventually(framework.SettleTimeout, "volumes go with the instance", func() error {
		var sets platformv1.WorkloadSetList
		if err := framework.Cluster.Client.List(s.Ctx, &sets, client.InNamespace(s.Name)); err != nil {
			return err
		}
		for _, set := range sets.Items {
			if set.Spec.DeletionPolicy != platformv1.DeletionPolicyDelete {
				return fmt.Errorf("WorkloadSet %s has the policy %q", set.Name, set.Spec.DeletionPolicy)
			}
		}
		return nil
	})
	deleteAndWait(i, nil)
}

// TestTypedAdoptVolumes proves that a Redis takes the volume of an earlier one of its name over when it names that,
// with all that is on it.
func TestTypedAdoptVolumes(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "heir")
	first := s.CreateRedis("db", framework.WithFsyncAlways())
	first.WaitReady()
	first.MustDo("SET", "kept", "yes")
	claim, old := first.Claim(), &platformv1.Application{}
	s.MustGet(first.Application(), old)
	deleteAndWait(first, []string{"persistentvolumeclaims/" + claim.Name})

	again := s.CreateRedis("db", framework.WithFsyncAlways())
	again.ExpectStalled(framework.ExpectedStall{Reason: platformv1.ReasonRetainedVolumesExist,
		Texts: []string{claim.Name, string(old.UID)}})
	again.Update(func(spec *databasev1.RedisSpec) { spec.AdoptVolumes = string(old.UID) })
	again.WaitReady()
	if got := again.MustDo("GET", "kept"); got != "yes" {
		t.Errorf("the key is %q", got)
	}
	if now := again.Claim(); now.UID != claim.UID {
		t.Error("it runs on another claim")
	}
}
