// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// redisApplication is the spec of a Redis, said without its kind.
func redisApplication() platformv1.ApplicationSpec {
	return platformv1.ApplicationSpec{
		Plugin: "redis", PluginVersion: "1.0.0", Version: "7.0", Topology: "standalone",
		Components: []platformv1.ApplicationComponent{{
			Name: framework.RedisComponent,
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20m"),
					corev1.ResourceMemory: resource.MustParse("32Mi")},
				Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")},
			},
			Storage:    &platformv1.Storage{Size: resource.MustParse("64Mi")},
			Parameters: platformv1.Parameters{"appendonly": "yes", "appendfsync": "always"},
		}},
	}
}

// cli runs a command through the Service with what the binding says.
func cli(a *framework.Application, arguments ...string) (string, error) {
	a.Helper()
	binding := a.Object().Status.Binding
	if binding == nil {
		return "", fmt.Errorf("the status of Application %q names no binding", a.Name)
	}
	return a.RedisCLI(a.AccountIn(binding.Name), arguments...)
}

// says waits until a command gives an answer.
func says(a *framework.Application, want string, arguments ...string) {
	a.Helper()
	a.Eventually(framework.EndpointTimeout, fmt.Sprintf("%v gives %q", arguments, want), func() error {
		got, err := cli(a, arguments...)
		if err == nil && got != want {
			err = fmt.Errorf("it gives %q", got)
		}
		return err
	})
}

// rejects proves that a change is refused at once, or, when nobody was there to do so, that the Application says what
// is wrong with it.
func rejects(a *framework.Application, change func(*platformv1.ApplicationSpec), reason string, texts ...string) {
	a.Helper()
	err := a.TryUpdate(change)
	if err == nil {
		stalledWith(a, reason, texts...)
		return
	}
	wantJudged(a.Namespace, err, texts...)
}

// stalledWith waits until the Application says what is wrong.
func stalledWith(a *framework.Application, reason string, texts ...string) {
	a.Helper()
	a.Eventually(framework.ErrorTimeout, fmt.Sprintf("Application %q says %s", a.Name, reason), func() error {
		app := a.Object()
		stalled := meta.FindStatusCondition(app.Status.Conditions, platformv1.StalledCondition)
		if stalled == nil || stalled.Reason != reason || app.Status.ObservedGeneration != app.Generation {
			return fmt.Errorf("it says: %s", framework.Describe(app.Status.Conditions))
		}
		for _, text := range texts {
			if !strings.Contains(stalled.Message, text) {
				return fmt.Errorf("it says nothing of %q: %s", text, stalled.Message)
			}
		}
		return nil
	})
}

// TestStopAndStart proves that a stopped instance has no pods and that nothing else of it is lost.
func TestStopAndStart(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "stop")
	a := s.CreateApplication("halt", redisApplication())
	a.WaitReady()
	says(a, "OK", "SET", "kept", "yes")
	claims, service := a.Claims(), &corev1.Service{}
	s.MustGet(a.Name, service)
	address := service.Spec.ClusterIP

	a.Update(func(spec *platformv1.ApplicationSpec) { spec.Running = new(false) })
	a.WaitForPods()
	if phase := a.Object().Status.Phase; phase != platformv1.PhaseStopped {
		t.Errorf("the phase of the stopped instance is %q, want %q", phase, platformv1.PhaseStopped)
	}
	for name, claim := range a.Claims() {
		if claim.UID != claims[name].UID || claim.DeletionTimestamp != nil {
			t.Errorf("claim %s is another one or on its way out", name)
		}
	}
	a.Update(func(spec *platformv1.ApplicationSpec) { spec.Running = new(true) })
	took := a.WaitReady()
	t.Logf("started again within %s", framework.FormatSeconds(took))
	s.MustGet(a.Name, service)
	if service.Spec.ClusterIP != address {
		t.Errorf("the address was %s and is %s", address, service.Spec.ClusterIP)
	}
	says(a, "yes", "GET", "kept")
}

// TestSuspend proves that the engine keeps its hands off a suspended instance and takes it up again.
func TestSuspend(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "suspend")
	a := s.CreateApplication("still", redisApplication())
	a.WaitReady()
	pods := a.Pods()
	a.Update(func(spec *platformv1.ApplicationSpec) { spec.Suspend = true })
	a.Eventually(framework.SettleTimeout, "the whole chain is suspended", func() error {
		set := &platformv1.WorkloadSet{}
		err := a.Get(platformv1.WorkloadSetNameFor(a.Name, framework.RedisComponent, platformv1.DefaultSet), set)
		if err != nil {
			return err
		}
		if !set.Spec.Suspend || set.Status.ObservedGeneration != set.Generation {
			return fmt.Errorf("the WorkloadSet is not: %+v", set.Status.Conditions)
		}
		return nil
	})
	s.Delete(&pods[0], framework.GraceZero)
	s.Throughout(10*time.Second, "a suspended instance is not healed", func() error {
		if have := a.Pods(); len(have) > 0 {
			return fmt.Errorf("there is pod %s", have[0].Name)
		}
		return nil
	})
	a.Update(func(spec *platformv1.ApplicationSpec) { spec.Suspend = false })
	a.WaitForPods(pods[0].Name)
}

