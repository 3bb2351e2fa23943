// SPDX-License-Identifier: Apache-2.0

// Package facts has what one reconcile of a WorkloadSet observed. Facts are a value: no sub-reconciler changes them,
// and what is read anew, or written meanwhile, gives other facts (With…, and the methods of Observer).
package facts

import (
	"maps"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/maintenance"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/internal/rollout"
)

// Owner is the field owner of all that the controller of WorkloadSets applies.
const Owner = "workloadset"

// Facts are the observed state of one reconcile. Its maps are shared between facts: nobody may change them.
type Facts struct {
	// Plan that the pods should run.
	Plan plan.Plan
	// Mode that the spec asks for. It is Stopped as well while all pods have to end before they get other volumes.
	Mode rollout.Mode
	// Window is Closed while no maintenance window is open, and Opening is when the next one opens.
	Window  rollout.Window
	Opening maintenance.Opening
	// Pods of the set by name, as they were read.
	Pods map[string]*corev1.Pod
	// Moves says that the pods or the record of the primary have another generation of volumes than the spec: all pods end
	// before one starts with the new one.
	Moves bool
	// Asked is the generation of volumes in the spec as it is stored.
	Asked string
	// Claims by name; absent ones are missing.
	Claims map[string]*corev1.PersistentVolumeClaim
	// Classes by name.
	Classes map[string]*storagev1.StorageClass
	// Certificates of the agents by name of the Secret.
	Certificates map[string]*corev1.Secret
	// Primary is the record of the primary, as far as it is known.
	Primary *platformv1.PrimaryRecord
	// RecordedElection is the election in the status.
	RecordedElection *platformv1.ElectionRecord
	// Now is when the reconcile began.
	Now time.Time
}

// WithPrimary returns the facts with another record of the primary.
func (f *Facts) WithPrimary(record *platformv1.PrimaryRecord) *Facts {
	next := *f
	next.Primary = record
	return &next
}

// WithAsked returns the facts with another generation that the stored spec asks for.
func (f *Facts) WithAsked(generation string) *Facts {
	next := *f
	next.Asked = generation
	return &next
}

// WithClaim returns the facts with one claim that was made or changed.
func (f *Facts) WithClaim(claim *corev1.PersistentVolumeClaim) *Facts {
	next := *f
	next.Claims = maps.Clone(f.Claims)
	if next.Claims == nil {
		next.Claims = map[string]*corev1.PersistentVolumeClaim{}
	}
	next.Claims[claim.Name] = claim
	return &next
}

// withPods returns the facts with other pods. A primary on one generation of volumes and a pod on another would be a
// split brain: where the pods, or the record of the primary, belong to another generation than the spec asks for, the
// set counts as stopped until no pod is left.
func (f *Facts) withPods(set *platformv1.WorkloadSet, pods map[string]*corev1.Pod) *Facts {
	next := *f
	next.Pods = pods
	next.Moves = f.Primary != nil && f.Primary.Data != set.Spec.Generation()
	for _, pod := range pods {
		next.Moves = next.Moves || !render.OnVolumesOf(set, pod)
	}
	if next.Moves && next.Mode == rollout.Running {
		next.Mode = rollout.Stopped
	}
	return &next
}

// OrdinalOf returns the ordinal of a pod that belongs to the set.
func OrdinalOf(set *platformv1.WorkloadSet, pod *corev1.Pod) (ordinal int32, belongs bool) {
	n, err := strconv.ParseInt(pod.Labels[platformv1.OrdinalLabel], 10, 32)
	// A pod of somebody else under a name of ours is reported by the attempt to create ours.
	return int32(n), err == nil && metav1.IsControlledBy(pod, set)
}

// Selector matches the pods, claims and snapshots of a set.
func Selector(set *platformv1.WorkloadSet) client.MatchingLabels {
	return client.MatchingLabels{
		platformv1.ApplicationLabel: set.Spec.Application,
		platformv1.ComponentLabel:   set.Spec.Component,
		platformv1.SetLabel:         set.Spec.Set,
	}
}

// Meta is the metadata of an object of a set: its namespace and labels.
func Meta(set *platformv1.WorkloadSet, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: set.Namespace, Name: name, Labels: render.LabelsOf(set)}
}

// Ours says whether a claim belongs to the Application of the set, and not to an earlier one.
func Ours(set *platformv1.WorkloadSet, claim *corev1.PersistentVolumeClaim) bool {
	return claim.Labels[platformv1.ApplicationUIDLabel] == set.Labels[platformv1.ApplicationUIDLabel]
}

// ConditionOf returns the status of a condition of a pod: Unknown for one that it does not have.
func ConditionOf(pod *corev1.Pod, kind corev1.PodConditionType) corev1.ConditionStatus {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return pod.Status.Conditions[i].Status
		}
	}
	return corev1.ConditionUnknown
}

// PrimaryOf returns the name of the primary of a record; empty if none is named.
func PrimaryOf(record *platformv1.PrimaryRecord) string {
	if record == nil || record.Member == nil {
		return ""
	}
	return record.Member.Name
}
