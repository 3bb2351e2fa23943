// SPDX-License-Identifier: Apache-2.0

package component

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	agentreport "github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/podtemplate"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
	"github.com/zeroinfra/platform-core/internal/render"
)

// members are the pods of a component as members of one cluster.
type members struct {
	plugin.Members
	declared *schema.Component
	// parameters of the actions for these members, and the same for members that are formed: that is no reason to ask
	// again.
	parameters, lasting map[string]string
	// pods that stay and can be asked, those that are healthy first.
	pods []*corev1.Pod
	// all pods by UID, as far as they live.
	all map[types.UID]*corev1.Pod
	// print changes with the members and with anything that their pods report.
	print string
	// kept are the names of sets that are not wanted any more.
	kept []string
	// released says that those that leave have left.
	released bool
}

// observeMembers puts together who is to be a member and what the pods report; nil for a component without membership.
func (c *Controller) observeMembers(ctx context.Context, component *platformv1.Component, f *facts,
	output *render.ComponentOutput) (*members, error) {
	declared, ok := f.state.Bundle.In(component.Spec.Topology).Component(component.Spec.Component)
	if !ok || declared.Membership == nil {
		return nil, nil
	}
	m := membersOf(f, output)
	m.declared = declared
	settings := c.Settings.Get()
	var err error
	if m.Moves, err = c.moves(ctx, component); err != nil {
		return nil, err
	}
	// Volumes that are taken over have had a cluster.
	m.Formed = component.Status.Formed || component.Spec.AdoptVolumes != ""
	parameters := func(of plugin.Members) (map[string]string, error) {
		return render.MembershipParameters(f.state.Bundle, settings, ownerOf(component), &component.Spec, of)
	}
	if m.parameters, err = parameters(m.Members); err != nil {
		return nil, err
	}
	formed := m.Members
	formed.Formed = true
	if m.lasting, err = parameters(formed); err != nil {
		return nil, err
	}
	var list corev1.PodList
	if err := c.client.List(ctx, &list, client.InNamespace(component.Namespace), client.MatchingLabels{
		platformv1.ApplicationLabel: component.Spec.Application,
		platformv1.ComponentLabel:   component.Spec.Component,
	}); err != nil {
		return nil, err
	}
	m.lookAt(list.Items)
	m.released = len(m.Leaving) > 0 && c.known.of(component).settled == m.print
	return m, nil
}

