// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// inventory names everything that there is of an instance.
func inventory(t *testing.T, namespace string) []string {
	t.Helper()
	var names []string
	for _, list := range []client.ObjectList{
		&platformv1.ComponentList{}, &platformv1.WorkloadSetList{}, &corev1.PodList{}, &corev1.PersistentVolumeClaimList{},
		&corev1.ServiceList{},
		&corev1.SecretList{}, &corev1.ConfigMapList{}, &corev1.ServiceAccountList{}, &rbacv1.RoleList{},
		&rbacv1.RoleBindingList{},
	} {
		if err := env.Client.List(context.Background(), list, client.InNamespace(namespace),
			client.HasLabels{platformv1.ApplicationLabel}); err != nil {
			t.Fatal(err)
		}
		kind := strings.TrimSuffix(fmt.Sprintf("%T", list)[strings.LastIndex(fmt.Sprintf("%T", list), ".")+1:], "List")
		for _, name := range namesOf(t, list) {
			names = append(names, kind+" "+name)
		}
	}
	slices.Sort(names)
	return names
}

func namesOf(t *testing.T, list client.ObjectList) []string {
	t.Helper()
	var names []string
	err := eachItem(list, func(obj client.Object) { names = append(names, obj.GetName()) })
	if err != nil {
		t.Fatal(err)
	}
	return names
}

var whole = []string{
	"Component redis-a-redis",
	"ConfigMap redis-a-redis-main-plan",
	"PersistentVolumeClaim data-redis-a-redis-main-0",
	"Pod redis-a-redis-main-0",
	"Role redis-a-redis-main",
	"RoleBinding redis-a-redis-main",
	"Secret redis-a-binding",
	"Secret redis-a-default",
	"Secret redis-a-redis-main-0-agent",
	"Service redis-a",
	"Service redis-a-redis-headless",
	"ServiceAccount redis-a-redis-main",
	"WorkloadSet redis-a-redis-main",
}

