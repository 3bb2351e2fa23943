// SPDX-License-Identifier: Apache-2.0

package rediscluster

import (
	"testing"

	"github.com/zeroinfra/platform-core/sdk/testkit"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
)

func TestWriteThroughIsWhatCompileDoes(t *testing.T) {
	testkit.WriteThrough[*databasev1.RedisCluster](t, Kind{}, map[string]testkit.Written{
		"running":       {Spec: `{"running":false}`, Compiled: `"running":false`},
		"version":       {Spec: `{"version":"8.0"}`, Compiled: `"version":"8.0"`},
		"pluginVersion": {Spec: `{"pluginVersion":"1.2.0"}`, Compiled: `"pluginVersion":"1.2.0"`},
		"components[node].resources": {Spec: `{"resources":{"limits":{"memory":"3Gi"}}}`,
			Compiled: `"resources":{"limits":{"memory":"3Gi"}}`},
		"components[node].storage.size": {Spec: `{"storage":{"size":"7Gi"}}`, Compiled: `"storage":{"size":"7Gi"}`},
		"components[node].parameters":   {Spec: `{"parameters":{"hz":"20"}}`, Compiled: `"hz":"20"`},
		"components[node].sets.count": {Spec: `{"shards":4}`,
			Compiled: `"sets":[{"name":"0"},{"name":"1"},{"name":"2"},{"name":"3"}]`},
		"components[node].replicas": {Spec: `{"replicasPerShard":2}`, Compiled: `"replicas":3`},
	})
}
