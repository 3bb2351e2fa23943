// SPDX-License-Identifier: Apache-2.0

//go:build integration

package workloadset

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	agentreport "github.com/zeroinfra/platform-core/agentproto/report"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/agentclient"
	"github.com/zeroinfra/platform-core/internal/controller/workloadset/pods"
)

// node plays the kubelet, the agents and the protection of claims in one namespace, since there is none of them beside
// an API server alone: it writes what they would write, and nothing else is made up.
type node struct {
	t         *testing.T
	namespace string
	watcher   client.WithWatch

	mu sync.Mutex
	// containers by UID of the pod and name: what the kubelet runs.
	containers map[string]container
	// seen are the UIDs that each object had, by kind and name.
	seen map[string][]string
	// log of what happened to containers and processes, in order.
	log []string
	// absent images cannot be pulled.
	absent map[string]bool
	// answer of the kubelet to a resize: empty takes it.
	answer string
	// answeredAt is when it gave that answer.
	answeredAt metav1.Time
	// full says that there is no room for a pod that is not there yet.
	full bool
	// homeless is a pod that there is no room for on any node; empty for none.
	homeless string
	// cut are the UIDs of pods that nothing is heard of any more.
	cut map[string]bool
	// refuseReload has every reload fail, since a restart is needed.
	refuseReload bool
	// unbrought says that a pod has the Secrets of a plan only once it was changed since that plan was there.
	unbrought bool
	// outdated is the image of agents that are too old for the plan; empty for none.
	outdated string
	// primary is the pod that takes writes.
	primary string
	// ops are the calls to ops agents by key, and deaf says why they fail.
	ops  map[string]agentclient.ActionCall
	deaf string
	// failReloads is how many reloads fail, since the server is just starting.
	failReloads int
	// slow says that what is asked of a container or a process that runs stays undone until finish is called.
	slow bool
	// noted are the calls to processes that were not carried out at once, by pod.
	noted map[string]noted
	// terms are those in which agents were called, by what they were asked for and the ordinal or name of the pod.
	terms map[string][]uint64
	// crew plays who may write, in sets where the engine decides it.
	crew *crew
}

// container is one that runs.
type container struct {
	starts    int
	image     string
	resources corev1.ResourceRequirements
}

// noted is the latest call that a process manager has recorded, with the plan that it brought, and whether it was
// carried out.
type noted struct {
	call agentreport.Call
	plan []byte
	done bool
}

func newNode(t *testing.T, namespace string) *node {
	t.Helper()
	watcher, err := client.NewWithWatch(env.Config, client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	n := &node{t: t, namespace: namespace, watcher: watcher, containers: map[string]container{}, noted: map[string]noted{},
		seen: map[string][]string{}, absent: map[string]bool{},
		cut: map[string]bool{}, ops: map[string]agentclient.ActionCall{}, terms: map[string][]uint64{},
		primary: platformv1.PodNameFor(setName, 0)}
	ctx, cancel := context.WithCancel(context.Background())
	var ends sync.WaitGroup
	for _, list := range []client.ObjectList{&corev1.PodList{}, &corev1.PersistentVolumeClaimList{}} {
		events, err := watcher.Watch(ctx, list, client.InNamespace(namespace))
		if err != nil {
			t.Fatal(err)
		}
		ends.Go(func() {
			for event := range events.ResultChan() {
				if err := n.handle(ctx, event); err != nil && ctx.Err() == nil && !apierrors.IsNotFound(err) &&
					!apierrors.IsConflict(err) {
					t.Errorf("the node cannot do its part: %v", err)
				}
			}
		})
	}
	t.Cleanup(func() { cancel(); ends.Wait() })
	return n
}

func (n *node) handle(ctx context.Context, event watch.Event) error {
	switch obj := event.Object.(type) {
	case *corev1.Pod:
		n.saw("Pod "+obj.Name, string(obj.UID))
		n.mu.Lock()
		cut := n.cut[string(obj.UID)]
		n.mu.Unlock()
		if cut || event.Type == watch.Deleted {
			return nil
		}
		return n.syncPod(ctx, obj)
	case *corev1.PersistentVolumeClaim:
		n.saw("Claim "+obj.Name, string(obj.UID))
		if obj.DeletionTimestamp == nil || len(obj.Finalizers) == 0 {
			return nil
		}
		freed := obj.DeepCopy()
		freed.Finalizers = nil
		return env.Client.Patch(ctx, freed, client.MergeFrom(obj))
	}
	return nil
}

func (n *node) saw(name, uid string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !slices.Contains(n.seen[name], uid) {
		n.seen[name] = append(n.seen[name], uid)
	}
}

// first says whether this is told for the first time.
func (n *node) first(what string) bool {
	n.saw(what, "")
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.seen[what]) > 1 {
		return false
	}
	n.seen[what] = append(n.seen[what], "again")
	return true
}

