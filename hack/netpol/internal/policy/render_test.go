// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

func pod(namespace, name, address, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: map[string]string{"app": name}},
		Spec: corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{
			Ports: []corev1.ContainerPort{{Name: "web", ContainerPort: 8080},
				{Name: "dns", ContainerPort: 53, Protocol: corev1.ProtocolUDP}},
		}}},
		Status: corev1.PodStatus{PodIP: address, Phase: corev1.PodRunning},
	}
}

// world has two namespaces with pods on two nodes, and policies of namespace a.
func world(t *testing.T, policies ...string) World {
	t.Helper()
	w := World{
		Pods: []*corev1.Pod{
			pod("a", "db", "10.0.1.1", "n1"), pod("a", "app", "10.0.1.2", "n1"), pod("a", "far", "10.0.2.1", "n2"),
			pod("b", "app", "10.0.2.2", "n2"), pod("b", "other", "10.0.2.3", "n2"),
		},
		Namespaces: []*corev1.Namespace{
			{ObjectMeta: metav1.ObjectMeta{Name: "a", Labels: map[string]string{"kubernetes.io/metadata.name": "a"}}},
			{ObjectMeta: metav1.ObjectMeta{Name: "b", Labels: map[string]string{"kubernetes.io/metadata.name": "b"}}},
		},
	}
	ended := pod("a", "app", "10.0.1.9", "n1")
	ended.Status.Phase = corev1.PodSucceeded
	host := pod("a", "app", "172.30.0.11", "n1")
	host.Spec.HostNetwork = true
	w.Pods = append(w.Pods, ended, host)
	for _, spec := range policies {
		p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "p"}}
		if err := yaml.UnmarshalStrict([]byte(spec), &p.Spec); err != nil {
			t.Fatal(err)
		}
		w.Policies = append(w.Policies, p)
	}
	return w
}

// chain returns the lines of one chain, without those around.
func chain(t *testing.T, rules, name string) string {
	t.Helper()
	_, rest, ok := strings.Cut(rules, "\tchain "+name+" {\n")
	if !ok {
		return "none"
	}
	body, _, _ := strings.Cut(rest, "\t}\n")
	return strings.ReplaceAll(body, "\t\t", "")
}

func TestIngress(t *testing.T) {
	for name, c := range map[string]struct{ policy, want string }{
		"nobody": {"{podSelector: {matchLabels: {app: db}}, policyTypes: [Ingress]}", "drop\n"},
		"anybody": {
			"{podSelector: {}, policyTypes: [Ingress], ingress: [{}]}", "return\ndrop\n",
		},
		"pods of the namespace": {
			"{podSelector: {}, policyTypes: [Ingress], ingress: [{from: [{podSelector: {}}]}]}",
			"ip saddr { 10.0.1.1, 10.0.1.2, 10.0.2.1 } return\ndrop\n",
		},
		"some pods at a port": {
			"{podSelector: {}, policyTypes: [Ingress], ingress: [{from: [{podSelector: {matchLabels: {app: app}}}], ports: " +
				"[{port: 6379}]}]}",
			"ip saddr { 10.0.1.2 } tcp dport 6379 return\ndrop\n",
		},
		"another namespace": {
			"{podSelector: {}, policyTypes: [Ingress], ingress: [{from: [{namespaceSelector: {matchLabels: " +
				"{kubernetes.io/metadata.name: b}}}]}]}",
			"ip saddr { 10.0.2.2, 10.0.2.3 } return\ndrop\n",
		},
		"both at once": {
			"{podSelector: {}, policyTypes: [Ingress], ingress: [{from: [{namespaceSelector: {}, podSelector: {matchLabels: " +
				"{app: app}}}]}]}",
			"ip saddr { 10.0.1.2, 10.0.2.2 } return\ndrop\n",
		},
		"a block": {
			"{podSelector: {}, policyTypes: [Ingress], ingress: [{from: [{ipBlock: {cidr: 10.9.0.0/16, except: " +
				"[10.9.1.0/24]}}], ports: [{port: 1, endPort: 9}, {protocol: UDP}]}]}",
			"ip saddr 10.9.0.0/16 ip saddr != { 10.9.1.0/24 } tcp dport 1-9 return\n" +
				"ip saddr 10.9.0.0/16 ip saddr != { 10.9.1.0/24 } meta l4proto udp return\ndrop\n",
		},
		"a named port": {
			"{podSelector: {}, policyTypes: [Ingress], ingress: [{ports: [{port: web}, {port: dns, protocol: UDP}]}]}",
			"tcp dport 8080 return\nudp dport 53 return\ndrop\n",
		},
		"a name that no port has": {
			"{podSelector: {}, policyTypes: [Ingress], ingress: [{ports: [{port: none}]}]}", "drop\n",
		},
		"peers that are not there": {
			"{podSelector: {}, policyTypes: [Ingress], ingress: [{from: [{podSelector: {matchLabels: {app: none}}}]}]}",
			"drop\n",
		},
		"another pod": {"{podSelector: {matchLabels: {app: app}}, policyTypes: [Ingress]}", "none"},
		"another way": {"{podSelector: {}, policyTypes: [Egress]}", "none"},
		"no policy":   {"", "none"},
		"an IPv6 block": {"{podSelector: {}, policyTypes: [Ingress], ingress: [{from: [{ipBlock: {cidr: 'fd00::/8'}}]}]}",
			"drop\n"},
	} {
		t.Run(name, func(t *testing.T) {
			var policies []string
			if c.policy != "" {
				policies = append(policies, c.policy)
			}
			rules, err := Render(world(t, policies...), "n1")
			if err != nil {
				t.Fatal(err)
			}
			if got := chain(t, rules, "ingress-10-0-1-1"); got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
			if jumps := strings.Contains(rules, "ip daddr 10.0.1.1 jump ingress-10-0-1-1\n"); jumps != (c.want != "none") {
				t.Errorf("in\n%s", rules)
			}
		})
	}
}

