// SPDX-License-Identifier: Apache-2.0

//go:build processes

package cluster_test

import (
	"fmt"
	"testing"

	"github.com/zeroinfra/agents/internal/driver/redis/cluster"
)

// TestClusterOfIPv6 brings together servers whose addresses are of IPv6 alone, and moves slots with their keys to one
// shard more.
func TestClusterOfIPv6(t *testing.T) {
	shard := func() []*server {
		var members []*server
		for range 2 {
			members = append(members, startServer(&server{T: t, dir: t.TempDir(), host: "::1"}))
		}
		return members
	}
	g := &group{T: t, shards: [][]*server{shard(), shard(), shard()}}
	g.bring(cluster.Done)
	client := g.clients()
	const keys = 300
	for n := range keys {
		if err := client.Set(t.Context(), fmt.Sprint("key-", n), n, 0).Err(); err != nil {
			t.Fatal(err)
		}
	}
	g.shards = append(g.shards, shard())
	g.bring(cluster.Done)
	g.sound()
	if got := g.keys(); got != keys {
		t.Errorf("there are %d keys, want %d", got, keys)
	}
}