// uids returns how many objects of this kind and name there were.
func (n *node) uids(name string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.seen[name])
}

func (n *node) note(format string, args ...any) {
	n.log = append(n.log, fmt.Sprintf(format, args...))
}

// events returns what happened since the last call.
func (n *node) events() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	events := n.log
	n.log = nil
	return events
}

func (n *node) set(change func()) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change()
}

// nowhere says of a pod that there is no node for it, as the scheduler does.
func (n *node) nowhere(ctx context.Context, pod *corev1.Pod) error {
	const reason = corev1.PodReasonUnschedulable
	if slices.ContainsFunc(pod.Status.Conditions, func(c corev1.PodCondition) bool { return c.Reason == reason }) {
		return nil
	}
	waiting := pod.DeepCopy()
	waiting.Status.Conditions = []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Reason: reason, Message: "no room"}}
	return env.Client.Status().Patch(ctx, waiting, client.MergeFrom(pod))
}

// hasRoom says whether there is a place for a pod.
func (n *node) hasRoom(pod string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return !n.full && pod != n.homeless
}

func (n *node) syncPod(ctx context.Context, pod *corev1.Pod) error {
	switch {
	case pod.DeletionTimestamp != nil:
		return env.Client.Delete(ctx, pod, client.GracePeriodSeconds(0), client.Preconditions{UID: &pod.UID})
	case pod.Spec.NodeName == "" && !n.hasRoom(pod.Name):
		return n.nowhere(ctx, pod)
	case pod.Spec.NodeName == "":
		return env.Client.SubResource("binding").Create(ctx, pod,
			&corev1.Binding{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
				Target: corev1.ObjectReference{Kind: "Node", Name: n.namespace}})
	}
	if n.pulls(pod) {
		seen := pod.DeepCopy()
		seen.Status.ObservedGeneration = pod.Generation
		return env.Client.Status().Patch(ctx, seen, client.MergeFrom(pod))
	}
	return n.bring(ctx, pod)
}

// pulls says whether the kubelet has seen another image of a container, and has yet to restart it.
func (n *node) pulls(pod *corev1.Pod) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.slow && slices.ContainsFunc(pod.Spec.Containers, func(c corev1.Container) bool {
		have := n.containers[string(pod.UID)+"/"+c.Name].image
		return have != "" && have != c.Image
	})
}

// bring has a pod run as its spec says, and the agent of one that is new report.
func (n *node) bring(ctx context.Context, pod *corev1.Pod) error {
	running := pod.DeepCopy()
	n.run(running)
	if err := env.Client.Status().Patch(ctx, running, client.MergeFrom(pod)); err != nil {
		return err
	}
	if pod.Annotations[platformv1.ReportAnnotation] != "" || !n.first("report of "+string(pod.UID)) {
		return nil
	}
	plans := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: pod.Namespace, Name: platformv1.PlanNameFor(setOf(pod))}
	if err := env.Client.Get(ctx, key, plans); err != nil {
		return err
	}
	r := agentreport.Report{Health: agentreport.Healthy, Role: "replica", Version: "7.0.15", Starts: 1}
	n.set(func() {
		if pod.Name == n.primary {
			r.Role = "primary"
		}
	})
	if n.crew != nil {
		n.crew.tell(pod.Name, &r)
	}
	return n.publish(ctx, pod, takeOver(r, []byte(plans.Data[plan.PlanFile])))
}