// TestDeletionProtection proves that a protected instance can be deleted only after someone lifted that.
func TestDeletionProtection(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "protect")
	spec := redisApplication()
	spec.DeletionProtection = true
	a := s.CreateApplication("safe", spec)
	a.WaitReady()
	err := framework.Cluster.Client.Delete(s.Ctx, a.Object())
	if err == nil {
		t.Fatal("a protected Application could be deleted")
	}
	if !strings.Contains(err.Error(), "deletionProtection") {
		t.Errorf("the refusal does not say how to lift it: %v", err)
	}
	if a.Object().DeletionTimestamp != nil {
		t.Error("the refused deletion left its mark")
	}
	a.Update(func(spec *platformv1.ApplicationSpec) { spec.DeletionProtection = false })
	s.Delete(a.Object())
	s.Eventually(framework.SettleTimeout, "the Application is gone",
		func() error { return framework.ErrUnlessNotFound(s.Get(a.Name, &platformv1.Application{})) })
}

// TestAdoptVolumes proves that retained data is used again only when someone says whose it is.
func TestAdoptVolumes(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "adopt")
	first := s.CreateApplication("heir", redisApplication())
	first.WaitReady()
	says(first, "OK", "SET", "kept", "yes")
	old := first.Object()
	claims := slices.Sorted(maps.Keys(first.Claims()))
	s.Delete(old)
	s.Eventually(framework.SettleTimeout, "the pods of the first one are gone", func() error {
		if pods := first.Pods(); len(pods) > 0 {
			return fmt.Errorf("there is pod %s", pods[0].Name)
		}
		return framework.ErrUnlessNotFound(s.Get(first.Name, &platformv1.Application{}))
	})

	second := s.CreateApplication("heir", redisApplication())
	stalledWith(second, platformv1.ReasonRetainedVolumesExist, claims[0], string(old.UID))
	second.Update(func(spec *platformv1.ApplicationSpec) { spec.AdoptVolumes = "00000000-0000-0000-0000-000000000000" })
	stalledWith(second, platformv1.ReasonRetainedVolumesExist, claims[0])
	second.Update(func(spec *platformv1.ApplicationSpec) { spec.AdoptVolumes = string(old.UID) })
	second.WaitReady()
	says(second, "yes", "GET", "kept")
}

// readMemoryLimit prints what the kernel enforces, on hosts with the second and with the first version of control
// groups.
const readMemoryLimit = `cat /sys/fs/cgroup/memory.max 2>/dev/null || cat /sys/fs/cgroup/memory/memory.limit_in_bytes`

// limited waits until the kernel enforces a limit of memory, in MiB, in a pod.
func limited(a *framework.Application, pod string, mebibytes int) {
	a.Helper()
	a.Eventually(framework.SettleTimeout, "the kernel enforces the new limit", func() error {
		out, err := framework.Run(a.Ctx, a.Namespace.Name, pod, framework.RedisComponent, "", "sh", "-c", readMemoryLimit)
		if err != nil {
			return err
		}
		if want := fmt.Sprint(mebibytes << 20); out != want {
			return fmt.Errorf("the limit is %s, want %s", out, want)
		}
		return nil
	})
}

// TestResizeInPlace proves that a running pod gets other resources without a restart, and is left as it is where no
// node has what is asked for.
func TestResizeInPlace(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "resize")
	a := s.CreateApplication("grows", redisApplication())
	a.WaitReady()
	before := a.Pods()[0]
	a.Update(framework.WithComponent(framework.RedisComponent, func(c *platformv1.ApplicationComponent) {
		c.Resources.Requests[corev1.ResourceCPU] = resource.MustParse("30m")
		c.Resources.Limits[corev1.ResourceMemory] = resource.MustParse("160Mi")
	}))
	limited(a, before.Name, 160)
	a.WaitReady()
	after := a.Pods()[0]
	if before.UID != after.UID || !maps.Equal(framework.Restarts(&before), framework.Restarts(&after)) {
		t.Errorf("the pod was replaced or restarted: %s with restarts %v, and now %s with %v", before.UID,
			framework.Restarts(&before), after.UID, framework.Restarts(&after))
	}

	// More than any node has. What the process makes of its limit waits for that limit.
	runs := a.ProcessStarts()
	most, err := cli(a, "CONFIG", "GET", "maxmemory")
	if err != nil {
		t.Fatal(err)
	}
	memory := func(request, limit string) {
		t.Helper()
		a.Update(framework.WithComponent(framework.RedisComponent, func(c *platformv1.ApplicationComponent) {
			c.Resources.Requests[corev1.ResourceMemory], c.Resources.Limits[corev1.ResourceMemory] = resource.MustParse(request),
				resource.MustParse(limit)
		}))
	}
	memory("1Ti", "1Ti")
	stalledWith(a, platformv1.ReasonResizeInfeasible, before.Name,
		"no node that the pod may run on can ever give it the new resources",
		"add a node that has room, or lower the resources")
	limited(a, before.Name, 160)
	says(a, most, "CONFIG", "GET", "maxmemory")
	memory("32Mi", "128Mi")
	limited(a, before.Name, 128)
	a.WaitReady()
	if now := a.ProcessStarts(); !maps.Equal(now, runs) {
		t.Errorf("the pod was touched: it was %v, and is %v", runs, now)
	}
}