func TestInstanceIsMadeAndCostsNothingAtRest(t *testing.T) {
	namespace := env.Namespace(t)
	node(t, namespace)
	f, _, stop := run(t, -1)
	app := application(namespace)
	if err := env.Client.Create(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	testkit.WaitForReady(t, env.Client, app)
	if got := inventory(t, namespace); !slices.Equal(got, whole) {
		t.Errorf("there is %q, want %q", got, whole)
	}
	if app.Status.Primary != "redis-a-redis-main-0" || app.Status.Version != "7.0.15" || app.Status.Ready != "1/1" ||
		len(app.Status.Endpoints) != 1 {
		t.Errorf("status: %+v", app.Status)
	}
	if err := testkit.StatusLint(app); err != nil {
		t.Error(err)
	}
	// What other tests have left is theirs, here and below.
	writes := slices.DeleteFunc(f.spent(), func(write string) bool {
		return strings.Contains(write, "/namespaces/") && !strings.Contains(write, "/"+namespace+"/")
	})
	t.Logf("%d writes from create to Ready, and %d reads past the caches: %q", len(writes), len(f.read()), f.read())
	if len(writes) > 48 {
		t.Errorf("%d writes, budget 48:\n%s", len(writes), strings.Join(writes, "\n"))
	}
	stop()

	// Another engine comes, looks at everything, and has nothing to write.
	f, _, stop = run(t, -1)
	probe := application(namespace)
	probe.Name = "redis-b"
	if err := env.Client.Create(t.Context(), probe); err != nil {
		t.Fatal(err)
	}
	testkit.WaitForReady(t, env.Client, probe)
	stop()
	ofIt := func(request string) bool {
		return strings.Contains(request, "/"+namespace+"/") && strings.Contains(request, "redis-a")
	}
	for _, write := range f.spent() {
		if ofIt(write) {
			t.Errorf("a restart wrote: %s", write)
		}
	}
	for _, read := range f.read() {
		if ofIt(read) {
			t.Errorf("a restart read past the caches: %s", read)
		}
	}
}

// The engine is killed after every number of writes that the making of an instance
// takes; the next one finishes it, and nothing is doubled.
func TestCreationSurvivesAKillAfterEachWrite(t *testing.T) {
	for writes := 1; ; writes++ {
		namespace := env.Namespace(t)
		node(t, namespace)
		app := application(namespace)
		if err := env.Client.Create(t.Context(), app); err != nil {
			t.Fatal(err)
		}
		_, done, stop := run(t, writes)
		survived := false
		testkit.Eventually(t, fmt.Sprintf("the end after %d writes, or Ready", writes), func(ctx context.Context) error {
			select {
			case <-done:
				return nil
			default:
			}
			if err := env.Client.Get(ctx, client.ObjectKeyFromObject(app), app); err != nil {
				return err
			}
			if survived = conditions.IsTrue(app, platformv1.ReadyCondition); survived {
				return nil
			}
			return fmt.Errorf("still at work")
		})
		stop()
		password := passwordOf(t, namespace)
		_, _, stop = run(t, -1)
		testkit.WaitForReady(t, env.Client, app)
		stop()
		if got := inventory(t, namespace); !slices.Equal(got, whole) {
			t.Errorf("killed after %d writes: there is %q", writes, got)
		}
		if now := passwordOf(t, namespace); password != "" && now != password {
			t.Errorf("killed after %d writes: the password changed", writes)
		}
		if survived {
			t.Logf("an instance takes at most %d writes", writes)
			return
		}
	}
}

func passwordOf(t *testing.T, namespace string) string {
	t.Helper()
	secret := &corev1.Secret{}
	err := env.Client.Get(context.Background(), client.ObjectKey{Namespace: namespace, Name: "redis-a-default"}, secret)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return string(secret.Data["password"])
}

func TestRefusalsHarmNothing(t *testing.T) {
	namespace := env.Namespace(t)
	node(t, namespace)
	run(t, -1)
	app := application(namespace)
	if err := env.Client.Create(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	testkit.WaitForReady(t, env.Client, app)
	pod := podUID(t, namespace)
	fromFile := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "from-file"},
		Data: map[string][]byte{"password": []byte("hunter2\n")}}
	if err := env.Client.Create(t.Context(), fromFile); err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name   string
		change func(*platformv1.Application)
		reason string
		says   string
	}{
		{"unsupported version", func(a *platformv1.Application) { a.Spec.Version = "6.2" },
			platformv1.ReasonVersionNotSupported, "7.0"},
		{"unknown component", func(a *platformv1.Application) { a.Spec.Components[0].Name = "sentinel" },
			platformv1.ReasonComponentNotFound, "sentinel"},
		{"unknown parameter", parameter("maxmemroy", "1"), platformv1.ReasonInvalidParameters, "maxmemory"},
		{"bad value", parameter("maxclients", "many"), platformv1.ReasonInvalidParameters, "maxclients"},
		{"parameter of ours", parameter("requirepass", "x"), platformv1.ReasonInvalidParameters, "engine"},
		{"unknown credential", credential("admin", "s"), platformv1.ReasonInvalidSpec, "admin"},
		{"newline in the Secret", credential("default", "from-file"), platformv1.ReasonSecretInvalid,
			`the value under the key "password" of Secret "from-file" ends with a newline`},
		{"missing Secret", credential("default", "nowhere"), platformv1.ReasonSecretNotFound, "nowhere"},
		{"too many replicas", func(a *platformv1.Application) { a.Spec.Components[0].Replicas = new(int32(2)) },
			platformv1.ReasonInvalidSpec, "1"},
		{"expansion impossible", storage("2Gi"), platformv1.ReasonVolumeExpansionUnsupported, "does not allow expansion"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			changed := app.DeepCopy()
			changed.Spec.Components = []platformv1.ApplicationComponent{{Name: "redis"}}
			test.change(changed)
			patch(t, changed)
			testkit.WaitForCondition(t, env.Client, changed, platformv1.StalledCondition, metav1.ConditionTrue)
			ready := conditions.Get(changed, platformv1.ReadyCondition)
			if ready.Reason != test.reason || !strings.Contains(ready.Message, test.says) {
				t.Errorf("%s: %s", ready.Reason, ready.Message)
			}
			if err := testkit.StatusLint(changed); err != nil {
				t.Error(err)
			}
			if podUID(t, namespace) != pod {
				t.Error("the pod was replaced")
			}
		})
	}
}

