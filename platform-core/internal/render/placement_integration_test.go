// SPDX-License-Identifier: Apache-2.0

//go:build integration

package render_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
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

// TestShardsAreSpread has a real scheduler place the pods of a Redis Cluster: those of a shard never share a node while there is another one, nor
// a zone, whether or not nodes tell of zones, and all of them run where there is one node only.
func TestShardsAreSpread(t *testing.T) {
	env, err := testkit.Start(testkit.EnvOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = env.Stop() })
	schedule(t, env)
	for name, tc := range map[string]struct {
		// zones of the nodes; empty for a node that tells of none.
		zones []string
		// apart are the labels of nodes that two pods of a shard never share.
		apart []string
	}{
		"three nodes in three zones": {[]string{"a", "b", "c"}, []string{corev1.LabelHostname, corev1.LabelTopologyZone}},
		"three nodes without zones":  {[]string{"", "", ""}, []string{corev1.LabelHostname}},
		"six nodes in two zones":     {[]string{"a", "a", "a", "b", "b", "b"}, []string{corev1.LabelHostname, corev1.LabelTopologyZone}},
		"one node":                   {[]string{""}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := nodesIn(t, env, tc.zones)
			pods := clusterPods(t, env.Namespace(t))
			for i := range pods {
				if err := env.Client.Create(t.Context(), &pods[i]); err != nil {
					t.Fatal(err)
				}
			}
			taken, first := map[string]string{}, map[string]int{}
			for i := range pods {
				pod := &pods[i]
				testkit.WaitFor(t, env.Client, pod, "scheduled", func() error {
					if pod.Spec.NodeName == "" {
						return fmt.Errorf("it has no node: %+v", pod.Status.Conditions)
					}
					return nil
				})
				labels := nodes[pod.Spec.NodeName].Labels
				for _, label := range tc.apart {
					place := fmt.Sprintf("shard %s, %s %s", pod.Labels[platformv1.SetLabel], label, labels[label])
					if other := taken[place]; other != "" {
						t.Errorf("%s and %s are both in %s", other, pod.Name, place)
					}
					taken[place] = pod.Name
				}
				if pod.Labels[platformv1.OrdinalLabel] == "0" {
					first[pod.Spec.NodeName]++
				}
			}
			t.Logf("the first pods are on %v", first)
			if len(tc.zones) > 1 && len(first) == 1 {
				t.Error("the first pods of all shards are on one node")
			}
			for i := range pods {
				if err := env.Client.Delete(t.Context(), &pods[i], client.GracePeriodSeconds(0)); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}

// clusterPods are those of three shards of two, as far as a scheduler needs them.
func clusterPods(t *testing.T, namespace string) []corev1.Pod {
	t.Helper()
	bundle, _, problems := pluginfolder.Load(filepath.Join("..", "..", "..", "database-operator", "plugins", "redis", "1.0.0"))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	app := testkit.BuildApplication(namespace, "shop").Domain("database").Plugin("redis", "1.0.0").Version("7.0").Topology("cluster").Build()
	specs, refusal := render.Components(bundle, app)
	if refusal != nil {
		t.Fatal(refusal)
	}
	output, refusal := render.Component(bundle, render.Settings{AgentImage: "zeroinfra/agent:1"}, render.Meta{Application: "shop", Namespace: namespace, UID: "u", Domain: "database"}, &specs[0])
	if refusal != nil {
		t.Fatal(refusal)
	}
	var pods []corev1.Pod
	for i := range output.WorkloadSets {
		set := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Name: output.WorkloadSets[i].Name, Namespace: namespace}, Spec: output.WorkloadSets[i].Spec}
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

// nodesIn makes nodes that nobody runs, and returns them by name.
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
		room := corev1.ResourceList{corev1.ResourceCPU: resource.MustParse("8"), corev1.ResourceMemory: resource.MustParse("16Gi"), corev1.ResourcePods: resource.MustParse("110")}
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
	config.AuthInfos["test"] = &clientcmdapi.AuthInfo{ClientCertificateData: env.Config.CertData, ClientKeyData: env.Config.KeyData, Token: env.Config.BearerToken}
	config.Contexts["test"] = &clientcmdapi.Context{Cluster: "test", AuthInfo: "test"}
	config.CurrentContext = "test"
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, file); err != nil {
		t.Fatal(err)
	}
	scheduler := exec.Command(filepath.Join(os.Getenv("KUBEBUILDER_ASSETS"), "kube-scheduler"), "--kubeconfig", file, "--leader-elect=false", "--secure-port=0")
	scheduler.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := scheduler.Start(); err != nil {
		t.Fatalf("%v: set KUBEBUILDER_ASSETS to the output of \"devcluster bin\"", err)
	}
	t.Cleanup(func() { _ = scheduler.Process.Kill(); _ = scheduler.Wait() })
}
