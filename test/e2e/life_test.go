// SPDX-License-Identifier: Apache-2.0

package e2e

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
)

// redisApplication is the spec of a Redis, said without its kind.
func redisApplication() platformv1.ApplicationSpec {
	return platformv1.ApplicationSpec{
		Plugin: "redis", PluginVersion: "1.0.0", Version: "7.0", Topology: "standalone",
		Components: []platformv1.ApplicationComponent{{
			Name: redisComponent,
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20m"), corev1.ResourceMemory: resource.MustParse("32Mi")},
				Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")},
			},
			Storage:    &platformv1.Storage{Size: resource.MustParse("64Mi")},
			Parameters: platformv1.Parameters{"appendonly": "yes", "appendfsync": "always"},
		}},
	}
}

// cli runs a command through the Service with what the binding says.
func (a *application) cli(arguments ...string) (string, error) {
	a.Helper()
	binding := a.object().Status.Binding
	if binding == nil {
		return "", fmt.Errorf("the status of Application %q names no binding", a.name)
	}
	return a.redisCLI(a.accountIn(binding.Name), arguments...)
}

// says waits until a command gives an answer.
func (a *application) says(want string, arguments ...string) {
	a.Helper()
	a.eventually(spreadIn, fmt.Sprintf("%v gives %q", arguments, want), func() error {
		got, err := a.cli(arguments...)
		if err == nil && got != want {
			err = fmt.Errorf("it gives %q", got)
		}
		return err
	})
}

// rejects proves that a change is refused at once, or, when nobody was there to do so, that the Application says what is wrong with it.
func (a *application) rejects(change func(*platformv1.ApplicationSpec), reason string, texts ...string) {
	a.Helper()
	err := a.tryUpdate(change)
	if err == nil {
		a.stalledWith(reason, texts...)
		return
	}
	a.wantJudged(err, texts...)
}

// stalledWith waits until the Application says what is wrong.
func (a *application) stalledWith(reason string, texts ...string) {
	a.Helper()
	a.eventually(errorIn, fmt.Sprintf("Application %q says %s", a.name, reason), func() error {
		app := a.object()
		stalled := meta.FindStatusCondition(app.Status.Conditions, platformv1.StalledCondition)
		if stalled == nil || stalled.Reason != reason || app.Status.ObservedGeneration != app.Generation {
			return fmt.Errorf("it says: %s", describe(app.Status.Conditions))
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
	s := newSpace(t, "stop")
	a := s.apply("halt", redisApplication())
	a.ready()
	a.says("OK", "SET", "kept", "yes")
	claims, service := a.claims(), &corev1.Service{}
	s.mustGet(a.name, service)
	address := service.Spec.ClusterIP

	a.update(func(spec *platformv1.ApplicationSpec) { spec.Running = new(false) })
	a.havePods()
	if phase := a.object().Status.Phase; phase != platformv1.PhaseStopped {
		t.Errorf("the phase of the stopped instance is %q, want %q", phase, platformv1.PhaseStopped)
	}
	for name, claim := range a.claims() {
		if claim.UID != claims[name].UID || claim.DeletionTimestamp != nil {
			t.Errorf("claim %s is another one or on its way out", name)
		}
	}
	a.update(func(spec *platformv1.ApplicationSpec) { spec.Running = new(true) })
	took := a.ready()
	t.Logf("started again within %s", seconds(took))
	s.mustGet(a.name, service)
	if service.Spec.ClusterIP != address {
		t.Errorf("the address was %s and is %s", address, service.Spec.ClusterIP)
	}
	a.says("yes", "GET", "kept")
}

// TestSuspend proves that the engine keeps its hands off a suspended instance and takes it up again.
func TestSuspend(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "suspend")
	a := s.apply("still", redisApplication())
	a.ready()
	pods := a.pods()
	a.update(func(spec *platformv1.ApplicationSpec) { spec.Suspend = true })
	a.eventually(settleIn, "the whole chain is suspended", func() error {
		set := &platformv1.WorkloadSet{}
		if err := a.get(platformv1.WorkloadSetNameFor(a.name, redisComponent, platformv1.DefaultSet), set); err != nil {
			return err
		}
		if !set.Spec.Suspend || set.Status.ObservedGeneration != set.Generation {
			return fmt.Errorf("the WorkloadSet is not: %+v", set.Status.Conditions)
		}
		return nil
	})
	s.delete(&pods[0], graceZero)
	s.throughout(10*time.Second, "a suspended instance is not healed", func() error {
		if have := a.pods(); len(have) > 0 {
			return fmt.Errorf("there is pod %s", have[0].Name)
		}
		return nil
	})
	a.update(func(spec *platformv1.ApplicationSpec) { spec.Suspend = false })
	a.havePods(pods[0].Name)
}

// TestDeletionProtection proves that a protected instance can be deleted only after someone lifted that.
func TestDeletionProtection(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "protect")
	spec := redisApplication()
	spec.DeletionProtection = true
	a := s.apply("safe", spec)
	a.ready()
	err := world.client.Delete(s.ctx, a.object())
	if err == nil {
		t.Fatal("a protected Application could be deleted")
	}
	if !strings.Contains(err.Error(), "deletionProtection") {
		t.Errorf("the refusal does not say how to lift it: %v", err)
	}
	if a.object().DeletionTimestamp != nil {
		t.Error("the refused deletion left its mark")
	}
	a.update(func(spec *platformv1.ApplicationSpec) { spec.DeletionProtection = false })
	s.delete(a.object())
	s.eventually(settleIn, "the Application is gone", func() error { return gone(s.get(a.name, &platformv1.Application{})) })
}

// TestAdoptVolumes proves that retained data is used again only when someone says whose it is.
func TestAdoptVolumes(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "adopt")
	first := s.apply("heir", redisApplication())
	first.ready()
	first.says("OK", "SET", "kept", "yes")
	old := first.object()
	claims := slices.Sorted(maps.Keys(first.claims()))
	s.delete(old)
	s.eventually(settleIn, "the pods of the first one are gone", func() error {
		if pods := first.pods(); len(pods) > 0 {
			return fmt.Errorf("there is pod %s", pods[0].Name)
		}
		return gone(s.get(first.name, &platformv1.Application{}))
	})

	second := s.apply("heir", redisApplication())
	second.stalledWith(platformv1.ReasonRetainedVolumesExist, claims[0], string(old.UID))
	second.update(func(spec *platformv1.ApplicationSpec) { spec.AdoptVolumes = "00000000-0000-0000-0000-000000000000" })
	second.stalledWith(platformv1.ReasonRetainedVolumesExist, claims[0])
	second.update(func(spec *platformv1.ApplicationSpec) { spec.AdoptVolumes = string(old.UID) })
	second.ready()
	second.says("yes", "GET", "kept")
}

