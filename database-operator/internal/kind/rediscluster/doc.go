// SPDX-License-Identifier: Apache-2.0

// Package rediscluster is the kind RedisCluster: shards of Redis servers that share the keys by their slots.
//
// It compiles to an Application of the plugin redis with the topology cluster: the one component node (port 6379) has a set for each shard, named
// 0, 1 and so on, so that the last ones go first. Compile is a pure function; testdata holds what it makes of each input. The frame in sdk/typed
// does the rest under the field owner typed/rediscluster: it applies the Application, mirrors its conditions (Ready, Reconciling, Stalled,
// Accepted) and phase, and has Report fill in the rest of the status.
package rediscluster
