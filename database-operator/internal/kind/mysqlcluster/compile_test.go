// SPDX-License-Identifier: Apache-2.0

package mysqlcluster

import (
	"testing"

	"github.com/zeroinfra/platform-core/sdk/testkit"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
)

func TestCompile(t *testing.T) {
	testkit.Golden(t, "testdata", func(in databasev1.MySQLCluster) (any, error) {
		out, err := Kind{}.Compile(&in)
		if err != nil {
			return nil, err
		}
		return out.Application, nil
	})
}

func TestEntities(t *testing.T) {
	testkit.Golden(t, "testdata/entities", func(in databasev1.MySQLCluster) (any, error) {
		out, err := Kind{}.Compile(&in)
		if err != nil {
			return nil, err
		}
		return out.Entities, nil
	})
}
