// SPDX-License-Identifier: Apache-2.0

package e2e

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
)

// caughtUpIn is how long a target may take that was away: MinIO has to see that it is back, and to look through the bucket.
const caughtUpIn = 5 * time.Minute

const offsite = "pictures/offsite"

// TestObjectStorageReplication has the bucket of one ObjectStorage go to another one, which comes later, goes away for a while, and gets another key.
func TestObjectStorageReplication(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "replicated")
	s.storageOperatorServes()
	issuer := s.clusterIssuer()
	s.secret("replicator", "password", "first-key-of-it")
	here := s.objectStorage("source", func(spec *storagev1.ObjectStorageSpec) {
		spec.TLS = &platformv1.TLS{Enabled: true, IssuerRef: issuer}
		spec.Parameters = platformv1.Parameters{"scanner_speed": "fastest"}
		spec.Buckets = []storagev1.ObjectStorageBucket{{Name: "pictures", Versioning: storagev1.VersioningEnabled}}
	})
	here.ready()
	root := here.root(here.pod("main", 0))
	here.puts(root, "pictures", "before", "1")

	t.Log("the target is not there, and the bucket says so and serves")
	here.change(func(spec *storagev1.ObjectStorageSpec) {
		spec.Buckets[0].Replication = []storagev1.ObjectStorageReplication{{
			Name: "offsite", ObjectStorageRef: &storagev1.ObjectStorageReference{Name: "vault"}, Bucket: "copy", AccessKey: "replicator",
			SecretKeyFrom: platformv1.SecretKeyReference{Name: "replicator"}, ExistingObjects: true, DeleteMarkers: true,
		}}
	})
	here.wantRefusal("is not there, or has no endpoint yet")
	here.puts(root, "pictures", "meanwhile", "2")
	there := s.objectStorage("vault", func(spec *storagev1.ObjectStorageSpec) {
		spec.TLS = &platformv1.TLS{Enabled: true, IssuerRef: issuer}
		spec.Buckets = []storagev1.ObjectStorageBucket{{Name: "copy"}}
		spec.Users = []storagev1.ObjectStorageUser{{Name: "replicator", SecretKeyFrom: platformv1.SecretKeyReference{Name: "replicator"}, Policies: []string{"readwrite"}}}
	})
	there.ready()
	here.wantRefusal(`versioning of the bucket "copy"`)
	there.change(func(spec *storagev1.ObjectStorageSpec) { spec.Buckets[0].Versioning = storagev1.VersioningEnabled })
	here.ready()
	copies := there.root(there.pod("main", 0))
	here.puts(root, "pictures", "after", "3")
	for name, text := range map[string]string{"before": "1", "meanwhile": "2", "after": "3"} {
		there.getsCopy(copies, name, text)
	}
	here.wantReplicated(func(r storagev1.ObjectStorageReplicationStatus) bool { return r.Online && r.ReplicatedObjects >= 1 })

	t.Log("the target goes away, and catches up")
	server := there.pod("main", 0)
	there.change(func(spec *storagev1.ObjectStorageSpec) { spec.Running = new(false) })
	there.eventually(readyIn, "the target is stopped", func() error { return gone(there.get(server, &corev1.Pod{})) })
	here.puts(root, "pictures", "away", "4")
	here.wantReplicated(func(r storagev1.ObjectStorageReplicationStatus) bool { return r.FailedAttempts >= 1 })
	there.change(func(spec *storagev1.ObjectStorageSpec) { spec.Running = new(true) })
	there.ready()
	copies = there.root(server)
	there.getsCopy(copies, "away", "4")

	t.Log("somebody removes the rule")
	here.does("the rule is removed", func() error { return root.RemoveBucketReplication(s.ctx, "pictures") })
	here.looksAgain()
	here.wantRules(root, 1)
	here.eventually(settleIn, "a repair is counted", func() error {
		if repairs := here.inside("replication", offsite).Status.DriftRepairs; repairs != 1 {
			return fmt.Errorf("%d are", repairs)
		}
		return nil
	})

	t.Log("the account gets another key")
	s.changesSecret("replicator", "second-key-of-it")
	user := there.as(server, "replicator", "second-key-of-it")
	there.eventually(settleIn, "the user has the other key", func() error { return putObject(s.ctx, user, "copy", "own", "text") })
	here.puts(root, "pictures", "rotated", "5")
	there.getsCopy(copies, "rotated", "5")

	t.Log("taken out, the rule goes and the copies stay")
	here.change(func(spec *storagev1.ObjectStorageSpec) { spec.Buckets[0].Replication = nil })
	here.wantRules(root, 0)
	here.ready()
	there.wantObject(copies, "copy", "before", "1")
	if left := here.object().Status.Replications; len(left) != 0 {
		t.Errorf("the status tells of %v", left)
	}
}

// changesSecret puts another password into a Secret.
func (s *space) changesSecret(name, password string) {
	s.Helper()
	secret := &corev1.Secret{}
	s.mustGet(name, secret)
	before := secret.DeepCopy()
	secret.Data["password"] = []byte(password)
	if err := world.client.Patch(s.ctx, secret, client.MergeFrom(before)); err != nil {
		s.Fatal(err)
	}
}

// looksAgain has the engine compare what is inside with what is asked at once: the bucket gets another quota.
func (o *objectStorage) looksAgain() {
	o.Helper()
	o.change(func(spec *storagev1.ObjectStorageSpec) {
		other := map[string]string{"1Gi": "2Gi"}
		spec.Buckets[0].Quota = cmp.Or(other[spec.Buckets[0].Quota], "1Gi")
	})
	o.ready()
}

// wantRefusal waits until the replication is refused with these words.
func (o *objectStorage) wantRefusal(words string) {
	o.Helper()
	o.eventually(settleIn, "the replication is refused: "+words, func() error {
		rule := o.inside("replication", offsite)
		if rule == nil {
			return fmt.Errorf("there is no Entity %q", offsite)
		}
		stalled := conditions.Get(rule, platformv1.StalledCondition)
		if stalled == nil || stalled.Reason != platformv1.ReasonRefusedByMiddleware || !strings.Contains(stalled.Message, words) {
			return fmt.Errorf("it says %+v", rule.Status.Conditions)
		}
		return nil
	})
}

// getsCopy waits until the target has an object.
func (o *objectStorage) getsCopy(s3 *minio.Client, name, text string) {
	o.Helper()
	o.eventually(caughtUpIn, fmt.Sprintf("the copy of %q is there", name), func() error {
		got, err := getObject(o.ctx, s3, "copy", name)
		if err == nil && got != text {
			err = fmt.Errorf("it is %q, want %q", got, text)
		}
		return err
	})
}

// wantReplicated waits until the status tells so of the replication, and has the engine look until it does.
func (o *objectStorage) wantReplicated(holds func(storagev1.ObjectStorageReplicationStatus) bool) {
	o.Helper()
	o.eventually(caughtUpIn, "the status tells of the replication", func() error {
		told := o.object().Status.Replications
		if len(told) == 1 && holds(told[0]) {
			return nil
		}
		o.looksAgain()
		return fmt.Errorf("it tells %+v", told)
	})
}

// wantRules waits until the bucket has as many rules.
func (o *objectStorage) wantRules(s3 *minio.Client, want int) {
	o.Helper()
	o.eventually(settleIn, fmt.Sprintf("the bucket has %d rules", want), func() error {
		config, err := s3.GetBucketReplication(o.ctx, "pictures")
		if err == nil && len(config.Rules) != want {
			err = fmt.Errorf("it has %d", len(config.Rules))
		}
		return err
	})
}
