// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/document"
)

// checkRestarts: processes that start together leave nobody to take over, and become ready only when all are there.
func (l *loader) checkRestarts(at document.Path, c *Component) {
	if c.Restarts != platformv1.RestartsTogether {
		return
	}
	path := at.With("restarts")
	if len(c.Roles) > 0 || c.Membership != nil {
		l.wrong(path, "is Together, which is for a component without roles and membership: nobody would be left to take over")
	}
	if c.PodManagementPolicy == platformv1.PodManagementOrderedReady {
		l.wrong(path, "is Together, which is for a component with podManagementPolicy Parallel: the first pod would wait for the others")
	}
}
