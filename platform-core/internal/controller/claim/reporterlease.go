// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The Lease that all operators of a cluster share, in the one namespace that every cluster has.
const (
	leaseNamespace = "kube-system"
	leaseName      = "claims.platform.zeroinfra.github.com"
)

// term is how long the holder of the Lease speaks for all others after it took or renewed it.
const term = 10 * time.Second

// releaseTimeout is how long an operator that ends takes at most to give the Lease back.
const releaseTimeout = 2 * time.Second

// reporterLease finds out which operator speaks about what nobody claims: the one that holds the Lease. It is taken
// when there is something to say, and left alone when there is not, so that rest costs nothing.
type reporterLease struct {
	// identity of this process.
	identity string
	writer   client.Writer
	live     client.Reader
	now      func() time.Time

	mu sync.Mutex
	// until is when our own term ends.
	until time.Time
	// version of another's Lease, and when we first saw it.
	version string
	seen    time.Time
}

// turn returns 0 when it is this operator's turn to speak, else how soon to ask again: whoever
// holds the Lease sees the same objects, and speaks unless it dies.
func (s *reporterLease) turn(ctx context.Context) (time.Duration, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.now()
	// In its second half a term is renewed, so that there is time to write.
	if s.until.Sub(now) > term/2 {
		return 0, nil
	}
	lease := &coordinationv1.Lease{}
	err := s.live.Get(ctx, client.ObjectKey{Namespace: leaseNamespace, Name: leaseName}, lease)
	switch {
	case apierrors.IsForbidden(err):
		return 0, nil // See below.
	case client.IgnoreNotFound(err) != nil:
		return 0, fmt.Errorf("cannot read Lease %s/%s: %w", leaseNamespace, leaseName, err)
	}
	if wait := s.left(lease, now); wait > 0 {
		return wait, nil
	}
	s.take(lease, now)
	// An update makes the Lease when it is not there, which a right to that name alone allows.
	err = s.writer.Update(ctx, lease)
	switch {
	case apierrors.IsConflict(err), apierrors.IsInvalid(err), apierrors.IsAlreadyExists(err):
		return time.Second, nil // Another operator was faster.
	case apierrors.IsForbidden(err):
		// An installation without the right: the words are the same whoever says them, and the first one writes.
		return 0, nil
	case err != nil:
		return 0, fmt.Errorf("cannot take Lease %s/%s: %w", leaseNamespace, leaseName, err)
	}
	s.until = now.Add(term)
	return 0, nil
}

// left returns for how long another operator holds the Lease: until its term ends by the time that it wrote, or at the
// latest when nothing was heard of it for a term, whatever its clock says.
func (s *reporterLease) left(lease *coordinationv1.Lease, now time.Time) time.Duration {
	holder, renewed := lease.Spec.HolderIdentity, lease.Spec.RenewTime
	if holder == nil || *holder == "" || *holder == s.identity || renewed == nil {
		return 0
	}
	if s.version != lease.ResourceVersion {
		s.version, s.seen = lease.ResourceVersion, now
	}
	return min(renewed.Add(term).Sub(now), s.seen.Add(term).Sub(now))
}

func (s *reporterLease) take(lease *coordinationv1.Lease, now time.Time) {
	changes := int32(0)
	if lease.Spec.LeaseTransitions != nil {
		changes = *lease.Spec.LeaseTransitions
	}
	if holder := lease.Spec.HolderIdentity; holder == nil || *holder != s.identity {
		changes++
		lease.Spec.AcquireTime = new(metav1.NewMicroTime(now))
	}
	lease.Namespace, lease.Name = leaseNamespace, leaseName
	lease.Spec.HolderIdentity, lease.Spec.LeaseTransitions = new(s.identity), new(changes)
	lease.Spec.RenewTime = new(metav1.NewMicroTime(now))
	lease.Spec.LeaseDurationSeconds = new(int32(term / time.Second))
}

// Start implements manager.Runnable: it gives the Lease back at the end, for the next one not to wait.
func (s *reporterLease) Start(ctx context.Context) error {
	<-ctx.Done()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.until.After(s.now()) {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), releaseTimeout)
	defer cancel()
	lease := &coordinationv1.Lease{}
	if err := s.live.Get(ctx, client.ObjectKey{Namespace: leaseNamespace, Name: leaseName}, lease); err != nil {
		return nil //nolint:nilerr // Without it, the others wait for the end of the term.
	}
	if holder := lease.Spec.HolderIdentity; holder != nil && *holder == s.identity {
		lease.Spec.HolderIdentity, lease.Spec.RenewTime = nil, nil
		_ = s.writer.Update(ctx, lease) // The same.
	}
	return nil
}
