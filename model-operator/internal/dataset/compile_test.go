// SPDX-License-Identifier: Apache-2.0

package dataset

import (
	"encoding/json"
	"testing"

	"github.com/zeroinfra/platform-core/sdk/testkit"
	"github.com/zeroinfra/platform-core/sdk/testkit/enginetest"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// Each Dataset compiles to the template of its last version, which the engine takes.
func TestTemplates(t *testing.T) {
	testkit.Golden(t, "testdata", func(ds aiv1.Dataset) (any, error) {
		v := &ds.Spec.Versions[len(ds.Spec.Versions)-1]
		parent := &aiv1.DatasetVersionStatus{Claim: "dataset-digits.1.0", Path: "train"}
		text, err := compile("zeroinfra/agent:1", claimName(&ds, v.Name), v, sizeOf(&ds, v), parent)
		if err != nil {
			return nil, err
		}
		var template map[string]any
		if err := json.Unmarshal([]byte(text), &template); err != nil {
			return nil, err
		}
		return template, enginetest.CheckTemplate(text)
	})
}
