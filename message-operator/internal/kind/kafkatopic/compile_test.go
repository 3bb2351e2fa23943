// SPDX-License-Identifier: Apache-2.0

package kafkatopic

import (
	"testing"

	"github.com/zeroinfra/platform-core/sdk/testkit"
	"github.com/zeroinfra/platform-core/sdk/typed"

	messagev1 "github.com/zeroinfra/message-operator/api/v1"
)

// TestCompile compiles as the operator does, which refuses what an Entity could not hold.
func TestCompile(t *testing.T) {
	testkit.Golden(t, "testdata", func(in messagev1.KafkaTopic) (any, error) {
		out, err := typed.Register(Kind{}).Compile(&in, "message")
		if err != nil {
			return nil, err
		}
		if out.Application != nil {
			t.Error("a topic runs no instance")
		}
		return out.Entities, nil
	})
}
