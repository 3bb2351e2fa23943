// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"cmp"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/typed"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	"github.com/zeroinfra/database-operator/internal/kindparts"
	"github.com/zeroinfra/database-operator/internal/redisparts"
)

// What the plugin redis calls things.
const (
	standalone  = "standalone"
	replication = "replication"
	elected     = "sentinel"
	component   = "redis"
	sentinels   = "sentinel"
)

// defaultMaxLag is Redis's own, in seconds.
const defaultMaxLag = 10

// defaultSentinels can lose one.
const defaultSentinels = 3

// sentinelSize is more than the few lines that a Sentinel keeps will ever need.
var sentinelSize = resource.MustParse("64Mi")

// instance is what a Redis has of an InstanceSpec.
var instance = servers()

func servers() typed.Instance {
	i := redisparts.Instance(component)
	i.Role, i.Replicas, i.Whole = kindparts.Primary, "replicas", "a Redis"
	return i
}

// Compile implements typed.Kind. The defaults that the CRD states are filled in here
// too, for callers that have no API server before them.
func (Kind) Compile(r *databasev1.Redis) (*typed.Output, error) {
	spec := &r.Spec
	app := instance.Application(&spec.InstanceSpec, spec.PluginVersion)
	main := &app.Spec.Components[0]
	main.Replicas, main.Autoscaling, main.Parameters = pods(spec.Replicas), kindparts.Autoscaling(spec.Autoscaling),
		parameters(spec)
	app.Spec.Topology, app.Spec.Failover = topology(spec), failover(spec)
	app.Spec.Credentials = redisparts.Credentials(spec.Auth)
	app.Spec.Components = append(app.Spec.Components, sentinelComponents(spec)...)
	return &typed.Output{Application: app, Entities: redisparts.Users(spec.Users)}, nil
}

// topology of a server that can have replicas: the engine says who writes, also while there is none, or Sentinels
// elect.
func topology(spec *databasev1.RedisSpec) string {
	switch {
	case spec.Sentinel != nil:
		return elected
	case spec.Replicas == nil && spec.Autoscaling == nil:
		return standalone
	}
	return replication
}

// failoverAfter is how long a process may be down, which starts within half a second where there is little data. With
// the change and what kube-proxy takes nobody writes for less than three seconds.
const failoverAfter = time.Second

// failover says when another server takes over, where the engine decides that.
func failover(spec *databasev1.RedisSpec) *platformv1.Failover {
	f := kindparts.Failover(spec.Failover)
	if topology(spec) != replication {
		return f
	}
	if f == nil {
		f = &platformv1.Failover{}
	}
	f.After = cmp.Or(f.After, &metav1.Duration{Duration: failoverAfter})
	return f
}

// pods are the replicas and their primary.
func pods(replicas *int32) *int32 {
	if replicas == nil {
		return nil
	}
	return new(*replicas + 1)
}

// sentinelComponents are the Sentinels, where there are any: in the same places as the servers, and reached in the same
// way.
func sentinelComponents(spec *databasev1.RedisSpec) []platformv1.ApplicationComponent {
	s := spec.Sentinel
	if s == nil {
		return nil
	}
	c := platformv1.ApplicationComponent{
		Name:     sentinels,
		Replicas: new(cmp.Or(s.Replicas, defaultSentinels)),
		Storage: &platformv1.Storage{Size: sentinelSize.DeepCopy(),
			StorageClassName: spec.Storage.DeepCopy().StorageClassName},
		Service:    spec.Service.DeepCopy(),
		Scheduling: spec.Scheduling.DeepCopy(),
	}
	if s.After != nil {
		c.Parameters = platformv1.Parameters{
			"down-after-milliseconds": platformv1.ParameterValue(strconv.FormatInt(s.After.Milliseconds(), 10))}
	}
	return []platformv1.ApplicationComponent{c}
}

// parameters are those of the servers, and those by which the primary takes writes.
func parameters(spec *databasev1.RedisSpec) platformv1.Parameters {
	d := spec.Durability
	if d == nil {
		return redisparts.Parameters(spec.Parameters, &spec.RedisServers)
	}
	servers := spec.RedisServers
	// Redis that is killed starts again over its own file, and its replicas follow it: what the file lacks is lost,
	// also where a client waited for a replica.
	servers.Persistence.AppendFsync = cmp.Or(servers.Persistence.AppendFsync, databasev1.AppendFsyncAlways)
	out := redisparts.Parameters(spec.Parameters, &servers)
	out["min-replicas-to-write"] = typed.Number(d.MinReplicas)
	out["min-replicas-max-lag"] = typed.Number(cmp.Or(d.MaxLagSeconds, defaultMaxLag))
	return out
}
