// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// heldSays is why pods that log in at each other do not get another password, and what to do.
const heldSays = `pods log in at each other with it, and one with another password would be kept out: set running to false`

// loggingInAtEachOther asks for pods that do, of a version of the plugin that is installed for the test.
func loggingInAtEachOther(t *testing.T, version string) func(*platformv1.ApplicationSpec) {
	t.Helper()
	derived(t, version, "1.0.0", func(parts map[string]map[string]string) {
		replaced(t, parts, "components", "components.yaml", "  - name: default\n    username: default", "  - name: default\n    sharedIn: [sentinel]\n    username: default")
	})
	return func(s *platformv1.ApplicationSpec) { s.PluginVersion, s.Topology = version, "sentinel" }
}

// keeps waits until what the pods mount has a password again.
func keeps(t *testing.T, app *platformv1.Application, password string) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: "redis-a-default"}}
	testkit.WaitFor(t, env.Client, secret, "has the password", func() error {
		if string(secret.Data["password"]) != password {
			return fmt.Errorf("it has another one")
		}
		return nil
	})
}

// stops has the pods go.
func stops(t *testing.T, app *platformv1.Application) {
	t.Helper()
	refresh(t, app)
	change(t, app, func(s *platformv1.ApplicationSpec) { s.Running = new(false) })
	testkit.WaitFor(t, env.Client, app, "is stopped", func() error {
		if ready := conditions.Get(app, platformv1.ReadyCondition); ready == nil || ready.Reason != platformv1.ReasonStopped || ready.ObservedGeneration != app.Generation {
			return fmt.Errorf("it says %+v", ready)
		}
		return nil
	})
}

// A generated password is made anew while nobody runs, where one pod with another one would be kept out by the others. What somebody puts into the
// engine's Secret is put back.
func TestRotationIsForStoppedPodsThatLogInAtEachOther(t *testing.T) {
	app := served(t, loggingInAtEachOther(t, "1.31.0"))
	first, old := planned(t, app, ""), passwordIn(t, app, "redis-a-default")
	refused := ends(t, operate(t, app, "early", "RotateCredentials", nil), platformv1.OperationFailed)
	if !strings.Contains(refused.Error, heldSays) {
		t.Errorf("it says %q, want %q", refused.Error, heldSays)
	}
	dry := ends(t, operate(t, app, "dry", "RotateCredentials", func(s *platformv1.OperationSpec) { s.DryRun = true }), platformv1.OperationFailed)
	if !strings.Contains(dry.Error, heldSays) {
		t.Errorf("a dry run says %q, want %q", dry.Error, heldSays)
	}
	secret := secretNamed(t, app, "redis-a-default")
	before := secret.DeepCopy()
	secret.Data["password"] = []byte("edited")
	if err := env.Client.Patch(t.Context(), secret, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
	keeps(t, app, old)
	if now := planned(t, app, ""); now.Credentials["default"] != first.Credentials["default"] || passwordIn(t, app, platformv1.BindingNameFor(app.Name)) != old {
		t.Error("processes or clients were told of another password")
	}

	stops(t, app)
	ends(t, operate(t, app, "late", "RotateCredentials", nil), platformv1.OperationSucceeded)
	now := passwordIn(t, app, "redis-a-default")
	if now == old || now == "edited" || passwordIn(t, app, platformv1.BindingNameFor(app.Name)) != now {
		t.Error("the password is not made anew, or clients are told another one")
	}
	refresh(t, app)
	change(t, app, func(s *platformv1.ApplicationSpec) { s.Running = new(true) })
	testkit.WaitForReady(t, env.Client, app)
	if next := planned(t, app, first.Credentials["default"]); next.Credentials["default"] == "" {
		t.Error("the processes are told of no password")
	}
}

// Another password of the user waits until the pods are gone, and the state says so; all else of the spec takes effect.
func TestPasswordOfTheUserWaitsForPodsThatLogInAtEachOther(t *testing.T) {
	asked := loggingInAtEachOther(t, "1.32.0")
	namespace := env.Namespace(t)
	run(t, -1)
	node(t, namespace)
	mine := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "mine"}, Data: map[string][]byte{"password": []byte("first")}}
	create(t, mine)
	app := application(namespace)
	credential("default", "mine")(app)
	asked(&app.Spec)
	create(t, app)
	testkit.WaitForReady(t, env.Client, app)

	mine.Data["password"] = []byte("second")
	if err := env.Client.Update(t.Context(), mine); err != nil {
		t.Fatal(err)
	}
	testkit.WaitFor(t, env.Client, app, "says that the password waits", func() error {
		if stalled := conditions.Get(app, platformv1.StalledCondition); stalled == nil || stalled.Reason != platformv1.ReasonPasswordHeld || !strings.Contains(stalled.Message, heldSays) {
			return fmt.Errorf("it says %+v", stalled)
		}
		return nil
	})
	if passwordIn(t, app, "redis-a-default") != "first" || passwordIn(t, app, platformv1.BindingNameFor(app.Name)) != "first" {
		t.Error("pods or clients were given a password that no process has")
	}
	stops(t, app)
	keeps(t, app, "second")
	change(t, app, func(s *platformv1.ApplicationSpec) { s.Running = new(true) })
	testkit.WaitForReady(t, env.Client, app)
	if got := passwordIn(t, app, platformv1.BindingNameFor(app.Name)); got != "second" {
		t.Errorf("clients are told %q", got)
	}
}
