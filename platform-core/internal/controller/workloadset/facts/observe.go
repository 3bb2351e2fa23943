// SPDX-License-Identifier: Apache-2.0

package facts

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/maintenance"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/internal/rollout"
)

// Observer reads facts.
type Observer struct {
	// Cached reads from the cache.
	Cached client.Reader
	// Live reads from the API server: what must not be stale.
	Live client.Reader
	// Now tells the time.
	Now func() time.Time
}

// Observe reads the facts of a set from the cache.
func (o Observer) Observe(ctx context.Context, set *platformv1.WorkloadSet) (*Facts, error) {
	f := &Facts{
		Mode:             ModeOf(set),
		Claims:           map[string]*corev1.PersistentVolumeClaim{},
		Certificates:     map[string]*corev1.Secret{},
		Classes:          map[string]*storagev1.StorageClass{},
		Now:              o.Now(),
		Primary:          set.Status.Primary,
		RecordedElection: set.Status.Election,
		Asked:            set.Spec.Generation(),
	}
	var err error
	if f.Plan, err = render.Plan(set); err != nil {
		return nil, fmt.Errorf("cannot read plan of WorkloadSet %q: %w", set.Name, err)
	}
	windows, err := maintenance.Parse(set.Spec.Maintenance)
	if err != nil {
		return nil, fmt.Errorf("cannot read WorkloadSet %q: %w", set.Name, err)
	}
	if opening, closed := windows.Closed(f.Now); closed {
		f.Window, f.Opening = rollout.Closed, opening
	}
	if err := o.observeVolumes(ctx, set, f); err != nil {
		return nil, err
	}
	if f, err = o.pods(ctx, o.Cached, set, f); err != nil {
		return nil, err
	}
	return f, o.observeCertificates(ctx, set, f)
}

// ModeOf returns the mode that a spec asks for.
func ModeOf(set *platformv1.WorkloadSet) rollout.Mode {
	switch {
	case set.Spec.Suspend:
		return rollout.Suspended
	case !set.Spec.IsRunning():
		return rollout.Stopped
	}
	return rollout.Running
}

func (o Observer) observeVolumes(ctx context.Context, set *platformv1.WorkloadSet, f *Facts) error {
	if len(set.Spec.Volumes) == 0 {
		return nil
	}
	var err error
	if f.Claims, err = claims(ctx, o.Cached, set); err != nil {
		return err
	}
	var classes storagev1.StorageClassList
	if err := o.Cached.List(ctx, &classes); err != nil {
		return err
	}
	for i := range classes.Items {
		f.Classes[classes.Items[i].Name] = &classes.Items[i]
	}
	return nil
}

func (o Observer) observeCertificates(ctx context.Context, set *platformv1.WorkloadSet, f *Facts) error {
	for _, ordinal := range set.Spec.Ordinals() {
		name := platformv1.AgentCertificateNameFor(platformv1.PodNameFor(set.Name, ordinal))
		secret := &corev1.Secret{}
		switch err := o.Cached.Get(ctx, client.ObjectKey{Namespace: set.Namespace, Name: name}, secret); {
		case err == nil:
			f.Certificates[name] = secret
		case !apierrors.IsNotFound(err):
			return err
		}
	}
	return nil
}

// LivePods returns the facts with the pods as they are at this moment.
func (o Observer) LivePods(ctx context.Context, set *platformv1.WorkloadSet, f *Facts) (*Facts, error) {
	return o.pods(ctx, o.Live, set, f)
}

func (o Observer) pods(ctx context.Context, reader client.Reader, set *platformv1.WorkloadSet,
	f *Facts) (*Facts, error) {
	var list corev1.PodList
	if err := reader.List(ctx, &list, client.InNamespace(set.Namespace), Selector(set)); err != nil {
		return nil, err
	}
	pods := map[string]*corev1.Pod{}
	for i := range list.Items {
		if _, belongs := OrdinalOf(set, &list.Items[i]); belongs {
			pods[list.Items[i].Name] = &list.Items[i]
		}
	}
	return f.withPods(set, pods), nil
}

// LiveClaims returns the facts with the claims as they are at this moment.
func (o Observer) LiveClaims(ctx context.Context, set *platformv1.WorkloadSet, f *Facts) (*Facts, error) {
	next := *f
	var err error
	next.Claims, err = claims(ctx, o.Live, set)
	return &next, err
}

func claims(ctx context.Context, reader client.Reader,
	set *platformv1.WorkloadSet) (map[string]*corev1.PersistentVolumeClaim, error) {
	var list corev1.PersistentVolumeClaimList
	if err := reader.List(ctx, &list, client.InNamespace(set.Namespace), Selector(set)); err != nil {
		return nil, err
	}
	byName := make(map[string]*corev1.PersistentVolumeClaim, len(list.Items))
	for i := range list.Items {
		byName[list.Items[i].Name] = &list.Items[i]
	}
	return byName, nil
}

// LiveElection returns the facts with the election that is recorded at this moment. The pods are read live before
// another one is recorded: their cache may be older than the record.
func (o Observer) LiveElection(ctx context.Context, set *platformv1.WorkloadSet, f *Facts) (*Facts, error) {
	if set.Spec.Election == nil {
		return f, nil
	}
	live := &platformv1.WorkloadSet{}
	if err := o.Live.Get(ctx, client.ObjectKeyFromObject(set), live); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("cannot read the recorded election of WorkloadSet %q: %w", set.Name, err)
	}
	next := *f
	next.RecordedElection = live.Status.Election
	return &next, nil
}