// setOf names the set of a pod.
func setOf(pod *corev1.Pod) string {
	return platformv1.WorkloadSetNameFor(pod.Labels[platformv1.ApplicationLabel], pod.Labels[platformv1.ComponentLabel],
		pod.Labels[platformv1.SetLabel])
}

// begin has the agent of a pod report that it is about to carry out the call that it noted.
func (n *node) begin(ctx context.Context, pod *corev1.Pod) error {
	n.mu.Lock()
	call := n.noted[pod.Name].call
	n.mu.Unlock()
	r := agentreport.Latest(pod.Annotations[platformv1.ReportAnnotation])
	r.LastCall = &call
	return n.publish(ctx, pod, r)
}

// finish does what is asked of a pod and was kept undone.
func (n *node) finish(ctx context.Context, pod *corev1.Pod) error {
	n.mu.Lock()
	waiting, called := n.noted[pod.Name]
	waiting.call.Phase, waiting.done = agentreport.CallSucceeded, true
	if called {
		n.noted[pod.Name] = waiting
	}
	n.mu.Unlock()
	if !called {
		return n.bring(ctx, pod)
	}
	r := takeOver(agentreport.Latest(pod.Annotations[platformv1.ReportAnnotation]), waiting.plan)
	r.LastCall = &waiting.call
	return n.publish(ctx, pod, r)
}

// run brings the containers of a pod to its spec, as the kubelet does, and says so in its status.
func (n *node) run(pod *corev1.Pod) {
	n.mu.Lock()
	defer n.mu.Unlock()
	ready := corev1.ConditionTrue
	pod.Status.Phase, pod.Status.PodIP = corev1.PodRunning, "192.0.2.1"
	pod.Status.ContainerStatuses = nil
	var resize []corev1.PodCondition
	for _, c := range pod.Spec.Containers {
		key := string(pod.UID) + "/" + c.Name
		have := n.containers[key]
		if have.image != c.Image {
			have = container{starts: have.starts + 1, image: c.Image, resources: c.Resources}
			if c.Name == "redis" {
				n.note("%s starts %s", pod.Name, c.Image)
			}
		}
		switch {
		case equality.Semantic.DeepEqual(have.resources, c.Resources):
		case n.answer != "":
			resize = []corev1.PodCondition{{Type: corev1.PodResizePending, Status: corev1.ConditionTrue, Reason: n.answer,
				LastTransitionTime: n.answeredAt, Message: "no room"}}
		default:
			have.resources = c.Resources
			n.note("%s gets %s", pod.Name, c.Resources.Requests.Memory())
		}
		n.containers[key] = have
		status := corev1.ContainerStatus{Name: c.Name, Image: c.Image,
			ContainerID: fmt.Sprintf("sim://%s/%d", key, have.starts), Ready: true,
			State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}, Resources: &have.resources,
			AllocatedResources: have.resources.Requests}
		if n.absent[c.Image] {
			status.Ready, status.State = false,
				corev1.ContainerState{Waiting: &corev1.ContainerStateWaiting{Reason: "ImagePullBackOff"}}
			ready = corev1.ConditionFalse
		}
		pod.Status.ContainerStatuses = append(pod.Status.ContainerStatuses, status)
	}
	pod.Status.ObservedGeneration = pod.Generation
	pod.Status.Conditions = slices.Concat(resize, []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}})
}

// publish writes a report as the status agent does.
func (n *node) publish(ctx context.Context, pod *corev1.Pod, r agentreport.Report) error {
	body, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": pod.UID,
			"annotations": map[string]string{platformv1.ReportAnnotation: r.String()}}})
	if err != nil {
		return err
	}
	return env.Client.Patch(ctx, pods.AddressOf(pod), client.RawPatch("application/merge-patch+json", body))
}

