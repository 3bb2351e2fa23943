// SPDX-License-Identifier: Apache-2.0

package operation

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// What the cache shows counts as old until it has our own last write, and never again after that.
func TestVersionsKnowWhatTheCacheLacks(t *testing.T) {
	at := func(version string) *platformv1.Operation {
		return &platformv1.Operation{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "restart",
			ResourceVersion: version}}
	}
	for name, tc := range map[string]struct {
		written, shown string
		older          bool
	}{
		"behind our write":        {"101", "100", true},
		"behind by a digit":       {"1000", "999", true},
		"our write":               {"101", "101", false},
		"somebody's later write":  {"101", "102", false},
		"no number to compare by": {"101", "x", false},
	} {
		t.Run(name, func(t *testing.T) {
			var written versions
			if written.newerThan(at(tc.shown)) {
				t.Error("it counts as old before anything was written")
			}
			written.set(at(tc.written))
			for range 2 {
				if got := written.newerThan(at(tc.shown)); got != tc.older {
					t.Fatalf("it counts as old: %t", got)
				}
			}
			written.forget(client.ObjectKeyFromObject(at("")))
			if written.newerThan(at(tc.shown)) {
				t.Error("it counts as old after it was forgotten")
			}
		})
	}
	var written versions
	written.set(at("101"))
	other := at("1")
	other.Name = "other"
	if written.newerThan(other) {
		t.Error("the write of one says something of another")
	}
	if written.newerThan(at("101")) || written.newerThan(at("100")) {
		t.Error("what was seen once is waited for again")
	}
}

// What a step made goes on when an operator of before has left out how long it may take; what asks for something else
// is not that of the step.
func TestAsMade(t *testing.T) {
	spec := func(template string, timeout *metav1.Duration) platformv1.OperationSpec {
		return platformv1.OperationSpec{TemplateRef: template, Timeout: timeout}
	}
	ten := &metav1.Duration{Duration: 10 * time.Minute}
	later := spec("Restart", ten)
	later.Cancel, later.Parameters = true, platformv1.Parameters{"who": "x"}
	for name, tc := range map[string]struct {
		present platformv1.OperationSpec
		want    bool
	}{
		"the same":         {spec("Restart", ten), true},
		"without a time":   {spec("Restart", nil), true},
		"changed later":    {later, true},
		"another template": {spec("Stop", ten), false},
		"another time":     {spec("Restart", &metav1.Duration{Duration: time.Hour}), false},
	} {
		if got := asMade(tc.present, spec("Restart", ten)); got != tc.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
