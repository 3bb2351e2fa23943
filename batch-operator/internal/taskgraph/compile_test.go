// SPDX-License-Identifier: Apache-2.0

package taskgraph

import (
	"encoding/json"
	"testing"

	"github.com/zeroinfra/platform-core/sdk/testkit"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

func TestCompile(t *testing.T) {
	testkit.Golden(t, "testdata", func(wf batchv1.Workflow) (any, error) {
		text, err := Prepare(SourceOf(&wf), wf.Spec.Parallelism, nil, func(string) error { return nil })
		if err != nil {
			return nil, err
		}
		var out map[string]any
		err = json.Unmarshal([]byte(text), &out)
		return out, err
	})
}
