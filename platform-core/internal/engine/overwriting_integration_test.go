// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
	"github.com/zeroinfra/platform-core/sdk/testkit/example"
	"github.com/zeroinfra/platform-core/sdk/typed"
)

// overwritten are the events that tell whose fields of an Application were changed.
func overwritten(ctx context.Context, app *platformv1.Application) ([]eventsv1.Event, error) {
	var list eventsv1.EventList
	if err := env.Client.List(ctx, &list, client.InNamespace(app.Namespace)); err != nil {
		return nil, err
	}
	var found []eventsv1.Event
	for _, e := range list.Items {
		if e.Reason == "FieldOverwritten" && e.Regarding.Kind == "Application" && e.Regarding.UID == app.UID {
			found = append(found, e)
		}
	}
	return found, nil
}

// A field that somebody else set is changed, and an event says whose it is and that his next apply reverts it. One that
// the Operation leaves as it is, or that nobody else set, is no event.
func TestAFieldOfSomebodyElseIsOverwrittenWithAWarning(t *testing.T) {
	app := served(t, ownMemory)
	ends(t, operate(t, app, "resize", "VerticalScaleResource", nil, "memory", "512Mi"), platformv1.OperationSucceeded)
	body := []byte(`{"apiVersion":"platform.zeroinfra.github.com/v1","kind":"Application","spec":{"running":true}}`)
	if err := env.Client.Patch(t.Context(), app, client.RawPatch(types.ApplyPatchType, body),
		client.FieldOwner("somebody"), client.ForceOwnership); err != nil {
		t.Fatal(err)
	}
	ends(t, operate(t, app, "start", "Start", nil), platformv1.OperationSucceeded)
	ends(t, operate(t, app, "stop", "Stop", nil), platformv1.OperationSucceeded)
	var told []eventsv1.Event
	testkit.Eventually(t, "an event on a field that was overwritten", func(ctx context.Context) (err error) {
		if told, err = overwritten(ctx, app); err == nil && len(told) == 0 {
			err = fmt.Errorf("there is none")
		}
		return err
	})
	// Whoever makes an object sets what it has by default, too.
	creator := filepath.Base(os.Args[0])
	want := fmt.Sprintf("spec.running, set by %s and somebody, was changed by an Operation: the next apply of %[1]s or "+
		"somebody reverts that unless it says the same", creator)
	if len(told) != 1 || told[0].Type != corev1.EventTypeWarning || told[0].Note != want || told[0].Series != nil {
		t.Errorf("the events are %+v, want one: %s", told, want)
	}
	if refresh(t, app); app.Spec.IsRunning() {
		t.Error("the field was not changed")
	}
}

// What a kind has no field for is refused before anything of it, or of what it compiles to, is touched.
func TestWhatAKindHasNoFieldForIsRefused(t *testing.T) {
	sample, app := servedSample(t, typed.Register(example.Kind{}), "7.0")
	declared, compiled := sample.Generation, app.Generation
	for name, tc := range map[string]struct {
		template   string
		parameters []string
		field      string
	}{
		"stop":   {"Stop", nil, "running"},
		"grow":   {"VerticalScaleVolume", []string{"size", "2Gi"}, "components[redis].storage.size"},
		"resize": {"VerticalScaleResource", []string{"memory", "1Gi"}, "components[redis].resources.limits.memory"},
	} {
		op := operate(t, app, name, tc.template, func(s *platformv1.OperationSpec) {
			s.TargetRef = platformv1.TargetReference{APIVersion: example.GroupVersion.String(), Kind: "Sample",
				Name: sample.Name}
		}, tc.parameters...)
		says := fmt.Sprintf(`Sample "a" has no field for %s: a Sample does not offer that`, tc.field)
		if status := ends(t, op, platformv1.OperationFailed); !strings.Contains(status.Error, says) {
			t.Errorf("%s: it says %q, want %q", name, status.Error, says)
		}
	}
	refresh(t, sample)
	refresh(t, app)
	if sample.Generation != declared || app.Generation != compiled {
		t.Errorf("something was changed: generations %d and %d, before %d and %d", sample.Generation, app.Generation,
			declared, compiled)
	}
}
