// SPDX-License-Identifier: Apache-2.0

// Package scope keeps the operators of one domain apart. Leader election has one replica of an operator lead in its
// namespace; of two operators in different namespaces each would lead, issue its own certificates to the same pods,
// and decide on the same failovers.
//
// One Lease per domain in kube-system is the registry: the leader of each operator has an annotation there, with the
// namespaces that it serves, and writes it before it reconciles anything. An operator that would serve a namespace of
// another one stands by. The registry is written when an operator comes to lead and never renewed: whether an
// operator lives is told by its own leader lease. A new leader first takes its leader lease and then writes the
// registry; another operator first reads the registry and then that lease. So of two that come at the same time one
// gets a conflict.
package scope

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	// leaseNamespace is the one namespace that every cluster has.
	leaseNamespace = "kube-system"
	// prefix of the annotations: the namespace of the operator follows, and the value is what it serves.
	prefix = "operator.platform.zeroinfra.github.com/"
	// everything is the value for all namespaces.
	everything = "*"
)

// TakeoverAfter is how long the leader lease of an operator stays as it is until its namespaces can be another's:
// longer than the replacement of a pod takes, and than a leader goes on without renewing its lease.
const TakeoverAfter = 30 * time.Second

// LeaseName returns the name of the registry of a domain.
func LeaseName(domain string) string { return domain + "-scopes.zeroinfra.github.com" }

// ServedError says that another operator serves some of the namespaces.
type ServedError struct {
	Domain, Namespace, LeaderLease, Holder, Serves string
}

// Error names the operator.
func (e *ServedError) Error() string {
	serves := "all namespaces"
	if e.Serves != everything {
		serves = fmt.Sprintf("namespaces %q", e.Serves)
	}
	by := ""
	if e.Holder != "" {
		by = fmt.Sprintf(" (leader %q)", e.Holder)
	}
	return fmt.Sprintf("the %s operator in namespace %q%s serves %s: this operator stands by and changes nothing until "+
		"Lease %s/%s is given up; uninstall one of the two, or give each watchNamespaces of its own",
		e.Domain, e.Namespace, by, serves, e.Namespace, e.LeaderLease)
}

// Registry is what an operator knows of the others of its domain.
type Registry struct {
	// Client reads live objects.
	Client client.Client
	// Domain and Namespace of the operator.
	Domain, Namespace string
	// Serves are the namespaces that it serves; all when empty.
	Serves []string
	// LeaderLease is the name of the lease that the leader of each operator of the domain holds, in its namespace.
	LeaderLease string
	// Now tells the time; time.Now in production.
	Now func() time.Time

	mu sync.Mutex
	// seen are the versions of others' leader leases, by namespace.
	seen map[string]observation
}

// observation is a version of an object, and since when it is that one by the clock of this process.
type observation struct {
	version string
	since   time.Time
}

// Check returns a ServedError while another operator that lives serves some of the namespaces.
func (r *Registry) Check(ctx context.Context) error {
	registry, err := r.read(ctx)
	if err != nil {
		return err
	}
	return r.conflict(ctx, registry)
}

// Take registers the operator; the caller holds its leader lease. It returns a ServedError when another operator came
// first. What others registered for the same namespaces and left goes.
func (r *Registry) Take(ctx context.Context, holder string) error {
	registry, err := r.read(ctx)
	if err != nil {
		return err
	}
	if err := r.conflict(ctx, registry); err != nil {
		return err
	}
	for namespace := range r.overlapping(registry) {
		delete(registry.Annotations, prefix+namespace)
	}
	metav1.SetMetaDataAnnotation(&registry.ObjectMeta, prefix+r.Namespace, scopeOf(r.Serves))
	// It changes with each leader, so that whoever read it before has a conflict.
	registry.Spec.HolderIdentity, registry.Spec.RenewTime = ptr.To(holder), ptr.To(metav1.NewMicroTime(r.Now()))
	return r.write(ctx, registry)
}

// Release takes the operator out of the registry.
func (r *Registry) Release(ctx context.Context) error {
	registry, err := r.read(ctx)
	if err != nil {
		return err
	}
	if _, registered := registry.Annotations[prefix+r.Namespace]; !registered {
		return nil
	}
	delete(registry.Annotations, prefix+r.Namespace)
	return r.write(ctx, registry)
}

// Leads reports whether the operator of the domain in a namespace has a leader, by the clock of this process.
func (r *Registry) Leads(ctx context.Context, namespace string) (bool, error) {
	leases, err := r.leaderLeases(ctx)
	if err != nil || leases[namespace] == nil {
		return false, err
	}
	return HolderAt(leases[namespace], r.Now()) != "", nil
}

// Elsewhere returns a ServedError while another operator that leads is registered for some of the namespaces. It
// answers at once, where Check has to watch leases for a while to call an operator dead.
func (r *Registry) Elsewhere(ctx context.Context) error {
	registry, err := r.read(ctx)
	if err != nil {
		return err
	}
	for namespace, serves := range r.overlapping(registry) {
		leases, err := r.leaderLeases(ctx)
		if err != nil {
			return err
		}
		if lease := leases[namespace]; lease != nil && HolderAt(lease, r.Now()) != "" {
			return r.servedError(namespace, serves, lease)
		}
	}
	return nil
}

