// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// Limits of the tests.
const (
	// readyIn is when a test gives up on an instance that is to be ready. No limit here is a budget: a machine may be five times as slow for a
	// while, and what a wait took is logged where there is a budget for it.
	readyIn = 5 * time.Minute
	// errorIn is when a test gives up on the error of bad input. The budget is 5 s on a machine that has nothing
	// else to do; the tests log what it took, and a busy machine is no defect.
	errorIn = 2 * time.Minute
	// spreadIn is how long kube-proxy may take on every node to take up a change of endpoints.
	spreadIn = 2 * time.Minute
	// settleIn is how long a change of a running instance may take.
	settleIn = 3 * time.Minute
)

// graceZero ends a pod at once.
const graceZero = client.GracePeriodSeconds(0)

// redisComponent is the plugin's name of the component, and of the container that runs the server.
const redisComponent = "redis"

// instance is one Redis of a test.
type instance struct {
	*space
	name string
}

// setting changes the spec of a Redis.
type setting func(*databasev1.RedisSpec)

// redisObject returns a Redis that asks for little.
func redisObject(name string, settings ...setting) *databasev1.Redis {
	r := &databasev1.Redis{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: databasev1.RedisSpec{
		Version: "7.0",
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20m"), corev1.ResourceMemory: resource.MustParse("32Mi")},
			Limits:   corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")},
		},
		Storage: databasev1.RedisStorage{Size: resource.MustParse("64Mi")},
	}}
	for _, apply := range settings {
		apply(&r.Spec)
	}
	return r
}

// redis creates a Redis and does not wait for it.
func (s *space) redis(name string, settings ...setting) *instance {
	s.Helper()
	s.create(redisObject(name, settings...))
	return &instance{space: s, name: name}
}

// appendFsync has the append-only file synced at the given times.
func appendFsync(when databasev1.AppendFsync) setting {
	return func(spec *databasev1.RedisSpec) {
		spec.Persistence = databasev1.RedisPersistence{Mode: databasev1.PersistenceAOF, AppendFsync: when}
	}
}

// safe syncs each write before it is acknowledged, so that nothing acknowledged may be lost.
func safe() setting { return appendFsync(databasev1.AppendFsyncAlways) }

// object returns the Redis as it is.
func (i *instance) object() *databasev1.Redis {
	i.Helper()
	r := &databasev1.Redis{}
	i.mustGet(i.name, r)
	return r
}

// ready waits until the instance is ready at its present generation and then until its Service leads to it. It returns how
// long the first took.
func (i *instance) ready() time.Duration {
	i.Helper()
	took := i.becomesReady()
	// The nodes learn of a new endpoint a moment after the object could.
	i.eventually(spreadIn, fmt.Sprintf("the Service of Redis %q leads to it", i.name), func() error {
		_, err := i.do("PING")
		return err
	})
	return took
}

// becomesReady waits until the instance is ready at its present generation.
func (i *instance) becomesReady() time.Duration {
	i.Helper()
	return i.eventually(readyIn, fmt.Sprintf("Redis %q becomes ready", i.name), func() error {
		r := &databasev1.Redis{}
		if err := i.get(i.name, r); err != nil {
			return err
		}
		return readyNow(r, r.Status.ObservedGeneration)
	})
}

// readyNow says what keeps an object from being ready at its present generation.
func readyNow(obj platformv1.Conditioned, observed int64) error {
	if observed != obj.GetGeneration() {
		return fmt.Errorf("%s: status speaks of generation %d and the spec is of generation %d", obj.GetName(), observed, obj.GetGeneration())
	}
	if !meta.IsStatusConditionTrue(obj.GetConditions(), platformv1.ReadyCondition) {
		return fmt.Errorf("%s: not ready: %s", obj.GetName(), describe(obj.GetConditions()))
	}
	return nil
}

// describe prints conditions in one line.
func describe(conditions []metav1.Condition) string {
	text := ""
	for _, c := range conditions {
		text += fmt.Sprintf("%s=%s %s (%s); ", c.Type, c.Status, c.Reason, c.Message)
	}
	return text
}

// tryUpdate changes the spec as "kubectl patch" does.
func (i *instance) tryUpdate(change setting) error {
	r := &databasev1.Redis{}
	if err := i.get(i.name, r); err != nil {
		return err
	}
	before := r.DeepCopy()
	change(&r.Spec)
	return world.client.Patch(i.ctx, r, client.MergeFrom(before))
}

// update is tryUpdate for what has to be accepted.
func (i *instance) update(change setting) {
	i.Helper()
	if err := i.tryUpdate(change); err != nil {
		i.Fatalf("cannot change Redis %q: %v", i.name, err)
	}
}

// application is the name of the Application that the Redis compiles to.
func (i *instance) application() string { return platformv1.ApplicationNameFor("Redis", i.name) }

func (i *instance) workloadSet() string {
	return platformv1.WorkloadSetNameFor(i.application(), redisComponent, platformv1.DefaultSet)
}

func (i *instance) podName() string { return platformv1.PodNameFor(i.workloadSet(), 0) }

// pod returns the one pod of the instance.
func (i *instance) pod() *corev1.Pod {
	i.Helper()
	pod := &corev1.Pod{}
	i.mustGet(i.podName(), pod)
	return pod
}

// claim returns the one claim of the instance; the test fails when there is another number of them.
func (i *instance) claim() *corev1.PersistentVolumeClaim {
	i.Helper()
	var claims corev1.PersistentVolumeClaimList
	if err := world.client.List(i.ctx, &claims, client.InNamespace(i.space.name),
		client.MatchingLabels{platformv1.ApplicationLabel: i.application()}); err != nil {
		i.Fatal(err)
	}
	if len(claims.Items) != 1 {
		i.Fatalf("Redis %q has %d claims, want 1", i.name, len(claims.Items))
	}
	return &claims.Items[0]
}

// footprint is what must stay the same when nothing of a running instance may be touched.
type footprint struct {
	pod      string
	restarts map[string]int32
	// run is redis-server's own name of its present run: another process has another one.
	run string
}

func (i *instance) footprint() footprint {
	i.Helper()
	pod := i.pod()
	return footprint{pod: string(pod.UID), restarts: restarts(pod), run: i.info("run_id")}
}

func (f footprint) samePod(other footprint) error {
	if f.pod != other.pod {
		return fmt.Errorf("the pod was replaced: its UID was %s and is %s", f.pod, other.pod)
	}
	if !maps.Equal(f.restarts, other.restarts) {
		return fmt.Errorf("a container was restarted: the counts were %v and are %v", f.restarts, other.restarts)
	}
	return nil
}

func (f footprint) sameProcess(other footprint) error {
	if err := f.samePod(other); err != nil {
		return err
	}
	if f.run != other.run {
		return fmt.Errorf("redis-server was restarted: its run was %s and is %s", f.run, other.run)
	}
	return nil
}

// restartedInPlace says what is wrong unless the process is another one in the same container.
func (f footprint) restartedInPlace(other footprint) error {
	if err := f.samePod(other); err != nil {
		return err
	}
	if f.run == other.run {
		return fmt.Errorf("redis-server was not restarted: its run is still %s", f.run)
	}
	return nil
}

// named is the metadata of an object with a name.
func named(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

// agentReport reads what the status agent says of the pod.
func (i *instance) agentReport() report.Report {
	i.Helper()
	r, err := report.Parse(i.pod().Annotations[platformv1.ReportAnnotation])
	if err != nil {
		i.Fatal(err)
	}
	return r
}
