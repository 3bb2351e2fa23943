// SPDX-License-Identifier: Apache-2.0

//go:build integration

package render_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/pluginfolder"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// TestASchedulerSpreadsPods has a real one place the pods of instances that say nothing of where they are to run: those
// of a set share a node only when there are more of them than nodes, and are in all zones alike as far as nodes allow
// it, whether or not nodes tell of zones. All of them run where there is one node only.
func TestASchedulerSpreadsPods(t *testing.T) {
	env, err := testkit.Start(testkit.EnvOptions{Own: "a scheduler serves all namespaces"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = env.Stop() })
	schedule(t, env)
	// The zones of nodes; empty for a node that tells of none.
	for nodes, zones := range map[string][]string{
		"three nodes in three zones":      {"a", "b", "c"},
		"three nodes without zones":       {"", "", ""},
		"six nodes in two zones":          {"a", "a", "a", "b", "b", "b"},
		"zones of one and of three nodes": {"a", "b", "b", "b"},
		"one node":                        {""},
	} {
		t.Run(nodes, func(t *testing.T) {
			nodes := nodesIn(t, env, zones)
			for name, app := range map[string]*testkit.ApplicationBuilder{
				"redis":  testkit.BuildApplication("", "shop").Topology("replication").Component("redis", 3),
				"four":   testkit.BuildApplication("", "shop").Topology("replication").Component("redis", 4),
				"shards": testkit.BuildApplication("", "shop").Topology("cluster"),
				"etcd":   testkit.BuildApplication("", "shop").Plugin("etcd", "1.0.0").Version("3.5").Topology("cluster"),
				"postgresql": testkit.BuildApplication("", "shop").Plugin("postgresql", "1.0.0").Version("17").Topology(
					"replication").Component("postgresql", 3),
				"mysql": testkit.BuildApplication("", "shop").Plugin("mysql", "1.0.0").Version("8.0").Topology("group").Component(
					"mysql", 3),
			} {
				t.Run(name, func(t *testing.T) {
					pods := podsOf(t, env.Namespace(t), app)
					placed(t, env, pods)
					spread(t, nodes, pods)
					if name == "shards" && len(nodes) > 1 {
						firstsApart(t, pods)
					}
				})
			}
		})
	}
}

// placed has the scheduler place pods, which are gone when the test ends.
func placed(t *testing.T, env *testkit.Env, pods []corev1.Pod) {
	t.Helper()
	for i := range pods {
		if err := env.Client.Create(t.Context(), &pods[i]); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := env.Client.Delete(context.WithoutCancel(t.Context()), &pods[i], client.GracePeriodSeconds(0)); err != nil {
				t.Error(err)
			}
		})
	}
	for i := range pods {
		pod := &pods[i]
		testkit.WaitFor(t, env.Client, pod, "scheduled", func() error {
			if pod.Spec.NodeName == "" {
				return fmt.Errorf("it has no node: %+v", pod.Status.Conditions)
			}
			return nil
		})
	}
}

// spread has the test fail where a node or a zone holds more pods of a set than it has to.
func spread(t *testing.T, nodes map[string]*corev1.Node, pods []corev1.Pod) {
	t.Helper()
	sets := map[string][]corev1.Pod{}
	for _, pod := range pods {
		sets[pod.Labels[platformv1.SetLabel]] = append(sets[pod.Labels[platformv1.SetLabel]], pod)
	}
	for set, pods := range sets {
		onNode, inZone, room := map[string]int{}, map[string]int{}, map[string]int{}
		for _, pod := range pods {
			onNode[pod.Spec.NodeName]++
			inZone[nodes[pod.Spec.NodeName].Labels[corev1.LabelTopologyZone]]++
		}
		t.Logf("set %s is on %v", set, onNode)
		most := (len(pods) + len(nodes) - 1) / len(nodes)
		for _, node := range nodes {
			room[node.Labels[corev1.LabelTopologyZone]] += most
		}
		if got := slices.Max(slices.Collect(maps.Values(onNode))); got > most {
			t.Errorf("set %s: %d pods share a node, and %d need to", set, got, most)
		}
		if got, most := slices.Max(slices.Collect(maps.Values(inZone))), fullest(len(pods), room); got > most {
			t.Errorf("set %s: %d pods share a zone, and %d need to", set, got, most)
		}
	}
}

// fullest is how many pods the fullest place holds when they are in all places alike, as far as each has room.
func fullest(pods int, room map[string]int) int {
	for most := 1; ; most++ {
		held := 0
		for _, r := range room {
			held += min(most, r)
		}
		if held >= pods {
			return most
		}
	}
}

