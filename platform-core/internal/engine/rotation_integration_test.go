// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

func passwordIn(t *testing.T, app *platformv1.Application, secret string) string {
	t.Helper()
	return string(secretNamed(t, app, secret).Data["password"])
}

// A generated password is made anew, taken over in place, and told to clients when the processes have it.
func TestRotateCredentials(t *testing.T) {
	app := served(t)
	pod, first, old := podOf(t, app), planned(t, app, ""), passwordIn(t, app, "redis-a-default")
	dry := ends(t, operate(t, app, "dry", "RotateCredentials", func(s *platformv1.OperationSpec) { s.DryRun = true }),
		platformv1.OperationSucceeded)
	if len(dry.Plan) != 1 || !strings.Contains(dry.Plan[0], `makes the password of credential "default" anew`) ||
		passwordIn(t, app, "redis-a-default") != old {
		t.Errorf("the plan is %q", dry.Plan)
	}
	op := operate(t, app, "rotate", "RotateCredentials", nil)
	second := planned(t, app, first.Credentials["default"])
	ends(t, op, platformv1.OperationRunning)
	if got := passwordIn(t, app, platformv1.BindingNameFor(app.Name)); got != old {
		t.Errorf("clients are told %q before the process has it", got)
	}
	takesOver(t, app, second)
	ends(t, op, platformv1.OperationSucceeded)
	now := passwordIn(t, app, "redis-a-default")
	if now == old || len(now) != len(old) || passwordIn(t, app, platformv1.BindingNameFor(app.Name)) != now {
		t.Errorf("the password is %q", now)
	}
	if podOf(t, app).UID != pod.UID {
		t.Error("the pod was replaced")
	}
	none := ends(t, operate(t, app, "none", "RotateCredentials", nil, "credential", "root"), platformv1.OperationFailed)
	if want := `has no credential "root"; it has: "default"`; !strings.Contains(none.Error, want) {
		t.Errorf("it says %q, want %q", none.Error, want)
	}
}

// A password that the user supplies is the user's to change.
func TestRotateCredentialsOfTheUser(t *testing.T) {
	namespace := env.Namespace(t)
	run(t, -1)
	node(t, namespace)
	create(t, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "mine"},
		Data: map[string][]byte{"password": []byte("first")}})
	app := application(namespace)
	credential("default", "mine")(app)
	create(t, app)
	testkit.WaitForReady(t, env.Client, app)
	refused := ends(t, operate(t, app, "rotate", "RotateCredentials", nil), platformv1.OperationFailed)
	if want := `the password of credential "default" comes from Secret "mine": change it there, and the instance takes ` +
		`it over`; refused.Error != want {
		t.Errorf("it says %q, want %q", refused.Error, want)
	}
	if passwordIn(t, app, "redis-a-default") != "first" || passwordIn(t, app, "mine") != "first" {
		t.Error("a password was changed")
	}
}

// Whatever crashes, there is one new password.
func TestRotationSurvivesTheEngine(t *testing.T) {
	namespace := env.Namespace(t)
	_, _, stop := run(t, -1)
	node(t, namespace)
	app := application(namespace)
	create(t, app)
	testkit.WaitForReady(t, env.Client, app)
	stop()
	first, passwords := planned(t, app, ""), map[string]bool{passwordIn(t, app, "redis-a-default"): true}
	op := operate(t, app, "rotate", "RotateCredentials", nil)
	set := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "redis-a-redis-main"}}
	crashing{times: 80, writes: 5, while: func() {
		refresh(t, set)
		if p, err := render.Plan(set); err == nil && p.Credentials["default"] != first.Credentials["default"] {
			takesOver(t, app, p)
		}
	}, after: func() {
		passwords[passwordIn(t, app, "redis-a-default")] = true
	}}.until(t, op)
	if op.Status.Phase != platformv1.OperationSucceeded || len(passwords) != 2 || op.Status.Steps[0].Attempts != 1 {
		t.Errorf("there were %d passwords: %+v", len(passwords), op.Status)
	}
}
