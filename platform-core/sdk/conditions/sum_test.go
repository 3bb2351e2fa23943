// SPDX-License-Identifier: Apache-2.0

package conditions_test

import (
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
)

func TestSum(t *testing.T) {
	part := func(status, message string) platformv1.Conditioned {
		part := &platformv1.Component{}
		if status != "" {
			conditions.Set(part, metav1.Condition{Type: "Saving", Status: metav1.ConditionStatus(status), Reason: "Because",
				Message: message})
		}
		return part
	}
	for _, c := range []struct {
		want  string
		parts []platformv1.Conditioned
	}{
		{"", nil},
		{"", []platformv1.Conditioned{part("", "")}},
		{"True well", []platformv1.Conditioned{part("", ""), part("True", "well"), part("True", "well, too")}},
		{"False broken", []platformv1.Conditioned{part("True", "well"), part("False", "broken")}},
		{"False one; other", []platformv1.Conditioned{part("False", "one"), part("True", "well"), part("False", "other")}},
		{"Unknown silent", []platformv1.Conditioned{part("True", "well"), part("Unknown", "silent")}},
		{"False broken; silent", []platformv1.Conditioned{part("Unknown", "silent"), part("False", "broken")}},
		{"False broken; silent", []platformv1.Conditioned{part("False", "broken"), part("Unknown", "silent")}},
	} {
		app := &platformv1.Application{}
		app.Generation = 3
		conditions.Set(app, metav1.Condition{Type: "Saving", Status: metav1.ConditionTrue, Reason: "Before"})
		conditions.Set(app, metav1.Condition{Type: platformv1.ReadyCondition, Status: metav1.ConditionTrue, Reason: "Ready"})
		parts := map[string]platformv1.Conditioned{}
		for i, part := range c.parts {
			parts[fmt.Sprint(i)] = part
		}
		conditions.SumDeclared(app, conditions.Parts(parts))
		got := ""
		if has := conditions.Get(app, "Saving"); has != nil {
			got = fmt.Sprintf("%s %s", has.Status, has.Message)
		}
		if got != c.want {
			t.Errorf("%q, want %q", got, c.want)
		}
		if types := conditions.Declared(app); (got == "") != (len(types) == 0) {
			t.Errorf("a plugin declares %v", types)
		}
	}
}
