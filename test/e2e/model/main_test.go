// SPDX-License-Identifier: Apache-2.0

package model

import (
	"testing"

	"github.com/zeroinfra/test/e2e/framework"
)

func TestMain(m *testing.M) { framework.Main(m) }
