// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"fmt"
	"time"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/optemplate"
)

// suspended is the verdict of what waits for suspend of an object to be taken back; 0 looks again only when something
// happens.
func suspended(object string, retry time.Duration) verdict {
	return verdict{waiting: fmt.Sprintf("suspend of %s to be false", object), reason: platformv1.ReasonSuspended,
		retry: retry}
}

// leftAlone is the verdict of a step that makes a pod or passwords anew while the engine leaves the instance alone, so
// that nobody would make the pod, or have processes take the passwords over; done when it need not wait. A step that
// edits the spec waits once it has: see settled.
func (r *run) leftAlone(t *optemplate.Step) verdict {
	app := r.facts.Application
	if app == nil || !app.Spec.Suspend || !does(*t, optemplate.EngineRebuild) && !does(*t, optemplate.EngineRotate) {
		return verdict{}
	}
	return suspended(r.facts.Declared.Object, declaredPoll)
}
