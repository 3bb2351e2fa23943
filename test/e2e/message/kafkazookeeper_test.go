// SPDX-License-Identifier: Apache-2.0

package message

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/IBM/sarama"
	"k8s.io/apimachinery/pkg/api/resource"

	messagev1 "github.com/zeroinfra/message-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// withZooKeeper is a cluster of three brokers of Kafka 3.9 and as many ZooKeeper servers, with a user. Volumes of
// controllers that are taken out again go: what they know would be of the past at the next attempt.
func withZooKeeper() *messagev1.KafkaCluster {
	spec := messagev1.KafkaClusterSpec{
		InstanceSpec: platformv1.InstanceSpec{Version: "3.9", Resources: small("640Mi"),
			Storage:        platformv1.InstanceStorage{Size: resource.MustParse("2Gi")},
			DeletionPolicy: platformv1.DeletionPolicyDelete},
		Replicas:    3,
		ZooKeeper:   &messagev1.KafkaZooKeeper{Replicas: 3, Resources: small("256Mi")},
		Controllers: &messagev1.KafkaControllers{Replicas: 1, Resources: small("448Mi")},
		Users: []messagev1.KafkaUser{{Name: "alice",
			PasswordFrom: platformv1.SecretKeyReference{Name: aliceSecret, Key: "password"}}},
	}
	return &messagev1.KafkaCluster{ObjectMeta: framework.ObjectMeta(separateName), Spec: spec}
}

// TestKafkaZooKeeper has a cluster with ZooKeeper be migrated to controllers, go back, and be migrated for good, under
// a producer: no record that was acknowledged is lost, no send fails, and users and access rules are what they were.
func TestKafkaZooKeeper(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespaceWithOperator(t, framework.OtherOperator)
	s.CreateSecret(aliceSecret, "password", rand.Text())
	cluster := withZooKeeper()
	s.Create(cluster)
	k := &kafka{Application: &framework.Application{Namespace: s, Name: "kafkacluster-" + separateName},
		ways: s.NewPortForwards()}
	k.waitFor(cluster, func() int64 { return cluster.Status.ObservedGeneration })
	if cluster.Status.ZooKeeper != "3/3" || cluster.Status.Brokers != "3/3" || cluster.Status.Controllers != "" {
		t.Errorf("the status is %+v", cluster.Status)
	}
	of := k.topicsOfAlice()
	k.patch(of, func() { of.Spec.Partitions = 6 })
	k.waitFor(of, func() int64 { return of.Status.ObservedGeneration })

	p := k.produce(topic)
	k.migrate("there", "MigrateToKRaft", cluster, messagev1.StageMigrated, "controllers", "1")
	k.rightsOfAlice("with controllers")
	p.goesOn()
	k.migrate("back", "RevertMigration", cluster, messagev1.StageZooKeeper)
	k.rightsOfAlice("with ZooKeeper again")
	p.goesOn()
	k.migrate("again", "MigrateToKRaft", cluster, messagev1.StageMigrated, "controllers", "1")
	k.migrate("finish", "FinishMigration", cluster, messagev1.StageKRaft)
	p.goesOn()
	p.judge("from ZooKeeper to controllers")
	k.rightsOfAlice("without ZooKeeper")
	k.inSync(topic, "closed")

	k.patch(cluster, func() { cluster.Spec.ZooKeeper = nil })
	k.waitFor(cluster, func() int64 { return cluster.Status.ObservedGeneration })
	if s := cluster.Status; s.Controllers != "1/1" || s.ZooKeeper != "" || s.Migration != "" {
		t.Errorf("the status is %+v", s)
	}
	for _, pod := range k.Pods() {
		if strings.Contains(pod.Name, "-zookeeper-") {
			t.Errorf("%s is still there", pod.Name)
		}
	}
}

// topicsOfAlice makes a topic that she may use, and one that she may not.
func (k *kafka) topicsOfAlice() (of *messagev1.KafkaTopic) {
	k.Helper()
	of = topicFor(topic, func(spec *messagev1.KafkaTopicSpec) {
		spec.Replicas = 3
		spec.ACLs = []messagev1.KafkaACL{{User: "alice",
			Operations: []messagev1.KafkaOperation{messagev1.OperationRead, messagev1.OperationWrite}}}
	})
	for _, topic := range []*messagev1.KafkaTopic{of,
		topicFor("closed", func(spec *messagev1.KafkaTopicSpec) { spec.Replicas = 3 })} {
		k.Create(topic)
		k.waitFor(topic, func() int64 { return topic.Status.ObservedGeneration })
	}
	return of
}

// migrate runs an Operation of the migration, and looks at the stage that it ends with.
func (k *kafka) migrate(name, template string, cluster *messagev1.KafkaCluster, stage messagev1.KafkaMigrationStage,
	parameters ...string) {
	k.Helper()
	k.migrateKilling(nil, name, template, cluster, stage, parameters...)
}

