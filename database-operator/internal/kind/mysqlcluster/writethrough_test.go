// SPDX-License-Identifier: Apache-2.0

package mysqlcluster

import (
	"testing"

	"github.com/zeroinfra/platform-core/sdk/testkit"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
)

func TestWriteThroughIsWhatCompileDoes(t *testing.T) {
	testkit.WriteThrough[*databasev1.MySQLCluster](t, Kind{}, map[string]testkit.Written{
		"running":       {Spec: `{"running":false}`, Compiled: `"running":false`},
		"version":       {Spec: `{"version":"1.2"}`, Compiled: `"version":"1.2"`},
		"pluginVersion": {Spec: `{"pluginVersion":"9.8.7"}`, Compiled: `"pluginVersion":"9.8.7"`},
		"components[mysql].resources": {Spec: `{"resources":{"limits":{"memory":"3Gi"}}}`,
			Compiled: `{"limits":{"memory":"3Gi"}}`},
		"components[mysql].parameters":   {Spec: `{"parameters":{"some":"20"}}`, Compiled: `"some":"20"`},
		"components[mysql].storage.size": {Spec: `{"storage":{"size":"7Ti"}}`, Compiled: `"storage":{"size":"7Ti"}`},
		"components[mysql].replicas":     {Spec: `{"members":9}`, Compiled: `"replicas":9`},
		"components[router].replicas":    {Spec: `{"router":{"replicas":7}}`, Compiled: `"replicas":7`},
		"components[router].parameters":  {Spec: `{"router":{"parameters":{"ttl":"9"}}}`, Compiled: `"ttl":"9"`},
		"components[router].resources": {Spec: `{"router":{"resources":{"limits":{"memory":"3Gi"}}}}`,
			Compiled: `{"limits":{"memory":"3Gi"}}`},
	})
}