// HolderAt returns who holds a lease at a time; "" when it was given back or has run out.
func HolderAt(lease *coordinationv1.Lease, now time.Time) string {
	lasts := time.Duration(ptr.Deref(lease.Spec.LeaseDurationSeconds, 0)) * time.Second
	if renewed := lease.Spec.RenewTime; renewed == nil || renewed.Add(lasts).Before(now) {
		return ""
	}
	return ptr.Deref(lease.Spec.HolderIdentity, "")
}

// conflict returns a ServedError for the first other operator that lives and serves some of the namespaces.
func (r *Registry) conflict(ctx context.Context, registry *coordinationv1.Lease) error {
	others := r.overlapping(registry)
	if len(others) == 0 {
		return nil
	}
	leases, err := r.leaderLeases(ctx)
	if err != nil {
		return err
	}
	for _, namespace := range slices.Sorted(maps.Keys(others)) {
		if r.unchangedFor(namespace, leases[namespace]) < TakeoverAfter {
			return r.servedError(namespace, others[namespace], leases[namespace])
		}
	}
	return nil
}

// unchangedFor returns how long the leader lease of another operator has been as it is, counted from when this process
// first saw it: the clock of another node says nothing. A lease that is not there counts as one that nobody holds.
func (r *Registry) unchangedFor(namespace string, lease *coordinationv1.Lease) time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	version, now := "", r.Now()
	if lease != nil {
		version = string(lease.UID) + "/" + lease.ResourceVersion
	}
	if last, known := r.seen[namespace]; known && last.version == version {
		return now.Sub(last.since)
	}
	if r.seen == nil {
		r.seen = map[string]observation{}
	}
	r.seen[namespace] = observation{version, now}
	return 0
}

// overlapping returns what the other operators are registered for that share a namespace with this one, by their own
// namespaces.
func (r *Registry) overlapping(registry *coordinationv1.Lease) map[string]string {
	found := map[string]string{}
	for key, serves := range registry.Annotations {
		namespace, ok := strings.CutPrefix(key, prefix)
		if ok && namespace != r.Namespace && overlap(serves, scopeOf(r.Serves)) {
			found[namespace] = serves
		}
	}
	return found
}

// scopeOf writes namespaces down; all when there are none.
func scopeOf(namespaces []string) string {
	if len(namespaces) == 0 {
		return everything
	}
	return strings.Join(slices.Compact(slices.Sorted(slices.Values(namespaces))), ",")
}

// overlap reports whether two scopes have a namespace in common.
func overlap(a, b string) bool {
	if a == everything || b == everything {
		return true
	}
	others := strings.Split(b, ",")
	return slices.ContainsFunc(strings.Split(a, ","), func(namespace string) bool {
		return slices.Contains(others, namespace)
	})
}

func (r *Registry) servedError(namespace, serves string, lease *coordinationv1.Lease) *ServedError {
	e := &ServedError{Domain: r.Domain, Namespace: namespace, LeaderLease: r.LeaderLease, Serves: serves}
	if lease != nil {
		e.Holder = ptr.Deref(lease.Spec.HolderIdentity, "")
	}
	return e
}

// leaderLeases returns the leader leases of all operators of the domain, by namespace.
func (r *Registry) leaderLeases(ctx context.Context) (map[string]*coordinationv1.Lease, error) {
	var list coordinationv1.LeaseList
	if err := r.Client.List(ctx, &list, client.MatchingFields{"metadata.name": r.LeaderLease}); err != nil {
		return nil, fmt.Errorf("cannot list the Leases %q: %w", r.LeaderLease, err)
	}
	leases := map[string]*coordinationv1.Lease{}
	for i := range list.Items {
		leases[list.Items[i].Namespace] = &list.Items[i]
	}
	return leases, nil
}

// read returns the registry, an empty one when there is none.
func (r *Registry) read(ctx context.Context) (*coordinationv1.Lease, error) {
	key := client.ObjectKey{Namespace: leaseNamespace, Name: LeaseName(r.Domain)}
	registry := &coordinationv1.Lease{}
	if err := r.Client.Get(ctx, key, registry); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("cannot read Lease %q, where %s operators register: %w", key, r.Domain, err)
	}
	registry.Namespace, registry.Name = key.Namespace, key.Name
	return registry, nil
}

// write updates the registry, unless it has changed since it was read. An update also makes it, which a right to that
// name alone allows.
func (r *Registry) write(ctx context.Context, registry *coordinationv1.Lease) error {
	if err := r.Client.Update(ctx, registry); err != nil {
		key := client.ObjectKeyFromObject(registry)
		return fmt.Errorf("cannot write Lease %q, where %s operators register: %w", key, r.Domain, err)
	}
	return nil
}
