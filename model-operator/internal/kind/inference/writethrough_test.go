// SPDX-License-Identifier: Apache-2.0

package inference

import (
	"testing"

	"github.com/zeroinfra/platform-core/sdk/testkit"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

func TestWriteThroughIsWhatCompileDoes(t *testing.T) {
	testkit.WriteThrough[*aiv1.Inference](t, Kind{}, map[string]testkit.Written{
		"running":       {Spec: `{"running":false}`, Compiled: `"running":false`},
		"version":       {Spec: `{"version":"1.2"}`, Compiled: `"version":"1.2"`},
		"pluginVersion": {Spec: `{"pluginVersion":"9.8.7"}`, Compiled: `"pluginVersion":"9.8.7"`},
		"components[server].resources": {Spec: `{"resources":{"limits":{"memory":"3Gi"}}}`,
			Compiled: `{"limits":{"memory":"3Gi"}}`},
		"components[server].parameters":          {Spec: `{"parameters":{"some":"20"}}`, Compiled: `"some":"20"`},
		"components[server].replicas":            {Spec: `{"replicas":100}`, Compiled: `"replicas":100`},
		"components[server].sets[main].replicas": {Spec: `{"replicas":100}`, Compiled: `"replicas":100`},
		"components[server].sets[main].resources": {Spec: `{"resources":{"limits":{"memory":"3Gi"}}}`,
			Compiled: `{"limits":{"memory":"3Gi"}}`},
	})
}
