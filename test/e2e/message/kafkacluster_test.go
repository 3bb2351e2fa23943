// SPDX-License-Identifier: Apache-2.0

package message

import (
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/IBM/sarama"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"

	messagev1 "github.com/zeroinfra/message-operator/api/v1"
	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

const (
	// separateName is the cluster whose controllers are pods of their own.
	separateName = "ledger"
	// aliceSecret has the password of alice.
	aliceSecret = "alice"
)

func small(memory string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{
		Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("100m"),
			corev1.ResourceMemory: resource.MustParse(memory)},
		Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(memory)},
	}
}

// separate is a cluster of two brokers and a controller, with TLS, a user with a quota, and addresses for clients
// outside.
func separate() *messagev1.KafkaCluster {
	spec := messagev1.KafkaClusterSpec{
		InstanceSpec: platformv1.InstanceSpec{Version: "4.3", Resources: small("640Mi"), TLS: &platformv1.TLS{Enabled: true},
			Storage: platformv1.InstanceStorage{Size: resource.MustParse("2Gi")}},
		Replicas: 2, Controllers: &messagev1.KafkaControllers{Replicas: 1, Resources: small("448Mi")},
		Users: []messagev1.KafkaUser{{Name: "alice",
			PasswordFrom: platformv1.SecretKeyReference{Name: aliceSecret, Key: "password"},
			Quota:        &messagev1.KafkaRates{ProducerByteRate: new(resource.MustParse("20Ki"))}}},
		External: &platformv1.ExternalAccess{ServiceSettings: platformv1.ServiceSettings{Type: corev1.ServiceTypeNodePort}},
	}
	return &messagev1.KafkaCluster{ObjectMeta: framework.ObjectMeta(separateName), Spec: spec}
}

func topicFor(name string, change func(*messagev1.KafkaTopicSpec)) *messagev1.KafkaTopic {
	t := &messagev1.KafkaTopic{ObjectMeta: framework.ObjectMeta(name), Spec: messagev1.KafkaTopicSpec{
		ClusterRef: messagev1.KafkaClusterReference{Name: separateName}, Partitions: 3, Replicas: 2,
		DeletionPolicy: platformv1.EntityDelete}}
	if change != nil {
		change(&t.Spec)
	}
	return t
}

// waitFor waits until an object is ready at its present generation.
func (k *kafka) waitFor(object interface {
	client.Object
	platformv1.Conditioned
}, observed func() int64) {
	k.Helper()
	k.Eventually(2*framework.ReadyTimeout, object.GetName()+" is ready", func() error {
		if err := k.Get(object.GetName(), object); err != nil {
			return err
		}
		return framework.ReadyNow(object, observed())
	})
}

// patch changes an object as "kubectl patch" does.
func (k *kafka) patch(object client.Object, change func()) {
	k.Helper()
	before, is := object.DeepCopyObject().(client.Object)
	if !is {
		k.Fatalf("%T is no object", object)
	}
	change()
	if err := framework.Cluster.Client.Patch(k.Ctx, object, client.MergeFrom(before)); err != nil {
		k.Fatalf("cannot change %T %q: %v", object, object.GetName(), err)
	}
}

// TestKafkaCluster has a KafkaCluster with controllers of its own, TLS and users: who may do what is enforced, the
// password of admin is made anew, and the version goes up under a producer.
func TestKafkaCluster(t *testing.T) {
	s := framework.NewNamespaceWithOperator(t, framework.OtherOperator)
	s.CreateSecret(aliceSecret, "password", rand.Text())
	cluster := separate()
	s.Create(cluster)
	k := &kafka{Application: &framework.Application{Namespace: s, Name: "kafkacluster-" + separateName},
		ways: s.NewPortForwards()}
	k.waitFor(cluster, func() int64 { return cluster.Status.ObservedGeneration })
	if n := len(cluster.Status.ExternalAddresses); n != 2 {
		t.Errorf("clients outside are told of %d addresses, want 2: %+v", n, cluster.Status)
	}
	k.ca = k.CACertificate()
	of := topicFor(topic, func(spec *messagev1.KafkaTopicSpec) {
		spec.ACLs = []messagev1.KafkaACL{{User: "alice",
			Operations: []messagev1.KafkaOperation{messagev1.OperationRead, messagev1.OperationWrite}}}
	})
	closed := topicFor("closed", nil)
	for _, topic := range []*messagev1.KafkaTopic{of, closed} {
		s.Create(topic)
		k.waitFor(topic, func() int64 { return topic.Status.ObservedGeneration })
	}
	k.checkAccess()
	k.checkTopics(of)
	k.checkLag()
	t.Run("stands for a Kafka elsewhere", func(t *testing.T) { k.in(t).checkElsewhere(cluster) })

	t.Log("the password of admin is made anew")
	before := k.binding()
	op := framework.NewOperation("rotate", "RotateCredentials", reference())
	s.Create(op)
	s.WaitForOperation(op.Name)
	k.Eventually(framework.SettleTimeout, "admin logs in with another password", func() error {
		if now := k.binding(); now.password != before.password {
			return k.logsIn(now)
		}
		return errors.New("the password is what it was")
	})
	if err := k.logsIn(before); err == nil {
		t.Error("admin still logs in with the former password")
	}

	t.Log("another version under a producer")
	p := k.produce(topic)
	k.patch(cluster, func() { cluster.Spec.Version = "4.4" })
	k.waitFor(cluster, func() int64 { return cluster.Status.ObservedGeneration })
	p.goesOn()
	k.brokersStartedFirst()
	k.metadataIs(cluster, "4.3")
	features := framework.NewOperation("features", "UpgradeFeatures", reference(), "release", "4.4")
	s.Create(features)
	s.WaitForOperation(features.Name)
	p.goesOn()
	p.judge("4.3 to 4.4")
	k.metadataIs(cluster, "4.4")
	back := cluster.DeepCopy()
	back.Spec.Version = "4.3"
	k.ExpectRefused(framework.Cluster.Client.Patch(k.Ctx, back, client.MergeFrom(cluster)),
		"version cannot be below status.metadataVersion")
	if !strings.HasPrefix(cluster.Status.Version, "4.4") {
		t.Errorf("the version is %q", cluster.Status.Version)
	}

	// Controllers that leave stay registered with their versions, so that features cannot be raised after this.
	t.Run("controllers", func(t *testing.T) { k.in(t).checkControllers(cluster) })

	t.Log("a topic that is deleted goes, with Delete")
	s.Delete(closed)
	admin := k.admin(k.binding())
	k.Eventually(framework.SettleTimeout, "the topic is gone", func() error {
		topics, err := admin.ListTopics()
		if _, is := topics["closed"]; err == nil && is {
			err = errors.New("it is there")
		}
		return err
	})
}

