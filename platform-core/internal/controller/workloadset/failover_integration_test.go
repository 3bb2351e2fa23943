// SPDX-License-Identifier: Apache-2.0

//go:build integration

package workloadset

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/permission"
	agentreport "github.com/zeroinfra/platform-core/agentproto/report"
	agentv1 "github.com/zeroinfra/platform-core/agentproto/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/agentclient"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// measureAction is the action that says how far the data of a pod is.
const measureAction = "measure"

// crew play the agents' part in who may write: the protocol's own code, and processes that write under it.
type crew struct {
	mu   sync.Mutex
	node *node
	// of each pod by name.
	of map[string]*simulatedMember
	// volumes counts identities.
	volumes int
}

// simulatedMember is the agent of one pod and its process.
type simulatedMember struct {
	agent  *permission.Agent
	self   permission.Member
	silent bool
	// breaks says that the process cannot run, writes that it runs as the primary.
	breaks, writes bool
	// resyncs says that it is copying the primary's data.
	resyncs bool
	// offset is how far its data is, lag how many bytes that is behind.
	offset, lag int64
	// promises and learnCalls count calls.
	promises, learnCalls int
}

// withFailover has the engine name the primary of a set.
func withFailover(s *platformv1.WorkloadSet) {
	s.Spec.Authority = "engine"
	s.Spec.Failover = &platformv1.SetFailover{Order: "int(attributes['offset'])", Measure: measureAction,
		Failover: platformv1.Failover{Mode: platformv1.FailoverAuto, After: &metav1.Duration{Duration: time.Second}}}
}

func newCrew(h *harness) *crew {
	m := &crew{node: h.node, of: map[string]*simulatedMember{}}
	h.node.set(func() { h.node.crew, h.node.primary = m, "" })
	return m
}

// reigned is a set of which the first pod writes in the first term, and those who run it.
func (h *harness) reigned(replicas int32) (*crew, *platformv1.WorkloadSet) {
	h.Helper()
	m := newCrew(h)
	h.start(-1)
	set := h.create(replicas, withFailover)
	h.writes(m, set, "0", 1)
	return m, set
}

// join makes the agent of a pod, on a new volume if it has none yet.
func (m *crew) join(pod string) *simulatedMember {
	m.mu.Lock()
	defer m.mu.Unlock()
	member := m.of[pod]
	if member == nil {
		m.volumes++
		self := permission.Member{Name: pod, Identity: fmt.Sprintf("%032x", m.volumes)}
		member = &simulatedMember{agent: permission.NewAgent(self, permission.State{}), self: self}
		m.of[pod] = member
	}
	return member
}

// change changes the member of a pod, and has it report.
func (m *crew) change(pod string, change func(*simulatedMember)) error {
	member := m.join(pod)
	m.mu.Lock()
	change(member)
	m.mu.Unlock()
	return m.report(pod)
}

// report writes what a member says of itself into the report of its pod.
func (m *crew) report(pod string) error {
	ctx := context.Background()
	live := &corev1.Pod{}
	if err := env.Client.Get(ctx, client.ObjectKey{Namespace: m.node.namespace, Name: pod}, live); err != nil {
		return err
	}
	r, err := agentreport.Parse(live.Annotations[platformv1.ReportAnnotation])
	if err != nil || r.Health == "" {
		return err
	}
	m.tell(pod, &r)
	return m.node.publish(ctx, live, r)
}

// tell fills in a report.
func (m *crew) tell(pod string, r *agentreport.Report) {
	member := m.join(pod)
	m.mu.Lock()
	defer m.mu.Unlock()
	state := member.agent.State()
	r.Health, r.Role, r.Attributes = agentreport.Healthy, "replica", nil
	if member.resyncs {
		r.Attributes = map[string]string{"resyncs": "yes"}
	}
	switch {
	case member.breaks:
		r.Health, r.Role = agentreport.Unhealthy, ""
	case member.writes:
		r.Role = "primary"
	}
	r.Member = &agentreport.Member{Identity: member.self.Identity, Promised: state.Promised, Term: state.Term,
		ListVersion: state.List.Version,
		Writing:     member.writes && !member.breaks}
}

// primaries are the pods whose process writes.
func (m *crew) primaries() []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var primaries []string
	for name, member := range m.of {
		if member.writes && !member.breaks {
			primaries = append(primaries, strings.TrimPrefix(name, setName+"-"))
		}
	}
	slices.Sort(primaries)
	return primaries
}

