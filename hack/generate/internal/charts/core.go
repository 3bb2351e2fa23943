// SPDX-License-Identifier: Apache-2.0

package charts

import (
	"path/filepath"

	"github.com/zeroinfra/hack/generate/internal/repo"
)

// core is the chart with all definitions, for clusters whose operators may not install them.
const core = "platform-core"

const coreSource = "hack/generate/core-chart"

func writeCore(root, version string) error {
	chart := newTree()
	if err := chart.render(root, coreSource, map[string]any{"Version": version, "Operators": repo.Operators}); err != nil {
		return err
	}
	if err := chart.copy(filepath.Join(root, core, "config/crd/bases/*.yaml"), "definitions/core"); err != nil {
		return err
	}
	for _, operator := range repo.Operators {
		if err := chart.copy(filepath.Join(root, operator.Name(), "config/crd/bases/*.yaml"), "definitions/"+
			operator.Domain); err != nil {
			return err
		}
	}
	return repo.WriteFolder(filepath.Join(root, "charts", core), chart)
}
