// SPDX-License-Identifier: Apache-2.0

package redisparts

import (
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/typed"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
)

// userType is what the plugin redis calls a user of the access control list.
const userType = "acl-user"

// Users of the access control list are Entities. What is left out is said too: nothing is allowed then.
func Users(users []databasev1.RedisUser) []platformv1.EntitySpec {
	return typed.EntitiesOf(userType, users)
}
