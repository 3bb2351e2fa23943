// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"slices"
	"testing"

	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

func TestMountsOfOneVolumeAndOfMany(t *testing.T) {
	mounts := []schema.Mount{{Name: "data", Path: "/datasets", Each: true}, {Name: "models", Path: "/models"}}
	if got := singleMounts(mounts); !slices.Equal(got, []string{"models"}) {
		t.Errorf("those of one volume are %v", got)
	}
	if got := sampleMounts(mounts); !slices.Equal(got, []string{"data-a", "data-b", "models"}) {
		t.Errorf("the samples are %v", got)
	}
}