// takeOver is a report after the process took a plan over.
func takeOver(r agentreport.Report, data []byte) agentreport.Report {
	var p plan.Plan
	if err := json.Unmarshal(data, &p); err != nil {
		panic(err)
	}
	r.ConfigDigest, r.RestartDigest = p.Digest, p.RestartDigest
	return r
}

// Dial implements agentclient.Dialer.
func (n *node) Dial(_ context.Context, pod *corev1.Pod) (agentclient.Process, error) {
	return &manager{node: n, pod: pod}, nil
}

// called notes the term of a call to an agent.
func (n *node) called(ctx context.Context, what, pod string) {
	n.set(func() {
		call := what + " " + strings.TrimPrefix(pod, setName+"-")
		n.terms[call] = append(n.terms[call], agentclient.TermOf(ctx))
	})
}

// waits says whether an agent does not have the Secrets of a plan yet.
func (n *node) waits(pod *corev1.Pod, data []byte) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if !n.unbrought {
		return false
	}
	var wanted plan.Plan
	if err := json.Unmarshal(data, &wanted); err != nil {
		panic(err)
	}
	return pod.Annotations[platformv1.AwaitedAnnotation] != wanted.Digest
}

// manager is the process manager of one pod, as far as WorkloadSets call it.
type manager struct {
	agentclient.Process
	node *node
	pod  *corev1.Pod
}

func (m *manager) Restart(ctx context.Context, key string, plan []byte) (agentreport.Call, error) {
	return m.call(ctx, "restarts", agentreport.Call{Key: key, Phase: agentreport.CallSucceeded}, plan)
}

func (m *manager) Reload(ctx context.Context, key string, plan []byte) (agentreport.Call, error) {
	call := agentreport.Call{Key: key, Phase: agentreport.CallSucceeded}
	m.node.set(func() {
		switch {
		case m.node.refuseReload:
			call.Phase, call.Reason, call.Message = agentreport.CallFailed, agentreport.ReasonRestartRequired,
				"port is not dynamic"
		case m.node.failReloads > 0:
			m.node.failReloads--
			call.Phase, call.Message = agentreport.CallFailed, "it is starting"
		}
	})
	return m.call(ctx, "reloads", call, plan)
}

func (m *manager) Status(context.Context) (*agentv1.ProcessStatus, error) {
	return &agentv1.ProcessStatus{}, nil
}

func (m *manager) call(ctx context.Context, what string, call agentreport.Call, data []byte) (agentreport.Call, error) {
	m.node.called(ctx, what, m.pod.Name)
	live := &corev1.Pod{}
	if err := env.Client.Get(ctx, client.ObjectKeyFromObject(m.pod), live); err != nil {
		return agentreport.Call{}, err
	}
	outdated := false
	m.node.set(func() { outdated = pods.AgentImage(live) == m.node.outdated })
	if outdated {
		return agentreport.Call{}, &agentclient.Error{Kind: agentclient.Outdated, Problem: "the agent is too old"}
	}
	if m.node.waits(live, data) {
		return agentreport.Call{}, &agentclient.Error{Problem: "the pod does not have the changed password yet",
			Cause: status.Error(codes.Aborted, "later")}
	}
	r, err := agentreport.Parse(live.Annotations[platformv1.ReportAnnotation])
	if err != nil {
		return agentreport.Call{}, err
	}
	if r.LastCall != nil && r.LastCall.Key == call.Key {
		return *r.LastCall, nil
	}
	slow := false
	m.node.set(func() {
		if slow = m.node.slow && call.Phase == agentreport.CallSucceeded; slow {
			if known := m.node.noted[m.pod.Name]; known.call.Key == call.Key {
				call = known.call
				return
			}
			call.Phase = agentreport.CallRunning
			m.node.noted[m.pod.Name] = noted{call: call, plan: data}
			return
		}
		m.node.note("%s %s", m.pod.Name, strings.TrimSpace(what))
	})
	if slow {
		return call, nil
	}
	if call.Phase == agentreport.CallSucceeded {
		r = takeOver(r, data)
	}
	r.LastCall = &call
	return call, m.node.publish(ctx, live, r)
}
