// SPDX-License-Identifier: Apache-2.0

package storage

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
	"github.com/zeroinfra/test/e2e/framework"
)

// aFewMinutes is time enough for a schedule of each minute to come round several times.
const aFewMinutes = 8 * time.Minute

// TestBackupPolicy has an instance of the database operator backed up each minute by a policy of the storage operator,
// the oldest deleted, and what is in the store compared with the Backups that there are.
func TestBackupPolicy(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "policy")
	i := s.CreateRedis("cache", framework.WithReplicas(0))
	i.WaitReady()
	s.CreateRepository("store", i.Pod().Spec.Containers[0].Image)
	s.EnsureStorageOperator()
	policy := policy(s, "store", "Redis")
	t.Run("covers the instance", func(t *testing.T) { checkCovered(i.In(t), policy.Name) })
	t.Run("keeps the last two", func(t *testing.T) { checkRetention(i.In(t), policy.Name) })
	t.Run("names what it cannot cover", func(t *testing.T) { checkUncovered(i.In(t)) })
	t.Run("is taken away", func(t *testing.T) { checkPolicyGone(i.In(t), policy) })
	t.Run("orphans both ways", func(t *testing.T) { checkOrphans(i.In(t)) })
}

// policy makes one for every instance of a kind in the namespace, each minute. It is gone when the test ends.
func policy(s *framework.Namespace, repository, kind string) *storagev1.BackupPolicy {
	s.Helper()
	most := int32(2)
	policy := &storagev1.BackupPolicy{Spec: storagev1.BackupPolicySpec{
		Selector: storagev1.BackupSelector{Namespaces: []string{s.Name}, Kinds: []string{kind}},
		Schedule: "* * * * *", TimeZone: "UTC", RepositoryRef: platformv1.RepositoryReference{Name: repository},
		Retention: &platformv1.BackupRetention{MaxCount: &most},
	}}
	policy.Name = "e2e-" + rand.String(8)
	s.Eventually(framework.ReadyTimeout, "BackupPolicies are served",
		func() error { return client.IgnoreAlreadyExists(framework.Cluster.Client.Create(s.Ctx, policy)) })
	s.Cleanup(func() {
		if err := client.IgnoreNotFound(framework.Cluster.Client.Delete(context.Background(), policy)); err != nil {
			s.Error(err)
		}
	})
	return policy
}

// policyIs waits until the only source of a policy is in a state.
func policyIs(s *framework.Namespace, name string, within time.Duration,
	right func(*storagev1.BackupPolicySource) bool) {
	s.Helper()
	policy := &storagev1.BackupPolicy{}
	s.Eventually(within, fmt.Sprintf("BackupPolicy %q says so", name), func() error {
		if err := framework.Cluster.Client.Get(s.Ctx, client.ObjectKey{Name: name}, policy); err != nil {
			return err
		}
		if len(policy.Status.Sources) != 1 || policy.Status.Selected != 1 || !right(&policy.Status.Sources[0]) {
			return fmt.Errorf("it says %+v", policy.Status)
		}
		return nil
	})
}

// ofPolicy are the Backups that a policy had made and that are whole, the oldest first.
func ofPolicy(s *framework.Namespace, name string) ([]platformv1.Backup, error) {
	var list platformv1.BackupList
	if err := s.List(&list, client.MatchingLabels{platformv1.ScheduleLabel: name}); err != nil {
		return nil, err
	}
	whole := slices.DeleteFunc(list.Items,
		func(b platformv1.Backup) bool { return b.Status.Phase != platformv1.BackupCompleted })
	slices.SortFunc(whole, func(a, b platformv1.Backup) int { return cmp.Compare(a.Name, b.Name) })
	return whole, nil
}

func checkCovered(i *framework.Instance, policy string) {
	policyIs(i.Namespace, policy, aFewMinutes, func(source *storagev1.BackupPolicySource) bool {
		return source.State == storagev1.SourceCovered && source.Application == i.Application() && source.Kind == "Redis" &&
			source.LastSuccessTime != nil && source.NextTime != nil
	})
	app := &platformv1.Application{}
	i.MustGet(i.Application(), app)
	if len(app.Spec.Schedules) != 1 || app.Spec.Schedules[0].Name != policy {
		i.Errorf("the schedules of the instance are %+v", app.Spec.Schedules)
	}
}

