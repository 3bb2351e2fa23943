// SPDX-License-Identifier: Apache-2.0

package storage

import (
	"cmp"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/minio/minio-go/v7"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	storagev1 "github.com/zeroinfra/storage-operator/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// caughtUpIn is how long a target may take that was away: MinIO has to see that it is back, and to look through the
// bucket.
const caughtUpIn = 5 * time.Minute

const offsite = "pictures/offsite"

// TestObjectStorageReplication has the bucket of one ObjectStorage go to another one, which comes later, goes away for
// a while, and gets another key.
func TestObjectStorageReplication(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "replicated")
	s.EnsureStorageOperator()
	issuer := s.CreateClusterIssuer()
	s.CreateSecret("replicator", "password", "first-key-of-it")
	here := s.CreateObjectStorage("source", func(spec *storagev1.ObjectStorageSpec) {
		spec.TLS = &platformv1.TLS{Enabled: true, IssuerRef: issuer}
		spec.Parameters = platformv1.Parameters{"scanner_speed": "fastest"}
		spec.Buckets = []storagev1.ObjectStorageBucket{{Name: "pictures", Versioning: "Enabled"}}
	})
	here.WaitReady()
	root := here.RootClient(here.Pod("main", 0))
	here.Put(root, "pictures", "before", "1")

	t.Log("the target is not there, and the bucket says so and serves")
	key := platformv1.SecretKeyReference{Name: "replicator"}
	here.Update(func(spec *storagev1.ObjectStorageSpec) {
		spec.Buckets[0].Replication = []storagev1.ObjectStorageReplication{{
			Name: "offsite", ObjectStorageRef: &storagev1.ObjectStorageReference{Name: "vault"}, Bucket: "copy",
			AccessKey: "replicator", SecretKeyFrom: key, ExistingObjects: true, DeleteMarkers: true,
		}}
	})
	wantRefusal(here, "is not there, or has no endpoint yet")
	here.Put(root, "pictures", "meanwhile", "2")
	there := s.CreateObjectStorage("vault", func(spec *storagev1.ObjectStorageSpec) {
		spec.TLS = &platformv1.TLS{Enabled: true, IssuerRef: issuer}
		spec.Buckets = []storagev1.ObjectStorageBucket{{Name: "copy"}}
		spec.Users = []storagev1.ObjectStorageUser{
			{Name: "replicator", SecretKeyFrom: key, Policies: []string{"readwrite"}}}
	})
	there.WaitReady()
	wantRefusal(here, `versioning of the bucket "copy"`)
	there.Update(func(spec *storagev1.ObjectStorageSpec) { spec.Buckets[0].Versioning = "Enabled" })
	here.WaitReady()
	copies := there.RootClient(there.Pod("main", 0))
	here.Put(root, "pictures", "after", "3")
	for name, text := range map[string]string{"before": "1", "meanwhile": "2", "after": "3"} {
		getsCopy(there, copies, name, text)
	}
	wantReplicated(here, func(r storagev1.ObjectStorageReplicationStatus) bool {
		return r.Online && r.ReplicatedObjects >= 1
	})

	t.Log("the target goes away, and catches up")
	server := there.Pod("main", 0)
	there.Update(func(spec *storagev1.ObjectStorageSpec) { spec.Running = new(false) })
	there.Eventually(framework.ReadyTimeout, "the target is stopped",
		func() error { return framework.ErrUnlessNotFound(there.Get(server, &corev1.Pod{})) })
	here.Put(root, "pictures", "away", "4")
	wantReplicated(here, func(r storagev1.ObjectStorageReplicationStatus) bool { return r.FailedAttempts >= 1 })
	there.Update(func(spec *storagev1.ObjectStorageSpec) { spec.Running = new(true) })
	there.WaitReady()
	copies = there.RootClient(server)
	getsCopy(there, copies, "away", "4")

	t.Log("somebody removes the rule")
	ruleIsRepaired(here, root)

	t.Log("the account gets another key")
	changesSecret(s, "replicator", "second-key-of-it")
	user := there.ClientAs(server, "replicator", "second-key-of-it")
	there.Eventually(framework.SettleTimeout, "the user has the other key",
		func() error { return framework.PutObject(s.Ctx, user, "copy", "own", "text") })
	here.Put(root, "pictures", "rotated", "5")
	getsCopy(there, copies, "rotated", "5")

	t.Log("taken out, the rule goes and the copies stay")
	here.Update(func(spec *storagev1.ObjectStorageSpec) { spec.Buckets[0].Replication = nil })
	wantRules(here, root, 0)
	here.WaitReady()
	there.WaitForObject(copies, "copy", "before", "1")
	if left := here.Object().Status.Replications; len(left) != 0 {
		t.Errorf("the status tells of %v", left)
	}
}

