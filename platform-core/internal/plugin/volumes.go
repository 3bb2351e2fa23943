// SPDX-License-Identifier: Apache-2.0

package plugin

import (
	"slices"

	"github.com/zeroinfra/platform-core/internal/plugin/document"
	"github.com/zeroinfra/platform-core/internal/plugin/schema"
)

// sampleVolumes are the paths of as many volumes as a user can add.
func sampleVolumes(declared *schema.AdditionalVolumes) []string {
	var paths []string
	for i := range declared.Max {
		paths = append(paths, declared.PathOf(i+1))
	}
	return paths
}

func (l *loader) checkVolumes(at document.Path, c *schema.Component) {
	unique(l, at, c.Volumes, func(v schema.Volume) string { return v.Name })
	if len(c.Volumes) > schema.MaxVolumes {
		l.wrong(at, "has %d volumes: a component has at most %d", len(c.Volumes), schema.MaxVolumes)
	}
	for i, v := range c.Volumes {
		if v.Size.Sign() <= 0 {
			l.wrong(at.Index(i).With("size"), "is %s: it must be greater than 0", v.Size.String())
		}
		if v.Additional != nil && i > 0 {
			l.wrong(at.Index(i).With("additional"), "is of a volume that is not the first: a user adds volumes beside "+
				"the first one alone")
		}
	}
	if c.Additional() != nil {
		l.checkAdditional(at, c)
	}
}

// checkAdditional: names and paths of volumes that a user adds are the engine's to give.
func (l *loader) checkAdditional(at document.Path, c *schema.Component) {
	declared, path := c.Additional(), at.Index(0).With("additional")
	if most := schema.MaxOwnVolumes - len(c.Volumes); declared.Max > most {
		l.wrong(path.With("max"), "is %d: beside %d volumes of the component there can be %d", declared.Max,
			len(c.Volumes), most)
	}
	if declared.Path == "/zeroinfra" {
		l.wrong(path.With("path"), "is %q: what is below /zeroinfra is the engine's", declared.Path)
	}
	for i, v := range c.Volumes {
		if slices.Contains(c.AdditionalNames(), v.Name) {
			l.wrong(at.Index(i).With("name"), "is %q, which is a volume that a user adds: names must differ", v.Name)
		}
	}
}
