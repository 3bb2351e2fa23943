// SPDX-License-Identifier: Apache-2.0

package workloadset

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	agentreport "github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/facts"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/pods"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/primary"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/internal/rollout"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

func testSet() *platformv1.WorkloadSet {
	return &platformv1.WorkloadSet{
		ObjectMeta: metav1.ObjectMeta{Name: "redis-a-redis-main", Namespace: "ns",
			Labels: map[string]string{platformv1.ApplicationUIDLabel: "uid-1"}},
		Spec: platformv1.WorkloadSetSpec{
			Application: "redis-a", Component: "redis", Set: "main", Replicas: 1,
			Volumes: []platformv1.SetVolume{{Name: "data", Storage: platformv1.Storage{Size: resource.MustParse("2Gi")}}},
		},
	}
}

// stateOf is the state of a reconcile with these pods.
func stateOf(all map[string]*corev1.Pod, planned rollout.Facts) *state {
	draft := &facts.Draft{Facts: &facts.Facts{Pods: all}, Rollout: planned}
	return &state{Draft: draft, pods: &pods.Verdict{Draft: draft}, primary: &primary.Verdict{Draft: draft}}
}

func TestSettleExplainsWhatItWaitsFor(t *testing.T) {
	settled := rollout.Pod{Name: "redis-a-redis-main-0", Life: rollout.Alive, Ready: rollout.Ready, Revision: "r1",
		Report: agentreport.Report{Health: agentreport.Healthy, ConfigDigest: "d1"}}
	tests := map[string]struct {
		change func(*rollout.Pod, *corev1.Pod)
		kind   outcome.Kind
		reason string
		says   string
	}{
		"settled": {func(*rollout.Pod, *corev1.Pod) {}, outcome.KindDone, "", ""},
		"not ready": {func(p *rollout.Pod, _ *corev1.Pod) { p.Ready = rollout.NotReady }, outcome.KindWaiting,
			platformv1.ReasonPodsNotReady, "waiting for pod"},
		"starting": {func(p *rollout.Pod, _ *corev1.Pod) {
			p.Ready, p.Report.Health = rollout.NotReady, agentreport.Starting
			p.Report.Message = "the file is being downloaded: 40 %"
		}, outcome.KindWaiting, platformv1.ReasonPodsNotReady,
			"waiting for pod redis-a-redis-main-0 to be ready: the file is being downloaded: 40 %"},
		"unhealthy": {func(p *rollout.Pod, _ *corev1.Pod) {
			p.Report.Health, p.Report.Message = agentreport.Unhealthy, "exit code 1"
		}, outcome.KindWaiting, platformv1.ReasonProcessFailing, "exit code 1"},
		"old configuration that was refused": {func(p *rollout.Pod, _ *corev1.Pod) {
			p.Report.ConfigDigest, p.Report.LastCall = "d0",
				&agentreport.Call{Phase: agentreport.CallFailed, Message: "secret is missing"}
		}, outcome.KindWaiting, platformv1.ReasonConfigurationPending, "secret is missing"},
		"unschedulable": {func(p *rollout.Pod, pod *corev1.Pod) {
			p.Ready = rollout.NotReady
			pod.Status.Conditions = []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
					Message: "0/3 nodes have enough memory"}}
		}, outcome.KindWaiting, platformv1.ReasonPodUnschedulable, "0/3 nodes"},
		"unschedulable, for its volumes": {func(p *rollout.Pod, pod *corev1.Pod) {
			p.Ready = rollout.NotReady
			pod.Spec.Volumes = []corev1.Volume{
				{Name: "data", VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "data-redis-a-redis-main-0"}}},
				// Nobody is told to delete what others keep there.
				{Name: render.ArchiveVolume, VolumeSource: corev1.VolumeSource{
					PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "shelf"}}},
			}
			pod.Status.Conditions = []corev1.PodCondition{
				{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: corev1.PodReasonUnschedulable,
					Message: "0/2 nodes are available: 2 node(s) didn't match PersistentVolume's node affinity."}}
		}, outcome.KindWaiting, platformv1.ReasonPodUnschedulable, "if the node that its volumes are on is gone for good, " +
			"so is their data: have a RebuildMember make the pod anew where others have that data, or delete what was on it " +
			"for the pod to begin empty: kubectl delete pvc data-redis-a-redis-main-0"},
		"no image": {func(p *rollout.Pod, pod *corev1.Pod) {
			p.Ready = rollout.NotReady
			pod.Status.ContainerStatuses = []corev1.ContainerStatus{
				{Name: "redis", Image: "nowhere/redis:1",
					State: corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}}}
		}, outcome.KindWaiting, platformv1.ReasonImageUnavailable, "nowhere/redis:1"},
		"out of connections": {func(p *rollout.Pod, _ *corev1.Pod) {
			p.Ready, p.Report.Health, p.Report.OutOfConnections = rollout.NotReady, agentreport.Starting, "too many clients"
		}, outcome.KindWaiting, platformv1.ReasonTooManyClients, "clients have all connections of pod redis-a-redis-main-0"},
		"terminating": {func(p *rollout.Pod, _ *corev1.Pod) { p.Life = rollout.Terminating }, outcome.KindWaiting,
			platformv1.ReasonPodsNotReady, "to end"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			p, pod := settled, &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: settled.Name}}
			test.change(&p, pod)
			set := testSet()
			set.Spec.Volumes = nil
			st := stateOf(map[string]*corev1.Pod{pod.Name: pod},
				rollout.Facts{Name: set.Name, Replicas: 1, Revision: "r1", ConfigDigest: "d1", Pods: []rollout.Pod{p}})
			o := sayFirst(st, settle(set, st, nil))
			if o.Kind() != test.kind || o.Reason() != test.reason || !strings.Contains(o.Message(), test.says) {
				t.Fatalf("got %v %s %q", o.Kind(), o.Reason(), o.Message())
			}
		})
	}
}

