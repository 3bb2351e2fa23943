// SPDX-License-Identifier: Apache-2.0

package redis

import (
	"testing"

	"github.com/zeroinfra/platform-core/sdk/testkit"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
)

func TestWriteThroughIsWhatCompileDoes(t *testing.T) {
	testkit.WriteThrough[*databasev1.Redis](t, Kind{}, map[string]testkit.Written{
		"running":       {Spec: `{"running":false}`, Compiled: `"running":false`},
		"version":       {Spec: `{"version":"8.0"}`, Compiled: `"version":"8.0"`},
		"pluginVersion": {Spec: `{"pluginVersion":"1.2.0"}`, Compiled: `"pluginVersion":"1.2.0"`},
		"components[redis].resources": {Spec: `{"resources":{"limits":{"memory":"3Gi"}}}`,
			Compiled: `"resources":{"limits":{"memory":"3Gi"}}`},
		"components[redis].storage.size": {Spec: `{"storage":{"size":"7Gi"}}`, Compiled: `"storage":{"size":"7Gi"}`},
		"components[redis].parameters":   {Spec: `{"parameters":{"hz":"20"}}`, Compiled: `"hz":"20"`},
		"components[redis].replicas":     {Spec: `{"replicas":2}`, Compiled: `"replicas":3`},
		"components[sentinel].replicas": {Spec: `{"replicas":1,"sentinel":{"replicas":5}}`,
			Compiled: `"name":"sentinel","replicas":5`},
	})
}
