// SPDX-License-Identifier: Apache-2.0

package certmanager

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/sdk/apply"
)

// Problem says in a sentence why a Certificate is not ready; "" when it is.
func Problem(certificate *unstructured.Unstructured) string {
	name, generation := certificate.GetName(), certificate.GetGeneration()
	ready := readyOf(certificate)
	if ready == nil {
		return fmt.Sprintf("Certificate %s is not issued: cert-manager has not looked at it yet", name)
	}
	observed, _ := ready["observedGeneration"].(int64)
	switch {
	case observed != 0 && observed < generation:
		return fmt.Sprintf("Certificate %s is being issued anew", name)
	case ready["status"] == string(metav1.ConditionTrue):
		return ""
	}
	message, _ := ready["message"].(string)
	return fmt.Sprintf("Certificate %s is not issued: %s; kubectl describe certificate %s says more", name, message, name)
}

// readyOf returns the condition Ready of an object of cert-manager; nil when it has none.
func readyOf(object *unstructured.Unstructured) map[string]any {
	list, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, item := range list {
		if condition, ok := item.(map[string]any); ok && condition["type"] == "Ready" {
			return condition
		}
	}
	return nil
}

// Bind has the Secret of a Certificate go with it: cert-manager itself leaves it behind. The Secret must be ours, by
// its labels.
func Bind(ctx context.Context, applier *apply.Applier, secret *corev1.Secret,
	certificate *unstructured.Unstructured) error {
	if metav1.IsControlledBy(secret, certificate) {
		return nil
	}
	_, err := applier.Apply(ctx, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: secret.Namespace, Name: secret.Name,
			OwnerReferences: []metav1.OwnerReference{{
				APIVersion: render.CertificateKind.GroupVersion().String(), Kind: render.CertificateKind.Kind,
				Name: certificate.GetName(), UID: certificate.GetUID(), Controller: new(true),
			}}},
		Type: secret.Type,
	})
	return err
}

// Digest of the certificate in a Secret, as the agents report it; "" when there is none.
func Digest(secret *corev1.Secret) string {
	if secret == nil || len(secret.Data[plan.CertificateFile]) == 0 {
		return ""
	}
	sum := sha256.Sum256(secret.Data[plan.CertificateFile])
	return "sha256:" + hex.EncodeToString(sum[:])
}
