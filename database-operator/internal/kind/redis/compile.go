// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"cmp"
	"maps"
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

// Compile implements typed.Kind. The defaults that the CRD states are filled in here
// too, for callers that have no API server before them.
func (Kind) Compile(r *databasev1.Redis) (*typed.Output, error) {
	spec := &r.Spec
	app := &platformv1.Application{
		Spec: platformv1.ApplicationSpec{
			Plugin:        redisparts.Plugin,
			PluginVersion: cmp.Or(spec.PluginVersion, redisparts.PluginVersion),
			Version:       spec.Version,
			Topology:      topology(spec),
			Components: append([]platformv1.ApplicationComponent{{
				Name:                component,
				Replicas:            pods(spec.Replicas),
				Resources:           *spec.Resources.DeepCopy(),
				Storage:             redisparts.Storage(spec.Storage),
				Parameters:          parameters(spec),
				Service:             spec.Service.DeepCopy(),
				Scheduling:          spec.Scheduling.DeepCopy(),
				PodDisruptionBudget: spec.PodDisruptionBudget.DeepCopy(),
				Monitoring:          spec.Monitoring.DeepCopy(),
			}}, sentinelComponents(spec)...),
			Credentials:    redisparts.Credentials(spec.Auth),
			Failover:       failover(spec),
			NetworkPolicy:  spec.NetworkPolicy.DeepCopy(),
			TLS:            spec.TLS.DeepCopy(),
			Maintenance:    spec.Maintenance.DeepCopy(),
			Schedules:      spec.DeepCopy().Schedules,
			Running:        kindparts.Running(spec.Running),
			DeletionPolicy: cmp.Or(spec.DeletionPolicy, platformv1.DeletionPolicyRetain),
			Keeping:        spec.Keeping,
			RestoreFrom:    spec.RestoreFrom.DeepCopy(),
		},
	}
	return &typed.Output{Application: app, Entities: redisparts.Users(spec.Users)}, nil
}

// topology of a server that can have replicas: the engine says who writes, also while there is none, or Sentinels elect.
func topology(spec *databasev1.RedisSpec) string {
	switch {
	case spec.Sentinel != nil:
		return elected
	case spec.Replicas == nil:
		return standalone
	}
	return replication
}

// failoverAfter is how long a process may be down, which starts within half a second where there is little data. With the change and what kube-proxy takes
// nobody writes for less than three seconds.
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

// sentinelComponents are the Sentinels, where there are any: in the same places as the servers, and reached in the same way.
func sentinelComponents(spec *databasev1.RedisSpec) []platformv1.ApplicationComponent {
	s := spec.Sentinel
	if s == nil {
		return nil
	}
	c := platformv1.ApplicationComponent{
		Name:       sentinels,
		Replicas:   new(cmp.Or(s.Replicas, defaultSentinels)),
		Storage:    &platformv1.Storage{Size: sentinelSize.DeepCopy(), StorageClassName: spec.Storage.DeepCopy().StorageClassName},
		Service:    spec.Service.DeepCopy(),
		Scheduling: spec.Scheduling.DeepCopy(),
	}
	if s.After != nil {
		c.Parameters = platformv1.Parameters{"down-after-milliseconds": platformv1.ParameterValue(strconv.FormatInt(s.After.Milliseconds(), 10))}
	}
	return []platformv1.ApplicationComponent{c}
}

// parameters puts the fields that are parameters of Redis beside those that the user
// names himself; the CRD keeps the two apart.
func parameters(spec *databasev1.RedisSpec) platformv1.Parameters {
	out, persistence := platformv1.Parameters{}, spec.Persistence
	maps.Copy(out, spec.Parameters)
	maps.Copy(out, redisparts.Memory(spec.Maxmemory, spec.MaxmemoryPolicy))
	if d := spec.Durability; d != nil {
		// Redis that is killed starts again over its own file, and its replicas follow it: what the file lacks is lost, also where a client waited for a replica.
		persistence.AppendFsync = cmp.Or(persistence.AppendFsync, databasev1.AppendFsyncAlways)
		out["min-replicas-to-write"] = kindparts.Number(d.MinReplicas)
		out["min-replicas-max-lag"] = kindparts.Number(cmp.Or(d.MaxLagSeconds, defaultMaxLag))
	}
	maps.Copy(out, redisparts.Persistence(persistence))
	return out
}
