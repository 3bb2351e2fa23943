// SPDX-License-Identifier: Apache-2.0

package message

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/IBM/sarama"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

func (k *kafka) pod(n int) string {
	return platformv1.PodNameFor(platformv1.WorkloadSetNameFor(k.Name, component, platformv1.DefaultSet), int32(n))
}

// podNames are the names of the first pods.
func (k *kafka) podNames(nodes int32) (names []string) {
	for n := range int(nodes) {
		names = append(names, k.pod(n))
	}
	return names
}

// become has so many nodes, each of which votes, and waits until that is so.
func (k *kafka) become(nodes int32) {
	k.Helper()
	k.resize(nodes)
	k.areNodes(nodes)
}

// resize asks for so many nodes.
func (k *kafka) resize(nodes int32) {
	k.Helper()
	k.Update(framework.WithComponentReplicas(component, nodes))
}

// areNodes waits until there are just so many nodes, which are ready and vote. Many partitions take their time to move.
func (k *kafka) areNodes(nodes int32) {
	k.Helper()
	want := k.podNames(nodes)
	took := k.Eventually(4*framework.ReadyTimeout, fmt.Sprintf("there are %d nodes", nodes), func() error {
		app := k.Object()
		if err := framework.ReadyNow(app, app.Status.ObservedGeneration); err != nil {
			return err
		}
		var names []string
		for _, pod := range k.Pods() {
			names = append(names, pod.Name)
		}
		if !slices.Equal(names, want) {
			return fmt.Errorf("the pods are %v", names)
		}
		return k.voting(nodes)
	})
	k.Logf("%d nodes after %s", nodes, framework.FormatSeconds(took))
}

// voting says how the voters differ from the first nodes.
func (k *kafka) voting(nodes int32) error {
	var want []string
	for n := range nodes {
		want = append(want, strconv.Itoa(int(n)))
	}
	voters, err := k.voters()
	if err == nil && !slices.Equal(voters, want) {
		err = fmt.Errorf("the voters are %v, want %v", voters, want)
	}
	return err
}

// voters are the numbers of the controllers that vote, as the first node tells.
func (k *kafka) voters() ([]string, error) {
	pod := &corev1.Pod{}
	if err := k.Get(k.pod(0), pod); err != nil {
		return nil, err
	}
	told, err := report.Parse(pod.Annotations[platformv1.ReportAnnotation])
	if err != nil {
		return nil, err
	}
	return strings.Fields(told.Attributes["voters"]), nil
}

// ask asks the cluster by a connection of its own, which begins at a pod that is ready.
func (k *kafka) ask(question func(sarama.ClusterAdmin) error) error {
	a := k.binding()
	admin, err := sarama.NewClusterAdmin([]string{a.address}, k.config(a))
	if err != nil {
		return err
	}
	defer admin.Close()
	return question(admin)
}

// partitionsOf describes the partitions of a topic.
func partitionsOf(admin sarama.ClusterAdmin, topic string) ([]*sarama.PartitionMetadata, error) {
	described, err := admin.DescribeTopics([]string{topic})
	switch {
	case err != nil:
		return nil, err
	case len(described) != 1 || described[0].Err != sarama.ErrNoError:
		return nil, fmt.Errorf("topic %q is described as %+v", topic, described)
	}
	return described[0].Partitions, nil
}

// signal sends a signal to the server of a pod.
func (k *kafka) signal(pod, signal, before string) {
	k.Helper()
	script := before + framework.SignalScript + "exit 0"
	if _, err := framework.Run(k.Ctx, k.Namespace.Name, pod, component, "", "sh", "-c", script, "signal", signal,
		"java"); err != nil {
		k.Fatal(err)
	}
}

// restarted waits until the server of a pod was started again, in place or in another pod, and all nodes are ready.
func (k *kafka) restarted(pod string, do func()) {
	k.Helper()
	before := k.ProcessStarts()[pod]
	do()
	k.Eventually(framework.ReadyTimeout, "the server of "+pod+" was started again", func() error {
		if now := k.ProcessStarts()[pod]; now == "" || now == before {
			return fmt.Errorf("it is %q, as before", now)
		}
		return nil
	})
	k.WaitReady()
}

// wipe deletes a pod together with its volume.
func (k *kafka) wipe(pod string) {
	k.Helper()
	found := &corev1.Pod{}
	k.MustGet(pod, found)
	for _, volume := range found.Spec.Volumes {
		if claim := volume.PersistentVolumeClaim; claim != nil {
			k.Delete(&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: claim.ClaimName}})
		}
	}
	k.ReplacePod(pod, framework.GraceZero)
}
