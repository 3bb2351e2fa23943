// SPDX-License-Identifier: Apache-2.0

package mysql

import (
	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
)

// Report implements typed.Reporter.
func (Kind) Report(m *databasev1.MySQL, app *platformv1.Application) {
	instance.Report(&m.Status.InstanceStatus, app)
}