// migrateKilling does the same, and kills the operator as soon as each of the stages has begun.
func (k *kafka) migrateKilling(at []messagev1.KafkaMigrationStage, name, template string,
	cluster *messagev1.KafkaCluster, stage messagev1.KafkaMigrationStage, parameters ...string) {
	k.Helper()
	op := framework.NewOperation(name, template, reference(), parameters...)
	k.Create(op)
	for _, killed := range at {
		k.Eventually(4*framework.ReadyTimeout, template+" reaches stage "+string(killed), func() error {
			if err := k.Get(cluster.Name, cluster); err != nil {
				return err
			}
			if is := cluster.Spec.ZooKeeper.Stage; is != killed {
				return fmt.Errorf("it is at %q", is)
			}
			return nil
		})
		k.KillOperator(framework.OtherOperator)
		k.Logf("%s: the operator was killed in stage %s", template, killed)
	}
	ended := k.WaitForOperationEnd(op.Name, 10*framework.ReadyTimeout)
	if ended.Status.Phase != platformv1.OperationSucceeded {
		k.Fatalf("%s is %s: %s", template, ended.Status.Phase, ended.Status.Error)
	}
	k.waitFor(cluster, func() int64 { return cluster.Status.ObservedGeneration })
	if is := cluster.Spec.ZooKeeper.Stage; is != stage {
		k.Errorf("after %s the stage is %q, want %q", template, is, stage)
	}
}

// rightsOfAlice has her send to her topic, and be refused at another one and with another password.
func (k *kafka) rightsOfAlice(when string) {
	k.Helper()
	alice := k.alice()
	if err := k.send(alice, topic, 1, 10); err != nil {
		k.Errorf("%s: alice cannot send to her topic: %v", when, err)
	}
	if err := k.send(alice, "closed", 1, 10); !errors.Is(err, sarama.ErrTopicAuthorizationFailed) {
		k.Errorf("%s: alice sends to a topic that is closed to her: %v", when, err)
	}
	if err := k.logsIn(alice.as("alice", "another")); err == nil {
		k.Errorf("%s: alice logs in with another password", when)
	}
}

// TestOperatorKilledDuringKafkaMigration has a cluster leave ZooKeeper, go back, and leave it for good, under a
// producer. The operator is killed (SIGKILL from the node) in each stage. Then the cluster becomes one of Kafka 4. No
// record that was acknowledged is lost, no send fails, and users and access rules are what they were.
func TestOperatorKilledDuringKafkaMigration(t *testing.T) {
	s := framework.NewNamespaceWithOperator(t, framework.OtherOperator)
	s.CreateSecret(aliceSecret, "password", rand.Text())
	cluster := withZooKeeper()
	s.Create(cluster)
	k := &kafka{Application: &framework.Application{Namespace: s, Name: "kafkacluster-" + separateName},
		ways: s.NewPortForwards()}
	observed := func() int64 { return cluster.Status.ObservedGeneration }
	k.waitFor(cluster, observed)
	k.topicsOfAlice()
	k.rightsOfAlice("with ZooKeeper")

	p := k.produce(topic)
	k.migrateKilling([]messagev1.KafkaMigrationStage{messagev1.StagePrepared, messagev1.StageMigrating,
		messagev1.StageMigrated}, "there", "MigrateToKRaft", cluster, messagev1.StageMigrated, "controllers", "1")
	p.goesOn()
	k.rightsOfAlice("with controllers")
	k.migrateKilling([]messagev1.KafkaMigrationStage{messagev1.StageMigrating, messagev1.StageWithdrawing},
		"back", "RevertMigration", cluster, messagev1.StageZooKeeper)
	p.goesOn()
	k.rightsOfAlice("with ZooKeeper again")
	k.migrate("again", "MigrateToKRaft", cluster, messagev1.StageMigrated, "controllers", "1")
	k.migrateKilling([]messagev1.KafkaMigrationStage{messagev1.StageApart, messagev1.StageKRaft},
		"finish", "FinishMigration", cluster, messagev1.StageKRaft)
	p.goesOn()
	k.rightsOfAlice("without ZooKeeper")

	t.Log("Kafka 4")
	k.patch(cluster, func() { cluster.Spec.ZooKeeper, cluster.Spec.Version = nil, "4.4" })
	k.waitFor(cluster, observed)
	p.goesOn()
	features := framework.NewOperation("features", "UpgradeFeatures", reference(), "release", "4.4")
	s.Create(features)
	s.WaitForOperation(features.Name)
	if v := cluster.Status.Version; !strings.HasPrefix(v, "4.4") {
		t.Errorf("the version is %q", v)
	}
	k.inSync(topic, "closed")
	k.rightsOfAlice("with Kafka 4")
	p.goesOn()
	p.judge("from ZooKeeper to Kafka 4")
}
