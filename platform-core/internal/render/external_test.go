// SPDX-License-Identifier: Apache-2.0

package render

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
)

// broker is a plugin with Services of pods, after changes of its texts.
func broker(t testing.TB, changes ...string) *plugin.Bundle {
	t.Helper()
	sources, errs := plugin.LoadFolder(os.DirFS(filepath.Join("..", "engine", "testdata", "plugins", "broker",
		"1.0.0")), "broker")
	if len(errs) > 0 {
		t.Fatal(errs)
	}
	return changed(t, sources, changes...)
}

// brokers is an Application of it.
func brokers(change func(*platformv1.ApplicationComponent)) *platformv1.Application {
	c := platformv1.ApplicationComponent{Name: "broker"}
	change(&c)
	return &platformv1.Application{
		ObjectMeta: metav1.ObjectMeta{Name: "b", Namespace: "shop", UID: "u"},
		Spec: platformv1.ApplicationSpec{Plugin: "broker", PluginVersion: "1.0.0", Version: "1.0", Topology: "cluster",
			Components: []platformv1.ApplicationComponent{c}},
	}
}

func access(serviceType corev1.ServiceType,
	change func(*platformv1.ExternalAccess)) func(*platformv1.ApplicationComponent) {
	return func(c *platformv1.ApplicationComponent) {
		c.External = &platformv1.ExternalAccess{ServiceSettings: platformv1.ServiceSettings{Type: serviceType}}
		if change != nil {
			change(c.External)
		}
	}
}

// live is a Service as the cluster has it.
func live(name string, serviceType corev1.ServiceType, nodePort int32,
	ingress ...corev1.LoadBalancerIngress) *corev1.Service {
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.ServiceSpec{Type: serviceType, Ports: []corev1.ServicePort{{Port: 9094, NodePort: nodePort}}}}
	service.Status.LoadBalancer.Ingress = ingress
	return service
}

func byName(services ...*corev1.Service) map[string]*corev1.Service {
	named := map[string]*corev1.Service{}
	for _, s := range services {
		named[s.Name] = s
	}
	return named
}

func TestAddressOfAPod(t *testing.T) {
	const first, second = "b-broker-main-0", "b-broker-main-1"
	named := func(host string) func(*platformv1.ExternalAccess) {
		return func(e *platformv1.ExternalAccess) { e.Host = host }
	}
	fixed := func(e *platformv1.ExternalAccess) {
		e.NodePorts = []platformv1.PodNodePort{{Ordinal: 1, NodePort: 30101}}
	}
	type at = plan.ExternalAddress
	for name, tc := range map[string]struct {
		access func(*platformv1.ApplicationComponent)
		live   map[string]*corev1.Service
		want   map[string]at
	}{
		"cluster": {access("", nil), nil, map[string]at{
			first:  {Host: first + ".shop.svc.cluster.local", Port: 9094},
			second: {Host: second + ".shop.svc.cluster.local", Port: 9094},
		}},
		"node": {access("NodePort", nil), byName(live(first, "NodePort", 30007)),
			map[string]at{first: {Port: 30007}}},
		"node at a fixed port": {access("NodePort", fixed), nil, map[string]at{second: {Port: 30101}}},
		"node behind a name": {access("NodePort", named("edge.example.com")),
			byName(live(first, "NodePort", 30007)), map[string]at{first: {Host: "edge.example.com", Port: 30007}}},
		"former type": {access("NodePort", nil), byName(live(first, "LoadBalancer", 30007)), nil},
		"balancer by address": {access("LoadBalancer", nil),
			byName(live(first, "LoadBalancer", 30007, corev1.LoadBalancerIngress{IP: "192.0.2.1"})),
			map[string]at{first: {Host: "192.0.2.1", Port: 9094}}},
		"balancer by name": {access("LoadBalancer", nil),
			byName(live(second, "LoadBalancer", 30007, corev1.LoadBalancerIngress{Hostname: "lb.example.com",
				IP: "192.0.2.1"})), map[string]at{second: {Host: "lb.example.com", Port: 9094}}},
		"balancer with none yet": {access("LoadBalancer", nil), byName(live(first, "LoadBalancer", 30007)), nil},
		"balancer of the user": {access("LoadBalancer", named("b{ordinal}.example.com")), nil, map[string]at{
			first: {Host: "b0.example.com", Port: 9094}, second: {Host: "b1.example.com", Port: 9094},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := output(t, broker(t), brokers(tc.access)).WithAddresses(tc.live)
			if err != nil {
				t.Fatal(err)
			}
			p, err := decodePlan(out.WorkloadSets[0].Name, out.WorkloadSets[0].Spec.Plan.Raw)
			if err != nil {
				t.Fatal(err)
			}
			var lacking []string
			for _, pod := range []string{first, second} {
				got, want := p.External.Pods[pod], tc.want[pod]
				if got.Host != want.Host || got.Port != want.Port {
					t.Errorf("pod %s is at %s, port %d; want %+v", pod, got.Host, got.Port, want)
				}
				if want.Port == 0 {
					lacking = append(lacking, pod)
				} else if got.Digest == p.Digest || got.RestartDigest == p.RestartDigest || got.Digest == "" {
					t.Errorf("pod %s has the digests of the plan, %s and %s", pod, got.Digest, got.RestartDigest)
				}
			}
			if got := out.WorkloadSets[0].Unaddressed; !slices.Equal(got, lacking) {
				t.Errorf("without address are %v, want %v", got, lacking)
			}
		})
	}
}

