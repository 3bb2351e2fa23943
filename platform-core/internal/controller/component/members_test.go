// SPDX-License-Identifier: Apache-2.0

package component

import (
	"encoding/json"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	agentreport "github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/podtemplate"
	"github.com/zeroinfra/platform-core/internal/render"
)

func podSet(name string, replicas int32, excluded ...int32) *platformv1.WorkloadSet {
	return &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: platformv1.WorkloadSetSpec{
		Replicas: replicas, ExcludedOrdinals: excluded, Members: render.Members(replicas, excluded)}}
}

func liveSets(sets ...*platformv1.WorkloadSet) *facts {
	f := &facts{sets: map[string]*platformv1.WorkloadSet{}}
	for _, set := range sets {
		f.sets[set.Name] = set
	}
	return f
}

func wantedSets(sets ...*platformv1.WorkloadSet) *render.ComponentOutput {
	output := &render.ComponentOutput{}
	for _, set := range sets {
		output.WorkloadSets = append(output.WorkloadSets, render.WorkloadSetOutput{Name: set.Name, Spec: set.Spec})
	}
	return output
}

// Whoever a set has and is not to have leaves, and stays until it has left; what is to come comes at once.
func TestMembersStayUntilTheyHaveLeft(t *testing.T) {
	tests := map[string]struct {
		live, wanted *render.ComponentOutput
		leaving      []string
		held         map[string][]int32
	}{
		"the first ones": {wantedSets(), wantedSets(podSet("a", 2)), nil, map[string][]int32{"a": {0, 1}}},
		"as it is":       {wantedSets(podSet("a", 2)), wantedSets(podSet("a", 2)), nil, map[string][]int32{"a": {0, 1}}},
		"more pods":      {wantedSets(podSet("a", 1)), wantedSets(podSet("a", 2)), nil, map[string][]int32{"a": {0, 1}}},
		"fewer pods": {wantedSets(podSet("a", 3)), wantedSets(podSet("a", 1)), []string{"a-1", "a-2"},
			map[string][]int32{"a": {0, 1, 2}}},
		"a named pod": {wantedSets(podSet("a", 2)), wantedSets(podSet("a", 2, 0)), []string{"a-0"},
			map[string][]int32{"a": {0, 1, 2}}},
		"another set": {wantedSets(podSet("a", 1)), wantedSets(podSet("a", 1), podSet("b", 1)), nil,
			map[string][]int32{"a": {0}, "b": {0}}},
		"a set less": {wantedSets(podSet("a", 1), podSet("b", 2)), wantedSets(podSet("a", 1)), []string{"b-0", "b-1"},
			map[string][]int32{"a": {0}, "b": {0, 1}}},
		"a set for another": {wantedSets(podSet("a", 1), podSet("b", 1)), wantedSets(podSet("a", 1), podSet("c", 1)),
			[]string{"b-0"},
			map[string][]int32{"a": {0}, "b": {0}, "c": {0}}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			f := liveSets()
			for i := range test.live.WorkloadSets {
				set := test.live.WorkloadSets[i]
				f.sets[set.Name] = &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Name: set.Name}, Spec: set.Spec}
			}
			m := membersOf(f, test.wanted)
			if !slices.Equal(m.Leaving, test.leaving) {
				t.Errorf("%v leave, want %v", m.Leaving, test.leaving)
			}
			held := map[string][]int32{}
			for _, set := range m.held(f, test.wanted).WorkloadSets {
				held[set.Name] = set.Spec.Ordinals()
				if set.Spec.Members != render.Members(set.Spec.Replicas, set.Spec.ExcludedOrdinals) {
					t.Errorf("the members of set %s are %q with ordinals %v", set.Name, set.Spec.Members, set.Spec.Ordinals())
				}
			}
			if len(held) != len(test.held) {
				t.Errorf("the sets are %v, want %v", held, test.held)
			}
			for name, ordinals := range test.held {
				if !slices.Equal(held[name], ordinals) {
					t.Errorf("set %s has %v, want %v", name, held[name], ordinals)
				}
			}
			m.released = true
			if released := m.held(f, test.wanted); released != test.wanted {
				t.Errorf("all have left, and the sets are %v", released.WorkloadSets)
			}
		})
	}
}