// metadataIs waits until the status tells of which release line metadata.version is.
func (k *kafka) metadataIs(cluster *messagev1.KafkaCluster, line string) {
	k.Helper()
	k.Eventually(framework.SettleTimeout, "metadata.version is that of "+line, func() error {
		if err := k.Get(cluster.Name, cluster); err != nil {
			return err
		}
		if is := cluster.Status.MetadataVersion; is != line {
			return fmt.Errorf("it is that of %q", is)
		}
		return nil
	})
}

func reference() platformv1.TargetReference {
	return platformv1.TargetReference{APIVersion: messagev1.GroupVersion.String(), Kind: "KafkaCluster",
		Name: separateName}
}

// logsIn tries an account.
func (k *kafka) logsIn(a account) error {
	config := k.config(a)
	config.Metadata.Retry.Max = 1
	c, err := sarama.NewClient([]string{a.address}, config)
	if err == nil {
		_ = c.Close()
	}
	return err
}

// alice is the account of a user.
func (k *kafka) alice() account {
	k.Helper()
	secret := &corev1.Secret{}
	k.MustGet(aliceSecret, secret)
	return k.binding().as("alice", string(secret.Data["password"]))
}

// send sends records of a size as somebody.
func (k *kafka) send(a account, topic string, records, size int) error {
	config := k.config(a)
	config.Producer.Retry.Max, config.Producer.Idempotent, config.Net.MaxOpenRequests = 1, false, 5
	p, err := sarama.NewSyncProducer([]string{a.address}, config)
	if err != nil {
		return err
	}
	defer p.Close()
	for range records {
		value := sarama.ByteEncoder(make([]byte, size))
		if _, _, err := p.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: value}); err != nil {
			return err
		}
	}
	return nil
}

// checkAccess has a user be refused and slowed down.
func (k *kafka) checkAccess() {
	k.Helper()
	alice := k.alice()
	began := time.Now()
	if err := k.send(alice, topic, 80, 10<<10); err != nil {
		k.Errorf("alice cannot send to her topic: %v", err)
	}
	// 800 KiB to two brokers at 20 KiB a second each take 20 s. Kafka counts over windows of 11 s.
	if took := time.Since(began); took < 5*time.Second {
		k.Errorf("800 KiB took alice %s: the quota does not hold her up", took)
	}
	if err := k.send(alice, "closed", 1, 10); !errors.Is(err, sarama.ErrTopicAuthorizationFailed) {
		k.Errorf("alice sends to a topic that is closed to her: %v", err)
	}
	if err := k.logsIn(alice.as("alice", "another")); err == nil {
		k.Error("alice logs in with another password")
	}
	k.ca = nil
	if err := k.logsIn(k.binding()); err == nil {
		k.Error("a client without TLS is answered")
	}
	k.ca = k.CACertificate()
}

