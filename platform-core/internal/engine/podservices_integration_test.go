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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// brokers is an Application whose pods clients outside of the cluster reach by Services of a type.
func brokers(namespace string, serviceType corev1.ServiceType) *platformv1.Application {
	app := testkit.BuildApplication(namespace, "b").Domain("database").Plugin("broker",
		"1.0.0").Version("1.0").Topology("cluster").Build()
	app.Spec.Components = []platformv1.ApplicationComponent{{
		Name: "broker", External: &platformv1.ExternalAccess{ServiceSettings: platformv1.ServiceSettings{Type: serviceType}},
	}}
	return app
}

// podServices waits until these are the Services of pods of the instance.
func podServices(t *testing.T, app *platformv1.Application, want ...string) {
	t.Helper()
	testkit.Eventually(t, fmt.Sprintf("the Services of pods to be %v", want), func(ctx context.Context) error {
		list := &corev1.ServiceList{}
		if err := env.Client.List(ctx, list, client.InNamespace(app.Namespace),
			client.HasLabels{platformv1.OrdinalLabel}); err != nil {
			return err
		}
		if got := namesOf(t, list); !slices.Equal(got, want) {
			return fmt.Errorf("there are %v", got)
		}
		return nil
	})
}

// balanced gives a Service the address of a load balancer, as the controller of a cloud does.
func balanced(t *testing.T, app *platformv1.Application, name, ip string) {
	t.Helper()
	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: name}}
	testkit.WaitFor(t, env.Client, service, "a load balancer to be asked for", func() error {
		if service.Spec.Type != corev1.ServiceTypeLoadBalancer {
			return fmt.Errorf("its type is %s", service.Spec.Type)
		}
		return nil
	})
	service.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: ip}}
	if err := env.Client.Status().Update(t.Context(), service); err != nil {
		t.Fatal(err)
	}
}

// unready waits until the instance is not ready for a reason and with a text in the message.
func unready(t *testing.T, app *platformv1.Application, reason, text string) {
	t.Helper()
	testkit.WaitFor(t, env.Client, app, reason+": "+text, func() error {
		ready := conditions.Get(app, platformv1.ReadyCondition)
		if ready == nil || ready.Status != metav1.ConditionFalse || ready.Reason != reason ||
			!strings.Contains(ready.Message, text) {
			return fmt.Errorf("it says %+v", ready)
		}
		return nil
	})
}

// external are the addresses of the pods in the status, in order.
func external(app *platformv1.Application) []string {
	var addresses []string
	for _, p := range app.Status.Components[0].Pods {
		addresses = append(addresses, p.External)
	}
	return addresses
}

func brokerPlan(t *testing.T, app *platformv1.Application) plan.Plan {
	t.Helper()
	set := aSet(app.Namespace, "b-broker-main")
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(set), set); err != nil {
		t.Fatal(err)
	}
	p, err := render.Plan(set)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A pod is made once its load balancer has an address; another address is a change of the configuration of that pod
// alone; and its Service goes with it.
func TestPodsBehindLoadBalancers(t *testing.T) {
	namespace := env.Namespace(t)
	run(t, -1)
	node(t, namespace)
	app := brokers(namespace, corev1.ServiceTypeLoadBalancer)
	create(t, app)
	podServices(t, app, "b-broker-main-0", "b-broker-main-1")
	unready(t, app, platformv1.ReasonAddressPending, "kubectl describe service b-broker-main-")
	if pods := podNames(t, namespace); len(pods) > 0 {
		t.Fatalf("there are pods %v, which nobody can reach", pods)
	}

	balanced(t, app, "b-broker-main-1", "192.0.2.11")
	unready(t, app, platformv1.ReasonAddressPending, "pod b-broker-main-0 has no address")
	balanced(t, app, "b-broker-main-0", "192.0.2.10")
	testkit.WaitForReady(t, env.Client, app)
	if got, want := external(app), []string{"192.0.2.10:9094", "192.0.2.11:9094"}; !slices.Equal(got, want) {
		t.Errorf("the pods are at %v, want %v", got, want)
	}

	balanced(t, app, "b-broker-main-1", "192.0.2.12")
	unready(t, app, platformv1.ReasonConfigurationPending, "b-broker-main-1")
	moved := &corev1.Pod{}
	key := client.ObjectKey{Namespace: namespace, Name: "b-broker-main-1"}
	if err := env.Client.Get(t.Context(), key, moved); err != nil {
		t.Fatal(err)
	}
	runsBy(t, moved, brokerPlan(t, app))
	testkit.WaitForReady(t, env.Client, app)
	if got, want := external(app), []string{"192.0.2.10:9094", "192.0.2.12:9094"}; !slices.Equal(got, want) {
		t.Errorf("the pods are at %v, want %v", got, want)
	}

	change(t, app, func(s *platformv1.ApplicationSpec) { s.Components[0].Replicas = new(int32(1)) })
	podServices(t, app, "b-broker-main-0")
	testkit.WaitForReady(t, env.Client, app)

	// Without external the Service goes at once, and the process is told.
	change(t, app, func(s *platformv1.ApplicationSpec) { s.Components[0].External = nil })
	podServices(t, app)
	unready(t, app, platformv1.ReasonConfigurationPending, "b-broker-main-0")
	if p := brokerPlan(t, app); p.External != nil {
		t.Errorf("the plan has addresses %+v", p.External)
	}
}

