// SPDX-License-Identifier: Apache-2.0

// Package kind lists the typed kinds of the database operator. Each has a folder
// of its own; none knows of another.
package kind

import (
	"github.com/zeroinfra/platform-core/sdk/typed"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	"github.com/zeroinfra/database-operator/internal/kind/mysql"
	"github.com/zeroinfra/database-operator/internal/kind/mysqlcluster"
	"github.com/zeroinfra/database-operator/internal/kind/postgresql"
	"github.com/zeroinfra/database-operator/internal/kind/redis"
	"github.com/zeroinfra/database-operator/internal/kind/rediscluster"
)

// All returns every kind that the operator serves.
func All() []typed.Registration {
	return []typed.Registration{
		typed.Register[*databasev1.Redis](redis.Kind{}),
		typed.Register[*databasev1.RedisCluster](rediscluster.Kind{}),
		typed.Register[*databasev1.PostgreSQL](postgresql.Kind{}),
		typed.Register[*databasev1.MySQL](mysql.Kind{}),
		typed.Register[*databasev1.MySQLCluster](mysqlcluster.Kind{}),
	}
}
