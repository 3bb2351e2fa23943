// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	"github.com/zeroinfra/platform-core/agentproto/podtext"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// kafkaBrokers is what a KafkaCluster compiles to whose brokers clients outside of the cluster reach.
func kafkaBrokers(namespace string) *platformv1.Application {
	app := testkit.BuildApplication(namespace, "k").Domain("database").Plugin("kafka",
		"1.0.0").Version("4.4").Topology("dedicated").Build()
	app.Spec.Components = []platformv1.ApplicationComponent{
		{Name: "kafka", Replicas: new(int32(2)), External: &platformv1.ExternalAccess{
			ServiceSettings: platformv1.ServiceSettings{Type: corev1.ServiceTypeLoadBalancer}}},
		{Name: "controller", Replicas: new(int32(1))},
	}
	return app
}

// advertised waits until brokers tell clients outside of the cluster these addresses, by name of the pod. Pods are
// missing that wait for theirs.
func advertised(t *testing.T, app *platformv1.Application, want map[string]string) {
	t.Helper()
	set := aSet(app.Namespace, "k-kafka-main")
	testkit.WaitFor(t, env.Client, set, fmt.Sprintf("the brokers to advertise %v", want), func() error {
		p, err := render.Plan(set)
		if err != nil {
			return err
		}
		for pod, address := range want {
			text, err := listeners(p, pod)
			if want := fmt.Sprintf("INTERNAL://%s.%s:9091,CLIENT://%[1]s.%s:9092,EXTERNAL://%s", pod, p.Domain,
				address); err != nil || text != want {
				return fmt.Errorf("pod %s advertises %q: %v", pod, text, err)
			}
		}
		return nil
	})
}

// listeners are the advertised ones of a broker, as its agent writes them.
func listeners(p plan.Plan, pod string) (string, error) {
	of := podtext.PodOf(pod, p.Domain)
	if p.External != nil {
		address := p.External.Pods[pod]
		of.External = podtext.External{Host: address.Host, Port: address.Port}
	}
	for _, file := range p.Files {
		for _, entry := range file.Entries {
			if entry.Key == "advertised.listeners" {
				return podtext.Expand(entry.Args[0], of)
			}
		}
	}
	return "", fmt.Errorf("no file of %d has advertised.listeners", len(p.Files))
}

// A broker of Kafka tells its clients the address of its own load balancer, and follows another one. Without one there
// is no broker, and the instance says which Service has none.
func TestKafkaBehindLoadBalancers(t *testing.T) {
	const first, second = "k-kafka-main-0", "k-kafka-main-1"
	namespace := env.Namespace(t)
	run(t, -1)
	node(t, namespace)
	app := kafkaBrokers(namespace)
	create(t, app)
	podServices(t, app, first, second)
	unready(t, app, platformv1.ReasonAddressPending, "Service k-kafka-main-")
	service := &corev1.Service{}
	if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: first}, service); err != nil {
		t.Fatal(err)
	}
	if ports := service.Spec.Ports; len(ports) != 1 || ports[0].Port != 9094 {
		t.Errorf("the Service of a broker has the ports %+v", ports)
	}

	balanced(t, app, first, "192.0.2.10")
	unready(t, app, platformv1.ReasonAddressPending, "pod "+second+" has no address")
	balanced(t, app, second, "192.0.2.11")
	advertised(t, app, map[string]string{first: "192.0.2.10:9094", second: "192.0.2.11:9094"})
	balanced(t, app, second, "192.0.2.12")
	advertised(t, app, map[string]string{first: "192.0.2.10:9094", second: "192.0.2.12:9094"})
}

// With a NetworkPolicy clients reach the listeners that are for them, and nobody else those of nodes.
func TestNetworkPolicyOfKafka(t *testing.T) {
	namespace := env.Namespace(t)
	run(t, -1)
	app := kafkaBrokers(namespace)
	from := []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "198.51.100.0/24"}}}
	app.Spec.NetworkPolicy = &platformv1.NetworkPolicy{From: from}
	create(t, app)
	for name, want := range map[string][]int32{"k-kafka": {9092, 9094}, "k-controller": nil} {
		policy := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		testkit.WaitFor(t, env.Client, policy, "is made", nil)
		var open []int32
		for _, rule := range policy.Spec.Ingress {
			if len(rule.From) == 1 && rule.From[0].IPBlock != nil && rule.From[0].IPBlock.CIDR == from[0].IPBlock.CIDR {
				for _, port := range rule.Ports {
					open = append(open, port.Port.IntVal)
				}
			}
		}
		if !slices.Equal(open, want) || len(policy.Spec.PolicyTypes) != 1 ||
			policy.Spec.PolicyTypes[0] != networkingv1.PolicyTypeIngress {
			t.Errorf("%s lets clients to %v, want %v: %+v", name, open, want, policy.Spec)
		}
	}
}
