// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// snapshot is what an installation must not change: the definitions and the running instance.
type snapshot struct {
	definitions map[string]types.UID
	redis       types.UID
	footprint   footprint
}

// definitions returns the CRDs of the suite by name.
func (s *space) definitions() map[string]types.UID {
	s.Helper()
	var list apiextensionsv1.CustomResourceDefinitionList
	if err := world.client.List(s.ctx, &list); err != nil {
		s.Fatal(err)
	}
	found := map[string]types.UID{}
	for _, definition := range list.Items {
		if strings.HasSuffix(definition.Spec.Group, ".zeroinfra.github.com") {
			found[definition.Name] = definition.UID
		}
	}
	return found
}

func (i *instance) snapshot() snapshot {
	i.Helper()
	s := snapshot{definitions: i.definitions(), redis: i.object().UID, footprint: i.footprint()}
	for _, plural := range []string{"applications", "components", "workloadsets", "operations", "entities", "plugins"} {
		if s.definitions[plural+"."+platformv1.GroupVersion.Group] == "" {
			i.Fatalf("the definition of %s is not there: %v", plural, keysOf(s.definitions))
		}
	}
	return s
}

// same has the test fail when a definition is gone or new, or the instance was touched.
func (i *instance) same(before snapshot) {
	i.Helper()
	now := i.snapshot()
	for name, uid := range before.definitions {
		if now.definitions[name] != uid {
			i.Errorf("definition %q had UID %s and has %q: with it went every object of its kind", name, uid, now.definitions[name])
		}
	}
	if now.redis != before.redis {
		i.Errorf("the Redis had UID %s and has %s", before.redis, now.redis)
	}
	if err := before.footprint.sameProcess(now.footprint); err != nil {
		i.Error(err)
	}
}

// managed proves that somebody looks after the instance: a change is carried out.
func (i *instance) managed(maxclients string) {
	i.Helper()
	i.update(parameter("maxclients", maxclients))
	i.ready()
	i.want(map[string]string{"maxclients": maxclients})
}

// TestSettingsAtRunTime proves that what a running operator can take up is taken up by the pod that runs.
func TestSettingsAtRunTime(t *testing.T) {
	s := newSpace(t, "settings")
	s.restoreOperator()
	operator := s.mustLeader()
	s.mustInstall(operatorName, "logLevel=debug", "workers=3", "kubeApi.qps=300", "kubeApi.burst=301")
	s.eventually(settleIn, "the settings are in effect", func() error {
		page, err := scrape(s.ctx, operator)
		if err != nil {
			return err
		}
		for name, want := range map[string]float64{"workers": 3, "kubeApi.qps": 300, "kubeApi.burst": 301} {
			if value, _ := sample(page, "zeroinfra_setting", `name="`+name+`"`); value != want {
				return fmt.Errorf("%s is %v, want %v", name, value, want)
			}
		}
		return nil
	})
	if now := s.mustLeader(); now != operator {
		t.Errorf("the leader was %q and is %q", operator, now)
	}
}

// TestChartReinstall proves that instances run on without an operator, and that a new installation takes them over as they are.
func TestChartReinstall(t *testing.T) {
	s := newSpace(t, "reinstall")
	s.restoreOperator()
	i := s.redis("db", safe())
	i.ready()
	i.must("SET", "kept", "yes")
	before := i.snapshot()
	s.mustUninstall(operatorName)
	lease := &coordinationv1.Lease{}
	key := client.ObjectKey{Namespace: operatorNamespace, Name: operatorName + ".zeroinfra.github.com"}
	// Helm waits for its own objects; the pods of a Deployment go after that.
	s.eventually(settleIn, "the operator goes and gives its Lease back", func() error {
		if pods, err := operatorPods(s.ctx); err != nil || len(pods) > 0 {
			return fmt.Errorf("it still has %d pods: %v", len(pods), err)
		}
		if err := world.client.Get(s.ctx, key, lease); err != nil || ptr.Deref(lease.Spec.HolderIdentity, "") != "" {
			return fmt.Errorf("the Lease is held by %q: %v", ptr.Deref(lease.Spec.HolderIdentity, ""), err)
		}
		return nil
	})
	i.same(before)
	// Without an operator, the agents go on with their duty.
	i.kill9(i.info("process_id"))
	i.eventually(settleIn, "redis-server is back without an operator", func() error {
		_, err := i.do("PING")
		return err
	})
	if got := i.must("GET", "kept"); got != "yes" {
		t.Errorf("the key is %q, want yes", got)
	}
	before = i.snapshot()
	s.mustInstall(operatorName)
	i.ready()
	i.same(before)
	i.managed("223")
}

