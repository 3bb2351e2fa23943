// SPDX-License-Identifier: Apache-2.0

// Package redis is the kind Redis: one Redis server with a volume of its own, or a
// primary with replicas.
//
// It compiles to an Application of the plugin redis, with the one component redis
// (port 6379) and the one credential default. The topology is replication where
// spec.replicas is set, also to 0, and else standalone: it never changes. With
// spec.sentinel it is sentinel, and the component sentinel elects the primary. Compile is
// a pure function; testdata holds what it makes of each input. The frame in
// sdk/typed does the rest under the field owner typed/redis: it applies the
// Application, mirrors its conditions (Ready, Reconciling, Stalled, Accepted)
// and phase, and has Report fill in the rest of the status.
//
// Fields left out, of those that instances can have: logs, which is where access logs go, and Redis writes none. What
// its processes log is on their standard output. autoscaling counts replicas beside the primary, and is refused with
// spec.sentinel: Sentinels take minutes to forget a server that went.
package redis
