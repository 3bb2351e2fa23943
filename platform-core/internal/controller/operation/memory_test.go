// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/agentclient"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// users are process managers of pods that use so much memory, by name; who is not among them does not answer.
type users struct {
	agentclient.Process
	uses map[string]int64

	mu    sync.Mutex
	asked []string
}

func (u *users) Dial(_ context.Context, pod *corev1.Pod) (agentclient.Process, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.asked = append(u.asked, pod.Name)
	return &user{users: u, pod: pod.Name}, nil
}

type user struct {
	*users
	pod string
}

func (u *user) Memory(context.Context) (int64, error) {
	if bytes, answers := u.uses[u.pod]; answers {
		return bytes, nil
	}
	return 0, errors.New("away")
}

// memoryPod is one that runs, of a component, with a limit; empty for none.
func memoryPod(component string, ordinal int, limit string) *corev1.Pod {
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%s-%d", component, ordinal),
			Labels: map[string]string{platformv1.ComponentLabel: component}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "status",
			Resources: corev1.ResourceRequirements{
				Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1Gi")}}}, {Name: "server"}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning, PodIP: "127.0.0.1"},
	}
	if limit != "" {
		pod.Spec.Containers[1].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(limit)}
	}
	return pod
}

// declaring is an Application whose component redis has a memory limit; empty for none.
func declaring(limit string) *platformv1.Application {
	app := &platformv1.Application{}
	app.Spec.Components = []platformv1.ApplicationComponent{{Name: "redis"}, {Name: "sentinel"}}
	if limit != "" {
		app.Spec.Components[0].Resources.Limits = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(limit)}
	}
	return app
}

func TestOnlyPodsThatLoseMemoryAreAsked(t *testing.T) {
	going, coming := memoryPod("redis", 4, "256Mi"), memoryPod("redis", 5, "256Mi")
	going.DeletionTimestamp = &metav1.Time{}
	going.Status.Phase = corev1.PodFailed
	coming.Status.PodIP = ""
	pods := []*corev1.Pod{memoryPod("redis", 0, "256Mi"), memoryPod("redis", 1, "64Mi"), memoryPod("redis", 2, ""),
		memoryPod("redis", 3, "128Mi"), going, coming,
		memoryPod("sentinel", 0, "256Mi")}
	seen := &observation{pods: map[string]*corev1.Pod{},
		bundle: &plugin.Bundle{Components: schema.Components{Components: []schema.Component{
			{Name: "redis", Container: "server"}, {Name: "sentinel", Container: "server"}}}}}
	for _, pod := range pods {
		seen.pods[pod.Name] = pod
	}
	const mebibyte = 1 << 20
	for name, test := range map[string]struct {
		// was and limit are what is declared before the change, and by it; empty for no limit.
		was, limit string
		uses       map[string]int64
		asked      []string
		says       string
	}{
		"enough for all": {"256Mi", "96Mi",
			map[string]int64{"redis-0": 60 * mebibyte, "redis-2": 70 * mebibyte, "redis-3": 80 * mebibyte},
			[]string{"redis-0", "redis-2", "redis-3"}, ""},
		"too little for one": {"256Mi", "96Mi",
			map[string]int64{"redis-0": 60 * mebibyte, "redis-2": 90 * mebibyte, "redis-3": 0},
			[]string{"redis-0", "redis-2", "redis-3"}, "pod redis-2 uses 90Mi"},
		"no less than they have": {"", "256Mi", map[string]int64{"redis-2": 90 * mebibyte}, []string{"redis-2"}, ""},
		"one that is away": {"256Mi", "128Mi", map[string]int64{"redis-2": 90 * mebibyte},
			[]string{"redis-0", "redis-2"}, ""},
		"no limit any more": {"256Mi", "", nil, nil, ""},
		"another field":     {"96Mi", "96Mi", map[string]int64{"redis-0": 200 * mebibyte}, nil, ""},
		"more than before":  {"64Mi", "96Mi", map[string]int64{"redis-0": 200 * mebibyte}, nil, ""},
	} {
		t.Run(name, func(t *testing.T) {
			seen.facts.Application = declaring(test.was)
			agents := &users{uses: test.uses}
			got := (&Controller{Deps: Deps{Dialer: agents}}).tooLittleMemory(t.Context(), seen, declaring(test.limit))
			if (got == "") != (test.says == "") || !strings.Contains(got, test.says) {
				t.Errorf("it says %q, want %q in it", got, test.says)
			}
			if slices.Sort(agents.asked); !slices.Equal(agents.asked, test.asked) {
				t.Errorf("%v were asked, want %v", agents.asked, test.asked)
			}
		})
	}
}

// TestManyAgentsAreAskedSideBySide, and no more than asksAtOnce of them.
func TestManyAgentsAreAskedSideBySide(t *testing.T) {
	agents := &crowd{together: make(chan struct{})}
	var pods []*corev1.Pod
	for n := range 3 * asksAtOnce {
		pods = append(pods, memoryPod("redis", n, ""))
	}
	uses := (&Controller{Deps: Deps{Dialer: agents}}).memoryInUse(t.Context(), pods)
	for i, use := range uses {
		if want := (opsflow.MemoryUse{Pod: pods[i].Name, Bytes: 1}); use != want {
			t.Errorf("got %+v, want %+v", use, want)
		}
	}
	if agents.most != asksAtOnce {
		t.Errorf("%d were asked at once, want %d", agents.most, asksAtOnce)
	}
}

// crowd answers when as many are asked as may be at the same time.
type crowd struct {
	agentclient.Process
	together  chan struct{}
	mu        sync.Mutex
	now, most int
}

func (c *crowd) Dial(context.Context, *corev1.Pod) (agentclient.Process, error) { return c, nil }

func (c *crowd) Memory(ctx context.Context) (int64, error) {
	c.mu.Lock()
	c.now++
	if c.most = max(c.most, c.now); c.now == asksAtOnce && c.together != nil {
		close(c.together)
		c.together = nil
	}
	wait := c.together
	c.mu.Unlock()
	if wait != nil {
		select {
		case <-wait:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now--
	return 1, nil
}
