// SPDX-License-Identifier: Apache-2.0

package oci

import (
	"fmt"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// Assemble makes an image of layers. Every time in it is epoch.
func Assemble(layers []*Layer, config v1.Config, arch string, epoch time.Time) (v1.Image, error) {
	image := mutate.MediaType(empty.Image, types.OCIManifestSchema1)
	image = mutate.ConfigMediaType(image, types.OCIConfigJSON)
	for _, l := range layers {
		var err error
		image, err = mutate.Append(image, mutate.Addendum{
			Layer: l, MediaType: types.OCILayer,
			History: v1.History{Created: v1.Time{Time: epoch}, CreatedBy: "zeroinfra images", Comment: l.note},
		})
		if err != nil {
			return nil, fmt.Errorf("cannot add layer %q: %w", l.note, err)
		}
	}
	file, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	file = file.DeepCopy()
	file.Architecture, file.OS = arch, "linux"
	file.Created = v1.Time{Time: epoch}
	file.Config = config
	return mutate.ConfigFile(image, file)
}
