// SPDX-License-Identifier: Apache-2.0

package redisparts

import (
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/typed"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
)

// userType is what the plugin redis calls a user of the access control list.
const userType = "acl-user"

// Users of the access control list are Entities.
func Users(users []databasev1.RedisUser) []platformv1.EntitySpec {
	var specs []platformv1.EntitySpec
	for _, u := range users {
		specs = append(specs, platformv1.EntitySpec{
			Type: userType, Name: u.Name, Parameters: rules(&u), PasswordFrom: typed.PasswordFrom(&u.PasswordFrom),
			DeletionPolicy: platformv1.EntityDelete, Adopt: u.Adopt,
		})
	}
	return specs
}

// rules are the parameters of a user in the words of the plugin. What is left out is said too: nothing is allowed then.
func rules(u *databasev1.RedisUser) platformv1.Parameters {
	enabled := platformv1.ParameterValue("yes")
	if u.Enabled != nil && !*u.Enabled {
		enabled = "no"
	}
	return platformv1.Parameters{
		"enabled": enabled, "keys": platformv1.ParameterValue(u.Keys),
		"channels": platformv1.ParameterValue(u.Channels), "commands": platformv1.ParameterValue(u.Commands),
	}
}
