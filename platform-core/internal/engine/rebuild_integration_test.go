// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// volumes plays what protects claims in use: one that is deleted goes once its pod has. It counts how often each was
// made.
type volumes struct {
	mu   sync.Mutex
	made map[string]int
}

func (v *volumes) count(name string) int {
	v.mu.Lock()
	defer v.mu.Unlock()
	return v.made[name]
}

func watchVolumes(t *testing.T, namespace string) *volumes {
	t.Helper()
	v := &volumes{made: map[string]int{}}
	ctx, cancel := context.WithCancel(context.Background())
	live, err := client.NewWithWatch(env.Config, client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	claims, err := live.Watch(ctx, &corev1.PersistentVolumeClaimList{}, client.InNamespace(namespace))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for e := range claims.ResultChan() {
			claim, ok := e.Object.(*corev1.PersistentVolumeClaim)
			if !ok {
				continue
			}
			if e.Type == watch.Added {
				v.mu.Lock()
				v.made[claim.Name]++
				v.mu.Unlock()
			}
			if e.Type == watch.Modified && claim.DeletionTimestamp != nil && len(claim.Finalizers) > 0 {
				body := fmt.Sprintf(`{"metadata":{"uid":%q,"finalizers":null}}`, claim.UID)
				err := env.Client.Patch(ctx, claim, client.RawPatch(types.MergePatchType, []byte(body)))
				if client.IgnoreNotFound(err) != nil && ctx.Err() == nil {
					t.Errorf("cannot let claim %s go: %v", claim.Name, err)
				}
			}
		}
	}()
	t.Cleanup(func() { cancel(); claims.Stop(); <-ended })
	return v
}

// A member is made anew with its volume, once, wherever the engine dies; the others stay as they are.
func TestAMemberIsMadeAnew(t *testing.T) {
	namespace := env.Namespace(t)
	_, _, stop := run(t, -1)
	node(t, namespace)
	made := watchVolumes(t, namespace)
	app, set := replicated(t, namespace)
	writes(t, set, func(r *platformv1.PrimaryRecord) {
		r.Term, r.Member = 1, &platformv1.SetMember{Name: set.Name + "-0", Identity: "v0"}
		r.List.Version = 1
		for i := range 3 {
			r.List.Members = append(r.List.Members,
				platformv1.SetMember{Name: fmt.Sprintf("%s-%d", set.Name, i), Identity: fmt.Sprintf("v%d", i)})
		}
	})
	labelled(t, namespace, set.Name+"-0")
	refused := operate(t, app, "writer", "RebuildMember", nil, "pod", set.Name+"-0")
	ends(t, refused, platformv1.OperationFailed)
	stop()
	before := uids(t, namespace)
	name := set.Name + "-1"
	for n := 1; n <= 6; n++ {
		op := operate(t, app, fmt.Sprintf("rebuild-%d", n), "RebuildMember", nil, "pod", name)
		_, done, stop := run(t, 2*n)
		select {
		case <-done:
		case <-time.After(5 * time.Second):
		}
		stop()
		_, _, stop = run(t, -1)
		testkit.WaitFor(t, env.Client, op, "all but a member", func() error {
			want := fmt.Sprintf("waiting for pod %s to have all of the data and to be a member again", name)
			if len(op.Status.Steps) != 1 || op.Status.Steps[0].Message != want {
				return fmt.Errorf("the steps are %+v, error %q", op.Status.Steps, op.Status.Error)
			}
			return nil
		})
		writes(t, set, func(r *platformv1.PrimaryRecord) { r.List.Members[1].Identity = fmt.Sprintf("anew-%d", n) })
		ends(t, op, platformv1.OperationSucceeded)
		stop()
		after := uids(t, namespace)
		if after[name] == before[name] || after[set.Name+"-0"] != before[set.Name+"-0"] ||
			after[set.Name+"-2"] != before[set.Name+"-2"] {
			t.Errorf("the pods are %v, and were %v", after, before)
		}
		if count := made.count("data-" + name); count != n+1 {
			t.Errorf("after %d rebuilds the volume was made %d times", n, count)
		}
		if made.count("data-"+set.Name+"-0") != 1 || made.count("data-"+set.Name+"-2") != 1 {
			t.Errorf("the volumes of others were made anew: %v", made.made)
		}
		before = after
	}
}

// labelled waits until a pod has the role that writes.
func labelled(t *testing.T, namespace, name string) {
	t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
	testkit.WaitFor(t, env.Client, pod, "the role that writes", func() error {
		if role := pod.Labels[platformv1.RoleLabel]; role != "primary" {
			return fmt.Errorf("pod %s has the role %q", name, role)
		}
		return nil
	})
}

func uids(t *testing.T, namespace string) map[string]types.UID {
	t.Helper()
	var list corev1.PodList
	if err := env.Client.List(t.Context(), &list, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	found := map[string]types.UID{}
	for i := range list.Items {
		found[list.Items[i].Name] = list.Items[i].UID
	}
	return found
}
