// SPDX-License-Identifier: Apache-2.0

package kafkatopic

import (
	"testing"

	"github.com/zeroinfra/platform-core/sdk/testkit"

	messagev1 "github.com/zeroinfra/message-operator/api/v1"
)

func TestCompile(t *testing.T) {
	testkit.Golden(t, "testdata", func(in messagev1.KafkaTopic) (any, error) {
		out, err := Kind{}.Compile(&in)
		if err != nil {
			return nil, err
		}
		if out.Application != nil {
			t.Error("a topic runs no instance")
		}
		return out.Entities, nil
	})
}