// A pod that runs keeps its configuration until it has an address: its process could not take over another one.
func TestAddressIsAskedForWhilePodsRun(t *testing.T) {
	namespace := env.Namespace(t)
	run(t, -1)
	node(t, namespace)
	app := brokers(namespace, corev1.ServiceTypeLoadBalancer)
	wanted := app.Spec.Components[0].External
	app.Spec.Components[0].External = nil
	create(t, app)
	testkit.WaitForReady(t, env.Client, app)
	before := brokerPlan(t, app)

	change(t, app, func(s *platformv1.ApplicationSpec) { s.Components[0].External = wanted })
	unready(t, app, platformv1.ReasonAddressPending, "b-broker-main-0 has no address")
	balanced(t, app, "b-broker-main-0", "192.0.2.10")
	unready(t, app, platformv1.ReasonAddressPending, "b-broker-main-1 has no address")
	if now := brokerPlan(t, app); now.Digest != before.Digest {
		t.Fatal("the set was changed before all of its pods have an address")
	}
	balanced(t, app, "b-broker-main-1", "192.0.2.11")
	unready(t, app, platformv1.ReasonConfigurationPending, "b-broker-main-")
}

// On nodes, each pod has a port that the cluster chooses, or the one that is asked for; one that cannot be had is told
// of.
func TestPodsBehindPortsOfNodes(t *testing.T) {
	namespace := env.Namespace(t)
	run(t, -1)
	node(t, namespace)
	app := brokers(namespace, corev1.ServiceTypeNodePort)
	app.Spec.Components[0].External.NodePorts = []platformv1.PodNodePort{{Set: "main", Ordinal: 1, NodePort: 32417}}
	create(t, app)
	testkit.WaitForReady(t, env.Client, app)
	service := &corev1.Service{}
	key := client.ObjectKey{Namespace: namespace, Name: "b-broker-main-0"}
	if err := env.Client.Get(t.Context(), key, service); err != nil {
		t.Fatal(err)
	}
	pods := brokerPlan(t, app).External.Pods
	if first, second := pods["b-broker-main-0"], pods["b-broker-main-1"]; first.Port != service.Spec.Ports[0].NodePort ||
		first.Port == 0 || second.Port != 32417 || first.Host != "" {
		t.Errorf("the pods are at %+v and %+v; the Service of the first has %+v", first, second, service.Spec.Ports)
	}

	taken := brokers(namespace, corev1.ServiceTypeNodePort)
	taken.Name = "d"
	taken.Spec.Components[0].External.NodePorts = []platformv1.PodNodePort{{Set: "main", NodePort: 32417}}
	create(t, taken)
	testkit.WaitFor(t, env.Client, taken, "the refusal of a port that another one has", func() error {
		stalled := conditions.Get(taken, platformv1.StalledCondition)
		if stalled == nil || stalled.Status != metav1.ConditionTrue ||
			!strings.Contains(stalled.Message, "d-broker-main-0") ||
			!strings.Contains(stalled.Message, "32417: provided port is already allocated") {
			return fmt.Errorf("it says %+v", stalled)
		}
		return nil
	})
	change(t, app, func(s *platformv1.ApplicationSpec) { s.Components[0].External.NodePorts[0].NodePort = 32418 })
	testkit.WaitForReady(t, env.Client, taken)

	refused := brokers(namespace, corev1.ServiceTypeClusterIP)
	refused.Name, refused.Spec.Components[0].External.NodePorts = "c", []platformv1.PodNodePort{{Set: "main",
		NodePort: 30000}}
	if err := env.Client.Create(t.Context(), refused); err == nil ||
		!strings.Contains(err.Error(), "nodePorts need the type NodePort or LoadBalancer") {
		t.Errorf("node ports without nodes: %v", err)
	}
	change(t, app, func(s *platformv1.ApplicationSpec) { s.Components[0].External.NodePorts[0].NodePort = 80 })
	testkit.WaitFor(t, env.Client, app, "the refusal of a port", func() error {
		stalled := conditions.Get(app, platformv1.StalledCondition)
		if stalled == nil || stalled.Status != metav1.ConditionTrue || !strings.Contains(stalled.Message, "80") {
			return fmt.Errorf("it says %+v", stalled)
		}
		return nil
	})
}