// DialPermission implements agentclient.PermissionDialer.
func (n *node) DialPermission(_ context.Context, pod *corev1.Pod) (agentclient.Permission, error) {
	return &memberClient{crew: n.crew, pod: pod.Name}, nil
}

type memberClient struct {
	*crew
	pod string
}

// call carries out a call, and has the pod report when something changed.
func (c *memberClient) call(do func(*simulatedMember)) (*agentv1.MemberStatus, error) {
	member := c.join(c.pod)
	c.mu.Lock()
	if member.silent {
		c.mu.Unlock()
		return nil, &agentclient.Error{Kind: agentclient.Unreachable, Problem: "nobody answers"}
	}
	do(member)
	state := member.agent.State()
	// The agents of these tests have a permission as soon as they are named, and none without.
	member.writes = member.agent.Named()
	status := &agentv1.MemberStatus{Name: c.pod, Identity: member.self.Identity, Promised: state.Promised,
		Term:        state.Term,
		ListVersion: state.List.Version, Writing: member.writes}
	c.mu.Unlock()
	return status, client.IgnoreNotFound(c.report(c.pod))
}

func (c *memberClient) Promise(_ context.Context, term int64) (*agentv1.MemberStatus, error) {
	return c.call(func(m *simulatedMember) { m.promises++; m.agent.Promise(term) })
}

func (c *memberClient) Learn(_ context.Context, r *agentv1.PrimaryRecord) (*agentv1.MemberStatus, error) {
	record := permission.Record{Term: r.GetTerm(), List: permission.List{Version: r.GetList().GetVersion()}}
	for _, m := range r.GetList().GetMembers() {
		record.List.Members = append(record.List.Members, permission.Member{Name: m.GetName(), Identity: m.GetIdentity()})
	}
	if p := r.GetPrimary(); p != nil {
		record.Primary = &permission.Member{Name: p.GetName(), Identity: p.GetIdentity()}
	}
	return c.call(func(m *simulatedMember) { m.learnCalls++; m.agent.Learn(record) })
}

func (c *memberClient) Member(context.Context) (*agentv1.MemberStatus, error) {
	return c.call(func(*simulatedMember) {})
}

// measure answers how far the data of a pod is.
func (n *node) measure(pod, key string) (agentclient.ActionCall, error) {
	member := n.crew.join(pod)
	n.crew.mu.Lock()
	defer n.crew.mu.Unlock()
	if member.silent {
		return agentclient.ActionCall{}, errors.New("nobody answers")
	}
	return agentclient.ActionCall{Call: agentreport.Call{Key: key, Phase: agentreport.CallSucceeded},
		Outputs: map[string]string{"offset": fmt.Sprint(member.offset), "lag": fmt.Sprint(member.lag)}}, nil
}

// writes waits until a pod is named, writes alone, and alone has the label of the role.
func (h *harness) writes(m *crew, set *platformv1.WorkloadSet, ordinal string, term int64) {
	h.Helper()
	name := setName + "-" + ordinal
	testkit.WaitFor(h, env.Client, set, "pod "+name+" writing", func() error {
		w := set.Status.Primary
		if w == nil || w.Member == nil || w.Member.Name != name || w.Term != term || w.Previous != nil {
			return fmt.Errorf("the record is %+v", w)
		}
		if primaries := m.primaries(); !slices.Equal(primaries, []string{ordinal}) {
			return fmt.Errorf("there write %v", primaries)
		}
		pods := h.pods()
		if len(w.List.Members) != len(pods) {
			return fmt.Errorf("the members are %+v", w.List.Members)
		}
		for _, pod := range pods {
			if (pod.Name == name) != (pod.Labels[platformv1.RoleLabel] == "primary") {
				return fmt.Errorf("pod %s has the label %q", pod.Name, pod.Labels[platformv1.RoleLabel])
			}
		}
		return nil
	})
}

func (h *harness) must(err error) {
	h.Helper()
	if err != nil {
		h.Fatal(err)
	}
}

