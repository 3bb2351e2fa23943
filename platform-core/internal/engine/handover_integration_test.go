// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/report"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// loggingInAtEachOther asks for pods that do, of a version of the plugin that is installed for the test.
func loggingInAtEachOther(t *testing.T, version string) func(*platformv1.ApplicationSpec) {
	t.Helper()
	derived(t, version, "1.0.0", nil)
	return func(s *platformv1.ApplicationSpec) { s.PluginVersion, s.Topology = version, "sentinel" }
}

// passwords that pods mount, and that clients are told.
type passwords struct{ password, also, phase, bound string }

// reaches waits until pods and clients have these passwords.
func reaches(t *testing.T, app *platformv1.Application, want passwords) {
	t.Helper()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: "redis-a-default"}}
	testkit.WaitFor(t, env.Client, secret, "has the passwords", func() error {
		have := passwords{string(secret.Data["password"]), string(secret.Data["also"]),
			secret.Annotations[platformv1.HandoverAnnotation], ""}
		have.bound = passwordIn(t, app, platformv1.BindingNameFor(app.Name))
		if have != want {
			return fmt.Errorf("they are %+v, want %+v", have, want)
		}
		return nil
	})
}

// processesTakeUp returns the pods of an Application, whose processes run with the plans of their sets where the
// function says so of their name.
func processesTakeUp(t *testing.T, app *platformv1.Application, which func(pod string) bool) (
	pods map[string]types.UID) {
	t.Helper()
	pods = map[string]types.UID{}
	var sets platformv1.WorkloadSetList
	if err := env.Client.List(t.Context(), &sets, client.InNamespace(app.Namespace)); err != nil {
		t.Fatal(err)
	}
	for i := range sets.Items {
		p, err := render.Plan(&sets.Items[i])
		if err != nil {
			t.Fatal(err)
		}
		var list corev1.PodList
		if err := env.Client.List(t.Context(), &list, client.InNamespace(app.Namespace)); err != nil {
			t.Fatal(err)
		}
		for j := range list.Items {
			pod := &list.Items[j]
			said, err := report.Parse(pod.Annotations[platformv1.ReportAnnotation])
			// One that has not begun says nothing yet.
			if err != nil || said.Health == "" || !metav1.IsControlledBy(pod, &sets.Items[i]) {
				continue
			}
			pods[pod.Name] = pod.UID
			if said.ConfigDigest == p.Digest || !which(pod.Name) {
				continue
			}
			said.ConfigDigest, said.RestartDigest = p.Digest, p.RestartDigest
			before := pod.DeepCopy()
			pod.Annotations[platformv1.ReportAnnotation] = said.String()
			// One that is being replaced may be gone by now.
			if err := env.Client.Patch(t.Context(), pod, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
		}
	}
	return pods
}

func all(string) bool { return true }

// taken waits until the sets ask for what the Secret has now.
func taken(t *testing.T, app *platformv1.Application) {
	t.Helper()
	for _, component := range []string{"redis", "sentinel"} {
		set := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: "redis-a-" + component +
			"-main"}}
		testkit.WaitFor(t, env.Client, set, "asks for the passwords that there are", func() error {
			p, err := render.Plan(set)
			if err != nil {
				return err
			}
			secret := secretNamed(t, app, "redis-a-default")
			want := string(secret.Data["revision"])
			// What an Operation has put there gets its revision a moment later.
			both := secret.Annotations[platformv1.HandoverAnnotation] != ""
			if both != strings.Contains(want, render.RevisionSeparator) || p.Credentials["default"] != want {
				return fmt.Errorf("it asks for revision %q, want %q (of two passwords: %t)", p.Credentials["default"], want, both)
			}
			return nil
		})
	}
}

// exchanges has the processes take up each of the three states in turn, and looks at what there is meanwhile.
func exchanges(t *testing.T, app *platformv1.Application, from, to string) {
	t.Helper()
	for _, state := range []passwords{
		{from, to, platformv1.HandoverIntroduces, from},
		{to, from, platformv1.HandoverRetires, to},
	} {
		reaches(t, app, state)
		taken(t, app)
		last := "redis-a-redis-main-0"
		processesTakeUp(t, app, func(pod string) bool { return pod != last })
		reaches(t, app, state)
		processesTakeUp(t, app, all)
	}
	reaches(t, app, passwords{to, to, "", to})
	taken(t, app)
	processesTakeUp(t, app, all)
	testkit.WaitForReady(t, env.Client, app)
}

// A generated password is made anew under pods that log in at each other: each process accepts the other one before any
// shows it, and no pod is replaced. A second Operation has its turn afterwards. Where nobody runs, there is one step.
func TestRotationUnderPodsThatLogInAtEachOther(t *testing.T) {
	app := served(t, loggingInAtEachOther(t, "1.31.0"))
	old, pods := passwordIn(t, app, "redis-a-default"), processesTakeUp(t, app, all)
	reaches(t, app, passwords{old, old, "", old})
	dry := ends(t, operate(t, app, "dry", "RotateCredentials", func(s *platformv1.OperationSpec) { s.DryRun = true },
		"credential", "default"), platformv1.OperationSucceeded)
	if len(dry.Plan) != 1 || !strings.Contains(dry.Plan[0], "in three rounds") {
		t.Errorf("the plan is %q", dry.Plan)
	}
	op := operate(t, app, "rotate", "RotateCredentials", nil, "credential", "default")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: "redis-a-default"}}
	testkit.WaitFor(t, env.Client, secret, "has another one", func() error {
		if string(secret.Data["also"]) == old {
			return fmt.Errorf("it has none")
		}
		return nil
	})
	now := string(secret.Data["also"])
	exchanges(t, app, old, now)
	ends(t, op, platformv1.OperationSucceeded)
	for name, uid := range processesTakeUp(t, app, all) {
		if pods[name] != uid {
			t.Errorf("pod %s was replaced", name)
		}
	}
}

