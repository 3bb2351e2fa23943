// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// SecretName returns the name of the Secret that holds the authority of a domain.
func SecretName(domain string) string { return domain + "-agent-ca" }

// Load reads the authority of a domain from its Secret in the operator's namespace. When there is
// none it makes one; of several replicas that do so at once the first wins and all end with the same.
// live must read from the API server, not from a cache. A Secret that cannot be used is an error,
// never replaced: running agents trust what it held.
func Load(ctx context.Context, live client.Reader, c client.Client, namespace, domain string, options ...Option) (*Authority, error) {
	key := types.NamespacedName{Namespace: namespace, Name: SecretName(domain)}
	secret := &corev1.Secret{}
	err := live.Get(ctx, key, secret)
	if apierrors.IsNotFound(err) {
		secret, err = create(ctx, live, c, key, domain)
	}
	if err != nil {
		return nil, fmt.Errorf("cannot load the agent authority from Secret %q: %w", key, err)
	}
	authority, err := Parse(domain, secret.Data, options...)
	if err != nil {
		return nil, fmt.Errorf("cannot load the agent authority from Secret %q: %w (restore the Secret, or delete it and restart the operator to have a new one made)", key, err)
	}
	return authority, nil
}

// NewSecret returns a Secret of an operator that holds certificates, such as that of an authority, with its data.
func NewSecret(key types.NamespacedName, domain string, data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace,
			Name:      key.Name,
			Labels: map[string]string{
				platformv1.DomainLabel:    domain,
				platformv1.ManagedByLabel: platformv1.ManagedBy,
			},
		},
		Type: corev1.SecretTypeTLS,
		Data: data,
	}
}

func create(ctx context.Context, live client.Reader, c client.Client, key types.NamespacedName, domain string) (*corev1.Secret, error) {
	data, err := Generate(domain, time.Now())
	if err != nil {
		return nil, err
	}
	secret := NewSecret(key, domain, data)
	err = c.Create(ctx, secret)
	if err == nil || !apierrors.IsAlreadyExists(err) {
		return secret, err
	}
	// Another replica was first: its authority counts.
	winner := &corev1.Secret{}
	return winner, live.Get(ctx, key, winner)
}
