// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/inplaceupdate"
	"github.com/zeroinfra/platform-core/internal/plugin/podtemplate"
	"github.com/zeroinfra/platform-core/internal/rollout"
)

func list(pairs ...string) corev1.ResourceList {
	l := corev1.ResourceList{}
	for i := 0; i < len(pairs); i += 2 {
		l[corev1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
	}
	return l
}

// resizing is a reconciler on a server that resizes pods.
func resizing() *Reconciler { return &Reconciler{Deps: Deps{Resizable: true}} }

func podWith(requests, limits corev1.ResourceList) *corev1.Pod {
	return &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{
		{Name: "redis", Image: "redis:1", Resources: corev1.ResourceRequirements{Requests: requests, Limits: limits}},
		{Name: podtemplate.StatusContainer, Image: "redis:1",
			Resources: corev1.ResourceRequirements{Requests: list("cpu", "10m")}},
	}}}
}

func TestResourceChanges(t *testing.T) {
	tests := map[string]struct {
		live, want *corev1.Pod
		// given is what the live pod was made from.
		given *corev1.Pod
		says  string
	}{
		"the same": {live: podWith(list("cpu", "1"), nil), want: podWith(list("cpu", "1000m"), nil), says: `{}`},
		"requests that the server derives from limits": {
			live: podWith(list("cpu", "1", "memory", "1Gi"), list("cpu", "1", "memory", "1Gi")),
			want: podWith(list("memory", "1Gi"), list("cpu", "1", "memory", "1Gi")), says: `{}`},
		"what a LimitRange added": {
			live: podWith(list("cpu", "1", "memory", "1Gi"), list("memory", "1Gi")), want: podWith(list("cpu", "1"), nil),
			given: podWith(list("cpu", "1"), nil), says: `{}`},
		"a limit that is wanted no more": {
			live: podWith(list("cpu", "1"), list("cpu", "2")), want: podWith(list("cpu", "1"), nil),
			given: podWith(list("cpu", "1"), list("cpu", "2")), says: `{"redis":{"limits.cpu":null}}`},
		"another request": {live: podWith(list("cpu", "1"), nil), want: podWith(list("cpu", "2"), nil),
			says: `{"redis":{"requests.cpu":"2"}}`},
		"another limit": {live: podWith(list("cpu", "1"), list("cpu", "1")), want: podWith(nil, list("cpu", "2")),
			says: `{"redis":{"limits.cpu":"2","requests.cpu":"2"}}`},
		"another need of the agent": {live: podWith(nil, nil), want: func() *corev1.Pod {
			p := podWith(nil, nil)
			p.Spec.Containers[1].Resources.Requests = list("cpu", "20m")
			return p
		}(), says: `{}`},
		"a container that comes with the next pod": {live: podWith(nil, nil), want: func() *corev1.Pod {
			p := podWith(nil, nil)
			p.Spec.Containers = append(p.Spec.Containers,
				corev1.Container{Name: "new", Resources: corev1.ResourceRequirements{Requests: list("cpu", "20m")}})
			return p
		}(), says: `{}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if test.given != nil {
				test.live.Annotations = map[string]string{platformv1.ResourcesAnnotation: resourceNames(test.given)}
			}
			got, err := json.Marshal(resourceChanges(test.live, test.want))
			if err != nil || string(got) != test.says {
				t.Errorf("got %s, want %s, %v", got, test.says, err)
			}
		})
	}
}

// The API server takes no change of anything but CPU and memory of a pod that runs.
func TestOtherResourcesNeedAnotherPod(t *testing.T) {
	pod := func(limits ...string) *corev1.Pod {
		p := podWith(nil, list(limits...))
		p.Spec.NodeName, p.Status.Phase = "node", corev1.PodRunning
		return p
	}
	for name, test := range map[string]struct {
		live, want *corev1.Pod
		fit        rollout.Fit
		note       string
	}{
		"memory": {pod("memory", "1Gi", "nvidia.com/gpu", "1"), pod("memory", "2Gi", "nvidia.com/gpu", "1"),
			rollout.Outdated, ""},
		"a GPU": {pod("memory", "1Gi"), pod("memory", "1Gi", "nvidia.com/gpu", "1"), rollout.Replace,
			"nvidia.com/gpu cannot change while the pod runs"},
		"more of them": {pod("nvidia.com/gpu", "1"), pod("memory", "1Gi", "nvidia.com/gpu", "2"), rollout.Replace,
			"nvidia.com/gpu cannot change"},
		"none any more": {pod("nvidia.com/gpu", "1"), pod(), rollout.Replace, "nvidia.com/gpu cannot change"},
		"scratch space": {pod("ephemeral-storage", "1Gi"), pod("ephemeral-storage", "2Gi"), rollout.Replace,
			"ephemeral-storage cannot change"},
		"as it was asked": {pod("nvidia.com/gpu", "1"), pod("nvidia.com/gpu", "1"), rollout.Current, ""},
	} {
		t.Run(name, func(t *testing.T) {
			test.live.Annotations = map[string]string{platformv1.ResourcesAnnotation: resourceNames(test.live)}
			got, note, err := resizing().fitResources(t.Context(), verdictOn(nil, rollout.Facts{}), test.live, test.want)
			if err != nil || got != test.fit || !strings.Contains(note, test.note) {
				t.Errorf("it is %q, %q, %v; want %q, %q", got, note, err, test.fit, test.note)
			}
		})
	}
}

func withImage(pod *corev1.Pod, image, id string) *corev1.Pod {
	for i := range pod.Spec.Containers {
		pod.Spec.Containers[i].Image = image
	}
	pod.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "redis", ContainerID: id}}
	return pod
}

// A pod whose image was changed counts as restarting until the kubelet has acted, also when the image changes again.
func TestTightens(t *testing.T) {
	pod := func(limits corev1.ResourceList) *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "db", Resources: corev1.ResourceRequirements{Limits: limits}}}}}
	}
	memory := func(quantity string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(quantity)}
	}
	for name, test := range map[string]struct {
		live, want corev1.ResourceList
		tightens   bool
	}{
		"less":          {memory("2Gi"), memory("1Gi"), true},
		"more":          {memory("1Gi"), memory("2Gi"), false},
		"the same":      {memory("1024Mi"), memory("1Gi"), false},
		"a first limit": {nil, memory("1Gi"), true},
		"no limit":      {memory("1Gi"), nil, false},
		"less processing": {corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("2")},
			corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("1")}, false},
	} {
		if got := tightens(pod(test.live), pod(test.want)); got != test.tightens {
			t.Errorf("%s: got %v", name, got)
		}
	}
}

func TestRestartFit(t *testing.T) {
	live := withImage(podWith(nil, nil), "redis:1", "c1")
	change := func(image string) {
		t.Helper()
		body, err := imagePatch(live, withImage(podWith(nil, nil), image, ""))
		if err != nil {
			t.Fatal(err)
		}
		var patch corev1.Pod
		if err := json.Unmarshal(body, &patch); err != nil {
			t.Fatal(err)
		}
		if len(patch.Spec.Containers) != 2 || patch.Spec.Containers[0].Image != image {
			t.Fatalf("patch %s", body)
		}
		live.Annotations = patch.Annotations
		live = withImage(live, image, live.Status.ContainerStatuses[0].ContainerID)
	}
	expect := func(when string, want bool) {
		t.Helper()
		if got := inplaceupdate.Restarting(live); got != want {
			t.Errorf("%s: restarting is %t", when, got)
		}
	}
	expect("at first", false)
	change("redis:2")
	expect("after the change", true)
	change("redis:3")
	expect("after another change", true)
	change("redis:1")
	expect("after it was taken back", false)
	change("redis:4")
	live.Status.ContainerStatuses[0].ContainerID = "c2"
	expect("after the restart", false)
}

func TestImagesOfInitContainersAloneAreNoChange(t *testing.T) {
	live, want := podWith(nil, nil), podWith(nil, nil)
	live.Spec.InitContainers = []corev1.Container{{Name: podtemplate.InitContainer, Image: "agent:1"},
		{Name: "prepare", Image: "redis:1"}}
	want.Spec.InitContainers = []corev1.Container{{Name: podtemplate.InitContainer, Image: "agent:2"},
		{Name: "prepare", Image: "redis:2"}}
	if changes := imageChanges(live, want); len(changes) != 0 {
		t.Errorf("changes %v", changes)
	}
	body, err := imagePatch(live, want)
	if err != nil || strings.Contains(string(body), "agent:2") ||
		!strings.Contains(string(body), `{"name":"prepare","image":"redis:2"}`) {
		t.Errorf("patch %s, %v", body, err)
	}
	want.Spec.InitContainers[1].RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	live.Spec.InitContainers[1].RestartPolicy = new(corev1.ContainerRestartPolicyAlways)
	if changes := imageChanges(live, want); changes["prepare"] != "redis:2" {
		t.Errorf("changes of a sidecar: %v", changes)
	}
}

func TestTakes(t *testing.T) {
	on := func(key string, operator corev1.NodeSelectorOperator, values ...string) *corev1.NodeSelector {
		return &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{
			{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: key, Operator: operator, Values: values}}}}}
	}
	node := func(change func(*corev1.Node)) *corev1.Node {
		n := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{"zone": "a", "cores": "16"}},
			Status: corev1.NodeStatus{Allocatable: list("cpu", "4", "memory", "8Gi")}}
		change(n)
		return n
	}
	as := func(*corev1.Node) {}
	small := podWith(list("cpu", "3990m"), nil)
	tests := map[string]struct {
		node *corev1.Node
		pod  *corev1.Pod
		pins []*corev1.NodeSelector
		want bool
	}{
		"it fits":           {node(as), small, nil, true},
		"one core too many": {node(as), podWith(list("cpu", "4"), nil), nil, false},
		"cordoned":          {node(func(n *corev1.Node) { n.Spec.Unschedulable = true }), small, nil, false},
		"tainted": {node(func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectNoSchedule}}
		}), small, nil, false},
		"lightly tainted": {node(func(n *corev1.Node) {
			n.Spec.Taints = []corev1.Taint{{Key: "a", Effect: corev1.TaintEffectPreferNoSchedule}}
		}), small, nil, true},
		"volume is there":     {node(as), small, []*corev1.NodeSelector{on("zone", corev1.NodeSelectorOpIn, "a", "b")}, true},
		"volume is elsewhere": {node(as), small, []*corev1.NodeSelector{on("zone", corev1.NodeSelectorOpIn, "b")}, false},
		"more cores wanted":   {node(as), small, []*corev1.NodeSelector{on("cores", corev1.NodeSelectorOpGt, "15")}, true},
		"volume is unknown":   {node(as), small, []*corev1.NodeSelector{{}}, false},
		"no such resource":    {node(as), podWith(list("example.com/gpu", "1"), nil), nil, false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			if got := takes(test.node, test.pod, test.pins); got != test.want {
				t.Errorf("got %v", got)
			}
		})
	}
	picky := small.DeepCopy()
	picky.Spec.NodeSelector = map[string]string{"zone": "b"}
	if takes(node(as), picky, nil) {
		t.Error("the node selector does not count")
	}
}

func TestFitResourcesReadsWhatTheKubeletSays(t *testing.T) {
	now := time.Now()
	condition := func(kind corev1.PodConditionType, reason string, ago time.Duration) corev1.PodStatus {
		return corev1.PodStatus{Conditions: []corev1.PodCondition{
			{Type: kind, Status: corev1.ConditionTrue, Reason: reason, Message: "why",
				LastTransitionTime: metav1.NewTime(now.Add(-ago))}}}
	}
	tests := map[string]struct {
		status corev1.PodStatus
		want   rollout.Fit
		says   string
		wake   time.Duration
	}{
		"nothing":      {corev1.PodStatus{}, rollout.Current, "", 0},
		"not seen yet": {corev1.PodStatus{ObservedGeneration: 1}, rollout.Underway, "has yet to give it", 0},
		"seen":         {corev1.PodStatus{ObservedGeneration: 2}, rollout.Current, "", 0},
		"not allocated yet": {corev1.PodStatus{
			ContainerStatuses: []corev1.ContainerStatus{{Name: "redis", AllocatedResources: list("cpu", "500m")}}},
			rollout.Underway, "has yet to give it", 0},
		"allocated": {corev1.PodStatus{
			ContainerStatuses: []corev1.ContainerStatus{{Name: "redis", AllocatedResources: list("cpu", "1000m")}}},
			rollout.Current, "", 0},
		"in progress": {condition(corev1.PodResizeInProgress, "", time.Hour), rollout.Underway,
			"has yet to give it the new resources (why)", 0},
		"deferred": {condition(corev1.PodResizePending, "Deferred", time.Minute), rollout.Underway,
			"has no room for the new resources now (why)", 4 * time.Minute},
		"deferred too long": {condition(corev1.PodResizePending, "Deferred", 5*time.Minute), rollout.Replace,
			"for 5 minutes its node has no room", 0},
		"fails": {condition(corev1.PodResizeInProgress, "Error", time.Minute), rollout.Underway,
			"fails to give it", 4 * time.Minute},
		"fails too long": {condition(corev1.PodResizeInProgress, "Error", time.Hour), rollout.Replace,
			"fails to give it", 0},
		"an older kubelet": {corev1.PodStatus{Resize: corev1.PodResizeStatusInProgress}, rollout.Underway,
			"has yet to give it", 0},
		"deferred by an older": {corev1.PodStatus{Resize: corev1.PodResizeStatusDeferred}, rollout.Underway, "has no room",
			0},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			live := podWith(list("cpu", "1"), nil)
			live.Generation, live.Status = 2, test.status
			f := verdictOn(nil, rollout.Facts{})
			f.Facts.Now = now
			fit, note, err := resizing().fitResources(t.Context(), f, live, podWith(list("cpu", "1"), nil))
			if err != nil || fit != test.want || !strings.Contains(note, test.says) {
				t.Errorf("got %q %q, %v", fit, note, err)
			}
			if f.Wake.Round(time.Second) != test.wake {
				t.Errorf("it looks again after %v, want %v", f.Wake, test.wake)
			}
		})
	}
}