// readMemoryLimit prints what the kernel enforces, on hosts with the second and with the first version of control groups.
const readMemoryLimit = `cat /sys/fs/cgroup/memory.max 2>/dev/null || cat /sys/fs/cgroup/memory/memory.limit_in_bytes`

// limited waits until the kernel enforces a limit of memory, in MiB, in a pod.
func (a *application) limited(pod string, mebibytes int) {
	a.Helper()
	a.eventually(settleIn, "the kernel enforces the new limit", func() error {
		out, err := run(a.ctx, a.space.name, pod, redisComponent, "", "sh", "-c", readMemoryLimit)
		if err != nil {
			return err
		}
		if want := fmt.Sprint(mebibytes << 20); out != want {
			return fmt.Errorf("the limit is %s, want %s", out, want)
		}
		return nil
	})
}

// TestResizeInPlace proves that a running pod gets other resources without a restart, and is left as it is where no node has what is asked for.
func TestResizeInPlace(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "resize")
	a := s.apply("grows", redisApplication())
	a.ready()
	before := a.pods()[0]
	a.update(component(redisComponent, func(c *platformv1.ApplicationComponent) {
		c.Resources.Requests[corev1.ResourceCPU] = resource.MustParse("30m")
		c.Resources.Limits[corev1.ResourceMemory] = resource.MustParse("160Mi")
	}))
	a.limited(before.Name, 160)
	a.ready()
	after := a.pods()[0]
	if before.UID != after.UID || !maps.Equal(restarts(&before), restarts(&after)) {
		t.Errorf("the pod was replaced or restarted: %s with restarts %v, and now %s with %v", before.UID, restarts(&before), after.UID, restarts(&after))
	}

	// More than any node has. What the process makes of its limit waits for that limit.
	runs := a.runs()
	most, err := a.cli("CONFIG", "GET", "maxmemory")
	if err != nil {
		t.Fatal(err)
	}
	memory := func(request, limit string) {
		t.Helper()
		a.update(component(redisComponent, func(c *platformv1.ApplicationComponent) {
			c.Resources.Requests[corev1.ResourceMemory], c.Resources.Limits[corev1.ResourceMemory] = resource.MustParse(request), resource.MustParse(limit)
		}))
	}
	memory("1Ti", "1Ti")
	a.stalledWith(platformv1.ReasonResizeInfeasible, before.Name, "no node that the pod may run on can ever give it the new resources", "add a node that has room, or lower the resources")
	a.limited(before.Name, 160)
	a.says(most, "CONFIG", "GET", "maxmemory")
	memory("32Mi", "128Mi")
	a.limited(before.Name, 128)
	a.ready()
	if now := a.runs(); !maps.Equal(now, runs) {
		t.Errorf("the pod was touched: it was %v, and is %v", runs, now)
	}
}
