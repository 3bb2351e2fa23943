// SPDX-License-Identifier: Apache-2.0

package pods

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/lrucache"
	"github.com/zeroinfra/platform-core/internal/render"
)

// Imagined is the generation of a set that is only thought of.
const Imagined = -1

// renderedSize is how many pods are kept as they were rendered: those of the sets that are at work. At rest nobody asks
// for them.
const renderedSize = 512

// rendered keeps pods as they would be made, since a set that is at work compares its own with them again and again.
type rendered struct {
	pods lrucache.Cache[podKey, *corev1.Pod]
}

func newRendered() rendered { return rendered{lrucache.New[podKey, *corev1.Pod](renderedSize)} }

// podKey is what a rendered pod depends on.
type podKey struct {
	set        types.UID
	generation int64
	ordinal    int32
	// data is the generation of its volumes, which are not those of the spec where these are not there.
	data string
}

// pod returns the pod with this ordinal of a set, without its owner. It is shared: nobody may change it.
func (r rendered) pod(set *platformv1.WorkloadSet, ordinal int32) (*corev1.Pod, error) {
	if set.Generation == Imagined {
		return render.Pod(set, ordinal)
	}
	key := podKey{set.UID, set.Generation, ordinal, set.Spec.Generation()}
	return r.pods.Get(key, func() (*corev1.Pod, error) { return render.Pod(set, ordinal) })
}
