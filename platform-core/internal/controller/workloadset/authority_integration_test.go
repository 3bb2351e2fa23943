// SPDX-License-Identifier: Apache-2.0

//go:build integration

package workloadset

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	crevent "sigs.k8s.io/controller-runtime/pkg/event"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/pki"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// certificate waits until the Secret of the agents of pod 0 trusts what is trusted, and is as wanted.
func (h *harness) certificate(what string, check func(*corev1.Secret) error) *corev1.Secret {
	h.Helper()
	secret := &corev1.Secret{}
	testkit.Eventually(h, what, func(ctx context.Context) error {
		*secret = corev1.Secret{}
		name := platformv1.AgentCertificateNameFor(platformv1.PodNameFor(setName, 0))
		if err := env.Client.Get(ctx, client.ObjectKey{Namespace: h.namespace, Name: name}, secret); err != nil {
			return err
		}
		if !bytes.Equal(secret.Data[corev1.ServiceAccountRootCAKey], h.authority.Bundle()) {
			return fmt.Errorf("it trusts somebody else")
		}
		return check(secret)
	})
	return secret
}

// Pods first trust the next authority, and show what it signed only later; those of a suspended set, too, since they
// run on.
func TestCertificatesFollowTheAuthority(t *testing.T) {
	h := newHarness(t)
	data, err := pki.Generate("database", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	if h.authority, err = pki.Parse("database", data); err != nil {
		t.Fatal(err)
	}
	h.start(-1)
	set, before := h.ready()
	first := h.certificate("the first certificate", func(*corev1.Secret) error { return nil })
	h.change(set, func(s *platformv1.WorkloadSet) { s.Spec.Suspend = true })
	h.says(set, platformv1.ReasonSuspended, "")
	advance := func() {
		t.Helper()
		now := time.Now().Add(time.Duration(h.clock.Load()))
		next, _, err := pki.Advance("database", h.authority.Data(), now, now, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := h.authority.Follow(next); err != nil {
			t.Fatal(err)
		}
		h.reissue <- crevent.GenericEvent{Object: first}
	}
	advance()
	h.certificate("the next is trusted, and the certificate is the same", func(secret *corev1.Secret) error {
		if !bytes.Equal(secret.Data[corev1.TLSCertKey], first.Data[corev1.TLSCertKey]) {
			return fmt.Errorf("it is another one")
		}
		return nil
	})
	h.clock.Add(int64(pki.Overlap + time.Minute))
	advance()
	h.certificate("the next has signed it", func(secret *corev1.Secret) error {
		if bytes.Equal(secret.Data[corev1.TLSCertKey], first.Data[corev1.TLSCertKey]) {
			return fmt.Errorf("it is the same")
		}
		return nil
	})
	h.samePods(before)
}
