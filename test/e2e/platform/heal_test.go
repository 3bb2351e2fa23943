// SPDX-License-Identifier: Apache-2.0

package platform

import (
	"time"
)

// Write gaps at which a test fails: twenty times the budgets of the design, since a busy machine is no defect. The
// tests log what they measure.
const restartGap = 40 * time.Second
