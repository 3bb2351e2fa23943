// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/zeroinfra/platform-core/sdk/typed"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	"github.com/zeroinfra/database-operator/internal/kindparts"
)

// What the plugin mysql calls things.
const (
	plugin        = "mysql"
	pluginVersion = "1.0.0"
	topology      = "standalone"
	component     = "mysql"
	clientUser    = "app"
)

// instance is what a MySQL has of an InstanceSpec.
var instance = typed.Instance{
	Plugin: plugin, PluginVersion: pluginVersion, Component: component, Role: kindparts.Primary,
	Size: resource.MustParse("10Gi"),
}

// Compile implements typed.Kind.
func (Kind) Compile(m *databasev1.MySQL) (*typed.Output, error) {
	app := instance.Application(&m.Spec.InstanceSpec, m.Spec.PluginVersion)
	app.Spec.Topology = topology
	app.Spec.Credentials = kindparts.Credentials(clientUser, m.Spec.Auth)
	return &typed.Output{Application: app, Entities: entities(m)}, nil
}
