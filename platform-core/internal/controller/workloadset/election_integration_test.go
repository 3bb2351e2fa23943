// SPDX-License-Identifier: Apache-2.0

//go:build integration

package workloadset

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	agentreport "github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/rollout"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// elects has the members of a set elect their primary.
func elects(s *platformv1.WorkloadSet) {
	s.Spec.Authority = rollout.AuthorityMiddleware
	s.Spec.Election = &platformv1.SetElection{Member: "id", Primary: "leader", Epoch: "term"}
}

// names has a pod report whom it takes for the primary, in an epoch.
func (h *harness) names(ordinal, primary, epoch int) {
	h.Helper()
	testkit.Eventually(h, fmt.Sprintf("the report of pod %d", ordinal), func(ctx context.Context) error {
		live := &corev1.Pod{}
		if err := env.Client.Get(ctx, client.ObjectKey{Namespace: h.namespace,
			Name: platformv1.PodNameFor(setName, int32(ordinal))}, live); err != nil {
			return err
		}
		r, err := agentreport.Parse(live.Annotations[platformv1.ReportAnnotation])
		switch {
		case err != nil:
			return err
		case r.Health == "":
			return fmt.Errorf("it has yet to report at all")
		}
		r.Role = "replica"
		if ordinal == primary {
			r.Role = "primary"
		}
		r.Attributes = map[string]string{"id": "m" + strconv.Itoa(ordinal), "leader": "m" + strconv.Itoa(primary),
			"term": strconv.Itoa(epoch)}
		return h.node.publish(ctx, live, r)
	})
}

// history is what an API server had of the primary of a set: the recorded election, or the label of a pod, by resource
// version.
type history struct {
	mu     sync.Mutex
	events []moment
}

// moment is one of them: elected is the primary of the record, and labelled says of a pod whether it has the label.
type moment struct {
	version                int
	elected, pod, labelled string
}

// follow notes it from now on.
func follow(h *harness) *history {
	h.Helper()
	all := &history{}
	ctx, cancel := context.WithCancel(context.Background())
	var ends sync.WaitGroup
	for _, list := range []client.ObjectList{&corev1.PodList{}, &platformv1.WorkloadSetList{}} {
		events, err := h.node.watcher.Watch(ctx, list, client.InNamespace(h.namespace))
		if err != nil {
			h.Fatal(err)
		}
		ends.Go(func() {
			for event := range events.ResultChan() {
				all.note(event)
			}
		})
	}
	h.Cleanup(func() { cancel(); ends.Wait() })
	return all
}

func (h *history) note(event watch.Event) {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch obj := event.Object.(type) {
	case *corev1.Pod:
		version, _ := strconv.Atoi(obj.ResourceVersion)
		h.events = append(h.events, moment{version: version, pod: obj.Name, labelled: obj.Labels[platformv1.RoleLabel]})
	case *platformv1.WorkloadSet:
		if e := obj.Status.Election; e != nil {
			version, _ := strconv.Atoi(obj.ResourceVersion)
			h.events = append(h.events, moment{version: version, elected: e.Primary})
		}
	}
}

// check that the pods with these ordinals, and no others, got the label of a primary in turn, no two had it at once,
// and none before it was on record.
func (h *history) check(t *testing.T, ordinals ...int32) {
	t.Helper()
	h.mu.Lock()
	defer h.mu.Unlock()
	slices.SortFunc(h.events, func(a, b moment) int { return a.version - b.version })
	var had, want []string
	elected, labels := "", map[string]string{}
	for _, m := range h.events {
		if m.pod == "" {
			elected = m.elected
			continue
		}
		given := m.labelled == "primary" && labels[m.pod] != "primary"
		labels[m.pod] = m.labelled
		if given {
			had = append(had, m.pod)
		}
		if given && elected != m.pod {
			t.Errorf("version %d gives %s the label, and %q is on record", m.version, m.pod, elected)
		}
		var primaries []string
		for pod, label := range labels {
			if label == "primary" {
				primaries = append(primaries, pod)
			}
		}
		if len(primaries) > 1 {
			t.Errorf("in version %d the primaries are %q", m.version, primaries)
		}
	}
	for _, ordinal := range ordinals {
		want = append(want, platformv1.PodNameFor(setName, ordinal))
	}
	if !slices.Equal(had, want) {
		t.Errorf("the label went to %q, want %q", had, want)
	}
}

// electedIs waits until an election is on record and its primary alone has the label.
func (h *harness) electedIs(set *platformv1.WorkloadSet, ordinal, epoch int) {
	h.Helper()
	name := platformv1.PodNameFor(setName, int32(ordinal))
	testkit.Eventually(h, "the label of "+name, func(ctx context.Context) error {
		if err := env.Client.Get(ctx, client.ObjectKeyFromObject(set), set); err != nil {
			return err
		}
		if e := set.Status.Election; e == nil || e.Primary != name || e.Epoch != strconv.Itoa(epoch) {
			return fmt.Errorf("the record is %+v", e)
		}
		for _, pod := range h.pods() {
			if is := pod.Labels[platformv1.RoleLabel] == "primary"; is != (pod.Name == name) {
				return fmt.Errorf("pod %s has the role %q", pod.Name, pod.Labels[platformv1.RoleLabel])
			}
		}
		return nil
	})
}

// A set is ready once a majority of its members has named a primary, which is on record before it has its label; pods
// that call themselves primary are not believed.
func TestAPrimaryIsLabelledOnceAMajorityNamesIt(t *testing.T) {
	h := newHarness(t)
	seen := follow(h)
	h.start(-1)
	set := h.create(3, elects)
	h.says(set, platformv1.ReasonPodsNotReady, "no majority of its pods names the same primary")
	h.names(0, 0, 2)
	h.names(1, 1, 3)
	h.says(set, platformv1.ReasonPodsNotReady, "no majority of its pods names the same primary")
	h.names(2, 1, 3)
	h.electedIs(set, 1, 3)
	testkit.WaitForReady(h, env.Client, set)
	h.names(0, 2, 2)
	h.names(2, 2, 2)
	h.names(1, 1, 4)
	h.names(0, 1, 4)
	h.electedIs(set, 1, 4)
	testkit.WaitForReady(h, env.Client, set)
	for ordinal := range 3 {
		h.names(ordinal, 0, 1)
	}
	h.electedIs(set, 0, 1)
	testkit.WaitForReady(h, env.Client, set)
	seen.check(t, 1, 0)
}

// The controller is killed after each of the writes by which the label goes from one pod to the other; the next one
// goes on.
func TestAnElectionIsFollowedThroughAKillAfterEachWrite(t *testing.T) {
	h := newHarness(t)
	seen := follow(h)
	f, done := h.start(-1)
	set := h.create(3, elects)
	for ordinal := range 3 {
		h.names(ordinal, 0, 2)
	}
	h.electedIs(set, 0, 2)
	testkit.WaitForReady(h, env.Client, set)
	f.kill()
	<-done
	// The former primary is cut off, and has yet to learn of it.
	h.names(1, 1, 3)
	h.names(2, 1, 3)
	for range 3 {
		f, done = h.start(1)
		testkit.Eventually(h, "a write and the end of the controller", func(context.Context) error {
			select {
			case <-done:
				return nil
			default:
				return fmt.Errorf("it made %d writes", f.writes.Load())
			}
		})
	}
	h.start(-1)
	h.electedIs(set, 1, 3)
	h.names(0, 1, 3)
	testkit.WaitForReady(h, env.Client, set)
	seen.check(t, 0, 1)
}