// checkRetention: of three the first goes, and what is kept of it.
func checkRetention(i *framework.Instance, policy string) {
	whole, err := ofPolicy(i.Namespace, policy)
	if err != nil || len(whole) == 0 {
		i.Fatalf("there are %d Backups: %v", len(whole), err)
	}
	first := whole[0]
	i.Eventually(aFewMinutes, "the first Backup is gone, and what was kept", func() error {
		if err := framework.ErrUnlessNotFound(i.Get(first.Name, &platformv1.Backup{})); err != nil {
			return err
		}
		if files, found := i.BackupInRepository(first.Status.Key); found {
			return fmt.Errorf("there is %s", files)
		}
		return nil
	})
	if whole, err = ofPolicy(i.Namespace, policy); err != nil || len(whole) < 2 {
		i.Errorf("%d Backups are left: %v", len(whole), err)
	}
	for _, b := range whole[max(0, len(whole)-2):] {
		if files, found := i.BackupInRepository(b.Status.Key); !found || !strings.Contains(files, mover.ManifestName) {
			i.Errorf("of Backup %q there is %q", b.Name, files)
		}
	}
}

func checkUncovered(i *framework.Instance) {
	policy := policy(i.Namespace, "nowhere", "Redis")
	policyIs(i.Namespace, policy.Name, framework.ReadyTimeout, func(source *storagev1.BackupPolicySource) bool {
		return source.State == storagev1.SourceUncovered &&
			strings.Contains(source.Message, `there is no BackupRepository "nowhere"`)
	})
}

// checkPolicyGone: the instance has no schedule any more, and what was kept stays.
func checkPolicyGone(i *framework.Instance, policy *storagev1.BackupPolicy) {
	i.Delete(policy)
	app := &platformv1.Application{}
	i.Eventually(framework.ReadyTimeout, "the schedule is gone", func() error {
		if err := i.Get(i.Application(), app); err != nil {
			return err
		}
		if len(app.Spec.Schedules) > 0 {
			return fmt.Errorf("there is %+v", app.Spec.Schedules)
		}
		return nil
	})
	if whole, err := ofPolicy(i.Namespace, policy.Name); err != nil || len(whole) < 2 {
		i.Errorf("%d Backups are left: %v", len(whole), err)
	}
}

// checkOrphans: a folder that nobody speaks of is told, and a Backup whose folder somebody moved away says so until it
// is back.
func checkOrphans(i *framework.Instance) {
	i.Create(framework.NewBackupOperation("moved", "store", i.Reference()))
	b := i.WaitForStoredBackup("moved")
	on := func(script string, arguments ...string) {
		i.Helper()
		if out, err := framework.Run(i.Ctx, i.Namespace.Name, framework.RepositoryPod, framework.RepositoryPod, "",
			append([]string{"sh", "-c", "set -e; cd " + mover.VolumePath + "/kept; " + script}, arguments...)...); err != nil {
			i.Fatalf("%v: %s", err, out)
		}
	}
	orphan := i.Namespace.Name + "/gone/old-12345678"
	on(`mkdir -p "$0" && echo '{}' >"$0/manifest.json" && mv "$1" "$1-away"`, orphan, b.Status.Key)
	often := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"inventoryInterval":"1m"}}`))
	r := &platformv1.BackupRepository{}
	i.MustGet("store", r)
	if err := framework.Cluster.Client.Patch(i.Ctx, r, often); err != nil {
		i.Fatal(err)
	}
	i.Eventually(aFewMinutes, "the inventory names both", func() error {
		if err := i.Get("store", r); err != nil {
			return err
		}
		inventory := r.Inventory()
		if inventory == nil || !slices.Contains(inventory.OrphanKeys, orphan) ||
			!slices.Equal(inventory.MissingBackups, []string{b.Name}) {
			return fmt.Errorf("it is %+v", inventory)
		}
		return nil
	})
	readyAs(i, b, platformv1.ReasonBackupDataMissing)
	on(`mv "$0-away" "$0"`, b.Status.Key)
	readyAs(i, b, "")
	if files, found := i.BackupInRepository(orphan); !found {
		i.Errorf("the orphan is gone: %s", files)
	}
}

// readyAs waits until a Backup is not Ready for a reason; Ready when that is empty.
func readyAs(i *framework.Instance, b *platformv1.Backup, reason string) {
	i.Helper()
	i.Eventually(aFewMinutes, fmt.Sprintf("Backup %q is Ready, or not for %q", b.Name, reason), func() error {
		if err := i.Get(b.Name, b); err != nil {
			return err
		}
		ready := conditions.Get(b, platformv1.ReadyCondition)
		if ready == nil || reason == "" && ready.Status != metav1.ConditionTrue || reason != "" && ready.Reason != reason {
			return fmt.Errorf("it is %+v", ready)
		}
		return nil
	})
}