func TestTheFirstPrimaryAndItsSuccessors(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	m, set := h.reigned(3)
	if n := len(set.Status.Primary.List.Members); n != 3 {
		t.Errorf("the list has %d crew", n)
	}
	// The process does not come back: the one with the most data takes over.
	h.must(m.change(setName+"-1", func(s *simulatedMember) { s.offset = 5 }))
	h.must(m.change(setName+"-2", func(s *simulatedMember) { s.offset = 9 }))
	h.must(m.change(setName+"-0", func(s *simulatedMember) { s.breaks = true }))
	h.writes(m, set, "2", 2)
	changes := set.Status.Primary.Changes
	if len(changes) != 1 || changes[0].Term != 2 || changes[0].Cause != platformv1.PrimaryFailed ||
		changes[0].From != setName+"-0" || changes[0].To != setName+"-2" ||
		changes[0].Named == nil || changes[0].Named.Before(&changes[0].Deposed) || changes[0].Order == nil ||
		*changes[0].Order != 9 ||
		!strings.Contains(changes[0].Reason, "is down") || !strings.Contains(changes[0].Choice, "the most advanced") {
		t.Errorf("the changes are %+v", changes)
	}
	h.tells(set, "PrimaryDeposed", setName+"-2 can take over")
	h.tells(set, "PrimaryNamed", "term 1, primary "+setName+"-0", "term 2, primary "+setName+"-2")
	h.must(m.change(setName+"-0", func(s *simulatedMember) { s.breaks, s.offset = false, 9 }))
	// A person says so.
	h.change(set, func(s *platformv1.WorkloadSet) {
		s.Annotations = map[string]string{platformv1.SwitchPrimaryAnnotation: setName + "-2/" + setName + "-0"}
	})
	h.writes(m, set, "0", 3)
	if changes := set.Status.Primary.Changes; len(changes) != 2 || changes[1].Cause != platformv1.PrimaryOrdered ||
		changes[1].Operation != "" {
		t.Errorf("the changes are %+v", changes)
	}
	// An order that is through does nothing more.
	h.touch(set)
	h.writes(m, set, "0", 3)
	// One pod less.
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Replicas = 2 })
	testkit.WaitFor(h, env.Client, set, "a list of two", func() error {
		if w := set.Status.Primary; len(w.List.Members) != 2 || w.Previous != nil {
			return fmt.Errorf("the record is %+v", w)
		}
		return nil
	})
	if err := testkit.StatusLint(set); err != nil {
		t.Error(err)
	}
}

// Who lacks more than maxLag takes over from nobody, however advanced it is, until somebody says that as much may be
// lost.
func TestWhoIsTooFarBehindIsPassedOver(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	m := newCrew(h)
	h.start(-1)
	set := h.create(3, withFailover, func(s *platformv1.WorkloadSet) {
		s.Spec.Failover.LagAttribute, s.Spec.Failover.MaxLag = "lag", new(resource.MustParse("1Ki"))
	})
	h.writes(m, set, "0", 1)
	h.must(m.change(setName+"-1", func(s *simulatedMember) { s.offset, s.lag = 5, 1024 }))
	h.must(m.change(setName+"-2", func(s *simulatedMember) { s.offset, s.lag = 9, 1025 }))
	h.must(m.change(setName+"-0", func(s *simulatedMember) { s.breaks = true }))
	h.writes(m, set, "1", 2)
	if changes := set.Status.Primary.Changes; len(changes) != 1 || changes[0].Lag == nil || *changes[0].Lag != 1024 ||
		*changes[0].Order != 5 {
		t.Errorf("the changes are %+v", changes)
	}
	h.must(m.change(setName+"-1", func(s *simulatedMember) { s.breaks = true }))
	h.says(set, platformv1.ReasonFailoverPending, setName+"-2 is 1025 bytes behind, and failover.maxLag is 1024")
	if primaries := m.primaries(); len(primaries) > 0 {
		t.Errorf("there write %v", primaries)
	}
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Failover.MaxLag = new(resource.MustParse("1025")) })
	h.writes(m, set, "2", 3)
}

// The rollout does not take the primary out before another one writes.
func TestThePrimaryHandsOverBeforeItIsReplaced(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	m, set := h.reigned(2)
	h.node.events()
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Revision = "r2" })
	testkit.WaitForReady(h, env.Client, set)
	if set.Status.Primary.Term < 2 {
		t.Errorf("the primary was replaced in term %d without a handover", set.Status.Primary.Term)
	}
	if primaries := m.primaries(); len(primaries) != 1 {
		t.Errorf("there write %v", primaries)
	}
}

// A primary whose pod the API server does not resize hands over, and another pod comes in its place, as for those that
// follow.
func TestAPrimaryThatCannotBeResizedHandsOver(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	_, set := h.reigned(2)
	before := h.pods()
	// Requests that a pod has cannot be taken from it.
	h.render(set, func(c *content) { c.Resources = corev1.ResourceRequirements{} })
	testkit.WaitForReady(h, env.Client, set)
	if set.Status.Primary.Term < 2 {
		t.Errorf("the primary was replaced in term %d without a handover", set.Status.Primary.Term)
	}
	for ordinal, pod := range h.pods() {
		if pod.UID == before[ordinal].UID || len(pod.Spec.Containers[0].Resources.Requests) > 0 {
			t.Errorf("pod %s is the one of before, with %v", ordinal, pod.Spec.Containers[0].Resources)
		}
	}
}

