// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/facts"
	"github.com/zeroinfra/platform-core/internal/rollout"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// lostNode is what is known of a node that a pod seems to have lost.
type lostNode string

// States of such a node.
const (
	// nodeAnswers: nothing is wrong with it.
	nodeAnswers lostNode = "answers"
	// nodeSilent: it has not been heard of for a while.
	nodeSilent lostNode = "silent"
	// nodeGone: the cluster has it no more.
	nodeGone lostNode = "gone"
	// nodeOut: an administrator says that it is off for good.
	nodeOut lostNode = "out of service"
)

// contact says whether the node of a pod answers. Nodes are not watched: one is read when its pod looks as pods do that
// Kubernetes has given up on.
func (r *Reconciler) contact(ctx context.Context, f *Verdict, pod *corev1.Pod) (rollout.Contact, error) {
	name := pod.Spec.NodeName
	if name == "" || !suspect(f, pod) {
		return rollout.Reachable, nil
	}
	if _, known := f.lost[name]; !known {
		var nodes corev1.NodeList
		err := r.Live.List(ctx, &nodes, client.MatchingFields{"metadata.name": name})
		switch {
		case apierrors.IsForbidden(err):
			f.lost[name] = nodeAnswers
		case err != nil:
			return "", fmt.Errorf("cannot look at node %q: %w", name, err)
		case len(nodes.Items) == 0:
			f.lost[name] = nodeGone
		default:
			f.lost[name] = stateOf(&nodes.Items[0])
		}
	}
	if f.lost[name] == nodeAnswers {
		return rollout.Reachable, nil
	}
	return rollout.Unreachable, nil
}

// suspect says whether a pod looks as if its node were lost. Of such a pod Kubernetes says that it is not ready, which
// the kubelet, that speaks of its containers, never says of ready containers alone; or its time to end is over and it
// has not ended.
func suspect(f *Verdict, pod *corev1.Pod) bool {
	if facts.ConditionOf(pod, corev1.PodReady) == corev1.ConditionFalse &&
		facts.ConditionOf(pod, corev1.ContainersReady) == corev1.ConditionTrue {
		return true
	}
	if pod.DeletionTimestamp == nil {
		return false
	}
	// It stands for when the pod should have ended. Nothing tells of that moment but the clock.
	left := pod.DeletionTimestamp.Sub(f.Now)
	if left >= 0 {
		f.WakeAfter(left + EndedRecheck)
	}
	return left < 0
}

// stateOf reads what Kubernetes, or an administrator, says of a node.
func stateOf(node *corev1.Node) lostNode {
	state := nodeAnswers
	for _, taint := range node.Spec.Taints {
		switch taint.Key {
		case corev1.TaintNodeOutOfService:
			return nodeOut
		case corev1.TaintNodeUnreachable:
			state = nodeSilent
		}
	}
	return state
}

// explainLost says what becomes of a pod on a node that nobody reaches, and what to do.
func explainLost(f *Verdict, p rollout.Pod) string {
	node := f.Pods[p.Name].Spec.NodeName
	switch {
	case f.lost[node] == nodeOut:
		return fmt.Sprintf("pod %s is deleted from node %s, which is out of service", p.Name, node)
	case f.lost[node] == nodeGone:
		// The garbage collector of pods looks every 20 s, and gives a node 40 s to come back.
		text := fmt.Sprintf("pod %s was on node %s, which the cluster has no more: Kubernetes removes the pod within two "+
			"minutes, and another one is made", p.Name, node)
		if f.Rollout.Interchangeable {
			return text
		}
		return text + ", with its volumes where another node reaches them"
	case f.Rollout.Interchangeable:
		return fmt.Sprintf("pod %s is on node %s, which is unreachable: it moves when Kubernetes evicts it from there, "+
			"by default after 5 minutes", p.Name, node)
	}
	return fmt.Sprintf("pod %s is on node %s, which is unreachable: it may still run there, so that it is not "+
		"replaced until the node is back; if the machine is off for good, say so: kubectl taint node %s "+
		"%s=nodeshutdown:NoExecute", p.Name, node, node,
		corev1.TaintNodeOutOfService)
}

// forgetPod removes the object of a pod without a word of its kubelet.
func (r *Reconciler) forgetPod(ctx context.Context, set *platformv1.WorkloadSet, f *Verdict,
	step rollout.Step) outcome.Outcome {
	pod := f.Pods[step.Pod]
	r.Events.Normal(set, "ReplacingPod", "%s", step)
	err := r.Client.Delete(ctx, AddressOf(pod), client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
	return outcome.Failed(client.IgnoreNotFound(err))
}
