// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// searchPod is the pod of the component that is updated first.
const searchPod = "a-search-0-0"

// onFast has all pods of both components be on other nodes.
func onFast(s *platformv1.ApplicationSpec) {
	s.Components = nil
	for _, name := range []string{"search", "quorum"} {
		s.Components = append(s.Components, platformv1.ApplicationComponent{Name: name,
			Scheduling: &platformv1.Scheduling{NodeSelector: map[string]string{"disk": "fast"}}})
	}
}

// podUIDs are the pods of a component, by name.
func podUIDs(t *testing.T, namespace, component string) map[string]types.UID {
	t.Helper()
	var list corev1.PodList
	if err := env.Client.List(t.Context(), &list, client.InNamespace(namespace),
		client.MatchingLabels{platformv1.ComponentLabel: component}); err != nil {
		t.Fatal(err)
	}
	uids := map[string]types.UID{}
	for i := range list.Items {
		uids[list.Items[i].Name] = list.Items[i].UID
	}
	return uids
}

// awaitsItsTurn waits until the component quorum says that these pods of it are to be replaced once search is ready,
// and the instance says so, too.
func awaitsItsTurn(t *testing.T, app *platformv1.Application, pods string) {
	t.Helper()
	quorum := &platformv1.Component{}
	quorum.Namespace, quorum.Name = app.Namespace, platformv1.ComponentNameFor(app.Name, "quorum")
	testkit.WaitFor(t, env.Client, quorum, "waiting for its turn", func() error {
		ready := conditions.Get(quorum, platformv1.ReadyCondition)
		if ready == nil || ready.Reason != platformv1.ReasonUpdateOrder || !strings.Contains(ready.Message,
			"waits for component search, which is updated first, to be ready with its change: "+pods+" to be replaced") {
			return fmt.Errorf("it says %+v", ready)
		}
		return nil
	})
	testkit.WaitFor(t, env.Client, app, "saying who waits for whom", func() error {
		ready := conditions.Get(app, platformv1.ReadyCondition)
		if ready == nil || ready.ObservedGeneration != app.Generation ||
			!strings.HasPrefix(ready.Message, "component search: ") ||
			!strings.HasSuffix(ready.Message, "; component quorum waits for its turn to be updated") {
			return fmt.Errorf("it says %+v", ready)
		}
		return nil
	})
}

// startOne plays the node for one pod.
func startOne(t *testing.T, namespace, name string) {
	t.Helper()
	pod := &corev1.Pod{}
	if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, pod); err != nil {
		t.Fatal(err)
	}
	if err := start(t.Context(), pod, "192.0.2.1"); err != nil {
		t.Fatal(err)
	}
}

// A change of two components is made to the second one once the first is ready with it, also by another engine. What
// has died in the second is made anew meanwhile.
func TestComponentsAreUpdatedInTheirOrder(t *testing.T) {
	namespace := env.Namespace(t)
	told := follow(t, namespace)
	_, _, stop := run(t, -1)
	app := shop(namespace, "a", "ordered")
	t.Run("made", func(t *testing.T) {
		node(t, namespace)
		create(t, app)
		testkit.WaitForReady(t, env.Client, app)
	})
	before := podUIDs(t, namespace, "quorum")
	// No node starts a pod from here on.
	change(t, app, onFast)
	awaitsItsTurn(t, app, "pods a-quorum-main-0, a-quorum-main-1 and a-quorum-main-2 are")
	stop()
	_, _, stop = run(t, -1)
	const died = "a-quorum-main-1"
	podDies(t, namespace, died)
	testkit.Eventually(t, "another pod in the place of the one that died", func(context.Context) error {
		if now := podUIDs(t, namespace, "quorum"); now[died] == "" || now[died] == before[died] {
			return fmt.Errorf("the pods are %v", now)
		}
		return nil
	})
	startOne(t, namespace, died)
	awaitsItsTurn(t, app, "pods a-quorum-main-0 and a-quorum-main-2 are")
	now := podUIDs(t, namespace, "quorum")
	if delete(now, died); len(now) != 2 || now["a-quorum-main-0"] != before["a-quorum-main-0"] ||
		now["a-quorum-main-2"] != before["a-quorum-main-2"] {
		t.Errorf("the pods are %v, and were %v", now, before)
	}
	stop()
	startOne(t, namespace, searchPod)
	node(t, namespace)
	run(t, -1)
	testkit.WaitForReady(t, env.Client, app)
	for _, name := range []string{searchPod, "a-quorum-main-0", died, "a-quorum-main-2"} {
		if s := told.of("Pod " + name); s.made != 2 {
			t.Errorf("%s was made %d times", name, s.made)
		}
	}
}

// podDies has a pod end that has not been asked to.
func podDies(t *testing.T, namespace, name string) {
	t.Helper()
	pod := &corev1.Pod{}
	if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, pod); err != nil {
		t.Fatal(err)
	}
	alive := pod.DeepCopy()
	pod.Status.Phase = corev1.PodFailed
	if err := env.Client.Status().Patch(t.Context(), pod, client.MergeFrom(alive)); err != nil {
		t.Fatal(err)
	}
}

// A component that cannot have its change holds the later one, and the instance says what is wrong and who waits. A
// pod of the later one that is deleted comes back with its change, and all do once the change of the first can be had.
func TestAComponentThatStallsHoldsThoseAfterIt(t *testing.T) {
	namespace := env.Namespace(t)
	run(t, -1)
	node(t, namespace)
	app := shop(namespace, "a", "ordered")
	create(t, app)
	testkit.WaitForReady(t, env.Client, app)
	before := podUIDs(t, namespace, "quorum")
	change(t, app, func(s *platformv1.ApplicationSpec) {
		onFast(s)
		s.Components[0].Scheduling.PriorityClassName = "absent"
	})
	awaitsItsTurn(t, app, "pods a-quorum-main-0, a-quorum-main-1 and a-quorum-main-2 are")
	if stalled := conditions.Get(app, platformv1.StalledCondition); stalled == nil ||
		!strings.Contains(stalled.Message, "absent") {
		t.Errorf("it says %+v", stalled)
	}
	const deleted = "a-quorum-main-0"
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name = namespace, deleted
	if err := env.Client.Delete(t.Context(), pod, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	awaitsItsTurn(t, app, "pods a-quorum-main-1 and a-quorum-main-2 are")
	if now := podUIDs(t, namespace, "quorum"); now[deleted] == before[deleted] ||
		now["a-quorum-main-1"] != before["a-quorum-main-1"] || now["a-quorum-main-2"] != before["a-quorum-main-2"] {
		t.Errorf("the pods are %v, and were %v", now, before)
	}
	change(t, app, func(s *platformv1.ApplicationSpec) { s.Components[0].Scheduling.PriorityClassName = "" })
	testkit.WaitForReady(t, env.Client, app)
	for name, uid := range podUIDs(t, namespace, "quorum") {
		if uid == before[name] {
			t.Errorf("%s is still the one from before", name)
		}
	}
}