// firstsApart has the test fail where the first pods of all sets, which are primaries at first, are on one node.
func firstsApart(t *testing.T, pods []corev1.Pod) {
	t.Helper()
	first := map[string]int{}
	for _, pod := range pods {
		if pod.Labels[platformv1.OrdinalLabel] == "0" {
			first[pod.Spec.NodeName]++
		}
	}
	t.Logf("the first pods are on %v", first)
	if len(first) == 1 {
		t.Error("the first pods of all shards are on one node")
	}
}

// podsOf renders the pods of the first component of an Application, as far as a scheduler needs them.
func podsOf(t *testing.T, namespace string, of *testkit.ApplicationBuilder) []corev1.Pod {
	t.Helper()
	app := of.Domain("database").Build()
	app.Namespace = namespace
	bundle, _, problems := pluginfolder.Load(
		filepath.Join("..", "..", "..", "database-operator", "plugins", app.Spec.Plugin, app.Spec.PluginVersion))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	specs, refusal := render.Components(bundle, app)
	if refusal != nil {
		t.Fatal(refusal)
	}
	output, refusal := render.Component(bundle, render.Settings{AgentImage: "zeroinfra/agent:1"},
		render.Meta{Application: app.Name, Namespace: namespace, UID: "u", Domain: "database"}, &specs[0])
	if refusal != nil {
		t.Fatal(refusal)
	}
	var pods []corev1.Pod
	for i := range output.WorkloadSets {
		set := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Name: output.WorkloadSets[i].Name, Namespace: namespace},
			Spec: output.WorkloadSets[i].Spec}
		for ordinal := range set.Spec.Replicas {
			pod, err := render.Pod(set, ordinal)
			if err != nil {
				t.Fatal(err)
			}
			pod.OwnerReferences, pod.Spec.Volumes = nil, nil
			for j := range pod.Spec.Containers {
				pod.Spec.Containers[j].VolumeMounts = nil
			}
			for j := range pod.Spec.InitContainers {
				pod.Spec.InitContainers[j].VolumeMounts = nil
			}
			pods = append(pods, *pod)
		}
	}
	return pods
}

// nodesIn makes nodes that nobody runs, and returns them by name. The first one is by far the largest: pods that
// nothing keeps apart all go there.
func nodesIn(t *testing.T, env *testkit.Env, zones []string) map[string]*corev1.Node {
	t.Helper()
	nodes := map[string]*corev1.Node{}
	for i, zone := range zones {
		name := fmt.Sprintf("%s-%d", strings.ReplaceAll(strings.ToLower(filepath.Base(t.Name())), "_", "-"), i)
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}}}
		if zone != "" {
			node.Labels[corev1.LabelTopologyZone] = zone
		}
		if err := env.Client.Create(t.Context(), node); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = env.Client.Delete(context.Background(), node) })
		// The API server takes a node without a kubelet for one that is not ready.
		node.Spec.Taints = nil
		if err := env.Client.Update(t.Context(), node); err != nil {
			t.Fatal(err)
		}
		cpu, memory := "8", "16Gi"
		if i == 0 {
			cpu, memory = "128", "512Gi"
		}
		room := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu),
			corev1.ResourceMemory: resource.MustParse(memory), corev1.ResourcePods: resource.MustParse("110")}
		node.Status.Capacity, node.Status.Allocatable = room, room
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
		if err := env.Client.Status().Update(t.Context(), node); err != nil {
			t.Fatal(err)
		}
		nodes[name] = node
	}
	return nodes
}

// schedule runs a scheduler for the time of the test.
func schedule(t *testing.T, env *testkit.Env) {
	t.Helper()
	config := clientcmdapi.NewConfig()
	config.Clusters["test"] = &clientcmdapi.Cluster{Server: env.Config.Host, CertificateAuthorityData: env.Config.CAData}
	config.AuthInfos["test"] = &clientcmdapi.AuthInfo{ClientCertificateData: env.Config.CertData,
		ClientKeyData: env.Config.KeyData, Token: env.Config.BearerToken}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	config.CurrentContext = "test"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	scheduler := exec.Command(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kube-scheduler"), "--kubeconfig", file,
		"--leader-elect=false", "--secure-port=0")
	scheduler.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := scheduler.Start(); err != nil {
		t.Fatalf("%v: set KUBEBUILDER_ASSETS to the output of \"devcluster bin\"", err)
	}
	t.Cleanup(func() { _ = scheduler.Process.Kill(); _ = scheduler.Wait() })
}