// checkTopics has a topic changed, and changes refused.
func (k *kafka) checkTopics(of *messagev1.KafkaTopic) {
	k.Helper()
	k.patch(of, func() { of.Spec.Partitions, of.Spec.MinInSyncReplicas = 6, 1 })
	k.waitFor(of, func() int64 { return of.Status.ObservedGeneration })
	admin := k.admin(k.binding())
	described, err := admin.DescribeTopics([]string{topic})
	if err != nil || len(described) != 1 || len(described[0].Partitions) != 6 {
		k.Errorf("the topic is %+v, %v", described, err)
	}
	shrunk := of.DeepCopy()
	shrunk.Spec.Partitions = 2
	k.ExpectRefused(framework.Cluster.Client.Patch(k.Ctx, shrunk, client.MergeFrom(of)), "partitions")
	large := topicFor("large", func(spec *messagev1.KafkaTopicSpec) {
		spec.Retention = &messagev1.KafkaRetention{Bytes: new(resource.MustParse("500Pi"))}
	})
	k.Create(large)
	k.stalls(large, platformv1.ReasonRefusedByMiddleware)
	k.Delete(large)
	second := topicFor("second", func(spec *messagev1.KafkaTopicSpec) { spec.TopicName = topic })
	k.Create(second)
	k.stalls(second, "NameTaken")
	k.Delete(second)
}

// stalls waits until a topic is stalled with a reason.
func (k *kafka) stalls(topic *messagev1.KafkaTopic, reason string) {
	k.Helper()
	k.Eventually(framework.SettleTimeout, topic.Name+" is stalled with "+reason, func() error {
		if err := k.Get(topic.Name, topic); err != nil {
			return err
		}
		for _, c := range topic.Status.Conditions {
			if c.Type == platformv1.StalledCondition && c.Reason == reason {
				return nil
			}
		}
		return fmt.Errorf("it is %s", framework.Describe(topic.Status.Conditions))
	})
}

// checkLag asks how far consumers of the topic are behind: there are none.
func (k *kafka) checkLag() {
	k.Helper()
	op := framework.NewOperation("lag", "ConsumerLag", reference(), "topic", topic)
	k.Create(op)
	k.WaitForOperation(op.Name)
	k.MustGet(op.Name, op)
	if got := op.Status.Steps[0].Outputs; got["groups"] != "0" || got["lag"] != "0" {
		k.Errorf("the lag of a topic that nobody reads is %v", got)
	}
}

// checkControllers has one controller become three, five and one, and each vote; three restart after the brokers, and
// two of them lose their disks, one after the other.
func (k *kafka) checkControllers(cluster *messagev1.KafkaCluster) {
	k.Helper()
	p := k.produce(topic)
	k.votingControllers(cluster, 3)
	k.restartsBrokersFirst()
	p.goesOn()
	for _, role := range []string{"standby", "active"} {
		k.Run("the disk of one that is "+role+" is wiped", func(t *testing.T) {
			k := k.in(t)
			wiped := k.controllerOf(role)
			before := k.directoryOf(cluster, wiped, "")
			k.wipe(wiped)
			k.waitFor(cluster, func() int64 { return cluster.Status.ObservedGeneration })
			k.votingControllers(cluster, 3)
			k.directoryOf(cluster, wiped, before)
			p.goesOn()
		})
	}
	for _, replicas := range []int32{5, 3, 1} {
		k.votingControllers(cluster, replicas)
	}
	p.judge("controllers come and go")
}

// directoryOf is the directory ID that the status has of a controller, once it is another one than before.
func (k *kafka) directoryOf(cluster *messagev1.KafkaCluster, pod, before string) (id string) {
	k.Helper()
	k.Eventually(framework.SettleTimeout, "the status has the directory ID of "+pod, func() error {
		if err := k.Get(cluster.Name, cluster); err != nil {
			return err
		}
		for _, directory := range cluster.Status.Directories {
			if directory.Pod == pod && directory.ID != before {
				id = directory.ID
				return nil
			}
		}
		return fmt.Errorf("it has %v, where %q was before", cluster.Status.Directories, before)
	})
	return id
}

// controllerOf is the pod of a controller with a role.
func (k *kafka) controllerOf(role string) (name string) {
	k.Helper()
	k.Eventually(framework.SettleTimeout, "a controller is "+role, func() error {
		for _, pod := range k.Pods() {
			if pod.Labels[platformv1.ComponentLabel] == "controller" && pod.Labels[platformv1.RoleLabel] == role {
				name = pod.Name
				return nil
			}
		}
		return errors.New("none is")
	})
	return name
}

// votingControllers has so many controllers, and waits until all answer and vote.
func (k *kafka) votingControllers(cluster *messagev1.KafkaCluster, replicas int32) {
	k.Helper()
	k.patch(cluster, func() { cluster.Spec.Controllers.Replicas = replicas })
	k.waitFor(cluster, func() int64 { return cluster.Status.ObservedGeneration })
	if want := fmt.Sprintf("%d/%d", replicas, replicas); cluster.Status.Controllers != want {
		k.Errorf("%s controllers answer, want %s", cluster.Status.Controllers, want)
	}
	k.Eventually(framework.ReadyTimeout, fmt.Sprintf("%d controllers vote", replicas), func() error {
		for _, pod := range k.Pods() {
			told, err := report.Parse(pod.Annotations[platformv1.ReportAnnotation])
			if err != nil {
				return err
			}
			voters := strings.Fields(told.Attributes["voters"])
			if pod.Labels[platformv1.ComponentLabel] == "controller" && len(voters) != int(replicas) {
				return fmt.Errorf("the voters are %v to %s", voters, pod.Name)
			}
		}
		return nil
	})
}
