// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"cmp"
	"strconv"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/typed"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	"github.com/zeroinfra/database-operator/internal/redisparts"
)

// What the plugin redis calls things.
const (
	topology  = "cluster"
	component = "node"
)

// defaultShards are the fewest that can elect a primary.
const defaultShards = 3

// instance is what a RedisCluster has of an InstanceSpec.
var instance = nodes()

func nodes() typed.Instance {
	i := redisparts.Instance(component)
	i.Replicas, i.Sets, i.Whole = "replicasPerShard", "shards", "each shard"
	return i
}

// Compile implements typed.Kind. The defaults that the CRD states are filled in here too, for callers that have no API
// server before them.
func (Kind) Compile(r *databasev1.RedisCluster) (*typed.Output, error) {
	spec := &r.Spec
	app := instance.Application(&spec.InstanceSpec, spec.PluginVersion)
	main := &app.Spec.Components[0]
	main.Replicas, main.Sets = pods(spec.ReplicasPerShard), shards(cmp.Or(spec.Shards, defaultShards))
	main.Parameters = redisparts.Parameters(spec.Parameters, &spec.RedisServers)
	app.Spec.Topology, app.Spec.Credentials = topology, redisparts.Credentials(spec.Auth)
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