// Another password of the user is taken over in the same way, and one that comes meanwhile after it.
func TestPasswordOfTheUserUnderPodsThatLogInAtEachOther(t *testing.T) {
	asked := loggingInAtEachOther(t, "1.32.0")
	namespace := env.Namespace(t)
	run(t, -1)
	node(t, namespace)
	mine := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "mine"},
		Data: map[string][]byte{"password": []byte("first")}}
	create(t, mine)
	app := application(namespace)
	credential("default", "mine")(app)
	asked(&app.Spec)
	create(t, app)
	testkit.WaitForReady(t, env.Client, app)
	reaches(t, app, passwords{"first", "first", "", "first"})
	for _, next := range []string{"second", "third"} {
		mine.Data["password"] = []byte(next)
		if err := env.Client.Update(t.Context(), mine); err != nil {
			t.Fatal(err)
		}
		reaches(t, app, passwords{"first", "second", platformv1.HandoverIntroduces, "first"})
	}
	taken(t, app)
	processesTakeUp(t, app, all)
	reaches(t, app, passwords{"second", "first", platformv1.HandoverRetires, "second"})
	taken(t, app)
	processesTakeUp(t, app, all)
	// All show it: what came meanwhile begins at once.
	exchanges(t, app, "second", "third")
}

// Whatever crashes, there is one new password, and never a state that is not next to the one before.
func TestRotationUnderPodsThatLogInAtEachOtherSurvivesTheEngine(t *testing.T) {
	asked := loggingInAtEachOther(t, "1.33.0")
	namespace := env.Namespace(t)
	_, _, stop := run(t, -1)
	node(t, namespace)
	app := application(namespace)
	asked(&app.Spec)
	create(t, app)
	testkit.WaitForReady(t, env.Client, app)
	stop()
	old := passwordIn(t, app, "redis-a-default")
	seen, known := map[string]bool{}, map[string]bool{}
	op := operate(t, app, "rotate", "RotateCredentials", nil, "credential", "default")
	crashing{times: 200, writes: 5, while: func() { processesTakeUp(t, app, all) }, after: func() {
		secret := secretNamed(t, app, "redis-a-default")
		password, also := string(secret.Data["password"]), string(secret.Data["also"])
		known[password], known[also] = true, true
		seen[fmt.Sprint(password == old, also == old)] = true
	}}.until(t, op)
	if op.Status.Phase != platformv1.OperationSucceeded || len(known) != 2 || op.Status.Steps[0].Attempts != 1 {
		t.Errorf("there were %d passwords: %+v", len(known), op.Status)
	}
	if len(seen) < 3 {
		t.Errorf("engines died in the states %v only", seen)
	}
}

// Another version of the plugin, under which pods log in at each other, touches no pod; the first rotation under it has
// them mount the second password.
func TestFirstRotationUnderPodsThatLogInAtEachOther(t *testing.T) {
	derived(t, "1.34.0", "1.0.0", func(parts map[string]map[string]string) {
		replaced(t, parts, "components", "components.yaml", "    peerTopologies: [replication, cluster, sentinel]\n", "")
	})
	derived(t, "1.35.0", "1.34.0", nil)
	app := served(t, func(s *platformv1.ApplicationSpec) { s.PluginVersion, s.Topology = "1.34.0", "sentinel" })
	old, pods := passwordIn(t, app, "redis-a-default"), processesTakeUp(t, app, all)
	ends(t, operate(t, app, "upgrade", "UpgradeApp", nil, "version", "1.35.0"), platformv1.OperationSucceeded)
	testkit.WaitForReady(t, env.Client, app)
	reaches(t, app, passwords{old, "", "", old})
	if now := processesTakeUp(t, app, all); !maps.Equal(now, pods) {
		t.Errorf("the pods were %v and are %v", pods, now)
	}
	op := operate(t, app, "rotate", "RotateCredentials", nil, "credential", "default")
	testkit.WaitFor(t, env.Client, op, "has succeeded", func() error {
		if op.Status.Phase != platformv1.OperationSucceeded {
			processesTakeUp(t, app, all)
			return fmt.Errorf("it is %s: %+v", op.Status.Phase, op.Status.Steps)
		}
		return nil
	})
	now := passwordIn(t, app, "redis-a-default")
	reaches(t, app, passwords{now, now, "", now})
	for name, uid := range processesTakeUp(t, app, all) {
		if pods[name] == uid {
			t.Errorf("pod %s does not mount the second password", name)
		}
	}
	if now == old {
		t.Error("the password stays")
	}
}