// A size that cannot be had can be taken back, and then all is well again.
func TestImpossibleSizeCanBeTakenBack(t *testing.T) {
	namespace := env.Namespace(t)
	node(t, namespace)
	run(t, -1)
	app := application(namespace)
	app.Spec.Components = []platformv1.ApplicationComponent{{Name: "redis"}}
	storage("1Gi")(app)
	if err := env.Client.Create(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	testkit.WaitForReady(t, env.Client, app)
	for size, reason := range map[string]string{"512Mi": platformv1.ReasonVolumeShrinkRefused,
		"2Gi": platformv1.ReasonVolumeExpansionUnsupported} {
		storage(size)(app)
		patch(t, app)
		testkit.WaitForCondition(t, env.Client, app, platformv1.StalledCondition, metav1.ConditionTrue)
		if got := conditions.Get(app, platformv1.StalledCondition).Reason; got != reason {
			t.Errorf("%s: reason %s", size, got)
		}
	}
	storage("1Gi")(app)
	patch(t, app)
	testkit.WaitForReady(t, env.Client, app)
}

// Users do not know of domains: an Application without one is claimed by the operator that has its plugin.
func TestUnlabelledApplicationIsClaimed(t *testing.T) {
	namespace := env.Namespace(t)
	node(t, namespace)
	run(t, -1)
	app := application(namespace)
	app.Labels = nil
	if err := env.Client.Create(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	testkit.WaitForReady(t, env.Client, app)
	if app.Labels[platformv1.DomainLabel] != "database" {
		t.Errorf("labels: %v", app.Labels)
	}
	unknown := application(namespace)
	unknown.Name, unknown.Labels, unknown.Spec.Plugin = "unknown-a", nil, "unknown"
	if err := env.Client.Create(t.Context(), unknown); err != nil {
		t.Fatal(err)
	}
	testkit.WaitForCondition(t, env.Client, unknown, platformv1.StalledCondition, metav1.ConditionTrue)
	if got := conditions.Get(unknown, platformv1.StalledCondition).Reason; got != platformv1.ReasonPluginNotFound {
		t.Errorf("reason %s", got)
	}
}

func parameter(name, value string) func(*platformv1.Application) {
	return func(a *platformv1.Application) {
		a.Spec.Components[0].Parameters = platformv1.Parameters{name: platformv1.ParameterValue(value)}
	}
}

func credential(name, secret string) func(*platformv1.Application) {
	return func(a *platformv1.Application) {
		a.Spec.Credentials = []platformv1.Credential{
			{Name: name, PasswordFrom: platformv1.SecretKeyReference{Name: secret, Key: "password"}}}
	}
}

func podUID(t *testing.T, namespace string) string {
	t.Helper()
	pod := &corev1.Pod{}
	key := client.ObjectKey{Namespace: namespace, Name: "redis-a-redis-main-0"}
	if err := env.Client.Get(t.Context(), key, pod); err != nil {
		t.Fatal(err)
	}
	return string(pod.UID)
}

func storage(size string) func(*platformv1.Application) {
	return func(a *platformv1.Application) {
		a.Spec.Components[0].Storage = &platformv1.Storage{Size: resource.MustParse(size)}
	}
}

// patch brings the spec of an Application to the API server, whatever it is there.
func patch(t *testing.T, wanted *platformv1.Application) {
	t.Helper()
	live := &platformv1.Application{ObjectMeta: metav1.ObjectMeta{Namespace: wanted.Namespace, Name: wanted.Name}}
	if err := testkit.Edit(t.Context(), env.Client, live, func() { live.Spec = *wanted.Spec.DeepCopy() }); err != nil {
		t.Fatal(err)
	}
	*wanted = *live
}

func eachItem(list client.ObjectList, visit func(client.Object)) error {
	return meta.EachListItem(list, func(item runtime.Object) error {
		visit(item.(client.Object))
		return nil
	})
}
