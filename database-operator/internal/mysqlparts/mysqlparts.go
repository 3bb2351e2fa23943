// SPDX-License-Identifier: Apache-2.0

// Package mysqlparts is what the kinds that are made of MySQL servers have alike, beside what all kinds have.
package mysqlparts

import (
	"k8s.io/apimachinery/pkg/api/resource"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/typed"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	"github.com/zeroinfra/database-operator/internal/kindparts"
)

// What the plugin mysql calls things.
const (
	plugin        = "mysql"
	pluginVersion = "1.0.0"
	clientUser    = "app"
	// Component is the one of the servers.
	Component = "mysql"
)

// Instance is what a kind of servers has of an InstanceSpec.
func Instance() typed.Instance {
	return typed.Instance{
		Plugin: plugin, PluginVersion: pluginVersion, Component: Component, Role: kindparts.Primary,
		Size: resource.MustParse("10Gi"),
	}
}

// Credentials says where the password of the user app comes from; nil for one that is made.
func Credentials(auth *databasev1.Auth) []platformv1.Credential {
	return kindparts.Credentials(clientUser, auth)
}
