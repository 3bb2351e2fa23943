// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// faultPoints, set to "all", has an instance be changed once more for each of the writes that this takes, with one
// engine killed after it and the next one left alone. That takes many minutes. Without it no engine of one life
// survives more than lifetime writes, so that every third point is tried.
const (
	faultPoints = "FAULT_POINTS"
	lifetime    = 3
)

// kills says how many writes an engine survives, by how many there were before it; all when it is negative.
type kills func(before int) int

func TestChangesSurviveKills(t *testing.T) {
	// An owner that is deleted in the foreground waits for what the engine does.
	prepared(t)
	env.Controllers(t, testkit.GarbageCollector, testkit.ClaimProtection)
	writes := changed(t, func(int) int { return lifetime })
	t.Logf("the changes take %d writes", writes)
	if writes < 60 {
		t.Errorf("only %d writes were counted", writes)
	}
	if os.Getenv(faultPoints) != "all" {
		return
	}
	for n := range writes {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			changed(t, func(before int) int {
				if before == 0 {
					return n
				}
				return -1
			})
		})
	}
}

// prepared has what is there before any instance be there.
func prepared(t *testing.T) {
	t.Helper()
	if err := prepare(); err != nil {
		t.Fatal(err)
	}
}

// relay has engines follow each other, each killed after as many writes as it survives, until it is ended; then it says
// how many writes there were in all.
func relay(t *testing.T, survives kills) (end func() int) {
	t.Helper()
	writes := 0
	var lives []string
	ending, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for before, killed := 0, true; killed; before++ {
			f, done, stop := run(t, survives(before))
			select {
			case <-done:
			case <-ending:
				stop()
				killed = false
			}
			spent := f.spent()
			writes += len(spent)
			lives = append(lives, strings.Join(spent, ", "))
		}
	}()
	return sync.OnceValue(func() int {
		close(ending)
		<-ended
		if t.Failed() {
			t.Logf("the engines wrote:\n%s", strings.Join(lives, "\n"))
		}
		return writes
	})
}

// changed takes an instance of several components over more pods and another set, the end of a set, and other pods
// everywhere to its deletion, while engines are killed. It says how many writes all of that took.
func changed(t *testing.T, survives kills) int {
	t.Helper()
	namespace := env.Namespace(t)
	node(t, namespace)
	told := follow(t, namespace)
	app, kept := instances(t, namespace)

	end := relay(t, survives)
	defer end() // A test that fails ends here, and the engines with it.
	change(t, app, func(s *platformv1.ApplicationSpec) {
		s.Components[0].Sets = []platformv1.ComponentSet{{Name: "0", Replicas: new(int32(2))}, {Name: "1"}, {Name: "big"}}
		s.Components[1].Replicas = new(int32(2))
	})
	holds(t, app, "a-db-0-0", "a-db-0-1", "a-db-1-0", "a-db-big-0", "a-web-main-0", "a-web-main-1")
	onRecord(t, app, 1)
	change(t, app, func(s *platformv1.ApplicationSpec) {
		s.Components[0].Sets = []platformv1.ComponentSet{{Name: "0", Replicas: new(int32(2))}, {Name: "big"}}
	})
	holds(t, app, "a-db-0-0", "a-db-0-1", "a-db-big-0", "a-web-main-0", "a-web-main-1")
	onRecord(t, app, 2)
	change(t, app, func(s *platformv1.ApplicationSpec) {
		for i := range s.Components {
			s.Components[i].Scheduling = &platformv1.Scheduling{NodeSelector: map[string]string{"disk": "fast"}}
		}
	})
	holds(t, app, "a-db-0-0", "a-db-0-1", "a-db-big-0", "a-web-main-0", "a-web-main-1")
	onRecord(t, app, 3)
	deleteForeground(t, app)
	deleteForeground(t, kept)
	testkit.WaitGone(t, env.Client, app)
	testkit.WaitGone(t, env.Client, kept)
	writes := end()
	testkit.Eventually(t, "the end of everything but the volume that is retained", func(context.Context) error {
		left := maps.Clone(told.all())
		maps.DeleteFunc(left, func(_ string, s story) bool { return s.gone != 0 })
		if names := slices.Sorted(maps.Keys(left)); !slices.Equal(names, []string{"PersistentVolumeClaim data-b-db-0-0"}) {
			return fmt.Errorf("there still is %q", names)
		}
		return nil
	})
	if s := told.of("PersistentVolumeClaim data-b-db-0-0"); s.condemned != 0 {
		t.Errorf("the volume that is retained: %+v", s)
	}
	// Nothing was made twice but the pods that were to be replaced.
	twice := map[string]int{"Pod a-db-0-0": 2, "Pod a-db-0-1": 2, "Pod a-db-big-0": 2, "Pod a-web-main-0": 2,
		"Pod a-web-main-1": 2}
	for name, s := range told.all() {
		if want := max(1, twice[name]); s.made != want {
			t.Errorf("%s was made %d times, want %d", name, s.made, want)
		}
	}
	return writes
}

