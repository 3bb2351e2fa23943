// SPDX-License-Identifier: Apache-2.0

package framework

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
	// ReadyTimeout is when a test gives up on an instance that is to be ready. No limit here is a budget: a machine may be
	// five times as slow for a while, and what a wait took is logged where there is a budget for it.
	ReadyTimeout = 5 * time.Minute
	// ErrorTimeout is when a test gives up on the error of bad input. The budget is 5 s on a machine that has nothing
	// else to do; the tests log what it took, and a busy machine is no defect.
	ErrorTimeout = 2 * time.Minute
	// EndpointTimeout is how long kube-proxy may take on every node to take up a change of endpoints.
	EndpointTimeout = 2 * time.Minute
	// SettleTimeout is how long a change of a running instance may take.
	SettleTimeout = 3 * time.Minute
)

// GraceZero ends a pod at once.
const GraceZero = client.GracePeriodSeconds(0)

// RedisComponent is the plugin's name of the component, and of the container that runs the server.
const RedisComponent = "redis"

// Instance is one Redis of a test.
type Instance struct {
	*Namespace
	Name string
}

// Setting changes the spec of a Redis.
type Setting func(*databasev1.RedisSpec)

// NewRedis returns a Redis that asks for little.
func NewRedis(name string, settings ...Setting) *databasev1.Redis {
	r := &databasev1.Redis{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: databasev1.RedisSpec{
		InstanceSpec: platformv1.InstanceSpec{
			Version: "7.0",
			Resources: corev1.ResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("20m"),
					corev1.ResourceMemory: resource.MustParse("32Mi")},
				Limits: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("128Mi")},
			},
			Storage: platformv1.InstanceStorage{Size: resource.MustParse("64Mi")},
		},
	}}
	for _, apply := range settings {
		apply(&r.Spec)
	}
	return r
}

// CreateRedis creates a Redis and does not wait for it.
func (s *Namespace) CreateRedis(name string, settings ...Setting) *Instance {
	s.Helper()
	s.Create(NewRedis(name, settings...))
	return &Instance{Namespace: s, Name: name}
}

// appendFsync has the append-only file synced at the given times.
func appendFsync(when databasev1.AppendFsync) Setting {
	return func(spec *databasev1.RedisSpec) {
		spec.Persistence = databasev1.RedisPersistence{Mode: databasev1.PersistenceAOF, AppendFsync: when}
	}
}

// WithFsyncAlways syncs each write before it is acknowledged, so that nothing acknowledged may be lost.
func WithFsyncAlways() Setting { return appendFsync(databasev1.AppendFsyncAlways) }

// Object returns the Redis as it is.
func (i *Instance) Object() *databasev1.Redis {
	i.Helper()
	r := &databasev1.Redis{}
	i.MustGet(i.Name, r)
	return r
}

// WaitReady waits until the instance is ready at its present generation and then until its Service leads to it. It
// returns how long the first took.
func (i *Instance) WaitReady() time.Duration {
	i.Helper()
	took := i.WaitReadyCondition()
	// The nodes learn of a new endpoint a moment after the object could.
	i.Eventually(EndpointTimeout, fmt.Sprintf("the Service of Redis %q leads to it", i.Name), func() error {
		_, err := i.Do("PING")
		return err
	})
	return took
}

// WaitReadyCondition waits until the instance is ready at its present generation.
func (i *Instance) WaitReadyCondition() time.Duration {
	i.Helper()
	return i.Eventually(ReadyTimeout, fmt.Sprintf("Redis %q becomes ready", i.Name), func() error {
		r := &databasev1.Redis{}
		if err := i.Get(i.Name, r); err != nil {
			return err
		}
		return ReadyNow(r, r.Status.ObservedGeneration)
	})
}

// ReadyNow says what keeps an object from being ready at its present generation.
func ReadyNow(obj platformv1.Conditioned, observed int64) error {
	if observed != obj.GetGeneration() {
		return fmt.Errorf("%s: status speaks of generation %d and the spec is of generation %d", obj.GetName(), observed,
			obj.GetGeneration())
	}
	if !meta.IsStatusConditionTrue(obj.GetConditions(), platformv1.ReadyCondition) {
		return fmt.Errorf("%s: not ready: %s", obj.GetName(), Describe(obj.GetConditions()))
	}
	return nil
}