// Whatever a set waits for, what stops a pod is said first.
func TestWhatStopsAPodIsSaidFirst(t *testing.T) {
	const zero, one = "redis-a-redis-main-0", "redis-a-redis-main-1"
	const cause = "pod " + one + `: container redis cannot get image "nowhere/redis:1" (ImagePullBackOff)`
	pods := map[string]*corev1.Pod{}
	for _, name := range []string{zero, one} {
		pods[name] = &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name}}
	}
	waiting := corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}
	status := corev1.ContainerStatus{Name: "redis", Image: "nowhere/redis:1", State: waiting}
	pods[one].Status.ContainerStatuses = []corev1.ContainerStatus{status}
	const failover, image = platformv1.ReasonFailoverPending, platformv1.ReasonImageUnavailable
	first := outcome.Waiting(failover, "the first primary is named once all 3 pods are there: waiting for "+zero)
	for what, test := range map[string]struct {
		outcome outcome.Outcome
		change  func(*state)
		reason  string
		want    string
	}{
		"the first primary": {outcome: first, reason: image, want: cause},
		"another primary": {outcome: first, reason: failover, want: cause, change: func(st *state) {
			st.Facts = st.WithPrimary(&platformv1.PrimaryRecord{Member: &platformv1.SetMember{Name: zero}})
		}},
		"a step": {outcome: outcome.Waiting(platformv1.ReasonPodsNotReady, "0 of 3 ready"), reason: image, want: cause},
		"a volume": {outcome: outcome.Stalled(platformv1.ReasonVolumeExpansionUnsupported, "no"),
			reason: platformv1.ReasonVolumeExpansionUnsupported, want: cause},
		"nothing": {outcome: outcome.Done()},
		"a pod that leaves": {outcome: first, reason: failover,
			change: func(st *state) { st.Rollout.Pods[1].Life = rollout.Terminating }},
		"a pod too many": {outcome: first, reason: failover, change: func(st *state) { st.Rollout.Replicas = 1 }},
		"a node that is lost": {outcome: first, reason: failover,
			change: func(st *state) { st.Rollout.Pods[1].Node = rollout.Unreachable }},
		"a set that is to stop": {outcome: first, reason: failover,
			change: func(st *state) { st.Rollout.Mode = rollout.Stopped }},
		"a process that fails before there is a primary": {outcome: first, reason: platformv1.ReasonProcessFailing,
			change: func(st *state) {
				st.Rollout.Founding = true
				report := &st.Rollout.Pods[0].Report
				report.Health, report.Message = agentreport.Unhealthy, "the process ended: exit code 1"
			}, want: "pod " + zero + " is unhealthy: the process ended: exit code 1; the first primary"},
	} {
		st := stateOf(pods, rollout.Facts{Name: "redis-a-redis-main", Replicas: 3, Pods: []rollout.Pod{
			{Name: zero, Life: rollout.Alive}, {Name: one, Ordinal: 1, Life: rollout.Alive}}})
		if test.change != nil {
			test.change(st)
		}
		o := sayFirst(st, test.outcome)
		if o.Kind() != test.outcome.Kind() || o.Reason() != test.reason || !strings.HasPrefix(o.Message(), test.want) ||
			test.want == "" && o.Message() != test.outcome.Message() || !strings.HasSuffix(o.Message(), test.outcome.Message()) {
			t.Errorf("%s: got %v %s %q", what, o.Kind(), o.Reason(), o.Message())
		}
	}
}
