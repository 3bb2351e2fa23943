// SPDX-License-Identifier: Apache-2.0

package message

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

const (
	// makings is how often each is made.
	makings = 3
	// makingNodes are brokers and controllers at once.
	makingNodes = 3
	// makingBudget is how many times as long as bare pods a cluster may take from apply to Ready, and makingLimit what no
	// busy machine explains.
	makingBudget, makingLimit = 1.3, 4.0
	// bareListener is the port that a bare broker serves clients on.
	bareListener = 9092
)

// TestKafkaIsMadeInTime makes a Kafka of three nodes, each of which is broker and controller, and a StatefulSet of
// three such nodes that nobody looks after, in turn, with the same image, heap and resources. It runs alone because it
// measures.
func TestKafkaIsMadeInTime(t *testing.T) {
	s := framework.NewNamespaceWithOperator(t, framework.OtherOperator)
	var ours, bare []time.Duration
	for n := range makings {
		bare = append(bare, makesBareKafka(s, fmt.Sprintf("bare%d", n)))
		spec := kafkaSpec(makingNodes)
		spec.DeletionPolicy = platformv1.DeletionPolicyDelete
		begun := time.Now()
		app := s.CreateApplication(fmt.Sprintf("made%d", n), spec)
		app.WaitReady()
		ours = append(ours, time.Since(begun))
		k := &kafka{Application: app, ways: s.NewPortForwards()}
		// The first node reports it a few seconds later.
		s.Eventually(framework.ReadyTimeout, "all nodes vote", func() error { return k.voting(makingNodes) })
		s.Delete(app.Object(), client.PropagationPolicy(metav1.DeletePropagationForeground))
		emptied(s)
	}
	slices.Sort(ours)
	slices.Sort(bare)
	ratio := ours[makings/2].Seconds() / bare[makings/2].Seconds()
	t.Logf("apply to Ready of three nodes: ours %v, a StatefulSet %v: %.2f times as long (budget %.1f)", ours, bare, ratio,
		makingBudget)
	limit := makingLimit
	if framework.Config.HoldBudgets {
		limit = makingBudget
	}
	if ratio > limit {
		t.Errorf("a Kafka takes %.2f times as long as a StatefulSet, want at most %.1f", ratio, limit)
	}
}

// bareKafka formats an empty volume and becomes Kafka: NODES are the names of all, SERVICE what is behind them.
const bareKafka = `set -eu
voters= ordinal=0
for node in $NODES; do
  voters="$voters${voters:+,}$ordinal@$node.$SERVICE:9093"
  ordinal=$((ordinal + 1))
done
cat >/tmp/server.properties <<END
process.roles=broker,controller
node.id=${POD_NAME##*-}
log.dirs=/data/kafka
listeners=CLIENT://:9092,CONTROLLER://:9093
advertised.listeners=CLIENT://$POD_NAME.$SERVICE:9092
listener.security.protocol.map=CLIENT:PLAINTEXT,CONTROLLER:PLAINTEXT
inter.broker.listener.name=CLIENT
controller.listener.names=CONTROLLER
controller.quorum.voters=$voters
END
kafka-run kafka.tools.StorageTool format --config /tmp/server.properties \
  --cluster-id 4L6g3nShT-eMCtK--X86sw --ignore-formatted
exec kafka-run kafka.Kafka /tmp/server.properties`

// makesBareKafka makes a StatefulSet of nodes, and removes it once they are ready. It returns how long they took: a
// broker listens once a quorum has let it in.
func makesBareKafka(s *framework.Namespace, name string) time.Duration {
	s.Helper()
	labels := map[string]string{"bare": name}
	s.Create(&corev1.Service{ObjectMeta: framework.ObjectMeta(name), Spec: corev1.ServiceSpec{
		ClusterIP: corev1.ClusterIPNone, PublishNotReadyAddresses: true, Selector: labels,
		Ports: []corev1.ServicePort{{Name: "client", Port: bareListener}},
	}})
	set := bareSet(s, name, labels)
	begun := time.Now()
	s.Create(set)
	s.Eventually(framework.ReadyTimeout, "the pods of "+name+" are ready", func() error {
		now := &appsv1.StatefulSet{}
		if err := s.Get(name, now); err != nil {
			return err
		}
		if now.Status.ReadyReplicas != makingNodes {
			return fmt.Errorf("%d are", now.Status.ReadyReplicas)
		}
		return nil
	})
	took := time.Since(begun)
	s.Delete(&appsv1.StatefulSet{ObjectMeta: framework.ObjectMeta(name)},
		client.PropagationPolicy(metav1.DeletePropagationForeground))
	emptied(s)
	return took
}

// bareSet gives its pods of resources, heap and storage what those of kafkaSpec get.
func bareSet(s *framework.Namespace, name string, labels map[string]string) *appsv1.StatefulSet {
	like := kafkaSpec(makingNodes).Components[0]
	var nodes []string
	for n := range makingNodes {
		nodes = append(nodes, fmt.Sprintf("%s-%d", name, n))
	}
	heap := like.Resources.Limits.Memory().Value() >> 21
	return &appsv1.StatefulSet{ObjectMeta: framework.ObjectMeta(name), Spec: appsv1.StatefulSetSpec{
		Replicas: ptr.To[int32](makingNodes), ServiceName: name, Selector: &metav1.LabelSelector{MatchLabels: labels},
		PodManagementPolicy: appsv1.ParallelPodManagement,
		PersistentVolumeClaimRetentionPolicy: &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{
			WhenDeleted: appsv1.DeletePersistentVolumeClaimRetentionPolicyType},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: corev1.PodSpec{
			SecurityContext: &corev1.PodSecurityContext{
				RunAsNonRoot: ptr.To(true), RunAsUser: ptr.To[int64](999), RunAsGroup: ptr.To[int64](999),
				FSGroup:        ptr.To[int64](999),
				SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault},
			},
			Containers: []corev1.Container{{
				Name: component, Image: kafkaImage, ImagePullPolicy: corev1.PullIfNotPresent, Resources: like.Resources,
				Command: []string{"sh", "-c", bareKafka},
				Env: []corev1.EnvVar{
					{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{
						FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
					{Name: "NODES", Value: strings.Join(nodes, " ")},
					{Name: "SERVICE", Value: name + "." + s.Name + ".svc"},
					{Name: "KAFKA_HEAP", Value: fmt.Sprintf("%dm", heap)},
				},
				VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data"}},
				ReadinessProbe: &corev1.Probe{PeriodSeconds: 1, FailureThreshold: 60,
					ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: intstr.FromInt32(bareListener)}}},
				SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: ptr.To(false),
					Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}},
			}},
		}},
		VolumeClaimTemplates: []corev1.PersistentVolumeClaim{
			{ObjectMeta: framework.ObjectMeta("data"), Spec: corev1.PersistentVolumeClaimSpec{
				AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceStorage: like.Storage.Size}},
			}}},
	}}
}

// emptied waits until no pod is left.
func emptied(s *framework.Namespace) {
	s.Helper()
	s.Eventually(framework.ReadyTimeout, "all pods are gone", func() error {
		var pods corev1.PodList
		if err := framework.Cluster.Client.List(s.Ctx, &pods, client.InNamespace(s.Name)); err != nil {
			return err
		}
		if len(pods.Items) > 0 {
			return fmt.Errorf("there are %d", len(pods.Items))
		}
		return nil
	})
}
