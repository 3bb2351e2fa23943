// SPDX-License-Identifier: Apache-2.0

package postgresql

import (
	"testing"

	"github.com/zeroinfra/platform-core/sdk/testkit"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
)

func TestCompile(t *testing.T) {
	testkit.Golden(t, "testdata", func(in databasev1.PostgreSQL) (any, error) {
		out, err := Kind{}.Compile(&in)
		if err != nil {
			return nil, err
		}
		return out.Application, nil
	})
}

func TestEntities(t *testing.T) {
	testkit.Golden(t, "testdata/entities", func(in databasev1.PostgreSQL) (any, error) { return entities(&in), nil })
}

func TestWriteThroughIsWhatCompileDoes(t *testing.T) {
	testkit.WriteThrough[*databasev1.PostgreSQL](t, Kind{}, map[string]testkit.Written{
		"running":       {Spec: `{"running":false}`, Compiled: `"running":false`},
		"version":       {Spec: `{"version":"17"}`, Compiled: `"version":"17"`},
		"pluginVersion": {Spec: `{"pluginVersion":"1.2.0"}`, Compiled: `"pluginVersion":"1.2.0"`},
		"components[postgresql].resources": {Spec: `{"resources":{"limits":{"memory":"3Gi"}}}`,
			Compiled: `"resources":{"limits":{"memory":"3Gi"}}`},
		"components[postgresql].storage.size": {Spec: `{"storage":{"size":"7Gi"}}`, Compiled: `"storage":{"size":"7Gi"}`},
		"components[postgresql].parameters":   {Spec: `{"parameters":{"work_mem":"20"}}`, Compiled: `"work_mem":"20"`},
		"components[postgresql].replicas":     {Spec: `{"replicas":2}`, Compiled: `"replicas":3`},
		"components[pooler].replicas":         {Spec: `{"pooler":{"replicas":5}}`, Compiled: `"name":"pooler","replicas":5`},
		"components[pooler].parameters": {Spec: `{"pooler":{"parameters":{"idle_timeout":"20"}}}`,
			Compiled: `"idle_timeout":"20"`},
		"components[pooler].resources": {Spec: `{"pooler":{"resources":{"limits":{"memory":"3Gi"}}}}`,
			Compiled: `"resources":{"limits":{"memory":"3Gi"}}`},
	})
}
