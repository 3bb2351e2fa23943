// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/pluginfolder"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// derived installs another version of the plugin redis, which takes over from the versions that from lists. edit
// changes its parts, by name.
func derived(t *testing.T, version, from string, edit func(parts map[string]map[string]string)) {
	t.Helper()
	derivedFrom(t, "redis", version, from, edit)
}

// derivedFrom installs another version of a plugin of the tests.
func derivedFrom(t *testing.T, name, version, from string, edit func(parts map[string]map[string]string)) {
	t.Helper()
	if err := prepare(); err != nil {
		t.Fatal(err)
	}
	dir := slices.IndexFunc(pluginDirs, func(dir string) bool { return path.Base(path.Dir(dir)) == name })
	_, sources, problems := pluginfolder.Load(pluginDirs[dir])
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	list, err := pluginfolder.Package(sources, system)
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string]map[string]string{}
	for _, part := range list {
		configMap := part.(*corev1.ConfigMap)
		parts[strings.TrimSuffix(strings.TrimPrefix(configMap.Name, name+"-"), "-1.0.0")] = configMap.Data
	}
	for key, value := range parts["manifest"] {
		parts["manifest"][key] = strings.ReplaceAll(value, "1.0.0", version)
	}
	parts["manifest"]["allowed-upgrade-from"] = from
	if edit != nil {
		edit(parts)
	}
	for _, part := range list {
		configMap := part.(*corev1.ConfigMap)
		configMap.Name = strings.ReplaceAll(configMap.Name, "1.0.0", version)
		create(t, configMap)
		t.Cleanup(func() {
			if err := env.Client.Delete(context.WithoutCancel(t.Context()), configMap); err != nil {
				t.Error(err)
			}
		})
	}
}

// loaded waits until a version of the plugin redis is.
func loaded(t *testing.T, version string) {
	t.Helper()
	plugin := &platformv1.Plugin{ObjectMeta: metav1.ObjectMeta{Name: "redis-" + version}}
	testkit.WaitFor(t, env.Client, plugin, "is accepted", func() error {
		if !meta.IsStatusConditionTrue(plugin.Status.Conditions, platformv1.AcceptedCondition) {
			return fmt.Errorf("it says %+v, %v", plugin.Status.Conditions, plugin.Status.Errors)
		}
		return nil
	})
}

func replaced(t *testing.T, parts map[string]map[string]string, part, file, old, replacement string) {
	t.Helper()
	if !strings.Contains(parts[part][file], old) {
		t.Fatalf("%s/%s does not hold %q", part, file, old)
	}
	parts[part][file] = strings.Replace(parts[part][file], old, replacement, 1)
}

// An instance goes from one version of its plugin to another that takes over from it: pods that it changes nothing of
// are not touched, and what it changes in place happens in place. There is no other way.
func TestUpgradeApp(t *testing.T) {
	derived(t, "1.1.0", "1.0.0", func(parts map[string]map[string]string) {
		parts["components"]["components.yaml"] += "# Another remark.\n"
	})
	derived(t, "1.2.0", "1.1.0", func(parts map[string]map[string]string) {
		replaced(t, parts, "components", "components.yaml", `args: ["*", "-::*"]`, `args: ["*"]`)
	})
	app := served(t)
	namespace := app.Namespace
	loaded(t, "1.1.0")
	loaded(t, "1.2.0")
	pod, digest := podOf(t, app), app.Status.Plugin.Digest

	byHand(t, app)
	ends(t, operate(t, app, "one", "UpgradeApp", nil, "version", "1.1.0"), platformv1.OperationSucceeded)
	refresh(t, app)
	if pinned := app.Status.Plugin; app.Spec.PluginVersion != "1.1.0" || pinned.Version != "1.1.0" ||
		pinned.Digest == digest || !strings.HasPrefix(pinned.Digest, "sha256:") {
		t.Errorf("it is made from %+v, and was from %s", pinned, digest)
	}
	set := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "redis-a-redis-main"}}
	refresh(t, set)
	if set.Spec.Plugin.Version != "1.1.0" {
		t.Errorf("the set is made from %+v", set.Spec.Plugin)
	}
	if now := podOf(t, app); now.UID != pod.UID || now.ResourceVersion != pod.ResourceVersion {
		t.Errorf("the pod was touched: %s, before %s", now.ResourceVersion, pod.ResourceVersion)
	}

	second := operate(t, app, "two", "UpgradeApp", nil, "version", "1.2.0")
	testkit.WaitFor(t, env.Client, set, "asks for what the plugin changed", func() error {
		if set.Spec.Plugin.Version != "1.2.0" || strings.Contains(string(set.Spec.Plan.Raw), "-::*") {
			return fmt.Errorf("the plan is %s", set.Spec.Plan.Raw)
		}
		return nil
	})
	ends(t, second, platformv1.OperationRunning)
	takesOver(t, app, planned(t, app, ""))
	ends(t, second, platformv1.OperationSucceeded)
	if now := podOf(t, app); now.UID != pod.UID {
		t.Error("the pod was replaced")
	}
	back := ends(t, operate(t, app, "back", "UpgradeApp", nil, "version", "1.1.0"), platformv1.OperationFailed)
	if want := "plugin redis version 1.1.0 does not take over from version 1.2.0"; !strings.Contains(back.Error, want) {
		t.Errorf("it says %q; want %q", back.Error, want)
	}
	again := ends(t, operate(t, app, "again", "UpgradeApp", nil, "version", "1.2.0"), platformv1.OperationSucceeded)
	if got := again.Steps[0].Outputs["changed"]; got != "" {
		t.Errorf("it says that it changed %q", got)
	}
}

