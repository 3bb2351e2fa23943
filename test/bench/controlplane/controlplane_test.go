// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"text/template"
	"time"

	corev1 "k8s.io/api/core/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// render fills in the status template of a stage as KWOK does.
func render(t *testing.T, stage string, object any) []byte {
	t.Helper()
	text, found := templates(t)[stage]
	if !found {
		t.Fatalf("there is no stage %q", stage)
	}
	parsed, err := template.New(stage).Funcs(template.FuncMap{
		"Now": func() string { return time.Date(2026, 1, 1, 0, 0, 0, 5, time.UTC).Format(time.RFC3339Nano) },
		"Quote": func(v any) string {
			if text, ok := v.(string); ok {
				return strconv.Quote(text)
			}
			return `"null"`
		},
		"NodeIP": func() string { return nodeAddress }, "NodeIPWith": func(string) string { return nodeAddress },
		"PodIPWith": func(string, bool, string, string, string) string { return "10.1.0.1" },
	}).Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	var tree map[string]any
	if err := json.Unmarshal(data, &tree); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := parsed.Execute(&out, tree); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func templates(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for decoder := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(stages), 4096); ; {
		var stage struct {
			Metadata struct{ Name string }
			Spec     struct {
				Next struct{ StatusTemplate string }
			}
		}
		err := decoder.Decode(&stage)
		if errors.Is(err, io.EOF) {
			return found
		}
		if err != nil {
			t.Fatal(err)
		}
		found[stage.Metadata.Name] = stage.Spec.Next.StatusTemplate
	}
}

func TestPodsBecomeReady(t *testing.T) {
	pod := &corev1.Pod{Spec: corev1.PodSpec{
		NodeName:       "sim-000",
		InitContainers: []corev1.Container{{Name: "agent-init", Image: "a"}},
		Containers:     []corev1.Container{{Name: "cell", Image: "b"}, {Name: "status", Image: "b"}},
	}}
	pod.UID, pod.Name, pod.Namespace = "1", "p", "n"
	var status corev1.PodStatus
	if err := yaml.UnmarshalStrict(render(t, "pod-up", pod), &status); err != nil {
		t.Fatal(err)
	}
	if status.Phase != corev1.PodRunning || status.PodIP != "10.1.0.1" || status.HostIP != nodeAddress ||
		len(status.Conditions) != 3 ||
		len(status.InitContainerStatuses) != 1 || len(status.ContainerStatuses) != 2 {
		t.Errorf("got %+v", status)
	}
	for i, container := range status.ContainerStatuses {
		if container.Name != pod.Spec.Containers[i].Name || container.Image != "b" || !container.Ready ||
			container.State.Running == nil {
			t.Errorf("container: %+v", container)
		}
	}
	if ended := status.InitContainerStatuses[0].State.Terminated; ended == nil || ended.Reason != "Completed" {
		t.Errorf("init container: %+v", status.InitContainerStatuses[0])
	}
}

func TestNodesBecomeReady(t *testing.T) {
	up := node(0)
	if isReady(up) {
		t.Error("a node is ready that nobody runs")
	}
	if err := yaml.UnmarshalStrict(render(t, "node-up", up), &up.Status); err != nil {
		t.Fatal(err)
	}
	if !isReady(up) || len(up.Status.Addresses) != 1 {
		t.Errorf("got %+v", up.Status)
	}
	up.Spec.Taints = []corev1.Taint{{Key: corev1.TaintNodeNotReady, Effect: corev1.TaintEffectNoSchedule}}
	if isReady(up) {
		t.Error("a node that takes no pods counts as ready")
	}
}

func TestNetworksDoNotMeet(t *testing.T) {
	all := netip.MustParsePrefix(PodNetwork)
	seen := map[string]bool{}
	for i := range mostNodes {
		network := netip.MustParsePrefix(node(i).Spec.PodCIDR)
		if seen[network.String()] || !all.Overlaps(network) || network.Masked() != network {
			t.Fatalf("node %d has network %v", i, network)
		}
		seen[network.String()] = true
		for _, address := range []string{serverAddress, nodeAddress} {
			if network.Contains(netip.MustParseAddr(address)) {
				t.Errorf("%s is in the network of node %d", address, i)
			}
		}
	}
	if all.Overlaps(netip.MustParsePrefix(serviceRange)) {
		t.Error("Services have addresses of pods")
	}
}

func TestPolicyLeavesLeasesOut(t *testing.T) {
	var policy struct {
		OmitStages []string
		Rules      []struct{ Level string }
	}
	if err := yaml.Unmarshal(auditPolicy, &policy); err != nil {
		t.Fatal(err)
	}
	if len(policy.Rules) != 3 || policy.Rules[0].Level != "None" || policy.Rules[2].Level != "Metadata" ||
		!strings.Contains(string(auditPolicy), "leases") {
		t.Errorf("got %+v", policy)
	}
}