// Nobody is deposed when nobody can take over, and with mode Manual only when a person says so.
func TestNobodyIsDeposedInVain(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	m := newCrew(h)
	h.start(-1)
	set := h.create(2, withFailover, func(s *platformv1.WorkloadSet) { s.Spec.Failover.Mode = platformv1.FailoverManual })
	h.writes(m, set, "0", 1)
	h.must(m.change(setName+"-0", func(s *simulatedMember) { s.breaks = true }))
	h.says(set, platformv1.ReasonFailoverPending, "failover.mode is Manual")
	// To hand over it would have to work.
	h.ask(set, platformv1.HandoverRequest{From: setName + "-0"})
	h.says(set, platformv1.ReasonFailoverPending, "run an Operation of template Failover")
	h.ask(set, platformv1.HandoverRequest{From: setName + "-0", Way: platformv1.TakeOver,
		Request: platformv1.RequestOf(h.operation("failover", nil))})
	h.writes(m, set, "1", 2)
	if changes := set.Status.Primary.Changes; len(changes) != 1 || changes[0].Cause != platformv1.PrimaryFailed ||
		changes[0].Operation != "failover" {
		t.Errorf("the changes are %+v", changes)
	}
	h.must(m.change(setName+"-1", func(s *simulatedMember) { s.breaks = true }))
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Failover.Mode = platformv1.FailoverAuto })
	h.says(set, platformv1.ReasonFailoverPending, "no other pod can take over: "+setName+"-0 is not healthy")
	if set.Status.Primary.Term != 2 {
		t.Errorf("term %d", set.Status.Primary.Term)
	}
}

// A primary whose agent does not answer may write until its permission runs out.
func TestTheSilentPrimaryIsWaitedFor(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	m, set := h.reigned(2)
	began := time.Now()
	h.must(m.change(setName+"-0", func(s *simulatedMember) { s.silent, s.breaks = true, true }))
	testkit.WaitFor(h, env.Client, set, "the other one", func() error {
		if w := set.Status.Primary; w.Member == nil || w.Member.Name != setName+"-1" {
			return fmt.Errorf("the record is %+v", w)
		}
		return nil
	})
	if took := time.Since(began); took < permission.Validity+permission.Margin {
		t.Errorf("another one was named after %s", took)
	}
}

// The controller dies after each of its writes in a failover, and the next one goes on.
func TestFailoverGoesOnAfterEachWrite(t *testing.T) {
	t.Parallel()
	for writes := 1; writes <= 5; writes++ {
		t.Run(fmt.Sprint(writes), func(t *testing.T) {
			h := newHarness(t)
			m := newCrew(h)
			f, done := h.start(-1)
			set := h.create(3, withFailover)
			h.writes(m, set, "0", 1)
			f.kill()
			<-done
			h.must(m.change(setName+"-0", func(s *simulatedMember) { s.breaks = true }))
			f, done = h.start(writes)
			select {
			case <-done:
			case <-time.After(5 * time.Second):
			}
			// One that is slow may have writes left, and is not to go on beside the next one.
			f.kill()
			<-done
			h.start(-1)
			h.writes(m, set, "1", 2)
			if n := m.of[setName+"-1"].promises; n > 3 {
				t.Errorf("it was asked for its promise %d times", n)
			}
		})
	}
}

// A set at rest costs nothing.
func TestAPrimaryAtRestCostsNothing(t *testing.T) {
	t.Parallel()
	h := newHarness(t)
	m := newCrew(h)
	f, done := h.start(-1)
	set := h.create(3, withFailover)
	h.writes(m, set, "0", 1)
	testkit.WaitForReady(h, env.Client, set)
	learnCalls := m.of[setName+"-1"].learnCalls
	f.kill()
	<-done
	// The next process looks at all of it, and finds nothing to do before what it is asked then.
	f, _ = h.start(-1)
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Suspend = true })
	h.says(set, platformv1.ReasonSuspended, "suspend")
	if n := f.writes.Load(); n != 1 {
		t.Errorf("%d writes, want that of the status", n)
	}
	if n := m.of[setName+"-1"].learnCalls - learnCalls; n > 1 {
		t.Errorf("a follower was told the record %d times", n)
	}
}