// ruleIsRepaired has the rule come back that somebody removed.
func ruleIsRepaired(here *framework.ObjectStorage, root *minio.Client) {
	here.Helper()
	here.Retry("the rule is removed", func() error { return root.RemoveBucketReplication(here.Ctx, "pictures") })
	looksAgain(here)
	wantRules(here, root, 1)
	here.Eventually(framework.SettleTimeout, "a repair is counted", func() error {
		if repairs := inside(here, "replication", offsite).Status.DriftRepairs; repairs != 1 {
			return fmt.Errorf("%d are", repairs)
		}
		return nil
	})
}

// changesSecret puts another password into a Secret.
func changesSecret(s *framework.Namespace, name, password string) {
	s.Helper()
	secret := &corev1.Secret{}
	s.MustGet(name, secret)
	before := secret.DeepCopy()
	secret.Data["password"] = []byte(password)
	if err := framework.Cluster.Client.Patch(s.Ctx, secret, client.MergeFrom(before)); err != nil {
		s.Fatal(err)
	}
}

// looksAgain has the engine compare what is inside with what is asked at once: the bucket gets another quota.
func looksAgain(o *framework.ObjectStorage) {
	o.Helper()
	o.Update(func(spec *storagev1.ObjectStorageSpec) {
		other := map[platformv1.ByteSize]platformv1.ByteSize{"1Gi": "2Gi"}
		spec.Buckets[0].Quota = cmp.Or(other[spec.Buckets[0].Quota], "1Gi")
	})
	o.WaitReady()
}

// wantRefusal waits until the replication is refused with these words.
func wantRefusal(o *framework.ObjectStorage, words string) {
	o.Helper()
	o.Eventually(framework.SettleTimeout, "the replication is refused: "+words, func() error {
		rule := inside(o, "replication", offsite)
		if rule == nil {
			return fmt.Errorf("there is no Entity %q", offsite)
		}
		stalled := conditions.Get(rule, platformv1.StalledCondition)
		if stalled == nil || stalled.Reason != platformv1.ReasonRefusedByMiddleware ||
			!strings.Contains(stalled.Message, words) {
			return fmt.Errorf("it says %+v", rule.Status.Conditions)
		}
		return nil
	})
}

// getsCopy waits until the target has an object.
func getsCopy(o *framework.ObjectStorage, s3 *minio.Client, name, text string) {
	o.Helper()
	o.Eventually(caughtUpIn, fmt.Sprintf("the copy of %q is there", name), func() error {
		got, err := framework.GetObject(o.Ctx, s3, "copy", name)
		if err == nil && got != text {
			err = fmt.Errorf("it is %q, want %q", got, text)
		}
		return err
	})
}

// wantReplicated waits until the status tells so of the replication, and has the engine look until it does.
func wantReplicated(o *framework.ObjectStorage, holds func(storagev1.ObjectStorageReplicationStatus) bool) {
	o.Helper()
	o.Eventually(caughtUpIn, "the status tells of the replication", func() error {
		told := o.Object().Status.Replications
		if len(told) == 1 && holds(told[0]) {
			return nil
		}
		looksAgain(o)
		return fmt.Errorf("it tells %+v", told)
	})
}

// wantRules waits until the bucket has as many rules.
func wantRules(o *framework.ObjectStorage, s3 *minio.Client, want int) {
	o.Helper()
	o.Eventually(framework.SettleTimeout, fmt.Sprintf("the bucket has %d rules", want), func() error {
		config, err := s3.GetBucketReplication(o.Ctx, "pictures")
		if err == nil && len(config.Rules) != want {
			err = fmt.Errorf("it has %d", len(config.Rules))
		}
		return err
	})
}
