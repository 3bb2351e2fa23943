// SPDX-License-Identifier: Apache-2.0

package workloadset

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/render"
)

// renderedSize is how many pods are kept as they were rendered: those of the sets that are at work. At rest nobody asks for them.
const renderedSize = 512

// rendered keeps pods as they would be made, since a set that is at work compares its own with them again and again.
type rendered struct{ pods *lru.Cache }

func newRendered() rendered { return rendered{lru.New(renderedSize)} }

// podKey is what a rendered pod depends on.
type podKey struct {
	set        types.UID
	generation int64
	ordinal    int32
}

// pod returns the pod with this ordinal of a set, without its owner. It is shared: nobody may change it.
func (r rendered) pod(set *platformv1.WorkloadSet, ordinal int32) (*corev1.Pod, error) {
	if set.Generation == imagined {
		return render.Pod(set, ordinal)
	}
	key := podKey{set.UID, set.Generation, ordinal}
	if known, found := r.pods.Get(key); found {
		return known.(*corev1.Pod), nil
	}
	pod, err := render.Pod(set, ordinal)
	if err == nil {
		r.pods.Add(key, pod)
	}
	return pod, err
}
