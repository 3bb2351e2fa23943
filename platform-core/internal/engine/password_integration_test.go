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

	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// planned waits for a plan that asks for another password than before, and returns it.
func planned(t *testing.T, app *platformv1.Application, before string) plan.Plan {
	t.Helper()
	var p plan.Plan
	set := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: app.Name + "-redis-main"}}
	testkit.WaitFor(t, env.Client, set, "asks for the new password", func() error {
		var err error
		if p, err = render.Plan(set); err != nil {
			return err
		}
		if p.Credentials["default"] == before {
			return fmt.Errorf("it asks for revision %q", before)
		}
		return nil
	})
	return p
}

// takesOver has the agent of the pod report that its process runs with a plan.
func takesOver(t *testing.T, app *platformv1.Application, p plan.Plan) {
	t.Helper()
	runsBy(t, podOf(t, app), p)
}

// runsBy is takesOver for any pod.
func runsBy(t *testing.T, pod *corev1.Pod, p plan.Plan) {
	t.Helper()
	said, err := report.Parse(pod.Annotations[platformv1.ReportAnnotation])
	if err != nil {
		t.Fatal(err)
	}
	said.ConfigDigest, said.RestartDigest = p.DigestsOf(pod.Name)
	reported := pod.DeepCopy()
	reported.Annotations[platformv1.ReportAnnotation] = said.String()
	if err := env.Client.Patch(t.Context(), reported, client.MergeFrom(pod)); err != nil {
		t.Fatal(err)
	}
}

func secretNamed(t *testing.T, app *platformv1.Application, name string) *corev1.Secret {
	t.Helper()
	secret := &corev1.Secret{}
	if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: app.Namespace, Name: name}, secret); err != nil {
		t.Fatal(err)
	}
	return secret
}

// bound waits until clients are told a password.
func bound(t *testing.T, app *platformv1.Application, want string) {
	t.Helper()
	binding := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace,
		Name: platformv1.BindingNameFor(app.Name)}}
	testkit.WaitFor(t, env.Client, binding, "has the password "+want, func() error {
		if got := string(binding.Data["password"]); got != want {
			return fmt.Errorf("it has %q", got)
		}
		return nil
	})
}

// A changed password is for the process alone: the pod stays, what it mounts has password and revision together, and
// clients get the new one when the process has it.
func TestPasswordIsChangedInPlace(t *testing.T) {
	namespace := env.Namespace(t)
	node(t, namespace)
	run(t, -1)
	mine := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "mine"},
		Data: map[string][]byte{"password": []byte("first")}}
	if err := env.Client.Create(t.Context(), mine); err != nil {
		t.Fatal(err)
	}
	app := application(namespace)
	credential("default", "mine")(app)
	if err := env.Client.Create(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	testkit.WaitForReady(t, env.Client, app)
	bound(t, app, "first")
	pod, first := podOf(t, app), planned(t, app, "")

	changed := mine.DeepCopy()
	changed.Data["password"] = []byte("second")
	if err := env.Client.Patch(t.Context(), changed, client.MergeFrom(mine)); err != nil {
		t.Fatal(err)
	}
	second := planned(t, app, first.Credentials["default"])
	mounted := secretNamed(t, app, "redis-a-default")
	if string(mounted.Data["password"]) != "second" || string(mounted.Data["revision"]) != second.Credentials["default"] ||
		mounted.Annotations[platformv1.PasswordFromAnnotation] != "mine/password" {
		t.Errorf("what the pod mounts is %q, %v", mounted.Data, mounted.Annotations)
	}
	if first.RestartDigest == second.RestartDigest || first.Digest == second.Digest {
		t.Error("the plan restarts no process")
	}
	if got := string(secretNamed(t, app, platformv1.BindingNameFor(app.Name)).Data["password"]); got != "first" {
		t.Errorf("clients are told %q before the process has it", got)
	}
	takesOver(t, app, second)
	bound(t, app, "second")
	testkit.WaitForReady(t, env.Client, app)
	if got := podOf(t, app); got.UID != pod.UID {
		t.Error("the pod was replaced")
	}

	// No longer the user's: another one is made, and the pod with it, since it names another Secret.
	without := app.DeepCopy()
	without.Spec.Credentials = nil
	if err := env.Client.Patch(t.Context(), without, client.MergeFrom(app)); err != nil {
		t.Fatal(err)
	}
	third := planned(t, app, second.Credentials["default"])
	testkit.WaitForReady(t, env.Client, app)
	mounted = secretNamed(t, app, "redis-a-default")
	generated := string(mounted.Data["password"])
	if len(generated) != 32 || string(mounted.Data["revision"]) != third.Credentials["default"] ||
		mounted.Annotations[platformv1.PasswordFromAnnotation] != "" {
		t.Errorf("what the pod mounts is %q, %v", mounted.Data, mounted.Annotations)
	}
	bound(t, app, generated)

	// Somebody puts another one into the engine's Secret: the same in place.
	pod = podOf(t, app)
	put := mounted.DeepCopy()
	put.Data["password"] = []byte("fourth")
	if err := env.Client.Patch(t.Context(), put, client.MergeFrom(mounted)); err != nil {
		t.Fatal(err)
	}
	fourth := planned(t, app, third.Credentials["default"])
	takesOver(t, app, fourth)
	bound(t, app, "fourth")
	if got := podOf(t, app); got.UID != pod.UID {
		t.Error("the pod was replaced")
	}
}

// A password that ends with a newline, as one from a file does, is refused: nothing is made with it, and nothing that
// runs is touched. Once the Secret is mended, all goes on.
func TestPasswordThatEndsWithANewlineIsRefused(t *testing.T) {
	namespace := env.Namespace(t)
	node(t, namespace)
	run(t, -1)
	mine := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "mine"},
		Data: map[string][]byte{"password": []byte("first\n")}}
	app := application(namespace)
	credential("default", "mine")(app)
	for _, obj := range []client.Object{mine, app} {
		if err := env.Client.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	put := func(password string) {
		t.Helper()
		before := mine.DeepCopy()
		mine.Data = map[string][]byte{"password": []byte(password)}
		if err := env.Client.Patch(t.Context(), mine, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	refused := func() {
		t.Helper()
		testkit.WaitForCondition(t, env.Client, app, platformv1.StalledCondition, metav1.ConditionTrue)
		ready := conditions.Get(app, platformv1.ReadyCondition)
		says := `of Secret "mine" ends with a newline`
		if ready.Reason != platformv1.ReasonSecretInvalid || !strings.Contains(ready.Message, says) {
			t.Errorf("it says %s: %s", ready.Reason, ready.Message)
		}
		if strings.Contains(ready.Message, "first") || strings.Contains(ready.Message, "second") {
			t.Errorf("the password is in a condition: %s", ready.Message)
		}
	}
	refused()
	put("first")
	testkit.WaitForReady(t, env.Client, app)
	pod := podOf(t, app)
	put("second\n")
	refused()
	if got := string(secretNamed(t, app, "redis-a-default").Data["password"]); got != "first" {
		t.Errorf("pods mount %q", got)
	}
	put("first")
	testkit.WaitForReady(t, env.Client, app)
	if got := podOf(t, app); got.UID != pod.UID {
		t.Error("the pod was replaced")
	}
}