// Describe prints conditions in one line.
func Describe(conditions []metav1.Condition) string {
	text := ""
	for _, c := range conditions {
		text += fmt.Sprintf("%s=%s %s (%s); ", c.Type, c.Status, c.Reason, c.Message)
	}
	return text
}

// TryUpdate changes the spec as "kubectl patch" does.
func (i *Instance) TryUpdate(change Setting) error {
	r := &databasev1.Redis{}
	if err := i.Get(i.Name, r); err != nil {
		return err
	}
	before := r.DeepCopy()
	change(&r.Spec)
	return Cluster.Client.Patch(i.Ctx, r, client.MergeFrom(before))
}

// Update is TryUpdate for what has to be accepted.
func (i *Instance) Update(change Setting) {
	i.Helper()
	if err := i.TryUpdate(change); err != nil {
		i.Fatalf("cannot change Redis %q: %v", i.Name, err)
	}
}

// Application is the name of the Application that the Redis compiles to.
func (i *Instance) Application() string { return platformv1.ApplicationNameFor("Redis", i.Name) }

// WorkloadSet is the name of the WorkloadSet that the Redis compiles to.
func (i *Instance) WorkloadSet() string {
	return platformv1.WorkloadSetNameFor(i.Application(), RedisComponent, platformv1.DefaultSet)
}

// PodName is the name of the first pod of the instance.
func (i *Instance) PodName() string { return platformv1.PodNameFor(i.WorkloadSet(), 0) }

// Pod returns the one pod of the instance.
func (i *Instance) Pod() *corev1.Pod {
	i.Helper()
	pod := &corev1.Pod{}
	i.MustGet(i.PodName(), pod)
	return pod
}

// Claim returns the one claim of the instance; the test fails when there is another number of them.
func (i *Instance) Claim() *corev1.PersistentVolumeClaim {
	i.Helper()
	var claims corev1.PersistentVolumeClaimList
	if err := Cluster.Client.List(i.Ctx, &claims, client.InNamespace(i.Namespace.Name),
		client.MatchingLabels{platformv1.ApplicationLabel: i.Application()}); err != nil {
		i.Fatal(err)
	}
	if len(claims.Items) != 1 {
		i.Fatalf("Redis %q has %d claims, want 1", i.Name, len(claims.Items))
	}
	return &claims.Items[0]
}

// Footprint is what must stay the same when nothing of a running instance may be touched.
type Footprint struct {
	Pod      string
	Restarts map[string]int32
	// Run is redis-server's own name of its present run: another process has another one.
	Run string
}

// Footprint reads which pod, containers and process serve the instance.
func (i *Instance) Footprint() Footprint {
	i.Helper()
	pod := i.Pod()
	return Footprint{Pod: string(pod.UID), Restarts: Restarts(pod), Run: i.Info("run_id")}
}

// SamePod says what differs unless pod and containers are the same.
func (f Footprint) SamePod(other Footprint) error {
	if f.Pod != other.Pod {
		return fmt.Errorf("the pod was replaced: its UID was %s and is %s", f.Pod, other.Pod)
	}
	if !maps.Equal(f.Restarts, other.Restarts) {
		return fmt.Errorf("a container was restarted: the counts were %v and are %v", f.Restarts, other.Restarts)
	}
	return nil
}

// SameProcess says what differs unless pod, containers and process are the same.
func (f Footprint) SameProcess(other Footprint) error {
	if err := f.SamePod(other); err != nil {
		return err
	}
	if f.Run != other.Run {
		return fmt.Errorf("redis-server was restarted: its run was %s and is %s", f.Run, other.Run)
	}
	return nil
}

// RestartedInPlace says what is wrong unless the process is another one in the same container.
func (f Footprint) RestartedInPlace(other Footprint) error {
	if err := f.SamePod(other); err != nil {
		return err
	}
	if f.Run == other.Run {
		return fmt.Errorf("redis-server was not restarted: its run is still %s", f.Run)
	}
	return nil
}

// ObjectMeta is the metadata of an object with a name.
func ObjectMeta(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Name: name} }

// agentReport reads what the status agent says of the pod.
func (i *Instance) agentReport() report.Report {
	i.Helper()
	r, err := report.Parse(i.Pod().Annotations[platformv1.ReportAnnotation])
	if err != nil {
		i.Fatal(err)
	}
	return r
}