func TestEgress(t *testing.T) {
	rules, err := Render(world(t,
		"{podSelector: {matchLabels: {app: db}}, policyTypes: [Egress], egress: [{to: [{podSelector: {matchLabels: {app: "+
			"far}}}], ports: [{port: web}]}]}"), "n1")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := chain(t, rules, "egress-10-0-1-1"),
		"ip daddr { 10.0.2.1 } ip daddr 10.0.2.1 tcp dport 8080 return\ndrop\n"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if !strings.Contains(rules, "ip saddr 10.0.1.1 jump egress-10-0-1-1\n") {
		t.Errorf("in\n%s", rules)
	}
}

func TestPoliciesAddUp(t *testing.T) {
	rules, err := Render(world(t,
		"{podSelector: {}, policyTypes: [Ingress]}",
		"{podSelector: {matchLabels: {app: db}}, policyTypes: [Ingress], ingress: [{ports: [{port: 1}]}]}",
		"{podSelector: {matchLabels: {app: db}}, policyTypes: [Ingress], ingress: [{ports: [{port: 2}]}]}"), "n1")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := chain(t, rules, "ingress-10-0-1-1"), "tcp dport 1 return\ntcp dport 2 return\ndrop\n"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if got := chain(t, rules, "ingress-10-0-1-2"); got != "drop\n" {
		t.Errorf("the other pod of the namespace has\n%s", got)
	}
	// Only pods with an address of their own, and only this node's.
	for _, other := range []string{"10-0-1-9", "172-30-0-11", "10-0-2-1"} {
		if got := chain(t, rules, "ingress-"+other); got != "none" {
			t.Errorf("%s has\n%s", other, got)
		}
	}
}

func TestOrderOfObjectsMakesNoDifference(t *testing.T) {
	w := world(t,
		"{podSelector: {}, policyTypes: [Ingress], ingress: [{from: [{podSelector: {}}]}]}",
		"{podSelector: {}, policyTypes: [Egress], egress: [{to: [{namespaceSelector: {}}], ports: [{port: web}]}]}",
		"{podSelector: {}, policyTypes: [Egress], egress: [{ports: [{port: 53}]}]}")
	for i, p := range w.Policies {
		p.Name = string(rune('a' + i))
	}
	first, err := Render(w, "n1")
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(w.Pods)
	slices.Reverse(w.Policies)
	if second, err := Render(w, "n1"); err != nil || second != first {
		t.Errorf("%v\n%s\nand\n%s", err, first, second)
	}
}

func TestBadSelectorsAreNamed(t *testing.T) {
	for _, spec := range []string{
		"{podSelector: {matchExpressions: [{key: a, operator: Sometimes}]}, policyTypes: [Ingress]}",
		"{podSelector: {}, policyTypes: [Ingress], ingress: [{from: [{ipBlock: {cidr: nonsense}}]}]}",
	} {
		if _, err := Render(world(t, spec), "n1"); err == nil || !strings.Contains(err.Error(), "a/p") {
			t.Errorf("got %v", err)
		}
	}
}