// Another address of one pod changes what that pod runs, and nothing of the others.
func TestAddressChangesOnePod(t *testing.T) {
	plans := func(ip string) plan.Plan {
		out, err := output(t, broker(t), brokers(access("LoadBalancer", nil))).WithAddresses(byName(
			live("b-broker-main-0", "LoadBalancer", 1, corev1.LoadBalancerIngress{IP: ip}),
			live("b-broker-main-1", "LoadBalancer", 2, corev1.LoadBalancerIngress{IP: "192.0.2.9"})))
		if err != nil {
			t.Fatal(err)
		}
		p, err := decodePlan("b-broker-main", out.WorkloadSets[0].Spec.Plan.Raw)
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	before, after := plans("192.0.2.1"), plans("192.0.2.2")
	if before.Digest != after.Digest || before.External.Pods["b-broker-main-1"] != after.External.Pods["b-broker-main-1"] {
		t.Error("the address of one pod is part of what others run")
	}
	if a, b := before.External.Pods["b-broker-main-0"], after.External.Pods["b-broker-main-0"]; a.Digest == b.Digest ||
		a.RestartDigest == b.RestartDigest {
		t.Errorf("another address is no change of the configuration: %+v and %+v", a, b)
	}
}

// A process that takes its address over by a reload is not restarted for it, and one that does not use it is not
// touched.
func TestAddressThatAReloadTakesOver(t *testing.T) {
	digests := func(changes ...string) (p plan.Plan, own plan.ExternalAddress) {
		out, err := output(t, broker(t, changes...), brokers(access("", nil))).WithAddresses(nil)
		if err != nil {
			t.Fatal(err)
		}
		if p, err = decodePlan("b-broker-main", out.WorkloadSets[0].Spec.Plan.Raw); err != nil {
			t.Fatal(err)
		}
		return p, p.External.Pods["b-broker-main-0"]
	}
	p, own := digests("            when: component.external\n",
		"            when: component.external\n            dynamic: true\n",
		"    files:\n", "      reload: {signal: SIGHUP}\n    files:\n")
	if own.Digest == p.Digest || own.RestartDigest != p.RestartDigest {
		t.Errorf("a dynamic entry with the address has digests %+v, the plan %s and %s", own, p.Digest, p.RestartDigest)
	}
	p, own = digests(",OUTSIDE://${pod.external.host}:${pod.external.port}", "")
	if own.Digest != p.Digest || own.RestartDigest != p.RestartDigest {
		t.Errorf("an address that nothing uses has digests %+v, the plan %s and %s", own, p.Digest, p.RestartDigest)
	}
}

func TestServiceOfAPod(t *testing.T) {
	app := brokers(access("NodePort", func(e *platformv1.ExternalAccess) {
		e.Annotations = map[string]string{"external-dns.example.com/hostname": "{set}-{ordinal}.example.com",
			"of": "{pod}"}
		e.NodePorts = []platformv1.PodNodePort{{Set: "main", Ordinal: 1, NodePort: 30101}}
		e.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	}))
	out, err := output(t, broker(t), app).WithAddresses(nil)
	if err != nil {
		t.Fatal(err)
	}
	got := out.Services[len(out.Services)-1]
	if got.Name != "b-broker-main-1" || got.Spec.Type != corev1.ServiceTypeNodePort ||
		!got.Spec.PublishNotReadyAddresses || got.Spec.ExternalTrafficPolicy != "Local" {
		t.Errorf("the Service is %+v", got)
	}
	if want := map[string]string{"external-dns.example.com/hostname": "main-1.example.com",
		"of": "b-broker-main-1"}; !maps.Equal(got.Annotations, want) {
		t.Errorf("its annotations are %v", got.Annotations)
	}
	if len(got.Spec.Ports) != 1 || got.Spec.Ports[0].Port != 9094 || got.Spec.Ports[0].NodePort != 30101 {
		t.Errorf("its ports are %+v", got.Spec.Ports)
	}
	pod, err := Pod(&platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Name: "b-broker-main", Namespace: "shop"},
		Spec: out.WorkloadSets[0].Spec}, 1)
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range got.Spec.Selector {
		if pod.Labels[key] != value {
			t.Errorf("the Service selects %s=%s, and its pod has %q", key, value, pod.Labels[key])
		}
	}
	for _, c := range pod.Spec.Containers {
		if !slices.ContainsFunc(c.Env, func(e corev1.EnvVar) bool {
			return e.Name == plan.HostIPVariable && e.ValueFrom.FieldRef.FieldPath == "status.hostIP"
		}) {
			t.Errorf("container %s is not told the address of its node", c.Name)
		}
	}
	inside := output(t, broker(t), brokers(func(*platformv1.ApplicationComponent) {}))
	if len(inside.Services) != 2 || inside.External != nil ||
		inside.WorkloadSets[0].Spec.Revision == out.WorkloadSets[0].Spec.Revision {
		t.Error("without external there are Services of pods, or pods that are not told of their node are kept with it")
	}
}

