// SPDX-License-Identifier: Apache-2.0

package operator

import (
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/zeroinfra/platform-core/sdk/testkit/example"
	"github.com/zeroinfra/platform-core/sdk/typed"
)

// What only the operator can finish deleting is looked for among all kinds that it may hold.
func TestFinalizedKinds(t *testing.T) {
	o := Options{Domain: "database", AddToScheme: []func(*runtime.Scheme) error{example.AddToScheme},
		Kinds: []typed.Registration{typed.Register(example.Kind{})}}
	scheme, err := schemeOf(o)
	if err != nil {
		t.Fatal(err)
	}
	kinds, err := finalized(scheme, o)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, kind := range kinds {
		names = append(names, kind.Kind)
		if whole := kind.Kind == "Sample" || kind.Kind == "BackupRepository"; whole != (kind.selector == nil) {
			t.Errorf("%s is selected by %v", kind.Kind, kind.selector)
		}
		if shared := kind.Kind == "BackupRepository"; shared != (kind.owner == everyOperator) {
			t.Errorf("%s is of %q", kind.Kind, kind.owner)
		}
	}
	for _, want := range []string{"Application", "Component", "WorkloadSet", "Operation", "Entity", "Backup", "Sample",
		"BackupRepository"} {
		if !slices.Contains(names, want) {
			t.Errorf("%s is left out: %q", want, names)
		}
	}
	if slices.Contains(names, "Pod") {
		t.Error("pods are none of it: they go without the operator")
	}
}
