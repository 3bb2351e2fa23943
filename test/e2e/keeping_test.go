// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
)

// TestTypedDeletionProtection proves that neither a protected Redis nor its Application can be deleted, that the server goes on meanwhile, and that both
// go at once when protection is lifted and the Redis deleted in the same moment.
func TestTypedDeletionProtection(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "protected")
	i := s.redis("safe", deletionPolicy(platformv1.DeletionPolicyDelete), func(spec *databasev1.RedisSpec) { spec.DeletionProtection = true })
	i.ready()
	i.must("SET", "kept", "yes")
	before := i.footprint()
	app := &platformv1.Application{}
	s.mustGet(i.application(), app)
	for _, obj := range []client.Object{i.object(), app} {
		if err := world.client.Delete(s.ctx, obj); err == nil || !strings.Contains(err.Error(), "set spec.deletionProtection") || !strings.Contains(err.Error(), "Redis safe") {
			t.Errorf("deleting %T gives %v", obj, err)
		}
	}
	if err := before.sameProcess(i.footprint()); err != nil {
		t.Error(err)
	}
	if got := i.must("GET", "kept"); got != "yes" {
		t.Errorf("the key is %q", got)
	}
	i.update(func(spec *databasev1.RedisSpec) { spec.DeletionProtection = false })
	i.deleteAndWait(nil)
}

// TestTypedAdoptVolumes proves that a Redis takes the volume of an earlier one of its name over when it names that, with all that is on it.
func TestTypedAdoptVolumes(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "heir")
	first := s.redis("db", safe())
	first.ready()
	first.must("SET", "kept", "yes")
	claim, old := first.claim(), &platformv1.Application{}
	s.mustGet(first.application(), old)
	first.deleteAndWait([]string{"persistentvolumeclaims/" + claim.Name})

	again := s.redis("db", safe())
	again.stalled(stall{reason: platformv1.ReasonRetainedVolumesExist, texts: []string{claim.Name, string(old.UID)}})
	again.update(func(spec *databasev1.RedisSpec) { spec.AdoptVolumes = string(old.UID) })
	again.ready()
	if got := again.must("GET", "kept"); got != "yes" {
		t.Errorf("the key is %q", got)
	}
	if now := again.claim(); now.UID != claim.UID {
		t.Error("it runs on another claim")
	}
}
