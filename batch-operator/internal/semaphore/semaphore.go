// SPDX-License-Identifier: Apache-2.0

package semaphore

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	batchv1 "github.com/zeroinfra/batch-operator/api/v1"
)

const (
	// Poll is when a run that waits is looked at again although nothing happened: the limit may be another one.
	Poll = 30 * time.Second
	// maxSwaps is how often a compare-and-swap is tried before the caller looks again later.
	maxSwaps = 5
)

// errChanged says that somebody else has written a list meanwhile.
var errChanged = errors.New("the list of holders was changed meanwhile")

// Locker acquires and releases the locks of runs.
type Locker struct {
	client client.Client
	live   client.Reader
	owner  string
	now    func() time.Time
}

// New returns a Locker. c may read Operations from a cache, live reads from the API server; owner is the field manager.
func New(c client.Client, live client.Reader, owner string, now func() time.Time) *Locker {
	return &Locker{client: c, live: live, owner: owner, now: now}
}

// Mark has an Operation that is not created yet wait for its locks: it is created suspended.
func Mark(op *platformv1.Operation, s *batchv1.Synchronization) error {
	if s == nil {
		return nil
	}
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	if op.Annotations == nil {
		op.Annotations = map[string]string{}
	}
	op.Annotations[batchv1.SynchronizationAnnotation], op.Spec.Suspend = string(text), true
	return nil
}

// Of returns what an Operation has to hold; nil for nothing.
func Of(op *platformv1.Operation) (*batchv1.Synchronization, error) {
	text := op.Annotations[batchv1.SynchronizationAnnotation]
	if text == "" {
		return nil, nil
	}
	s := &batchv1.Synchronization{}
	if err := json.Unmarshal([]byte(text), s); err != nil {
		return nil, fmt.Errorf("the annotation %s of Operation %q is not valid: %w",
			batchv1.SynchronizationAnnotation, op.Name, err)
	}
	return s, nil
}

// Waits says whether an Operation has yet to acquire its locks.
func Waits(op *platformv1.Operation) bool {
	return synchronized(op) && op.Annotations[batchv1.SynchronizedAnnotation] == "" && !leaves(op)
}

// Acquire acquires what an Operation has to hold. waiting says for what it waits; empty when it holds all of it. It can
// be repeated.
func (k *Locker) Acquire(ctx context.Context, op *platformv1.Operation) (waiting string, err error) {
	s, err := Of(op)
	if err != nil {
		return "", err
	}
	for _, l := range locksOf(s) {
		err := swap(func() error {
			waiting, err = k.acquire(ctx, l, op)
			return err
		})
		if err != nil || waiting != "" {
			return waiting, err
		}
	}
	return "", nil
}

// Resume acquires what an Operation has to hold, and then has it begin.
func (k *Locker) Resume(ctx context.Context, op *platformv1.Operation) (waiting string, err error) {
	if waiting, err = k.Acquire(ctx, op); err != nil || waiting != "" {
		return waiting, err
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"uid": op.UID, "annotations": map[string]string{
			batchv1.SynchronizedAnnotation: k.now().UTC().Format(time.RFC3339)}},
		"spec": map[string]any{"suspend": false},
	})
	if err != nil {
		return "", err
	}
	changed := &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Namespace: op.Namespace, Name: op.Name}}
	err = k.client.Patch(ctx, changed, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(k.owner))
	if client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("cannot resume the Operation %q: %w", op.Name, err)
	}
	return "", nil
}

// Release takes an Operation with a UID off the lists of what it had to hold. It can be repeated.
func (k *Locker) Release(ctx context.Context, namespace string, s *batchv1.Synchronization, uid types.UID) error {
	for _, l := range locksOf(s) {
		if err := swap(func() error { return k.release(ctx, l, namespace, uid) }); err != nil {
			return err
		}
	}
	return nil
}

// swap repeats a compare-and-swap that others came before.
func swap(once func() error) (err error) {
	for range maxSwaps {
		if err = once(); !errors.Is(err, errChanged) {
			return err
		}
	}
	return err
}

