// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"errors"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// An object of a kind that compiles to no Application is refused for what it says, unless it said so before.
func TestChecksOfKindsThatCompileToNoApplication(t *testing.T) {
	check := Check{Object: func() client.Object { return &corev1.ConfigMap{} }, Judge: func(obj client.Object) error {
		if word := obj.(*corev1.ConfigMap).Data["word"]; word != "" {
			return errors.New(word + " is no word")
		}
		return nil
	}}
	judge, err := (&court{}).ofKinds(Options{Checks: []Check{check}}, clientgoscheme.Scheme)
	if err != nil {
		t.Fatal(err)
	}
	const good, bad, worse = `{}`, `{"data": {"word": "qx"}}`, `{"data": {"word": "qxx"}}`
	for title, c := range map[string]struct{ kind, before, now, refused, warned string }{
		"created":     {"ConfigMap", "", good, "", ""},
		"created bad": {"ConfigMap", "", bad, "qx is no word", ""},
		"made bad":    {"ConfigMap", good, bad, "qx is no word", ""},
		"still bad":   {"ConfigMap", bad, bad, "", "it is still refused: qx is no word"},
		"made worse":  {"ConfigMap", bad, worse, "qxx is no word", ""},
		"mended":      {"ConfigMap", bad, good, "", ""},
		"goes away": {"ConfigMap", "", `{"metadata": {"deletionTimestamp": "2027-01-01T00:00:00Z"}, "data": {"word": ` +
			`"qx"}}`, "", ""},
		"another kind": {"Secret", "", good, "", `this operator serves no kind "Secret"`},
	} {
		t.Run(title, func(t *testing.T) {
			request := &admissionv1.AdmissionRequest{Kind: metav1.GroupVersionKind{Kind: c.kind},
				Object: runtime.RawExtension{Raw: []byte(c.now)}}
			if c.before != "" {
				request.OldObject.Raw = []byte(c.before)
			}
			verdict, err := judge(t.Context(), request)
			if err != nil {
				verdict.Warnings = []string{err.Error()}
			}
			var refused []string
			for _, r := range verdict.Refused {
				refused = append(refused, r.Message)
			}
			if got := strings.Join(refused, "; "); got != c.refused {
				t.Errorf("refused for %q, want %q", got, c.refused)
			}
			if got := strings.Join(verdict.Warnings, "; "); got != c.warned {
				t.Errorf("warned of %q, want %q", got, c.warned)
			}
		})
	}
}
