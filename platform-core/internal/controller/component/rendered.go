// SPDX-License-Identifier: Apache-2.0

package component

import (
	"errors"

	"k8s.io/apimachinery/pkg/types"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/lrucache"
	"github.com/zeroinfra/platform-core/internal/plugin"
	"github.com/zeroinfra/platform-core/internal/render"
)

// renderedSize is how many components are kept as they were rendered: those that are at work. At rest nobody asks for
// them.
const renderedSize = 256

// rendered keeps what comes of components, since one that is at work is looked at again and again.
type rendered struct {
	outputs lrucache.Cache[outputKey, *render.ComponentOutput]
}

func newRendered() rendered {
	return rendered{lrucache.New[outputKey, *render.ComponentOutput](renderedSize)}
}

// outputKey is all that the rendering of a component depends on.
type outputKey struct {
	component  types.UID
	generation int64
	bundle     *plugin.Bundle
	settings   render.Settings
	owner      render.Meta
}

// component renders a component. The output is shared between its turns; what they change of it is the owner only. One
// that is autoscaled depends on its sets as well, and is rendered anew in each turn.
func (r rendered) component(bundle *plugin.Bundle, settings render.Settings, owner render.Meta,
	component *platformv1.Component, f *facts) (*render.ComponentOutput, *render.Refusal) {
	if component.Spec.Autoscaling != nil {
		return render.Component(bundle, settings, owner, withActualReplicas(&component.Spec, f))
	}
	key := outputKey{component.UID, component.Generation, bundle, settings, owner}
	output, err := r.outputs.Get(key, func() (*render.ComponentOutput, error) {
		output, refusal := render.Component(bundle, settings, owner, &component.Spec)
		if refusal != nil {
			return nil, refusal
		}
		return output, nil
	})
	refusal, _ := errors.AsType[*render.Refusal](err)
	return output, refusal
}