// instances makes two, by an engine that is not killed: one for the changes, and one whose volume is to be retained.
func instances(t *testing.T, namespace string) (app, kept *platformv1.Application) {
	t.Helper()
	_, _, stop := run(t, -1)
	defer stop()
	app, kept = shop(namespace, "a", "tiers"), shop(namespace, "b", "tiers")
	app.Spec.DeletionPolicy = platformv1.DeletionPolicyDelete
	for _, instance := range []*platformv1.Application{app, kept} {
		instance.Spec.Components = []platformv1.ApplicationComponent{
			{Name: "db", Replicas: new(int32(1)), Sets: []platformv1.ComponentSet{{Name: "0"}}},
			{Name: "web", Replicas: new(int32(1))},
		}
	}
	app.Spec.Components[0].Sets = append(app.Spec.Components[0].Sets, platformv1.ComponentSet{Name: "1"})
	for _, instance := range []*platformv1.Application{app, kept} {
		create(t, instance)
		testkit.WaitForReady(t, env.Client, instance)
	}
	return app, kept
}

// holds waits until an instance is ready with these pods, as its spec asks for them, and with volumes of its database's
// pods alone.
func holds(t *testing.T, app *platformv1.Application, pods ...string) {
	t.Helper()
	wait(t, app, &corev1.PodList{}, pods...)
	var claims []string
	for _, pod := range pods {
		if strings.HasPrefix(pod, "a-db-") {
			claims = append(claims, "data-"+pod)
		}
	}
	wait(t, app, &corev1.PersistentVolumeClaimList{}, claims...)
	list := &corev1.PodList{}
	if err := env.Client.List(t.Context(), list, client.InNamespace(app.Namespace),
		client.MatchingLabels{platformv1.ApplicationLabel: app.Name}); err != nil {
		t.Fatal(err)
	}
	for _, pod := range list.Items {
		if want := app.Spec.Components[0].Scheduling; want != nil &&
			pod.Spec.NodeSelector["disk"] != want.NodeSelector["disk"] {
			t.Errorf("pod %s is for nodes %v", pod.Name, pod.Spec.NodeSelector)
		}
	}
}

// onRecord waits until each of the changes so far has one record that says that it is done. A change that came earlier
// would be taken up by the record of the one before.
func onRecord(t *testing.T, app *platformv1.Application, changes int) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("%d records that have ended", changes), func(ctx context.Context) error {
		records := recorded(t, app.Namespace)
		if len(records) != changes {
			return fmt.Errorf("there are %v", slices.Sorted(maps.Keys(records)))
		}
		for name, op := range records {
			if op.Status.Phase != platformv1.OperationSucceeded {
				return fmt.Errorf("%s is %s: %s", name, op.Status.Phase, op.Status.Error)
			}
		}
		return nil
	})
}
