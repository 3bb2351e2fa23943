// SPDX-License-Identifier: Apache-2.0

// Package rediscluster is the kind RedisCluster: shards of Redis servers that share the keys by their slots.
//
// It compiles to an Application of the plugin redis with the topology cluster: the one component node (port 6379) has a
// set for each shard, named 0, 1 and so on, so that the last ones go first. Compile is a pure function; testdata holds
// what it makes of each input. The frame in sdk/typed does the rest under the field owner typed/rediscluster: it
// applies the Application, mirrors its conditions (Ready, Reconciling, Stalled, Accepted) and phase, and has Report
// fill in the rest of the status.
//
// Fields left out, of those that instances can have: logs, which is where access logs go, and Redis writes none; and
// autoscaling, since load falls on shards, and a shard comes or goes with a move of slots and keys, not with a pod.
// The engine refuses an autoscaler for pods that are members of one cluster.
package rediscluster
