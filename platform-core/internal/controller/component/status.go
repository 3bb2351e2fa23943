// SPDX-License-Identifier: Apache-2.0

package component

import (
	"maps"
	"slices"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/frame"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/sdk/outcome"
)

// report fills in the status but for conditions and phase. output is nil when
// nothing could be rendered; the endpoints stay as they were then.
func report(component *platformv1.Component, f *facts, output *render.ComponentOutput) {
	s := &component.Status
	s.ReadyReplicas, s.Pods = 0, nil
	version, agreed := "", true
	for _, name := range slices.Sorted(maps.Keys(f.sets)) {
		set := f.sets[name]
		s.ReadyReplicas += set.Status.ReadyReplicas
		s.Pods = append(s.Pods, set.Status.Pods...)
		agreed = agreed && (version == "" || set.Status.Version == version)
		version = set.Status.Version
	}
	s.Version = ""
	if agreed {
		s.Version = version
	}
	if output != nil {
		s.Endpoints = output.Endpoints
	}
}

func finish(component *platformv1.Component, _ outcome.Outcome) {
	component.Status.Phase = frame.Phase(component, component.Status.Phase, component.Status.Version)
}
