// SPDX-License-Identifier: Apache-2.0

package platform

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
	"github.com/zeroinfra/test/e2e/framework"
)

// snapshot is what an installation must not change: the definitions and the running instance.
type snapshot struct {
	definitions map[string]types.UID
	redis       types.UID
	footprint   framework.Footprint
}

// suiteDefinitions returns the CRDs of the suite by name.
func suiteDefinitions(s *framework.Namespace) map[string]types.UID {
	s.Helper()
	var list apiextensionsv1.CustomResourceDefinitionList
	if err := framework.Cluster.Client.List(s.Ctx, &list); err != nil {
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

func takeSnapshot(i *framework.Instance) snapshot {
	i.Helper()
	s := snapshot{definitions: suiteDefinitions(i.Namespace), redis: i.Object().UID, footprint: i.Footprint()}
	for _, plural := range []string{"applications", "components", "workloadsets", "operations", "entities", "plugins"} {
		if s.definitions[plural+"."+platformv1.GroupVersion.Group] == "" {
			i.Fatalf("the definition of %s is not there: %v", plural, framework.SortedKeys(s.definitions))
		}
	}
	return s
}

// same has the test fail when a definition is gone or new, or the instance was touched.
func same(i *framework.Instance, before snapshot) {
	i.Helper()
	now := takeSnapshot(i)
	for name, uid := range before.definitions {
		if now.definitions[name] != uid {
			i.Errorf("definition %q had UID %s and has %q: with it went every object of its kind", name, uid,
				now.definitions[name])
		}
	}
	if now.redis != before.redis {
		i.Errorf("the Redis had UID %s and has %s", before.redis, now.redis)
	}
	if err := before.footprint.SameProcess(now.footprint); err != nil {
		i.Error(err)
	}
}

// managed proves that somebody looks after the instance: a change is carried out.
func managed(i *framework.Instance, maxclients string) {
	i.Helper()
	i.Update(parameter("maxclients", maxclients))
	i.WaitReady()
	i.ExpectConfig(map[string]string{"maxclients": maxclients})
}

// TestSettingsAtRunTime proves that what a running operator can take up is taken up by the pod that runs.
func TestSettingsAtRunTime(t *testing.T) {
	s := framework.NewNamespace(t, "settings")
	s.RestoreOperatorAtEnd()
	operator := s.MustLeader()
	s.MustInstall(framework.OperatorName, "logLevel=debug", "workers=3", "kubeApi.qps=300", "kubeApi.burst=301")
	s.Eventually(framework.SettleTimeout, "the settings are in effect", func() error {
		page, err := framework.ScrapeMetrics(s.Ctx, operator)
		if err != nil {
			return err
		}
		for name, want := range map[string]float64{"workers": 3, "kubeApi.qps": 300, "kubeApi.burst": 301} {
			if value, _ := framework.Sample(page, "zeroinfra_setting", `name="`+name+`"`); value != want {
				return fmt.Errorf("%s is %v, want %v", name, value, want)
			}
		}
		return nil
	})
	if now := s.MustLeader(); now != operator {
		t.Errorf("the leader was %q and is %q", operator, now)
	}
}

// TestChartReinstall proves that instances run on without an operator, and that a new installation takes them over as
// they are.
func TestChartReinstall(t *testing.T) {
	s := framework.NewNamespace(t, "reinstall")
	s.RestoreOperatorAtEnd()
	i := s.CreateRedis("db", framework.WithFsyncAlways())
	i.WaitReady()
	i.MustDo("SET", "kept", "yes")
	before := takeSnapshot(i)
	s.MustUninstall(framework.OperatorName)
	lease := &coordinationv1.Lease{}
	key := client.ObjectKey{Namespace: framework.OperatorNamespace, Name: framework.OperatorName + ".zeroinfra.github.com"}
	// Helm waits for its own objects; the pods of a Deployment go after that.
	s.Eventually(framework.SettleTimeout, "the operator goes and gives its Lease back", func() error {
		if pods, err := framework.OperatorPods(s.Ctx); err != nil || len(pods) > 0 {
			return fmt.Errorf("it still has %d pods: %v", len(pods), err)
		}
		if err := framework.Cluster.Client.Get(s.Ctx, key, lease); err != nil ||
			ptr.Deref(lease.Spec.HolderIdentity, "") != "" {
			return fmt.Errorf("the Lease is held by %q: %v", ptr.Deref(lease.Spec.HolderIdentity, ""), err)
		}
		return nil
	})
	same(i, before)
	// Without an operator, the agents go on with their duty.
	i.KillProcess(i.Info("process_id"))
	i.Eventually(framework.SettleTimeout, "redis-server is back without an operator", func() error {
		_, err := i.Do("PING")
		return err
	})
	if got := i.MustDo("GET", "kept"); got != "yes" {
		t.Errorf("the key is %q, want yes", got)
	}
	before = takeSnapshot(i)
	s.MustInstall(framework.OperatorName)
	i.WaitReady()
	same(i, before)
	managed(i, "223")
}

// TestUninstallRefused proves that an operator is not taken away from objects that only it can finish deleting, that
// the refusal names them, and that nothing has happened then.
func TestUninstallRefused(t *testing.T) {
	s := framework.NewNamespace(t, "refuse")
	s.RestoreOperatorAtEnd()
	i := s.CreateRedis("db", framework.WithDeletionPolicy(platformv1.DeletionPolicyDelete))
	i.WaitReady()
	before, operator := i.Footprint(), s.MustLeader()
	err := framework.Uninstall(s.Ctx, framework.OperatorName)
	if err == nil {
		t.Fatal("the operator was uninstalled, and the volume of the instance can never be deleted")
	}
	if !strings.Contains(err.Error(), i.WorkloadSet()) && !strings.Contains(err.Error(), i.Application()) {
		t.Errorf("the refusal does not name the instance: %v", err)
	}
	t.Logf("refused: %v", err)
	if now := s.MustLeader(); now != operator {
		t.Errorf("the leader was %q and is %q", operator, now)
	}
	if err := before.SameProcess(i.Footprint()); err != nil {
		t.Error(err)
	}
	managed(i, "225")
	// Helm upgrades no release that is half uninstalled, so force is asked for in the ConfigMap; the instance is finished
	// by the next operator.
	settings := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: framework.OperatorNamespace, Name: framework.OperatorName + "-settings"}
	if err := framework.Cluster.Client.Get(s.Ctx, key, settings); err != nil {
		t.Fatal(err)
	}
	force := client.RawPatch(types.MergePatchType, []byte(`{"data":{"uninstall.force":"true"}}`))
	if err := framework.Cluster.Client.Patch(s.Ctx, settings, force); err != nil {
		t.Fatal(err)
	}
	s.MustUninstall(framework.OperatorName)
	s.MustInstall(framework.OperatorName)
	deleteAndWait(i, nil)
}

// TestTwoCharts proves that two charts can be installed and removed in any order: the definitions that they share stay
// as long as anyone may need them, and neither takes the other's plugins or instances.
func TestTwoCharts(t *testing.T) {
	s := framework.NewNamespace(t, "charts")
	s.RestoreOperatorAtEnd()
	s.Cleanup(func() {
		if err := framework.Uninstall(context.Background(), framework.OtherOperator); err != nil {
			t.Error(err)
		}
	})
	i := s.CreateRedis("db")
	i.WaitReady()
	before := takeSnapshot(i)
	for _, step := range []struct {
		name string
		do   func(s *framework.Namespace)
	}{
		{"other chart beside ours", func(s *framework.Namespace) { s.MustInstall(framework.OtherOperator) }},
		{"ours removed first", func(s *framework.Namespace) { s.MustUninstall(framework.OperatorName) }},
		{"ours installed second", func(s *framework.Namespace) { s.MustInstall(framework.OperatorName) }},
		{"other removed", func(s *framework.Namespace) { s.MustUninstall(framework.OtherOperator) }},
		{"ours removed, none left", func(s *framework.Namespace) { s.MustUninstall(framework.OperatorName) }},
		{"other installed alone", func(s *framework.Namespace) { s.MustInstall(framework.OtherOperator) }},
		{"other removed again", func(s *framework.Namespace) { s.MustUninstall(framework.OtherOperator) }},
		{"ours installed alone", func(s *framework.Namespace) { s.MustInstall(framework.OperatorName) }},
	} {
		t.Run(step.name, func(t *testing.T) {
			i := &framework.Instance{Namespace: s.In(t), Name: i.Name}
			step.do(i.Namespace)
			same(i, before)
			plugin := &platformv1.Plugin{}
			key := client.ObjectKey{Name: "redis-" + framework.OriginalVersion}
			if err := framework.Cluster.Client.Get(i.Ctx, key, plugin); err != nil {
				t.Errorf("the published plugin is gone: %v", err)
			} else if message := framework.Describe(plugin.Status.Conditions); strings.Contains(message, "False") {
				t.Errorf("the plugin is refused now: %s", message)
			}
		})
		if t.Failed() {
			t.Fatalf("no need to go on after %q", step.name)
		}
	}
	managed(i, "224")
	var parts corev1.ConfigMapList
	if err := framework.Cluster.Client.List(s.Ctx, &parts, client.InNamespace(framework.OperatorNamespace),
		client.MatchingLabels{platformv1.PluginLabel: "redis"}); err != nil {
		t.Fatal(err)
	}
	for _, part := range parts.Items {
		if part.Immutable == nil || !*part.Immutable {
			t.Errorf("ConfigMap %q of the plugin is not immutable", part.Name)
		}
	}
}