// TestUninstallRefused proves that an operator is not taken away from objects that only it can finish deleting, that the
// refusal names them, and that nothing has happened then.
func TestUninstallRefused(t *testing.T) {
	s := newSpace(t, "refuse")
	s.restoreOperator()
	i := s.redis("db", deletionPolicy(platformv1.DeletionPolicyDelete))
	i.ready()
	before, operator := i.footprint(), s.mustLeader()
	err := uninstall(s.ctx, operatorName)
	if err == nil {
		t.Fatal("the operator was uninstalled, and the volume of the instance can never be deleted")
	}
	if !strings.Contains(err.Error(), i.workloadSet()) && !strings.Contains(err.Error(), i.application()) {
		t.Errorf("the refusal does not name the instance: %v", err)
	}
	t.Logf("refused: %v", err)
	if now := s.mustLeader(); now != operator {
		t.Errorf("the leader was %q and is %q", operator, now)
	}
	if err := before.sameProcess(i.footprint()); err != nil {
		t.Error(err)
	}
	i.managed("225")
	// Helm upgrades no release that is half uninstalled, so force is asked for in the ConfigMap; the instance is finished by the
	// next operator.
	settings := &corev1.ConfigMap{}
	if err := world.client.Get(s.ctx, client.ObjectKey{Namespace: operatorNamespace, Name: operatorName + "-settings"}, settings); err != nil {
		t.Fatal(err)
	}
	force := client.RawPatch(types.MergePatchType, []byte(`{"data":{"uninstall.force":"true"}}`))
	if err := world.client.Patch(s.ctx, settings, force); err != nil {
		t.Fatal(err)
	}
	s.mustUninstall(operatorName)
	s.mustInstall(operatorName)
	i.deleteAndWait(nil)
}

// TestTwoCharts proves that two charts can be installed and removed in any order: the definitions that they share stay as long
// as anyone may need them, and neither takes the other's plugins or instances.
func TestTwoCharts(t *testing.T) {
	s := newSpace(t, "charts")
	s.restoreOperator()
	s.Cleanup(func() {
		if err := uninstall(context.Background(), otherOperator); err != nil {
			t.Error(err)
		}
	})
	i := s.redis("db")
	i.ready()
	before := i.snapshot()
	for _, step := range []struct {
		name string
		do   func(s *space)
	}{
		{"other chart beside ours", func(s *space) { s.mustInstall(otherOperator) }},
		{"ours removed first", func(s *space) { s.mustUninstall(operatorName) }},
		{"ours installed second", func(s *space) { s.mustInstall(operatorName) }},
		{"other removed", func(s *space) { s.mustUninstall(otherOperator) }},
		{"ours removed, none left", func(s *space) { s.mustUninstall(operatorName) }},
		{"other installed alone", func(s *space) { s.mustInstall(otherOperator) }},
		{"other removed again", func(s *space) { s.mustUninstall(otherOperator) }},
		{"ours installed alone", func(s *space) { s.mustInstall(operatorName) }},
	} {
		t.Run(step.name, func(t *testing.T) {
			i := &instance{space: s.in(t), name: i.name}
			step.do(i.space)
			i.same(before)
			plugin := &platformv1.Plugin{}
			if err := world.client.Get(i.ctx, client.ObjectKey{Name: "redis-" + originalVersion}, plugin); err != nil {
				t.Errorf("the published plugin is gone: %v", err)
			} else if message := describe(plugin.Status.Conditions); strings.Contains(message, "False") {
				t.Errorf("the plugin is refused now: %s", message)
			}
		})
		if t.Failed() {
			t.Fatalf("no need to go on after %q", step.name)
		}
	}
	i.managed("224")
	var parts corev1.ConfigMapList
	if err := world.client.List(s.ctx, &parts, client.InNamespace(operatorNamespace), client.MatchingLabels{platformv1.PluginLabel: "redis"}); err != nil {
		t.Fatal(err)
	}
	for _, part := range parts.Items {
		if part.Immutable == nil || !*part.Immutable {
			t.Errorf("ConfigMap %q of the plugin is not immutable", part.Name)
		}
	}
}
