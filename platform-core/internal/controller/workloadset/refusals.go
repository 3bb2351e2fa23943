// SPDX-License-Identifier: Apache-2.0

package workloadset

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// refusals remember which pods the API server does not resize as a generation of their set has it: another pod has to
// come, and the turn that heard of it may end before that has begun, as where a writer hands over first. They are in
// memory alone: after a restart of the operator the server is asked again. The zero value is ready to use.
type refusals struct {
	mu sync.Mutex
	by map[types.NamespacedName]refusal
}

type refusal struct {
	pod        types.UID
	generation int64
	why        string
}

// note that a pod is not resized.
func (r *refusals) note(pod *corev1.Pod, generation int64, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by == nil {
		r.by = map[types.NamespacedName]refusal{}
	}
	r.by[client.ObjectKeyFromObject(pod)] = refusal{pod.UID, generation, why}
}

// of is why this very pod is not resized for a generation.
func (r *refusals) of(pod *corev1.Pod, generation int64) (why string, refused bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	known, found := r.by[client.ObjectKeyFromObject(pod)]
	return known.why, found && known.pod == pod.UID && known.generation == generation
}

// forgetPods forgets the pods of a set.
func (r *refusals) forgetPods(set types.NamespacedName) {
	r.mu.Lock()
	defer r.mu.Unlock()
	forgetPods(r.by, set)
}
