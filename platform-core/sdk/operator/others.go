// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"context"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/operator/internal/scope"
)

// others finds out which other operators are there.
type others struct {
	live client.Reader
	// domain of this operator.
	domain string
	// leads says of the domains that were asked about whether an operator of theirs leads.
	leads map[string]bool
}

// leave returns those of the BackupRepositories that nobody but this operator can let go of.
func (o *others) leave(ctx context.Context, found []held) ([]held, error) {
	var alone []held
	for _, one := range found {
		served, err := o.serve(ctx, one.ObjectKey)
		if err != nil {
			return nil, err
		}
		if !served {
			alone = append(alone, one)
		}
	}
	return alone, nil
}

// serve says whether another operator serves a BackupRepository: it speaks of it, and leads. One that leads may be
// limited to other namespaces.
func (o *others) serve(ctx context.Context, key client.ObjectKey) (bool, error) {
	repository := &platformv1.BackupRepository{}
	err := o.live.Get(ctx, key, repository)
	if apierrors.IsNotFound(err) {
		return true, nil // It is gone by now.
	}
	if err != nil {
		return false, fmt.Errorf("cannot read BackupRepository %q: %w", key, err)
	}
	for _, state := range repository.Status.Domains {
		if state.Domain == o.domain {
			continue
		}
		leads, err := o.lead(ctx, state.Domain)
		if leads || err != nil {
			return leads, err
		}
	}
	return false, nil
}

// lead says whether somebody holds a Lease of the operators of a domain, in whichever namespace they are.
func (o *others) lead(ctx context.Context, domain string) (bool, error) {
	if leads, known := o.leads[domain]; known {
		return leads, nil
	}
	var leases coordinationv1.LeaseList
	err := o.live.List(ctx, &leases, client.MatchingFields{"metadata.name": leaseName(domain)})
	if err != nil && !apierrors.IsForbidden(err) { // An operator that may not know it has to do without.
		return false, fmt.Errorf("cannot list the Leases %q: %w", leaseName(domain), err)
	}
	for i := range leases.Items {
		o.leads[domain] = o.leads[domain] || scope.HolderAt(&leases.Items[i], time.Now()) != ""
	}
	return o.leads[domain], nil
}
