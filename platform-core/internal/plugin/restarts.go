// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/document"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// checkRestarts: processes that start all at once leave nobody to take over, and become ready only when all are there.
func (l *loader) checkRestarts(at document.Path, c *schema.Component) {
	if c.RestartStrategy != platformv1.RestartAllAtOnce {
		return
	}
	path := at.With("restartStrategy")
	if len(c.Roles) > 0 || c.Membership != nil {
		l.wrong(path,
			"is AllAtOnce, which is for a component without roles and membership: nobody would be left to take over")
	}
	if c.PodManagementPolicy == platformv1.PodManagementOrderedReady {
		l.wrong(path, "is AllAtOnce, which is for a component with podManagementPolicy Parallel: the first pod would wait "+
			"for the others")
	}
}
