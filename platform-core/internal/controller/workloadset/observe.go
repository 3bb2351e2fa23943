// SPDX-License-Identifier: Apache-2.0

package workloadset

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	agentreport "github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/failover"
	"github.com/zeroinfra/platform-core/internal/inplaceupdate"
	"github.com/zeroinfra/platform-core/internal/maintenance"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/internal/rollout"
)

// facts are the observed state of one reconcile.
type facts struct {
	// plan that the pods should run.
	plan plan.Plan
	// rollout facts: pods, revision and digest.
	rollout rollout.Facts
	// pods by name, as they are in the cache.
	pods map[string]*corev1.Pod
	// wanted are the pods by name as they would be made now, for those that are there. They are shared.
	wanted map[string]*corev1.Pod
	// stuck pods by name, and why they cannot get the resources that are asked for.
	stuck map[string]string
	// moves says that the pods or the record of the primary have another generation of volumes than the spec: all pods end
	// before one starts with the new one.
	moves bool
	// asked is the generation of the spec, and invalidGeneration why the pods cannot change to it: then all other facts
	// are of the generation that they have. Empty for none.
	asked, invalidGeneration string
	// claims by name; absent ones are missing.
	claims map[string]*corev1.PersistentVolumeClaim
	// certificates of the agents by name of the Secret.
	certificates map[string]*corev1.Secret
	// classes by name.
	classes map[string]*storagev1.StorageClass
	// lost nodes by name, as far as pods gave cause to look.
	lost map[string]lostNode
	// nodes of the cluster, when something asked for them.
	nodes *[]corev1.Node
	// now is when the reconcile began.
	now time.Time
	// opening of the next maintenance window, while none is open.
	opening maintenance.Opening
	// awaits says what the disruption of serving pods waits for, beside a window; empty for nothing.
	awaits string
	// holdsLock says that this reconcile holds the disruption lock of the Application until the steps were executed.
	holdsLock bool
	// wake is when to reconcile again for what no watch reports; 0 for never.
	wake time.Duration
	// primaryWake is the same for the primary.
	primaryWake time.Duration
	// primary is the record of the primary, as far as it is known.
	primary *platformv1.PrimaryRecord
	// recorded is the election that the status had when it was read, and election what the members report now.
	recorded *platformv1.ElectionRecord
	election rollout.Election
	// labelRemoved says that the primary must not have its label: a candidate is about to take over.
	labelRemoved bool
	// order to the primary to hand over that the rollout gave.
	order *failover.Order
	// asking is the Operation that asks for another primary; nil for none.
	asking *platformv1.Operation
}

func (f *facts) wakeAfter(d time.Duration) {
	if f.wake == 0 || d < f.wake {
		f.wake = d
	}
}

func (c *Controller) observe(ctx context.Context, set *platformv1.WorkloadSet) (*facts, error) {
	f := &facts{
		claims:       map[string]*corev1.PersistentVolumeClaim{},
		certificates: map[string]*corev1.Secret{},
		classes:      map[string]*storagev1.StorageClass{},
		lost:         map[string]lostNode{},
		now:          c.Now(),
		primary:      set.Status.Primary,
		recorded:     set.Status.Election,
		asked:        set.Spec.Generation(),
	}
	var err error
	if f.plan, err = render.Plan(set); err != nil {
		return nil, fmt.Errorf("cannot read plan of WorkloadSet %q: %w", set.Name, err)
	}
	f.rollout = wantedOf(set)
	windows, err := maintenance.Parse(set.Spec.Maintenance)
	if err != nil {
		return nil, fmt.Errorf("cannot read WorkloadSet %q: %w", set.Name, err)
	}
	if opening, closed := windows.Closed(f.now); closed {
		f.rollout.Window, f.opening = rollout.Closed, opening
	}
	f.rollout.ConfigDigest, f.rollout.RestartDigest = f.plan.Digest, f.plan.RestartDigest
	if err := c.observeVolumes(ctx, set, f); err != nil {
		return nil, err
	}
	if err := c.observePods(ctx, c.client, set, f); err != nil {
		return nil, err
	}
	for _, ordinal := range f.rollout.Ordinals() {
		name := platformv1.AgentCertificateNameFor(platformv1.PodNameFor(set.Name, ordinal))
		secret := &corev1.Secret{}
		switch err := c.client.Get(ctx, client.ObjectKey{Namespace: set.Namespace, Name: name}, secret); {
		case err == nil:
			f.certificates[name] = secret
		case !apierrors.IsNotFound(err):
			return nil, err
		}
	}
	return f, nil
}

// wantedOf is what the spec asks of the pods.
func wantedOf(set *platformv1.WorkloadSet) rollout.Facts {
	wanted := rollout.Facts{
		Name:            set.Name,
		Replicas:        set.Spec.Replicas,
		Excluded:        set.Spec.ExcludedOrdinals,
		Policy:          set.Spec.PodManagementPolicy,
		RestartStrategy: set.Spec.RestartStrategy,
		Authority:       set.Spec.Authority,
		Revision:        set.Spec.Revision,
		Roles:           set.Spec.Roles,

		Interchangeable: len(set.Spec.Volumes) == 0 && len(set.Spec.Roles) == 0,
	}
	switch {
	case set.Spec.Suspend:
		wanted.Mode = rollout.Suspended
	case !set.Spec.IsRunning():
		wanted.Mode = rollout.Stopped
	}
	return wanted
}

