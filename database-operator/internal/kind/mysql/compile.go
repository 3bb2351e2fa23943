// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	"github.com/zeroinfra/platform-core/sdk/typed"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	"github.com/zeroinfra/database-operator/internal/mysqlparts"
)

// topology of the plugin for one server.
const topology = "standalone"

// instance is what a MySQL has of an InstanceSpec.
var instance = mysqlparts.Instance()

// Compile implements typed.Kind.
func (Kind) Compile(m *databasev1.MySQL) (*typed.Output, error) {
	spec := &m.Spec
	app := instance.Application(&spec.InstanceSpec, spec.PluginVersion)
	app.Spec.Topology = topology
	mysqlparts.Complete(app, &spec.MySQLServers)
	return &typed.Output{Application: app, Entities: mysqlparts.Entities(&spec.MySQLServers, spec.RestoreFrom)}, nil
}
