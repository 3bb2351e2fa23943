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

// DigestSecretName returns the name of the Secret that has the key of Digest as well, for when that of the authority is
// lost.
func DigestSecretName(domain string) string { return domain + "-digest-key" }

// Load reads the authority of a domain from its Secret in the operator's namespace. When there is
// none it makes one, whose digests are those of the one before; of several replicas that do so at once the first wins
// and all end with the same. live must read from the API server, not from a cache. A Secret that cannot be used is an
// error, never replaced: running agents trust what it held.
func Load(ctx context.Context, live client.Reader, c client.Client, namespace, domain string,
	options ...Option) (*Authority, error) {
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
		return nil, fmt.Errorf("cannot load the agent authority from Secret %q: %w (restore the Secret, or delete it and "+
			"restart the operator to have a new one made)", key, err)
	}
	return authority, keepDigestKey(ctx, live, c, namespace, authority)
}

// keepDigestKey writes the key of Digest down where it is not lost with the authority. One that is there already stays.
func keepDigestKey(ctx context.Context, live client.Reader, c client.Client, namespace string,
	authority *Authority) error {
	key := types.NamespacedName{Namespace: namespace, Name: DigestSecretName(authority.domain)}
	err := live.Get(ctx, key, &corev1.Secret{})
	if apierrors.IsNotFound(err) {
		secret := NewSecret(key, authority.domain, map[string][]byte{DigestKeyKey: authority.holds().digestKey})
		secret.Type = corev1.SecretTypeOpaque
		if err = c.Create(ctx, secret); apierrors.IsAlreadyExists(err) {
			err = nil // Another replica was first.
		}
	}
	if err != nil {
		return fmt.Errorf("cannot keep the key of digests in Secret %q: %w", key, err)
	}
	return nil
}

// keptDigestKey is the key that was written down; nil when none was.
func keptDigestKey(ctx context.Context, live client.Reader, namespace, domain string) ([]byte, error) {
	key, secret := types.NamespacedName{Namespace: namespace, Name: DigestSecretName(domain)}, &corev1.Secret{}
	err := live.Get(ctx, key, secret)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("cannot read the key of digests in Secret %q: %w", key, err)
	}
	kept, err := parseDigestKey(secret.Data)
	if err != nil {
		return nil, fmt.Errorf("cannot take over the key of digests from Secret %q: %w (restore the Secret, or delete it "+
			"to have processes restart with a new key)", key, err)
	}
	return kept, nil
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

func create(ctx context.Context, live client.Reader, c client.Client, key types.NamespacedName,
	domain string) (*corev1.Secret, error) {
	data, err := Generate(domain, time.Now())
	if err != nil {
		return nil, err
	}
	// With another key each password would look like another one.
	switch kept, err := keptDigestKey(ctx, live, key.Namespace, domain); {
	case err != nil:
		return nil, err
	case kept != nil:
		data[DigestKeyKey] = kept
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
