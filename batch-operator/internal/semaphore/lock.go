// SPDX-License-Identifier: Apache-2.0

package semaphore

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

const (
	// holdersKey is the key of the holders in the ConfigMap of a lock.
	holdersKey = "holders"
	// maxLimit is the largest limit of a semaphore: its holders have to fit into one object.
	maxLimit = 1000
	// shownHolders is how many holders, and how many of those ahead, a message names.
	shownHolders = 3
)

// lock is a mutex or a semaphore.
type lock struct {
	// object is the name of the ConfigMap that lists its holders.
	object string
	// kind is the value of its label.
	kind string
	// words name it in messages.
	words string
	// limit names what limits it; nil for a mutex, which has one holder.
	limit *batchv1.LimitReference
}

// locksOf returns the locks that a run has to hold, in the order in which they are acquired.
func locksOf(s *batchv1.Synchronization) []lock {
	if s == nil {
		return nil
	}
	var locks []lock
	for _, m := range s.Mutexes {
		words := fmt.Sprintf("mutex %q", m.Name)
		locks = append(locks, lock{object: "batch-mutex." + m.Name, kind: "mutex", words: words})
	}
	for _, m := range s.Semaphores {
		// A key has no dot, so that no two references have the same object.
		ref := m.ConfigMapKeyRef
		locks = append(locks, lock{object: "batch-semaphore." + ref.Name + "." + ref.Key, kind: "semaphore", limit: &ref,
			words: fmt.Sprintf("semaphore %q of ConfigMap %q", ref.Key, ref.Name)})
	}
	slices.SortFunc(locks, func(a, b lock) int { return strings.Compare(a.object, b.object) })
	return slices.CompactFunc(locks, func(a, b lock) bool { return a.object == b.object })
}

// holder is a run that holds a lock.
type holder struct {
	// Operation is the name of the Operation of the run.
	Operation string `json:"operation"`
	// UID of that Operation.
	UID types.UID `json:"uid"`
	// Since is when it acquired the lock.
	Since metav1.Time `json:"since"`
}

// newObject returns the ConfigMap of a lock that nobody holds.
func (l lock) newObject(namespace string) *corev1.ConfigMap {
	return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: l.object, Labels: map[string]string{
		platformv1.ManagedByLabel: platformv1.ManagedBy, batchv1.SynchronizationLabel: l.kind,
	}}}
}

// holders reads who holds a lock.
func (l lock) holders(object *corev1.ConfigMap) ([]holder, error) {
	if object.Labels[batchv1.SynchronizationLabel] != l.kind {
		return nil, fmt.Errorf("ConfigMap %q is not of the operator, which keeps there who holds the %s: "+
			"delete it, or give it another name", l.object, l.words)
	}
	var all []holder
	if text := object.Data[holdersKey]; text != "" {
		if err := json.Unmarshal([]byte(text), &all); err != nil {
			return nil, fmt.Errorf("ConfigMap %q does not say who holds the %s: %w; delete it when no run is under way",
				l.object, l.words, err)
		}
	}
	return all, nil
}

// write puts the holders of a lock into its ConfigMap.
func (l lock) write(object *corev1.ConfigMap, all []holder) error {
	text, err := json.Marshal(all)
	if err != nil {
		return err
	}
	object.Data = map[string]string{holdersKey: string(text)}
	return nil
}

// parseLimit reads the limit of a semaphore from its ConfigMap, which is nil when it does not exist. The sentence says
// why there is none; it does not repeat the value.
func (l lock) parseLimit(object *corev1.ConfigMap) (limit int, why string) {
	if object == nil {
		return 0, fmt.Sprintf("waiting for %s: that ConfigMap does not exist", l.words)
	}
	text, found := object.Data[l.limit.Key]
	if !found {
		return 0, fmt.Sprintf("waiting for %s: that key does not exist", l.words)
	}
	limit, err := strconv.Atoi(strings.TrimSpace(text))
	if err != nil || limit < 0 || limit > maxLimit {
		return 0, fmt.Sprintf("waiting for %s: the value is not a whole number from 0 to %d", l.words, maxLimit)
	}
	return limit, ""
}

// waiting says for whom a run waits: those that hold the lock, and those that get a free place before it.
func (l lock) waiting(limit int, all []holder, ahead []string) string {
	text := "waiting for " + l.words
	if l.limit != nil {
		text += fmt.Sprintf(", whose limit is %d", limit)
	}
	var holding []string
	for _, h := range all {
		holding = append(holding, h.Operation)
	}
	if len(holding) > 0 {
		text += ", held by " + naming(holding)
		if more := len(holding) - shownHolders; more > 0 {
			text += fmt.Sprintf(" and %d more", more)
		}
	}
	if len(ahead) > 0 {
		text += "; ahead of it: " + naming(ahead)
		if len(ahead) > shownHolders {
			text += " and others"
		}
	}
	return text
}

// naming lists the first of some Operations.
func naming(names []string) string {
	var all []string
	for _, name := range names[:min(len(names), shownHolders)] {
		all = append(all, fmt.Sprintf("Operation %q", name))
	}
	return strings.Join(all, ", ")
}

// indexOf returns where the run of an Operation is among holders; -1 for nowhere.
func indexOf(all []holder, uid types.UID) int {
	return slices.IndexFunc(all, func(h holder) bool { return h.UID == uid })
}
