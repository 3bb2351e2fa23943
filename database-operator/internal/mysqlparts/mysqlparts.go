// SPDX-License-Identifier: Apache-2.0

// Package mysqlparts is what the kinds that are made of MySQL servers have alike, beside what all kinds have.
package mysqlparts

import (
	"maps"

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

// Complete says in an Application where the password of the user app comes from, and where its binary log is archived.
func Complete(app *platformv1.Application, servers *databasev1.MySQLServers) {
	app.Spec.Archive = kindparts.ArchiveIn(servers.Archive)
	app.Spec.Credentials = append(kindparts.Credentials(clientUser, servers.Auth),
		kindparts.ArchiveCredentials(servers.Archive)...)
	if more := kindparts.ArchiveParameters(servers.Archive); len(more) > 0 {
		main := &app.Spec.Components[0]
		maps.Copy(more, main.Parameters)
		main.Parameters = more
	}
}
