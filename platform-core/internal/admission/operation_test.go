// SPDX-License-Identifier: Apache-2.0

package admission

import (
	"encoding/json"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// An Operation is judged when it is created, by the operator that would run it. What was stored before is never held
// up, whatever its template is.
func TestOperationIsJudgedByWhoRunsIt(t *testing.T) {
	const bad, good = "name: A\nsteps: []\n", "name: A\nsteps: [{name: a, approval: {message: x}}]\n"
	raw := func(template, domain string, cancel bool) runtime.RawExtension {
		op := &platformv1.Operation{Spec: platformv1.OperationSpec{Template: template, Cancel: cancel}}
		if domain != "" {
			op.Labels = map[string]string{platformv1.DomainLabel: domain}
		}
		data, err := json.Marshal(op)
		if err != nil {
			t.Fatal(err)
		}
		return runtime.RawExtension{Raw: data}
	}
	for title, c := range map[string]struct {
		domain    string
		now, then runtime.RawExtension
		refused   bool
	}{
		"of nobody, by the one that runs it": {domain: "batch", now: raw(bad, "", false), refused: true},
		"of nobody, by another one":          {domain: "database", now: raw(bad, "", false)},
		"of the domain":                      {domain: "database", now: raw(bad, "database", false), refused: true},
		"of another domain":                  {domain: "batch", now: raw(bad, "database", false)},
		"good":                               {domain: "batch", now: raw(good, "", false)},
		"cancelled, and stored as it is":     {domain: "batch", now: raw(bad, "", true), then: raw(bad, "", false)},
		"changed from what cannot be read": {domain: "batch", now: raw(bad, "", true),
			then: runtime.RawExtension{Raw: []byte(`[]`)}},
	} {
		t.Run(title, func(t *testing.T) {
			verdict, err := (&court{domain: c.domain}).core(t.Context(), &admissionv1.AdmissionRequest{
				Kind: metav1.GroupVersionKind{Kind: "Operation"}, Object: c.now, OldObject: c.then})
			if err != nil || (len(verdict.Refused) > 0) != c.refused {
				t.Errorf("the verdict is %+v, %v", verdict, err)
			}
		})
	}
}