// byHand checks that nobody changes the version of the plugin himself, an account that may do everything included.
func byHand(t *testing.T, app *platformv1.Application) {
	t.Helper()
	engine, err := client.New(account.Config, client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	body := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"pluginVersion":"1.1.0"}}`))
	admits(t, app.Namespace, env.Client)
	for who, by := range map[string]client.Client{"somebody": env.Client,
		"another tool with the rights of an engine": engine} {
		err := by.Patch(t.Context(), app.DeepCopy(), body, client.FieldOwner("argocd-controller"))
		forbidden(t, who, err, "spec.pluginVersion is immutable but through an Operation: create one of template "+
			"UpgradeApp with targetRef Application 'redis-a' and parameters.version '1.1.0'")
	}
	note := client.RawPatch(types.MergePatchType,
		fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"1.1.0"}}}`, platformv1.PluginVersionAnnotation))
	forbidden(t, "the annotation", env.Client.Patch(t.Context(), app.DeepCopy(), note), "template UpgradeApp only")
}

// What cannot take over is refused with the reason before anything is touched.
// A plugin's own template for that takes the place of the engine's, and the run goes on with the template that it began
// with, whatever the new version has under its name.
func TestUpgradeAppOfThePlugin(t *testing.T) {
	const around = `name: UpgradeApp
parameters: {version: {schema: string}}
steps:
  - name: note
    apply: {apiVersion: v1, kind: ConfigMap, name: "${target.application}-note",
      content: {data: {to: "${parameters.version}"}}}
  - name: change
    commits: run it again with a version that takes over
    engine: {do: UpgradePlugin, with: {version: "${parameters.version}"}}
  - name: last
    wait: {apiVersion: v1, kind: ConfigMap, name: "${target.application}-note",
      until: object.data.to == parameters.version, outputs: {to: object.data.to}}
`
	withOwn := func(template string) func(map[string]map[string]string) {
		return func(parts map[string]map[string]string) { parts["operations"]["UpgradeApp.yaml"] = template }
	}
	derived(t, "1.7.0", "1.0.0", withOwn(around))
	derived(t, "1.8.0", "1.7.0", withOwn("name: UpgradeApp\nparameters: {version: {schema: string}}\nsteps:\n  - {name: "+
		"other, engine: {do: UpgradePlugin, with: {version: \"${parameters.version}\"}}}\n"))
	app := served(t)
	for _, version := range []string{"1.7.0", "1.8.0"} {
		loaded(t, version)
	}
	maps := "note-maker"
	create(t, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: maps}})
	create(t, &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: maps},
		Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"configmaps"},
			Verbs: []string{"get", "create", "patch"}}}})
	create(t, &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: maps},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: maps},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: app.Namespace, Name: maps}}})
	// From the engine's template to a version that has one of its own, and from that to one that has another.
	first := ends(t, operate(t, app, "first", "UpgradeApp", nil, "version", "1.7.0"), platformv1.OperationSucceeded)
	if len(first.Steps) != 1 || first.Steps[0].Name != "upgrade" || first.Plugin == nil ||
		first.Plugin.Version != "1.0.0" {
		t.Errorf("it ran %+v of %+v", first.Steps, first.Plugin)
	}
	second := ends(t, operate(t, app, "second", "UpgradeApp",
		func(s *platformv1.OperationSpec) { s.ServiceAccountName, s.Author = maps, author }, "version", "1.8.0"),
		platformv1.OperationSucceeded)
	if len(second.Steps) != 3 || second.Steps[2].Outputs["to"] != "1.8.0" || second.Plugin.Version != "1.7.0" {
		t.Errorf("it ran %+v of %+v", second.Steps, second.Plugin)
	}
	refresh(t, app)
	if app.Spec.PluginVersion != "1.8.0" || app.Status.Plugin.Version != "1.8.0" {
		t.Errorf("it is made from %+v", app.Status.Plugin)
	}
	if records := recorded(t, app.Namespace); len(records) > 0 {
		t.Errorf("what Operations edited is on record twice: %v", records)
	}
}

