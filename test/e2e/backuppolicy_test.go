// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/rand"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/mover"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"

	storagev1 "github.com/zeroinfra/storage-operator/api/v1"
)

// aFewMinutes is time enough for a schedule of each minute to come round several times.
const aFewMinutes = 8 * time.Minute

// TestBackupPolicy has an instance of the database operator backed up each minute by a policy of the storage operator, the oldest deleted, and
// what is in the store compared with the Backups that there are.
func TestBackupPolicy(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "policy")
	i := s.redis("cache", withReplicas(0))
	i.ready()
	s.shelf("store", i.pod().Spec.Containers[0].Image)
	s.storageOperatorServes()
	policy := s.policy("store", "Redis")
	t.Run("covers the instance", func(t *testing.T) { i.in(t).checkCovered(policy.Name) })
	t.Run("keeps the last two", func(t *testing.T) { i.in(t).checkRetention(policy.Name) })
	t.Run("names what it cannot cover", func(t *testing.T) { i.in(t).checkUncovered() })
	t.Run("is taken away", func(t *testing.T) { i.in(t).checkPolicyGone(policy) })
	t.Run("orphans both ways", func(t *testing.T) { i.in(t).checkOrphans() })
}

// policy makes one for every instance of a kind in the namespace, each minute. It is gone when the test ends.
func (s *space) policy(repository, kind string) *storagev1.BackupPolicy {
	s.Helper()
	most := int32(2)
	policy := &storagev1.BackupPolicy{Spec: storagev1.BackupPolicySpec{
		Selector: storagev1.BackupSelector{Namespaces: []string{s.name}, Kinds: []string{kind}},
		Schedule: "* * * * *", TimeZone: "UTC", RepositoryRef: platformv1.RepositoryReference{Name: repository},
		Retention: &platformv1.BackupRetention{MaxCount: &most},
	}}
	policy.Name = "e2e-" + rand.String(8)
	s.eventually(readyIn, "BackupPolicies are served", func() error { return client.IgnoreAlreadyExists(world.client.Create(s.ctx, policy)) })
	s.Cleanup(func() {
		if err := client.IgnoreNotFound(world.client.Delete(context.Background(), policy)); err != nil {
			s.Error(err)
		}
	})
	return policy
}

// policyIs waits until the only source of a policy is in a state.
func (s *space) policyIs(name string, within time.Duration, right func(*storagev1.BackupPolicySource) bool) {
	s.Helper()
	policy := &storagev1.BackupPolicy{}
	s.eventually(within, fmt.Sprintf("BackupPolicy %q says so", name), func() error {
		if err := world.client.Get(s.ctx, client.ObjectKey{Name: name}, policy); err != nil {
			return err
		}
		if len(policy.Status.Sources) != 1 || policy.Status.Selected != 1 || !right(&policy.Status.Sources[0]) {
			return fmt.Errorf("it says %+v", policy.Status)
		}
		return nil
	})
}

// ofPolicy are the Backups that a policy had made and that are whole, the oldest first.
func (s *space) ofPolicy(name string) ([]platformv1.Backup, error) {
	var list platformv1.BackupList
	if err := s.list(&list, client.MatchingLabels{platformv1.ScheduleLabel: name}); err != nil {
		return nil, err
	}
	whole := slices.DeleteFunc(list.Items, func(b platformv1.Backup) bool { return b.Status.Phase != platformv1.BackupCompleted })
	slices.SortFunc(whole, func(a, b platformv1.Backup) int { return cmp.Compare(a.Name, b.Name) })
	return whole, nil
}

func (i *instance) checkCovered(policy string) {
	i.policyIs(policy, aFewMinutes, func(source *storagev1.BackupPolicySource) bool {
		return source.State == storagev1.SourceCovered && source.Application == i.application() && source.Kind == "Redis" && source.LastSuccessTime != nil && source.NextTime != nil
	})
	app := &platformv1.Application{}
	i.mustGet(i.application(), app)
	if len(app.Spec.Schedules) != 1 || app.Spec.Schedules[0].Name != policy {
		i.Errorf("the schedules of the instance are %+v", app.Spec.Schedules)
	}
}