// A set that is kept is applied without its volumes, which are an Operation's to choose, and goes on with the
// component.
func TestAKeptSetIsItsOwnButForItsData(t *testing.T) {
	kept := podSet("b", 1)
	kept.Spec.Version, kept.Spec.Suspend, kept.Spec.Data = "7.0", true, &platformv1.SetData{}
	stopped := podSet("a", 1)
	stopped.Spec.Running, stopped.Spec.DeletionPolicy = new(false), platformv1.DeletionPolicySnapshot
	f, wanted := liveSets(podSet("a", 1), kept), wantedSets(stopped)
	held := membersOf(f, wanted).held(f, wanted).WorkloadSets
	if len(held) != 2 || held[1].Spec.Version != "7.0" || held[1].Spec.Data != nil || held[1].Spec.Suspend ||
		held[1].Spec.IsRunning() || held[1].Spec.DeletionPolicy != platformv1.DeletionPolicySnapshot {
		t.Errorf("it is held as %+v", held)
	}
	if kept.Spec.Data == nil {
		t.Error("the live set was changed")
	}
}

// A set that is on its way out already is not kept.
func TestASetThatGoesHasNoMembers(t *testing.T) {
	gone := podSet("b", 1)
	gone.DeletionTimestamp = &metav1.Time{}
	if m := membersOf(liveSets(podSet("a", 1), gone), wantedSets(podSet("a", 1))); len(m.Leaving) > 0 || len(m.kept) > 0 {
		t.Errorf("%v leave, and %v is kept", m.Leaving, m.kept)
	}
}

func memberPod(name string, report agentreport.Report) corev1.Pod {
	data, err := json.Marshal(report)
	if err != nil {
		panic(err)
	}
	return corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name),
			Annotations: map[string]string{platformv1.ReportAnnotation: string(data)}},
		Status: corev1.PodStatus{PodIP: "10.0.0.1", ContainerStatuses: []corev1.ContainerStatus{
			{Name: podtemplate.OpsContainer, State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}},
	}
}

// Whatever is new about a pod has the members looked at again; healthy pods that stay are asked first, and such as
// leave never.
func TestThePrintTellsWhatIsNew(t *testing.T) {
	base := []corev1.Pod{
		memberPod("a-0", agentreport.Report{Health: agentreport.Unhealthy}),
		memberPod("a-1", agentreport.Report{Health: agentreport.Healthy, Role: "primary",
			Attributes: map[string]string{"state": "ok"}}),
		memberPod("a-2", agentreport.Report{Health: agentreport.Healthy}),
	}
	look := func(pods []corev1.Pod) *members {
		m := membersOf(liveSets(podSet("a", 3)), wantedSets(podSet("a", 2)))
		m.lookAt(pods)
		return m
	}
	first := look(base)
	if len(first.pods) != 2 || first.pods[0].Name != "a-1" || first.pods[1].Name != "a-0" {
		t.Errorf("asked are %v", first.pods)
	}
	if look(base).print != first.print {
		t.Error("nothing is new, and the print is another one")
	}
	now := metav1.Now()
	for name, change := range map[string]func(*corev1.Pod){
		"another pod":     func(p *corev1.Pod) { p.UID = "x" },
		"another address": func(p *corev1.Pod) { p.Status.PodIP = "10.0.0.2" },
		"it goes":         func(p *corev1.Pod) { p.DeletionTimestamp = &now },
		"another role": func(p *corev1.Pod) {
			*p = memberPod("a-1", agentreport.Report{Health: agentreport.Healthy, Role: "replica",
				Attributes: map[string]string{"state": "ok"}})
		},
		"another word": func(p *corev1.Pod) {
			*p = memberPod("a-1", agentreport.Report{Health: agentreport.Healthy, Role: "primary",
				Attributes: map[string]string{"state": "fail"}})
		},
		"the process was started again": func(p *corev1.Pod) {
			*p = memberPod("a-1", agentreport.Report{Health: agentreport.Healthy, Role: "primary", Starts: 2,
				Attributes: map[string]string{"state": "ok"}})
		},
	} {
		pods := slices.Clone(base)
		if change(&pods[1]); look(pods).print == first.print {
			t.Errorf("%s: the print is the same", name)
		}
	}
}
