// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"fmt"
	"strings"
	"testing"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// TestAnEditThatIsTakenBack: what an Operation edits and somebody takes back is no success, and is not edited again.
// What would make passwords anew waits while the instance is suspended.
func TestAnEditThatIsTakenBack(t *testing.T) {
	namespace := env.Namespace(t)
	run(t, -1)
	app := shop(namespace, "shop-a", "tiers")
	// Without a node, what it waits for does not come before it is overridden.
	t.Run("made", func(t *testing.T) {
		node(t, namespace)
		create(t, app)
		testkit.WaitForReady(t, env.Client, app)
	})
	scale := operate(t, app, "scale", "HorizontalScale", nil, "replicas", "3", "component", "web")
	ends(t, scale, platformv1.OperationRunning)
	testkit.WaitFor(t, env.Client, app, "has three replicas", func() error {
		if have := app.Spec.Components; len(have) == 0 || have[0].Replicas == nil || *have[0].Replicas != 3 {
			return fmt.Errorf("it has %+v", have)
		}
		return nil
	})
	change(t, app, func(s *platformv1.ApplicationSpec) { s.Components[0].Replicas = new(int32(1)) })
	generation := app.Generation
	want := `another edit of Application "shop-a" has overridden that of this step: spec.components[web].replicas of ` +
		`Application "shop-a" is 1, and 3 was asked for; change it where that edit comes from, or run the Operation again`
	if status := ends(t, scale, platformv1.OperationFailed); status.Error != want {
		t.Errorf("it says %q", status.Error)
	}
	if refresh(t, app); app.Generation != generation {
		t.Error("it has edited again")
	}

	change(t, app, func(s *platformv1.ApplicationSpec) { s.Suspend = true })
	rotate := operate(t, app, "rotate", "RotateCredentials", nil)
	testkit.WaitFor(t, env.Client, rotate, "waits", func() error {
		if len(rotate.Status.Steps) == 0 ||
			rotate.Status.Steps[0].Message != `waiting for suspend of Application "shop-a" to be false` {
			return fmt.Errorf("it is %+v", rotate.Status)
		}
		return nil
	})
	change(t, app, func(s *platformv1.ApplicationSpec) { s.Suspend = false })
	if status := ends(t, rotate, platformv1.OperationFailed); !strings.Contains(status.Error, "has no passwords") {
		t.Errorf("it says %q", status.Error)
	}
}