// selector matches what belongs to the set.
func selector(set *platformv1.WorkloadSet) client.MatchingLabels {
	return client.MatchingLabels{
		platformv1.ApplicationLabel: set.Spec.Application,
		platformv1.ComponentLabel:   set.Spec.Component,
		platformv1.SetLabel:         set.Spec.Set,
	}
}

// observePods looks at the pods of the set anew: through the cache, or as they are at this moment.
func (c *Controller) observePods(ctx context.Context, reader client.Reader, set *platformv1.WorkloadSet,
	f *facts) error {
	f.rollout.Pods, f.wake = nil, 0
	f.pods, f.wanted, f.stuck = map[string]*corev1.Pod{}, map[string]*corev1.Pod{}, map[string]string{}
	var list corev1.PodList
	if err := reader.List(ctx, &list, client.InNamespace(set.Namespace), selector(set)); err != nil {
		return err
	}
	for i := range list.Items {
		pod := &list.Items[i]
		ordinal, err := strconv.ParseInt(pod.Labels[platformv1.OrdinalLabel], 10, 32)
		if err != nil || !metav1.IsControlledBy(pod, set) {
			continue // not ours: creating over it says so
		}
		f.pods[pod.Name] = pod
		p := factsOf(pod, int32(ordinal))
		shareDigests(&f.plan, pod.Name, &p.Report)
		if p.Node, err = c.contact(ctx, f, pod); err != nil {
			return err
		}
		if p.Life == rollout.Alive && f.rollout.Mode != rollout.Stopped && f.rollout.Wanted(p) {
			if err := c.compare(ctx, set, f, &p); err != nil {
				return err
			}
		}
		f.rollout.Pods = append(f.rollout.Pods, p)
	}
	slices.SortFunc(f.rollout.Pods, func(a, b rollout.Pod) int { return int(a.Ordinal - b.Ordinal) })
	observeSwitchover(set, f)
	c.observeCandidates(set, f)
	f.observeGeneration(set)
	return nil
}

// compare says how a pod stands to the one that would be made now.
func (c *Controller) compare(ctx context.Context, set *platformv1.WorkloadSet, f *facts, p *rollout.Pod) error {
	live := f.pods[p.Name]
	want, err := c.rendered.pod(set, p.Ordinal)
	if err != nil {
		return err
	}
	f.wanted[p.Name] = want
	if len(imageChanges(live, want)) > 0 {
		p.Images = rollout.Outdated
	}
	if p.Resources, p.Note, err = c.fitResources(ctx, f, live, want); err != nil {
		return err
	}
	if p.Resources == rollout.Outdated {
		if why, refused := c.refusals.of(live, set.Generation); refused {
			p.Resources, p.Note = rollout.Replace, why
		}
	}
	p.Tightens = p.Resources == rollout.Outdated && tightens(live, want)
	if p.Resources != rollout.Replace {
		volumes, note := fitVolumes(set, f, live)
		if p.Volumes = volumes; note != "" {
			p.Note = note
		}
	}
	if last := p.Report.LastCall; attemptsOf(callKey(reloadCall, set, f, live), last) > 0 &&
		last.Phase == agentreport.CallFailed && last.Reason == agentreport.ReasonRestartRequired {
		p.Reload = rollout.Replace
	}
	return nil
}

func factsOf(pod *corev1.Pod, ordinal int32) rollout.Pod {
	p := rollout.Pod{
		Name:     pod.Name,
		Ordinal:  ordinal,
		Life:     rollout.Alive,
		Revision: pod.Labels[platformv1.RevisionLabel],
		Ready:    rollout.NotReady,
		Role:     pod.Labels[platformv1.RoleLabel],
	}
	switch {
	case pod.DeletionTimestamp != nil:
		p.Life = rollout.Terminating
	case pod.Status.Phase == corev1.PodFailed || pod.Status.Phase == corev1.PodSucceeded:
		p.Life = rollout.Ended
	}
	for _, condition := range pod.Status.Conditions {
		if condition.Type == corev1.PodReady && condition.Status == corev1.ConditionTrue {
			p.Ready = rollout.Ready
		}
	}
	if inplaceupdate.Restarting(pod) {
		p.Restart = rollout.Underway
	}
	p.Report = agentreport.Latest(pod.Annotations[platformv1.ReportAnnotation])
	return p
}

func (c *Controller) observeVolumes(ctx context.Context, set *platformv1.WorkloadSet, f *facts) error {
	if len(set.Spec.Volumes) == 0 {
		return nil
	}
	if err := c.observeClaims(ctx, c.client, set, f); err != nil {
		return err
	}
	var classes storagev1.StorageClassList
	if err := c.client.List(ctx, &classes); err != nil {
		return err
	}
	for i := range classes.Items {
		f.classes[classes.Items[i].Name] = &classes.Items[i]
	}
	return nil
}

// observeClaims looks at the claims of the set anew: through the cache, or as they are at this moment.
func (c *Controller) observeClaims(ctx context.Context, reader client.Reader, set *platformv1.WorkloadSet,
	f *facts) error {
	var list corev1.PersistentVolumeClaimList
	if err := reader.List(ctx, &list, client.InNamespace(set.Namespace), selector(set)); err != nil {
		return err
	}
	f.claims = make(map[string]*corev1.PersistentVolumeClaim, len(list.Items))
	for i := range list.Items {
		f.claims[list.Items[i].Name] = &list.Items[i]
	}
	return nil
}