func TestCertificateHasTheAddressesOfPods(t *testing.T) {
	app := brokers(access("LoadBalancer", nil))
	app.Spec.TLS = &platformv1.TLS{Enabled: true}
	plain := output(t, broker(t), app)
	out, err := plain.WithAddresses(byName(
		live("b-broker-main-0", "LoadBalancer", 1, corev1.LoadBalancerIngress{IP: "192.0.2.1"}),
		live("b-broker-main-1", "LoadBalancer", 2, corev1.LoadBalancerIngress{Hostname: "lb.example.com"})))
	if err != nil {
		t.Fatal(err)
	}
	list := func(c *unstructured.Unstructured, field string) []string {
		names, _, err := unstructured.NestedStringSlice(c.Object, "spec", field)
		if err != nil {
			t.Fatal(err)
		}
		return names
	}
	names, ips := list(out.Certificate, "dnsNames"), list(out.Certificate, "ipAddresses")
	if !slices.Contains(names, "lb.example.com") || !slices.Contains(ips, "192.0.2.1") {
		t.Errorf("the certificate is for %v and %v", names, ips)
	}
	if slices.Contains(list(plain.Certificate, "dnsNames"), "lb.example.com") {
		t.Error("the output that others share was changed")
	}
}

func TestExternalAccessThatIsRefused(t *testing.T) {
	host := func(serviceType corev1.ServiceType, host string) func(*platformv1.ApplicationComponent) {
		return access(serviceType, func(e *platformv1.ExternalAccess) { e.Host = host })
	}
	ports := func(list ...platformv1.PodNodePort) func(*platformv1.ApplicationComponent) {
		return access("NodePort", func(e *platformv1.ExternalAccess) { e.NodePorts = list })
	}
	for name, tc := range map[string]struct {
		access  func(*platformv1.ApplicationComponent)
		changes []string
		says    string
	}{
		"no Services of pods": {access("", nil), []string{"    podServices:\n      port: outside\n", "",
			"          - key: advertised\n            when: component.external\n            args: " +
				"[\"INSIDE://${pod.fqdn}:9092,OUTSIDE://${pod.external.host}:${pod.external.port}\"]\n", ""},
			"its plugin has no Services of pods, take it out"},
		"no host": {host("NodePort", "a..b"), nil,
			`external.host "a..b": it must be a DNS name or an IP address`},
		"unknown placeholder": {host("NodePort", "{node}.example.com"), nil,
			"in which {pod}, {set} and {ordinal} stand"},
		"one host for several": {host("LoadBalancer", "b.example.com"), nil, "is the same for several pods"},
		"one port for two pods": {ports(platformv1.PodNodePort{Ordinal: 0, NodePort: 30000},
			platformv1.PodNodePort{Ordinal: 1, NodePort: 30000}), nil, "30000 for two pods"},
		"unknown set": {ports(platformv1.PodNodePort{Set: "west", NodePort: 30000}), nil,
			`nodePorts for the set "west", which is not there`},
	} {
		_, r := Components(broker(t, tc.changes...), brokers(tc.access))
		if r == nil || r.Reason != platformv1.ReasonInvalidSpec || !strings.Contains(r.Message, tc.says) {
			t.Errorf("%s: got %v, want a refusal that says %q", name, r, tc.says)
		}
	}
	for _, accepted := range []func(*platformv1.ApplicationComponent){host("NodePort", "192.0.2.1"),
		host("LoadBalancer", "{pod}.example.com"), host("", "b-{ordinal}.example.com")} {
		if _, r := Components(broker(t), brokers(accepted)); r != nil {
			t.Errorf("refused: %v", r)
		}
	}
}
