// SPDX-License-Identifier: Apache-2.0

package certmanager

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

func certificate(generation int64, conditions ...any) *unstructured.Unstructured {
	c := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": conditions}}}
	c.SetName("a-tls")
	c.SetGeneration(generation)
	return c
}

func TestProblem(t *testing.T) {
	for name, tc := range map[string]struct {
		of   *unstructured.Unstructured
		says string
	}{
		"new":   {certificate(1), "has not looked at it yet"},
		"other": {certificate(1, map[string]any{"type": "Issuing", "status": "True"}), "has not looked at it yet"},
		"refused": {certificate(1, map[string]any{"type": "Ready", "status": "False", "message": "no such issuer"}),
			"no such issuer"},
		"outdated": {certificate(2, map[string]any{"type": "Ready", "status": "True", "observedGeneration": int64(1)}),
			"issued anew"},
	} {
		if got := Problem(tc.of); !strings.Contains(got, tc.says) || !strings.Contains(got, "Certificate a-tls") {
			t.Errorf("%s: got %q; want %q", name, got, tc.says)
		}
	}
	if got := Problem(certificate(2, map[string]any{"type": "Ready", "status": "True",
		"observedGeneration": int64(2)})); got != "" {
		t.Errorf("a good one: got %q", got)
	}
}

func TestDigestIsThatOfTheAgents(t *testing.T) {
	if Digest(nil) != "" || Digest(&corev1.Secret{}) != "" {
		t.Error("nothing has a digest")
	}
	// sha256sum of "abc".
	const want = "sha256:ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"
	if got := Digest(&corev1.Secret{Data: map[string][]byte{"tls.crt": []byte("abc")}}); got != want {
		t.Errorf("got %s", got)
	}
}
