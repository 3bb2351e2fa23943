// SPDX-License-Identifier: Apache-2.0

package certmanager

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/zeroinfra/platform-core/agentproto/plan"
)

// Problem says in a sentence why a Certificate is not ready; "" when it is.
func Problem(certificate *unstructured.Unstructured) string {
	name, generation := certificate.GetName(), certificate.GetGeneration()
	list, _, _ := unstructured.NestedSlice(certificate.Object, "status", "conditions")
	for _, item := range list {
		condition, _ := item.(map[string]any)
		if condition["type"] != "Ready" {
			continue
		}
		observed, _ := condition["observedGeneration"].(int64)
		switch {
		case observed != 0 && observed < generation:
			return fmt.Sprintf("Certificate %s is being issued anew", name)
		case condition["status"] == string(metav1.ConditionTrue):
			return ""
		}
		message, _ := condition["message"].(string)
		return fmt.Sprintf("Certificate %s is not issued: %s; kubectl describe certificate %s says more", name, message, name)
	}
	return fmt.Sprintf("Certificate %s is not issued: cert-manager has not looked at it yet", name)
}

// Digest of the certificate in a Secret, as the agents report it; "" when there is none.
func Digest(secret *corev1.Secret) string {
	if secret == nil || len(secret.Data[plan.CertificateFile]) == 0 {
		return ""
	}
	sum := sha256.Sum256(secret.Data[plan.CertificateFile])
	return "sha256:" + hex.EncodeToString(sum[:])
}
