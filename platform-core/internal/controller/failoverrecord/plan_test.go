// SPDX-License-Identifier: Apache-2.0

package failoverrecord

import (
	"slices"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// TestDue: what the engine decided by itself is recorded, once; what was ordered is on record elsewhere.
func TestDue(t *testing.T) {
	set := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Name: "db-redis-main", UID: "0123456789"}}
	if terms := due(set); terms != nil {
		t.Errorf("without a record: %v", terms)
	}
	set.Status.Primary = &platformv1.PrimaryRecord{Changes: []platformv1.PrimaryChange{
		{Term: 2, Cause: platformv1.PrimaryFailed},
		{Term: 3, Cause: platformv1.PrimaryOrdered},
		{Term: 4, Cause: platformv1.PrimaryFailed, Operation: "asked"},
		{Term: 5, Cause: platformv1.PrimaryFailed},
		{Term: 9, Cause: platformv1.PrimaryRecovered},
	}}
	if terms := due(set); !slices.Equal(terms, []int64{2, 5, 9}) {
		t.Errorf("due are %v", terms)
	}
	set.Annotations = map[string]string{platformv1.RecordedTermAnnotation: "5"}
	if terms := due(set); !slices.Equal(terms, []int64{9}) {
		t.Errorf("after term 5 due are %v", terms)
	}
	if name := nameFor(set, 9); name != "db-redis-main-failover-9-01234" {
		t.Errorf("the name is %s", name)
	}
}
