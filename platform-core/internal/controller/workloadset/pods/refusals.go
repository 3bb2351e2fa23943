// SPDX-License-Identifier: Apache-2.0

package pods

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/internal/controller/workloadset/waits"
)

// refusals hold which pods the API server refused to resize for a generation of their set. These pods are replaced,
// possibly by a later reconcile, for example after a switchover. They are in-memory state: after a restart of the
// operator the server is asked again. The zero value is ready to use.
type refusals struct {
	mu sync.Mutex
	by map[types.NamespacedName]refusal
}

type refusal struct {
	pod        types.UID
	generation int64
	why        string
}

// note records that a resize of a pod was refused.
func (r *refusals) note(pod *corev1.Pod, generation int64, why string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.by == nil {
		r.by = map[types.NamespacedName]refusal{}
	}
	r.by[client.ObjectKeyFromObject(pod)] = refusal{pod.UID, generation, why}
}

// of returns why a resize of this pod was refused for a generation.
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
	waits.ForgetPods(r.by, set)
}
