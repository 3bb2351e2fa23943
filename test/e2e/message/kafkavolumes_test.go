// SPDX-License-Identifier: Apache-2.0

package message

import (
	"crypto/rand"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	messagev1 "github.com/zeroinfra/message-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// secondDirectory is on the first volume that is added.
const secondDirectory = "/volumes/1/kafka"

// TestKafkaVolumes adds a volume to the brokers of a cluster under a producer, and has one broker lose it: no record
// that was acknowledged is lost, no send fails, new partitions go there, and none of the volumes can be taken out.
func TestKafkaVolumes(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespaceWithOperator(t, framework.OtherOperator)
	cluster := &messagev1.KafkaCluster{ObjectMeta: framework.ObjectMeta(separateName), Spec: messagev1.KafkaClusterSpec{
		InstanceSpec: platformv1.InstanceSpec{Version: "4.4", Resources: small("640Mi"),
			Storage: platformv1.InstanceStorage{Size: resource.MustParse("2Gi")}},
		Replicas: 3,
	}}
	s.Create(cluster)
	k := &kafka{Application: &framework.Application{Namespace: s, Name: "kafkacluster-" + separateName},
		ways: s.NewPortForwards()}
	observed := func() int64 { return cluster.Status.ObservedGeneration }
	k.waitFor(cluster, observed)
	k.entity("topic", topic, map[string]platformv1.ParameterValue{"partitions": "12"})
	if dirs := k.logDirs(); dirs["directories"] != "3" || strings.Contains(dirs["byBroker"], secondDirectory) {
		t.Errorf("with one volume each the directories are %v", dirs)
	}

	p := k.produce(topic)
	k.takenOut(cluster)
	k.waitFor(cluster, observed)
	k.patch(cluster, func() {
		cluster.Spec.AdditionalVolumes = []platformv1.Storage{{Size: resource.MustParse("1Gi")}}
	})
	k.waitFor(cluster, observed)
	p.goesOn()
	k.inSync(topic)
	k.entity("topic", wide, map[string]platformv1.ParameterValue{"partitions": "12"})
	k.inSync(wide)
	if dirs := k.logDirs(); dirs["directories"] != "6" || dirs["offline"] != "0" ||
		strings.Count(dirs["byBroker"], secondDirectory+": ") != 3 ||
		strings.Contains(dirs["byBroker"], secondDirectory+": 0 ") {
		t.Errorf("with another volume each the directories are %v", dirs)
	}
	k.condition(cluster, metav1.ConditionTrue, secondDirectory)
	k.spreads(p)

	t.Log("it cannot be taken out")
	fewer := cluster.DeepCopy()
	fewer.Spec.AdditionalVolumes = nil
	k.ExpectRefused(framework.Cluster.Client.Patch(k.Ctx, fewer, client.MergeFrom(cluster)),
		"none can be taken out once there is a volume for it")

	t.Log("a broker can write there no more")
	k.breakDirectory(k.pod(2))
	k.condition(cluster, metav1.ConditionFalse, "broker 2 can neither read nor write "+secondDirectory)
	p.goesOn()

	t.Log("the volume is lost")
	k.Delete(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: platformv1.ClaimNameFor("data-1", k.pod(2))}})
	k.ReplacePod(k.pod(2))
	k.waitFor(cluster, observed)
	if on := k.inSync(topic, wide); !slices.Equal(on, []int32{0, 1, 2}) {
		t.Errorf("the replicas are on brokers %v", on)
	}
	k.condition(cluster, metav1.ConditionTrue, secondDirectory)
	p.goesOn()
	p.judge("a volume is added and lost")
	k.consoleReads(p)
}

// spreads has a rebalance empty the volume that was added, and another one fill it again, under the producer.
func (k *kafka) spreads(p *producer) {
	k.Helper()
	for _, round := range []struct {
		parameters []string
		empty      int
	}{{[]string{"empty", secondDirectory}, 3}, {[]string{"empty", secondDirectory, "broker", "1"}, 1},
		{[]string{"throttle", "10485760"}, 0}} {
		k.operation("Rebalance", round.parameters...)
		if dirs := k.logDirs(); strings.Count(dirs["byBroker"], secondDirectory+": 0 ") != round.empty ||
			dirs["offline"] != "0" {
			k.Errorf("after a rebalance with %v the directories are %v", round.parameters, dirs)
		}
		p.goesOn()
	}
	k.inSync(topic, wide)
}

// takenOut adds a volume of a class that makes none, and takes it out again: nothing is in it, and its claim goes.
func (k *kafka) takenOut(cluster *messagev1.KafkaCluster) {
	k.Helper()
	never := k.Name + "-" + strings.ToLower(rand.Text()[:8])
	k.CopyClass(never, func(class *storagev1.StorageClass) { class.Provisioner = "example.com/none" })
	k.patch(cluster, func() {
		cluster.Spec.AdditionalVolumes = []platformv1.Storage{{Size: resource.MustParse("1Gi"), StorageClassName: &never}}
	})
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{
		Name: platformv1.ClaimNameFor("data-1", k.pod(2))}}
	k.Eventually(framework.ReadyTimeout, "broker 2 waits for its volume", func() error {
		return k.Get(claim.Name, claim)
	})
	k.patch(cluster, func() { cluster.Spec.AdditionalVolumes = nil })
	k.Eventually(framework.ReadyTimeout, "claim "+claim.Name+" is gone", func() error {
		if err := k.Get(claim.Name, claim); !apierrors.IsNotFound(err) {
			return fmt.Errorf("it is %s, deleted at %v: %v", claim.Status.Phase, claim.DeletionTimestamp, err)
		}
		return nil
	})
}

// logDirs asks what is in the directories of brokers.
func (k *kafka) logDirs() map[string]string {
	k.Helper()
	op := framework.NewOperation("dirs-"+fmt.Sprint(k.operations()), "LogDirs", reference())
	k.Create(op)
	k.WaitForOperation(op.Name)
	k.MustGet(op.Name, op)
	return op.Status.Steps[0].Outputs
}

// operations counts those of the namespace.
func (k *kafka) operations() int {
	k.Helper()
	list := &platformv1.OperationList{}
	if err := framework.Cluster.Client.List(k.Ctx, list, client.InNamespace(k.Namespace.Name)); err != nil {
		k.Fatal(err)
	}
	return len(list.Items)
}

// breakDirectory has a broker find a file at its next start where the directory of its second volume was.
func (k *kafka) breakDirectory(pod string) {
	k.Helper()
	k.restarted(pod, func() {
		k.signal(pod, "KILL", "rm -rf "+secondDirectory+"\n: > "+secondDirectory+"\n")
	})
}

// condition waits until the cluster says of its log directories what it is to say.
func (k *kafka) condition(cluster *messagev1.KafkaCluster, status metav1.ConditionStatus, says string) {
	k.Helper()
	k.Eventually(framework.SettleTimeout, "LogDirsOnline is "+string(status), func() error {
		if err := k.Get(cluster.Name, cluster); err != nil {
			return err
		}
		for _, c := range cluster.Status.Conditions {
			if c.Type == "LogDirsOnline" && c.Status == status && strings.Contains(c.Message, says) {
				return nil
			}
		}
		return fmt.Errorf("it is %s", framework.Describe(cluster.Status.Conditions))
	})
}
