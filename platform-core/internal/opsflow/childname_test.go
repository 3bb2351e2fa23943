// SPDX-License-Identifier: Apache-2.0

package opsflow

import (
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// Whatever the length of the names of an instance and of its schedule, what a step of a scheduled Operation makes has a
// name that Kubernetes takes: for one length a Backup was called "<instance>.-<digest>", and none was ever made.
func TestChildrenOfScheduledOperationsHaveNames(t *testing.T) {
	at, seen := time.Date(2026, 11, 28, 2, 0, 0, 0, time.UTC), map[string]string{}
	for instance := 1; instance <= platformv1.MaxApplicationName; instance++ {
		for schedule := 1; schedule <= platformv1.MaxScheduleName; schedule++ {
			app, line := strings.Repeat("a", instance), strings.Repeat("s", schedule)
			name := platformv1.ScheduledOperationNameFor(app, line, at)
			r := &run{op: &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Name: name}}}
			for _, step := range []platformv1.StepStatus{{Name: "backup"}, {Name: "backup", Attempts: 2}, {Name: "b"}} {
				child := r.childName(&step, item{})
				if problems := validation.IsDNS1123Subdomain(child); len(problems) > 0 {
					t.Fatalf("step %q of Operation %q makes %q: %v", step.Name, name, child, problems)
				}
				if problems := validation.IsValidLabelValue(child); len(problems) > 0 {
					t.Fatalf("%q cannot be the value of a label: %v", child, problems)
				}
				if other, taken := seen[child]; taken {
					t.Fatalf("Operations %q and %q both make %q", other, name, child)
				}
				seen[child] = name
			}
		}
	}
}
