// SPDX-License-Identifier: Apache-2.0

package typed_test

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/zeroinfra/platform-core/sdk/testkit/example"
	"github.com/zeroinfra/platform-core/sdk/typed"
)

// The name of an object becomes part of those of Services, with the kind before it: one with a digit first can, one
// with a dot cannot, and is refused in every kind with a sentence that says so.
func TestNamesOfObjects(t *testing.T) {
	for name, refused := range map[string]string{
		"web": "", "1web": "", "my.app": "lower-case letters, digits and hyphens",
		strings.Repeat("n", 32): "at most 31 characters",
	} {
		s := &example.Sample{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}}
		s.Spec.Version = "7.0"
		out, err := typed.Register(example.Kind{}).Compile(s, "database")
		switch {
		case refused != "":
			if err == nil || !strings.Contains(err.Error(), refused) || !strings.Contains(err.Error(), name) {
				t.Errorf("%q: got %v, want a refusal that says %q", name, err, refused)
			}
		case err != nil:
			t.Errorf("%q: %v", name, err)
		case len(validation.IsDNS1035Label(out.Application.Name)) > 0:
			t.Errorf("%q becomes %q, which no Service can be called", name, out.Application.Name)
		}
	}
}