func TestUpgradeAppRefusesWhatDoesNotFit(t *testing.T) {
	derived(t, "1.3.0", "", nil)
	derived(t, "1.4.0", "1.0.0", func(parts map[string]map[string]string) {
		parts["manifest"]["supported-versions"] = "8.0"
		for range 3 { // redis, sentinel and node
			replaced(t, parts, "components", "components.yaml", "      \"7.0\": zeroinfra/redis:7.0\n", "")
		}
		replaced(t, parts, "params", "redis.cue", "#Parameters_7_0", "#Former")
		replaced(t, parts, "params", "redis.yaml", "  aof-disable-auto-gc: \"no\"\n", "")
	})
	derived(t, "1.5.0", "1.0.0", func(parts map[string]map[string]string) {
		replaced(t, parts, "params", "redis.cue", "\t\"tcp-backlog\"?:                #Count\n", "")
	})
	namespace := env.Namespace(t)
	run(t, -1)
	node(t, namespace)
	app := application(namespace)
	app.Spec.Components = []platformv1.ApplicationComponent{
		{Name: "redis", Parameters: platformv1.Parameters{"tcp-backlog": "100"}}}
	create(t, app)
	testkit.WaitForReady(t, env.Client, app)
	for _, version := range []string{"1.3.0", "1.4.0", "1.5.0"} {
		loaded(t, version)
	}
	generation, pod := app.Generation, podOf(t, app)
	for name, tc := range map[string]struct{ version, says string }{
		"absent": {"9.9.9", "plugin redis has no version 9.9.9 here"},
		"not-from": {"1.3.0", "plugin redis version 1.3.0 does not take over from version 1.0.0, which this instance is " +
			"made from: it takes over from none"},
		"version":   {"1.4.0", "7.0"},
		"parameter": {"1.5.0", "tcp-backlog"},
		"nonsense":  {"latest", `parameter "version" of template "UpgradeApp" is "latest"`},
	} {
		for dry, change := range map[string]func(*platformv1.OperationSpec){"": nil,
			"-dry": func(s *platformv1.OperationSpec) { s.DryRun = true }} {
			status := ends(t, operate(t, app, name+dry, "UpgradeApp", change, "version", tc.version), platformv1.OperationFailed)
			if !strings.Contains(status.Error, tc.says) {
				t.Errorf("%s: it says %q; want %q", name+dry, status.Error, tc.says)
			}
		}
	}
	refresh(t, app)
	if now := podOf(t, app); app.Generation != generation || now.ResourceVersion != pod.ResourceVersion {
		t.Errorf("something was touched: generation %d, pod %s", app.Generation, now.ResourceVersion)
	}
}

// A dry run says what the other version would do to the pods.
func TestUpgradeAppDryRun(t *testing.T) {
	derived(t, "1.6.0", "1.0.0", func(parts map[string]map[string]string) {
		replaced(t, parts, "components", "components.yaml", `"7.0": zeroinfra/redis:7.0`, `"7.0": zeroinfra/redis:7.0.1`)
	})
	app := served(t)
	loaded(t, "1.6.0")
	status := ends(t, operate(t, app, "dry", "UpgradeApp", func(s *platformv1.OperationSpec) { s.DryRun = true },
		"version", "1.6.0"), platformv1.OperationSucceeded)
	if want := "upgrade: Restart Pod redis-a-redis-main-0: its image changed"; !slices.Contains(status.Plan, want) ||
		status.Plan[0] != "upgrade: sets pluginVersion to 1.6.0" {
		t.Errorf("the plan is %q; want %q in it", status.Plan, want)
	}
	if refresh(t, app); app.Spec.PluginVersion != "1.0.0" {
		t.Errorf("something was touched: %+v", app.Spec)
	}
}