// membersOf says who stays and who leaves: whoever a set has now and is not to have.
func membersOf(f *facts, output *render.ComponentOutput) *members {
	m := &members{all: map[types.UID]*corev1.Pod{}}
	wanted := map[string]bool{}
	for i := range output.WorkloadSets {
		set := &output.WorkloadSets[i]
		wanted[set.Name] = true
		stay := set.Spec.Ordinals()
		m.Sets = append(m.Sets, podNames(set.Name, stay))
		if live := f.sets[set.Name]; live != nil && live.DeletionTimestamp == nil {
			leave := slices.DeleteFunc(live.Spec.Ordinals(), func(ordinal int32) bool { return slices.Contains(stay, ordinal) })
			m.Leaving = append(m.Leaving, podNames(set.Name, leave)...)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(f.sets)) {
		if live := f.sets[name]; !wanted[name] && live.DeletionTimestamp == nil {
			m.kept = append(m.kept, name)
			m.Leaving = append(m.Leaving, podNames(name, live.Spec.Ordinals())...)
		}
	}
	return m
}

func podNames(set string, ordinals []int32) []string {
	names := make([]string, 0, len(ordinals))
	for _, ordinal := range ordinals {
		names = append(names, platformv1.PodNameFor(set, ordinal))
	}
	return names
}

// lookAt sorts out which pods can be asked, and tells by the print whether anything about them is new.
func (m *members) lookAt(pods []corev1.Pod) {
	staying := slices.Concat(m.Sets...)
	type seen struct {
		UID        types.UID
		IP         string
		Going      bool
		Health     agentreport.Health
		Role       string
		Starts     int64
		Attributes map[string]string
	}
	told := map[string]seen{}
	health := map[types.UID]agentreport.Health{}
	for i := range pods {
		pod := &pods[i]
		said := agentreport.Latest(pod.Annotations[platformv1.ReportAnnotation])
		told[pod.Name] = seen{pod.UID, pod.Status.PodIP, pod.DeletionTimestamp != nil, said.Health, said.Role, said.Starts,
			said.Attributes}
		m.all[pod.UID], health[pod.UID] = pod, said.Health
		if pod.DeletionTimestamp == nil && slices.Contains(staying, pod.Name) && runsOps(pod) {
			m.pods = append(m.pods, pod)
		}
	}
	rank := func(pod *corev1.Pod) int {
		if health[pod.UID] == agentreport.Healthy {
			return 0
		}
		return 1
	}
	slices.SortFunc(m.pods, func(a, b *corev1.Pod) int { return cmp.Or(rank(a)-rank(b), strings.Compare(a.Name, b.Name)) })
	// Texts, numbers, lists and maps of them.
	data, err := json.Marshal([]any{m.lasting, told})
	if err != nil {
		panic(err)
	}
	sum := sha256.Sum256(data)
	m.print = hex.EncodeToString(sum[:])
}

func runsOps(pod *corev1.Pod) bool {
	return pod.Status.PodIP != "" && slices.ContainsFunc(pod.Status.ContainerStatuses,
		func(s corev1.ContainerStatus) bool {
			return s.Name == podtemplate.OpsContainer && s.State.Running != nil
		})
}

// held is what is to be applied: as long as pods have yet to leave, their sets keep them.
func (m *members) held(f *facts, output *render.ComponentOutput) *render.ComponentOutput {
	if m == nil || m.released || len(m.Leaving) == 0 {
		return output
	}
	held := *output
	held.WorkloadSets = slices.Clone(output.WorkloadSets)
	for i := range held.WorkloadSets {
		spec := &held.WorkloadSets[i].Spec
		live := f.sets[held.WorkloadSets[i].Name]
		if live == nil || live.DeletionTimestamp != nil {
			continue
		}
		spec.Replicas, spec.ExcludedOrdinals = render.Together(spec.Ordinals(), live.Spec.Ordinals())
		spec.Members = render.Members(spec.Replicas, spec.ExcludedOrdinals)
	}
	for _, name := range m.kept {
		kept := render.WorkloadSetOutput{Name: name, Spec: *f.sets[name].Spec.DeepCopy()}
		// Which volumes it has is for the Operation to say that gave it those. It is kept by a component that goes on, and
		// runs as long as that does.
		kept.Spec.Data, kept.Spec.Suspend = nil, false
		if len(output.WorkloadSets) > 0 {
			kept.Spec.Running, kept.Spec.DeletionPolicy = output.WorkloadSets[0].Spec.Running,
				output.WorkloadSets[0].Spec.DeletionPolicy
		}
		held.WorkloadSets = append(held.WorkloadSets, kept)
	}
	f.kept = m.kept
	return &held
}

// ofMember wakes the Component of a pod, where pods are members of one cluster.
func (c *Controller) ofMember(_ context.Context, obj client.Object) []reconcile.Request {
	name := types.NamespacedName{
		Namespace: obj.GetNamespace(),
		Name: platformv1.ComponentNameFor(obj.GetLabels()[platformv1.ApplicationLabel],
			obj.GetLabels()[platformv1.ComponentLabel]),
	}
	if !c.known.has(name) {
		return nil
	}
	return []reconcile.Request{{NamespacedName: name}}
}

// memberMoved passes pods that report something else, have another address, come or go.
var memberMoved = predicate.Funcs{
	UpdateFunc: func(e event.UpdateEvent) bool {
		before, was := e.ObjectOld.(*corev1.Pod)
		after, is := e.ObjectNew.(*corev1.Pod)
		return was && is && (before.Annotations[platformv1.ReportAnnotation] !=
			after.Annotations[platformv1.ReportAnnotation] ||
			before.Status.PodIP != after.Status.PodIP || runsOps(before) != runsOps(after) ||
			(before.DeletionTimestamp == nil) != (after.DeletionTimestamp == nil))
	},
}

// pick is the pod to ask: another one after each failure.
func (m *members) pick(failures int) *corev1.Pod { return m.pods[failures%len(m.pods)] }

// list names pods in a message.
func list(names []string) string {
	const most = 5
	if len(names) > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
	}
	return strings.Join(names, ", ")
}
