// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// story is what became of all objects that had one kind and name. Moments are resource versions: the API server counts
// all its writes in one row, so that those of different kinds can be compared.
type story struct {
	// made is how many objects of this name there were.
	made int
	// condemned is when the latest one was asked to be deleted, gone when it was; 0 before that.
	condemned, gone int64
}

// chronicle tells the stories of what is in a namespace, as "Kind name".
type chronicle struct {
	mu      sync.Mutex
	stories map[string]story
}

// chronicled are the kinds whose stories are told: all that an engine makes for an instance, and the Application.
func chronicled() []client.ObjectList {
	return []client.ObjectList{
		&platformv1.ApplicationList{}, &platformv1.ComponentList{}, &platformv1.WorkloadSetList{},
		&platformv1.OperationList{},
		&corev1.PodList{}, &corev1.PersistentVolumeClaimList{}, &corev1.ServiceList{}, &corev1.SecretList{},
		&corev1.ConfigMapList{},
		&corev1.ServiceAccountList{}, &rbacv1.RoleList{}, &rbacv1.RoleBindingList{}, &policyv1.PodDisruptionBudgetList{},
		&networkingv1.NetworkPolicyList{}, &autoscalingv2.HorizontalPodAutoscalerList{},
	}
}

// follow begins the chronicle of a namespace that has no instance yet.
func follow(t *testing.T, namespace string) *chronicle {
	t.Helper()
	live, err := client.NewWithWatch(env.Config, client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	c := &chronicle{stories: map[string]story{}}
	var ends sync.WaitGroup
	t.Cleanup(ends.Wait) // It comes last: after the watches have been stopped.
	for _, list := range chronicled() {
		kind := strings.TrimSuffix(fmt.Sprintf("%T", list)[strings.LastIndex(fmt.Sprintf("%T", list), ".")+1:], "List")
		events, err := live.Watch(context.Background(), list, client.InNamespace(namespace),
			client.HasLabels{platformv1.DomainLabel})
		if err != nil {
			t.Fatal(err)
		}
		ends.Go(func() {
			for e := range events.ResultChan() {
				if obj, ok := e.Object.(client.Object); ok {
					c.tell(t, kind, e.Type, obj)
				}
			}
		})
		t.Cleanup(events.Stop)
	}
	return c
}

func (c *chronicle) tell(t *testing.T, kind string, event watch.EventType, obj client.Object) {
	moment, err := strconv.ParseInt(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		t.Errorf("%s %s has the resource version %q", kind, obj.GetName(), obj.GetResourceVersion())
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	name := kind + " " + obj.GetName()
	s := c.stories[name]
	if event == watch.Added {
		s = story{made: s.made + 1}
	}
	if s.condemned == 0 && (obj.GetDeletionTimestamp() != nil || event == watch.Deleted) {
		s.condemned = moment
	}
	if event == watch.Deleted {
		s.gone = moment
	}
	c.stories[name] = s
}

// of tells the story of one name.
func (c *chronicle) of(name string) story {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.stories[name]
}

// all tells every story.
func (c *chronicle) all() map[string]story {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := map[string]story{}
	for name, s := range c.stories {
		all[name] = s
	}
	return all
}