// checkRetention: of three the first goes, and what is kept of it.
func (i *instance) checkRetention(policy string) {
	whole, err := i.ofPolicy(policy)
	if err != nil || len(whole) == 0 {
		i.Fatalf("there are %d Backups: %v", len(whole), err)
	}
	first := whole[0]
	i.eventually(aFewMinutes, "the first Backup is gone, and what was kept", func() error {
		if err := gone(i.get(first.Name, &platformv1.Backup{})); err != nil {
			return err
		}
		if files, found := i.onShelf(first.Status.Key); found {
			return fmt.Errorf("there is %s", files)
		}
		return nil
	})
	if whole, err = i.ofPolicy(policy); err != nil || len(whole) < 2 {
		i.Errorf("%d Backups are left: %v", len(whole), err)
	}
	for _, b := range whole[max(0, len(whole)-2):] {
		if files, found := i.onShelf(b.Status.Key); !found || !strings.Contains(files, mover.ManifestName) {
			i.Errorf("of Backup %q there is %q", b.Name, files)
		}
	}
}

func (i *instance) checkUncovered() {
	policy := i.policy("nowhere", "Redis")
	i.policyIs(policy.Name, readyIn, func(source *storagev1.BackupPolicySource) bool {
		return source.State == storagev1.SourceUncovered && strings.Contains(source.Message, `there is no BackupRepository "nowhere"`)
	})
}

// checkPolicyGone: the instance has no schedule any more, and what was kept stays.
func (i *instance) checkPolicyGone(policy *storagev1.BackupPolicy) {
	i.delete(policy)
	app := &platformv1.Application{}
	i.eventually(readyIn, "the schedule is gone", func() error {
		if err := i.get(i.application(), app); err != nil {
			return err
		}
		if len(app.Spec.Schedules) > 0 {
			return fmt.Errorf("there is %+v", app.Spec.Schedules)
		}
		return nil
	})
	if whole, err := i.ofPolicy(policy.Name); err != nil || len(whole) < 2 {
		i.Errorf("%d Backups are left: %v", len(whole), err)
	}
}

// checkOrphans: a folder that nobody speaks of is told, and a Backup whose folder somebody moved away says so until it is back.
func (i *instance) checkOrphans() {
	i.create(backupOf("moved", "store", i.reference()))
	b := i.whole("moved")
	on := func(script string, arguments ...string) {
		i.Helper()
		if out, err := run(i.ctx, i.space.name, shelfName, shelfName, "", append([]string{"sh", "-c", "set -e; cd " + mover.VolumePath + "/kept; " + script}, arguments...)...); err != nil {
			i.Fatalf("%v: %s", err, out)
		}
	}
	orphan := i.space.name + "/gone/old-12345678"
	on(`mkdir -p "$0" && echo '{}' >"$0/manifest.json" && mv "$1" "$1-away"`, orphan, b.Status.Key)
	often := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"inventoryInterval":"1m"}}`))
	r := &platformv1.BackupRepository{}
	i.mustGet("store", r)
	if err := world.client.Patch(i.ctx, r, often); err != nil {
		i.Fatal(err)
	}
	i.eventually(aFewMinutes, "the inventory names both", func() error {
		if err := i.get("store", r); err != nil {
			return err
		}
		inventory := r.Inventory()
		if inventory == nil || !slices.Contains(inventory.OrphanKeys, orphan) || !slices.Equal(inventory.MissingBackups, []string{b.Name}) {
			return fmt.Errorf("it is %+v", inventory)
		}
		return nil
	})
	i.readyAs(b, platformv1.ReasonBackupDataMissing)
	on(`mv "$0-away" "$0"`, b.Status.Key)
	i.readyAs(b, "")
	if files, found := i.onShelf(orphan); !found {
		i.Errorf("the orphan is gone: %s", files)
	}
}

// readyAs waits until a Backup is not Ready for a reason; Ready when that is empty.
func (i *instance) readyAs(b *platformv1.Backup, reason string) {
	i.Helper()
	i.eventually(aFewMinutes, fmt.Sprintf("Backup %q is Ready, or not for %q", b.Name, reason), func() error {
		if err := i.get(b.Name, b); err != nil {
			return err
		}
		ready := conditions.Get(b, platformv1.ReadyCondition)
		if ready == nil || reason == "" && ready.Status != metav1.ConditionTrue || reason != "" && ready.Reason != reason {
			return fmt.Errorf("it is %+v", ready)
		}
		return nil
	})
}
