// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"cmp"
	"maps"
	"strconv"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/typed"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	"github.com/zeroinfra/database-operator/internal/kindparts"
	"github.com/zeroinfra/database-operator/internal/redisparts"
)

// What the plugin redis calls things.
const (
	topology  = "cluster"
	component = "node"
)

// defaultShards are the fewest that can elect a primary.
const defaultShards = 3

// Compile implements typed.Kind. The defaults that the CRD states are filled in here too, for callers that have no API server before them.
func (Kind) Compile(r *databasev1.RedisCluster) (*typed.Output, error) {
	spec := &r.Spec
	app := &platformv1.Application{
		Spec: platformv1.ApplicationSpec{
			Plugin:        redisparts.Plugin,
			PluginVersion: cmp.Or(spec.PluginVersion, redisparts.PluginVersion),
			Version:       spec.Version,
			Topology:      topology,
			Components: []platformv1.ApplicationComponent{{
				Name:                component,
				Replicas:            pods(spec.ReplicasPerShard),
				Sets:                shards(cmp.Or(spec.Shards, defaultShards)),
				Resources:           *spec.Resources.DeepCopy(),
				Storage:             redisparts.Storage(spec.Storage),
				Parameters:          parameters(spec),
				Service:             spec.Service.DeepCopy(),
				Scheduling:          spec.Scheduling.DeepCopy(),
				PodDisruptionBudget: spec.PodDisruptionBudget.DeepCopy(),
				Monitoring:          spec.Monitoring.DeepCopy(),
			}},
			Credentials:    redisparts.Credentials(spec.Auth),
			NetworkPolicy:  spec.NetworkPolicy.DeepCopy(),
			TLS:            spec.TLS.DeepCopy(),
			Maintenance:    spec.Maintenance.DeepCopy(),
			Schedules:      spec.DeepCopy().Schedules,
			Running:        kindparts.Running(spec.Running),
			DeletionPolicy: cmp.Or(spec.DeletionPolicy, platformv1.DeletionPolicyRetain),
			RestoreFrom:    spec.RestoreFrom.DeepCopy(),
			Keeping:        spec.Keeping,
		},
	}
	return &typed.Output{Application: app, Entities: redisparts.Users(spec.Users)}, nil
}

// pods of each shard: the replicas and their primary.
func pods(replicas *int32) *int32 {
	if replicas == nil {
		return new(int32(2))
	}
	return new(*replicas + 1)
}

// shards are sets with numbers for names, so that the last ones go first.
func shards(count int32) []platformv1.ComponentSet {
	var sets []platformv1.ComponentSet
	for shard := range count {
		sets = append(sets, platformv1.ComponentSet{Name: strconv.Itoa(int(shard))})
	}
	return sets
}

// parameters puts the fields that are parameters of Redis beside those that the user names himself; the CRD keeps the two apart.
func parameters(spec *databasev1.RedisClusterSpec) platformv1.Parameters {
	out := platformv1.Parameters{}
	maps.Copy(out, spec.Parameters)
	maps.Copy(out, redisparts.Memory(spec.Maxmemory, spec.MaxmemoryPolicy))
	maps.Copy(out, redisparts.Persistence(spec.Persistence))
	return out
}