// acquire puts an Operation on the list of a lock, unless that is full or its free places are those of other runs.
func (k *Locker) acquire(ctx context.Context, l lock, op *platformv1.Operation) (waiting string, err error) {
	object, all, err := k.read(ctx, l, op.Namespace)
	if err != nil || indexOf(all, op.UID) >= 0 {
		return "", err
	}
	limit, why, err := k.limitOf(ctx, l, op.Namespace)
	if err != nil || why != "" {
		return why, err
	}
	q, err := k.queued(ctx, l, op, all)
	if err != nil {
		return "", err
	}
	if len(all)+len(q.before) >= limit {
		if all, err = k.underWay(ctx, op.Namespace, all); err != nil {
			return "", err
		}
	}
	ahead, err := k.ahead(ctx, q, limit-len(all))
	if err != nil {
		return "", err
	}
	if len(ahead) >= limit-len(all) {
		return l.waiting(limit, all, ahead), nil
	}
	all = append(all, holder{Operation: op.Name, UID: op.UID, Since: metav1.NewTime(k.now().UTC())})
	return "", k.write(ctx, l, object, all)
}

// release takes an Operation off the list of a lock.
func (k *Locker) release(ctx context.Context, l lock, namespace string, uid types.UID) error {
	object, all, err := k.read(ctx, l, namespace)
	at := indexOf(all, uid)
	if err != nil || at < 0 {
		return err
	}
	return k.write(ctx, l, object, append(all[:at:at], all[at+1:]...))
}

// read reads the list of a lock from the API server. An object without a resourceVersion does not exist.
func (k *Locker) read(ctx context.Context, l lock, namespace string) (*corev1.ConfigMap, []holder, error) {
	object := &corev1.ConfigMap{}
	err := k.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: l.object}, object)
	if apierrors.IsNotFound(err) {
		return l.newObject(namespace), nil, nil
	}
	if err != nil {
		return nil, nil, fmt.Errorf("cannot read ConfigMap %q, which says who holds the %s: %w", l.object, l.words, err)
	}
	all, err := l.holders(object)
	return object, all, err
}

// limitOf reads the limit of a lock from the API server.
func (k *Locker) limitOf(ctx context.Context, l lock, namespace string) (limit int, why string, err error) {
	if l.limit == nil {
		return 1, "", nil
	}
	object := &corev1.ConfigMap{}
	err = k.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: l.limit.Name}, object)
	switch {
	case apierrors.IsNotFound(err):
		object = nil
	case err != nil:
		return 0, "", fmt.Errorf("cannot read ConfigMap %q, which has the limit of a semaphore: %w", l.limit.Name, err)
	}
	limit, why = l.parseLimit(object)
	return limit, why, nil
}

// underWay returns the holders whose Operation has not ended. What the cache says is believed only where it says that
// one is under way: such a run stays on the list.
func (k *Locker) underWay(ctx context.Context, namespace string, all []holder) ([]holder, error) {
	var kept []holder
	for _, h := range all {
		is, err := isUnderWay(ctx, k.client, namespace, h)
		if err == nil && !is {
			is, err = isUnderWay(ctx, k.live, namespace, h)
		}
		if err != nil {
			return nil, fmt.Errorf("cannot read Operation %q, which holds a lock: %w", h.Operation, err)
		}
		if is {
			kept = append(kept, h)
		}
	}
	return kept, nil
}

func isUnderWay(ctx context.Context, from client.Reader, namespace string, h holder) (bool, error) {
	op := &platformv1.Operation{}
	err := from.Get(ctx, client.ObjectKey{Namespace: namespace, Name: h.Operation}, op)
	if err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return op.UID == h.UID && !op.Status.Phase.Ended(), nil
}

// write replaces the list of a lock, if it is still the one that was read.
func (k *Locker) write(ctx context.Context, l lock, object *corev1.ConfigMap, all []holder) error {
	before := object.DeepCopy()
	if err := l.write(object, all); err != nil {
		return err
	}
	var err error
	if object.ResourceVersion == "" {
		err = k.client.Create(ctx, object, client.FieldOwner(k.owner))
	} else {
		patch := client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{})
		err = k.client.Patch(ctx, object, patch, client.FieldOwner(k.owner))
	}
	switch {
	case apierrors.IsAlreadyExists(err), apierrors.IsConflict(err), apierrors.IsNotFound(err):
		return fmt.Errorf("%w: %s", errChanged, l.words)
	case err != nil:
		return fmt.Errorf("cannot write ConfigMap %q, which says who holds the %s: %w", l.object, l.words, err)
	}
	return nil
}
