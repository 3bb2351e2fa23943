// SPDX-License-Identifier: Apache-2.0

// Package stores says whether what a BackupRepository names is there, so that no mover waits for a Secret or a volume
// that nobody makes.
package stores

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/secretvalue"
)

// DefaultConcurrency is how many Backups of a repository run at a time where that says nothing.
const DefaultConcurrency int32 = 2

// Reasons of what is missing.
const (
	ReasonSecretNotFound = platformv1.ReasonSecretNotFound
	ReasonSecretInvalid  = platformv1.ReasonSecretInvalid
	ReasonClaimNotFound  = platformv1.ReasonClaimNotFound
)

// Lack is what is missing; the zero value is nothing.
type Lack struct {
	// Reason is one of the reasons of this package.
	Reason string
	// Message is a sentence that says what to do.
	Message string
}

// Need is a Secret that a repository names, and the keys that it has to have.
type Need struct {
	Secret string
	Keys   []string
}

// Needs are the Secrets of a repository.
func Needs(r *platformv1.BackupRepository) []Need {
	var needs []Need
	if s3 := r.Spec.S3; s3 != nil {
		needs = append(needs, Need{s3.CredentialsSecretRef.Name,
			[]string{platformv1.StoreAccessKey, platformv1.StoreSecretKey}})
		if ca := s3.CASecretRef; ca != nil {
			needs = append(needs, Need{ca.Name, []string{ca.Key}})
		}
	}
	if e := r.Spec.Encryption; e != nil {
		needs = append(needs, Need{e.PassphraseSecretRef.Name, []string{e.PassphraseSecretRef.Key}})
	}
	return needs
}

// Missing looks for the Secrets and the claim of a repository, and at what the Secrets have.
func Missing(ctx context.Context, live client.Reader, r *platformv1.BackupRepository) (Lack, error) {
	for _, need := range Needs(r) {
		secret := &corev1.Secret{}
		err := live.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: need.Secret}, secret)
		if apierrors.IsNotFound(err) {
			return Lack{ReasonSecretNotFound, fmt.Sprintf(
				"BackupRepository %q names Secret %q, which is not there: create it in namespace %q", r.Name, need.Secret,
				r.Namespace)}, nil
		}
		if err != nil {
			return Lack{}, fmt.Errorf("cannot read Secret %q of BackupRepository %q: %w", need.Secret, r.Name, err)
		}
		for _, key := range need.Keys {
			if len(secret.Data[key]) == 0 {
				return Lack{ReasonSecretNotFound, fmt.Sprintf("Secret %q of BackupRepository %q has no key %q: add it", need.Secret,
					r.Name, key)}, nil
			}
			if why := secretvalue.Problem(need.Secret, key, secret.Data[key]); why != "" {
				return Lack{ReasonSecretInvalid, fmt.Sprintf("BackupRepository %q: %s", r.Name, why)}, nil
			}
		}
	}
	if claim := r.Spec.PersistentVolumeClaim; claim != nil {
		found := &corev1.PersistentVolumeClaim{}
		err := live.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: claim.ClaimName}, found)
		switch {
		case apierrors.IsNotFound(err), err == nil && !found.DeletionTimestamp.IsZero():
			return Lack{ReasonClaimNotFound, fmt.Sprintf(
				"BackupRepository %q names PersistentVolumeClaim %q, which is not there: create it in namespace %q", r.Name,
				claim.ClaimName, r.Namespace)}, nil
		case err != nil:
			return Lack{}, fmt.Errorf("cannot read PersistentVolumeClaim %q of BackupRepository %q: %w", claim.ClaimName, r.Name,
				err)
		}
	}
	return Lack{}, nil
}
