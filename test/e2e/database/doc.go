// SPDX-License-Identifier: Apache-2.0

// Package database tests the kinds of the database operator from outside, on a real cluster with real middleware:
// Redis, RedisCluster and PostgreSQL, with their failovers, backups, restores and upgrades.
//
// Tests that stop, replace or measure the operator run alone, one after the other; the rest runs in parallel after
// them.
package database
