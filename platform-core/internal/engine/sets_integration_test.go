// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/platform-core/agentproto/plan"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/conditions"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// wait waits until the instance is Ready and its objects of a kind are these.
func wait(t *testing.T, app *platformv1.Application, list client.ObjectList, want ...string) {
	t.Helper()
	testkit.WaitForReady(t, env.Client, app)
	testkit.Eventually(t, fmt.Sprintf("the objects of %T to be %v", list, want), func(ctx context.Context) error {
		if err := env.Client.List(ctx, list, client.InNamespace(app.Namespace),
			client.MatchingLabels{platformv1.ApplicationLabel: app.Name}); err != nil {
			return err
		}
		if got := namesOf(t, list); !slices.Equal(got, want) {
			return fmt.Errorf("there are %v", got)
		}
		return nil
	})
}

// standing runs the engine and an instance that is ready, in a namespace of its own with a simulated node.
func standing(t *testing.T, topology string) (namespace string, app *platformv1.Application) {
	t.Helper()
	namespace = env.Namespace(t)
	run(t, -1)
	node(t, namespace)
	app = shop(namespace, "a", topology)
	create(t, app)
	testkit.WaitForReady(t, env.Client, app)
	return namespace, app
}

func TestSetsComeAndGo(t *testing.T) {
	namespace := env.Namespace(t)
	run(t, -1)
	node(t, namespace)
	app := shop(namespace, "a", "tiers")
	app.Spec.AdoptVolumes = "0f928171-5692-4971-9003-6e8c0ab7108c"
	app.Spec.Components = []platformv1.ApplicationComponent{
		{Name: "db", Parameters: platformv1.Parameters{"depth": "4", "level": "2"}, Resources: cpu("100m")}}
	create(t, app)
	wait(t, app, &platformv1.WorkloadSetList{}, "a-db-0", "a-db-1", "a-web-main")
	wait(t, app, &policyv1.PodDisruptionBudgetList{}, "a-db-0", "a-db-1")
	wait(t, app, &corev1.PodList{}, "a-db-0-0", "a-db-0-1", "a-db-1-0", "a-db-1-1", "a-web-main-0")

	// One set shrinks without its first pod, one goes, one comes with settings of its own.
	change(t, app, func(s *platformv1.ApplicationSpec) {
		s.Components = []platformv1.ApplicationComponent{{
			Name: "db", Replicas: new(int32(2)),
			PodDisruptionBudget: &platformv1.PodDisruptionBudget{MaxUnavailable: new(intstr.FromString("50%"))},
			Parameters:          app.Spec.Components[0].Parameters, Resources: app.Spec.Components[0].Resources,
			Sets: []platformv1.ComponentSet{
				{Name: "0", Replicas: new(int32(1)), ExcludedOrdinals: []int32{0}},
				{Name: "big", Parameters: platformv1.Parameters{"level": "7"}, Resources: cpu("250m"),
					StorageSize: new(resource.MustParse("3Gi")), Scheduling: &platformv1.Scheduling{
						Tolerations: []corev1.Toleration{{Key: "db", Operator: corev1.TolerationOpExists}},
					}},
			},
		}}
	})
	wait(t, app, &platformv1.WorkloadSetList{}, "a-db-0", "a-db-big", "a-web-main")
	// The pods of the set that is gone go with their owner; no garbage collector runs here.
	wait(t, app, &corev1.PodList{}, "a-db-0-1", "a-db-1-0", "a-db-1-1", "a-db-big-0", "a-db-big-1", "a-web-main-0")
	budgets := &policyv1.PodDisruptionBudgetList{}
	wait(t, app, budgets, "a-db-big")
	if got := budgets.Items[0].Spec; got.MinAvailable.IntValue() != 1 ||
		got.Selector.MatchLabels[platformv1.SetLabel] != "big" {
		t.Errorf("budget %+v", got)
	}
	// What was on the volumes of a set that is gone is kept.
	wait(t, app, &corev1.PersistentVolumeClaimList{}, "data-a-db-0-0", "data-a-db-0-1", "data-a-db-1-0", "data-a-db-1-1",
		"data-a-db-big-0", "data-a-db-big-1")
	set := &platformv1.WorkloadSet{}
	if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "a-db-big"}, set); err != nil {
		t.Fatal(err)
	}
	if set.Spec.AdoptVolumes != app.Spec.AdoptVolumes || set.Spec.Authority != "engine" ||
		set.Spec.Volumes[0].Size.String() != "3Gi" {
		t.Errorf("set %+v", set.Spec)
	}
	pod := &corev1.Pod{}
	if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "a-db-big-1"}, pod); err != nil {
		t.Fatal(err)
	}
	if len(pod.Spec.TopologySpreadConstraints) != 1 ||
		!slices.ContainsFunc(pod.Spec.Tolerations, func(t corev1.Toleration) bool { return t.Key == "db" }) {
		t.Errorf("pod %+v", pod.Spec)
	}
	// What a set names counts for it alone; what it leaves out it has from the component.
	for name, want := range map[string]ownSettings{"a-db-0": {"depth=4\nlevel=2\n", "100m"},
		"a-db-big": {"depth=4\nlevel=7\n", "250m"}} {
		if got := settingsOf(t, namespace, name); got != want {
			t.Errorf("set %s has %+v, want %+v", name, got, want)
		}
	}
	testkit.WaitFor(t, env.Client, app, "the sets in the status", func() error {
		db := app.Status.Components[0]
		if app.Status.Ready != "4/4" || db.Replicas != 3 || db.Version != "7.0.15" || len(db.Sets) != 2 ||
			db.Sets[1].Name != "big" || db.Sets[1].ReadyReplicas != 2 || db.Sets[1].UpdatedReplicas != 2 ||
			db.Pods[0].Set != "0" || db.Pods[1].Role != "primary" {
			return fmt.Errorf("status %s %+v", app.Status.Ready, db)
		}
		return nil
	})
	if err := testkit.StatusLint(app); err != nil {
		t.Error(err)
	}
}

// Sets of one component can be for different things: the role follows a parameter of the set, and a Service leads to
// all pods that have its role, whichever set they are of.
func TestSetsOfOneComponentDifferInRole(t *testing.T) {
	namespace := env.Namespace(t)
	run(t, -1)
	node(t, namespace)
	app := shop(namespace, "a", "search")
	tier := func(name string, tier platformv1.ParameterValue, replicas int32) platformv1.ComponentSet {
		return platformv1.ComponentSet{Name: name, Replicas: &replicas, Parameters: platformv1.Parameters{"tier": tier}}
	}
	app.Spec.Components = []platformv1.ApplicationComponent{
		{Name: "search", Sets: []platformv1.ComponentSet{tier("m", "master", 3), tier("x", "hot", 2), {Name: "y"}}}}
	create(t, app)
	wait(t, app, &platformv1.WorkloadSetList{}, "a-search-m", "a-search-x", "a-search-y")
	leads := func(service string, want ...string) {
		t.Helper()
		testkit.Eventually(t, fmt.Sprintf("Service %s to lead to %v", service, want), func(ctx context.Context) error {
			found := &corev1.Service{}
			if err := env.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: service}, found); err != nil {
				return err
			}
			pods := &corev1.PodList{}
			if err := env.Client.List(ctx, pods, client.InNamespace(namespace),
				client.MatchingLabels(found.Spec.Selector)); err != nil {
				return err
			}
			if got := namesOf(t, pods); !slices.Equal(got, want) {
				return fmt.Errorf("it leads to %v", got)
			}
			return nil
		})
	}
	leads("a", "a-search-x-0", "a-search-x-1", "a-search-y-0")
	leads("a-warm")
	for name, role := range map[string]string{"a-search-m-2": "master", "a-search-x-1": "hot"} {
		pod := &corev1.Pod{}
		if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, pod); err != nil ||
			pod.Labels[platformv1.RoleLabel] != role {
			t.Errorf("pod %s has the labels %v, %v; want role %s", name, pod.Labels, err, role)
		}
	}
	// A set more of another role, and one of a role that has several goes.
	change(t, app, func(s *platformv1.ApplicationSpec) {
		s.Components[0].Sets = []platformv1.ComponentSet{tier("m", "master", 3), tier("x", "hot", 2), tier("z", "warm", 1)}
	})
	wait(t, app, &platformv1.WorkloadSetList{}, "a-search-m", "a-search-x", "a-search-z")
	leads("a-warm", "a-search-z-0")
	testkit.WaitFor(t, env.Client, app, "the roles in the status", func() error {
		roles := map[string]string{}
		for _, pod := range app.Status.Components[0].Pods {
			roles[pod.Set] += pod.Role + " "
		}
		if want := map[string]string{"m": "master master master ", "x": "hot hot ", "z": "warm "}; !maps.Equal(roles, want) {
			return fmt.Errorf("they are %v", roles)
		}
		return nil
	})
	// A set without a parameter that is known is refused before anything is made of it.
	change(t, app, func(s *platformv1.ApplicationSpec) { s.Components[0].Sets[2].Parameters["tier"] = "frozen" })
	testkit.WaitForCondition(t, env.Client, app, platformv1.StalledCondition, metav1.ConditionTrue)
	if accepted := conditions.Get(app, platformv1.AcceptedCondition); accepted.Status != metav1.ConditionFalse ||
		!strings.Contains(accepted.Message, "frozen") {
		t.Errorf("Accepted: %+v", accepted)
	}
}

func cpu(request string) corev1.ResourceRequirements {
	return corev1.ResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(request)}}
}

// ownSettings are what can differ between the sets of a component and reaches the process: the lines of its file, and
// what its container requests.
type ownSettings struct{ file, cpu string }

// settingsOf reads the file from the plan that the agents have, and the resources from the set's second pod.
func settingsOf(t *testing.T, namespace, set string) ownSettings {
	t.Helper()
	stored := &corev1.ConfigMap{}
	storedKey := client.ObjectKey{Namespace: namespace, Name: platformv1.PlanNameFor(set)}
	if err := env.Client.Get(t.Context(), storedKey, stored); err != nil {
		t.Fatal(err)
	}
	read := &plan.Plan{}
	if err := json.Unmarshal([]byte(stored.Data[plan.PlanFile]), read); err != nil || len(read.Files) != 1 {
		t.Fatalf("the plan of set %s is %v, %v; want one with a file", set, stored.Data, err)
	}
	settings := ownSettings{}
	for _, entry := range read.Files[0].Entries {
		settings.file += entry.Key + "=" + strings.Join(entry.Args, " ") + "\n"
	}
	pod := &corev1.Pod{}
	key := client.ObjectKey{Namespace: namespace, Name: platformv1.PodNameFor(set, 1)}
	if err := env.Client.Get(t.Context(), key, pod); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(pod.Spec.Containers, func(c corev1.Container) bool { return c.Name == "main" })
	settings.cpu = pod.Spec.Containers[i].Resources.Requests.Cpu().String()
	return settings
}

// An instance that asks for it is closed to all but its clients, its own pods and the operator.
func TestNetworkPolicyComesAndGoes(t *testing.T) {
	namespace := env.Namespace(t)
	run(t, -1)
	node(t, namespace)
	app := shop(namespace, "a", "tiers")
	from := []networkingv1.NetworkPolicyPeer{
		{NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "shop"}}}}
	app.Spec.NetworkPolicy = &platformv1.NetworkPolicy{From: from}
	create(t, app)
	policies := &networkingv1.NetworkPolicyList{}
	wait(t, app, policies, "a-db", "a-web")
	var rules []string
	for _, rule := range policies.Items[0].Spec.Ingress {
		text := ""
		for _, peer := range rule.From {
			text += metav1.FormatLabelSelector(peer.NamespaceSelector) + "/" + metav1.FormatLabelSelector(peer.PodSelector)
		}
		for _, port := range rule.Ports {
			text += " " + port.Port.String()
		}
		rules = append(rules, text)
	}
	want := []string{
		"<none>/platform.zeroinfra.github.com/application=a",
		"kubernetes.io/metadata.name=zeroinfra-system/<none> 4880",
		"team=shop/<none> 5432",
	}
	if !slices.Equal(rules, want) {
		t.Errorf("rules are %q, want %q", rules, want)
	}
	// A peer that no server takes is refused, and what is in force stays.
	change(t, app, func(s *platformv1.ApplicationSpec) {
		s.NetworkPolicy.From = []networkingv1.NetworkPolicyPeer{{IPBlock: &networkingv1.IPBlock{CIDR: "10.0.0.0/33"}}}
	})
	testkit.WaitForCondition(t, env.Client, app, platformv1.StalledCondition, metav1.ConditionTrue)
	if ready := conditions.Get(app, platformv1.ReadyCondition); ready.Reason != platformv1.ReasonInvalidSpec ||
		!strings.Contains(ready.Message, "10.0.0.0/33") {
		t.Errorf("%s: %s", ready.Reason, ready.Message)
	}
	change(t, app, func(s *platformv1.ApplicationSpec) { s.NetworkPolicy = nil })
	wait(t, app, policies)
}

// The middleware counts its members when it is made: another number is refused, and the pods are left alone.
func TestFixedScalingIsRefused(t *testing.T) {
	namespace, app := standing(t, "quorum")
	change(t, app, func(s *platformv1.ApplicationSpec) {
		s.Components = []platformv1.ApplicationComponent{{Name: "quorum", Replicas: new(int32(5))}}
	})
	testkit.WaitForCondition(t, env.Client, app, platformv1.StalledCondition, metav1.ConditionTrue)
	accepted := conditions.Get(app, platformv1.AcceptedCondition)
	if accepted.Status != metav1.ConditionFalse ||
		!strings.Contains(accepted.Message, "made with 3 replicas and the spec asks for 5 replicas; set it back") {
		t.Errorf("Accepted: %+v", accepted)
	}
	if got := podNames(t, namespace); len(got) != 3 {
		t.Errorf("pods %v", got)
	}
	change(t, app, func(s *platformv1.ApplicationSpec) { s.Components = nil })
	testkit.WaitForReady(t, env.Client, app)
}

// The status tells how to reach a Service from outside, as far as the cluster gave it a way.
func TestEndpointsFromOutside(t *testing.T) {
	namespace := env.Namespace(t)
	run(t, -1)
	node(t, namespace)
	app := shop(namespace, "a", "tiers")
	app.Spec.Components = []platformv1.ApplicationComponent{
		{Name: "db", Service: &platformv1.ServiceExposure{
			ServiceSettings: platformv1.ServiceSettings{Type: corev1.ServiceTypeLoadBalancer}}}}
	create(t, app)
	testkit.WaitForReady(t, env.Client, app)
	service := &corev1.Service{}
	if err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "a"}, service); err != nil {
		t.Fatal(err)
	}
	given := service.DeepCopy()
	given.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "198.51.100.7"}}
	if err := env.Client.Status().Patch(t.Context(), given, client.MergeFrom(service)); err != nil {
		t.Fatal(err)
	}
	endpoint := func(want platformv1.Endpoint) {
		t.Helper()
		testkit.WaitFor(t, env.Client, app, "the endpoints", func() error {
			i := slices.IndexFunc(app.Status.Endpoints, func(e platformv1.Endpoint) bool { return e.Name == "a" })
			if i < 0 || app.Status.Endpoints[i] != want {
				return fmt.Errorf("endpoints %+v", app.Status.Endpoints)
			}
			return nil
		})
	}
	host := "a." + namespace + ".svc"
	endpoint(platformv1.Endpoint{Name: "a", Host: host, Port: 5432, Role: "primary", Type: corev1.ServiceTypeLoadBalancer,
		NodePort: service.Spec.Ports[0].NodePort, ExternalHost: "198.51.100.7"})
	change(t, app, func(s *platformv1.ApplicationSpec) { s.Components[0].Service = nil })
	endpoint(platformv1.Endpoint{Name: "a", Host: host, Port: 5432, Role: "primary", Type: corev1.ServiceTypeClusterIP})
	headless := &corev1.Service{}
	err := env.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "a-db-headless"}, headless)
	if err != nil {
		t.Fatal(err)
	}
	dual := corev1.IPFamilyPolicyRequireDualStack
	change(t, app, func(s *platformv1.ApplicationSpec) {
		s.Components[0].Service = &platformv1.ServiceExposure{IPFamilyPolicy: &dual}
	})
	testkit.WaitFor(t, env.Client, app, "says that there is one family", func() error {
		ready := conditions.Get(app, platformv1.ReadyCondition)
		if !strings.Contains(ready.Message, "not configured for dual-stack") {
			return fmt.Errorf("Ready says %q", ready.Message)
		}
		return nil
	})
	change(t, app, func(s *platformv1.ApplicationSpec) { s.Components[0].Service = nil })
	testkit.WaitForReady(t, env.Client, app)
	// Named ports give SRV records.
	if ports := headless.Spec.Ports; len(ports) != 2 || ports[0].Name != "sql" || ports[1].Name != "gossip" {
		t.Errorf("headless ports %+v", ports)
	}
}

// scale does what an autoscaler and kubectl scale do.
func scale(t *testing.T, namespace, set string, replicas int32) {
	t.Helper()
	if err := tryScale(t, namespace, set, replicas); err != nil {
		t.Fatal(err)
	}
}

// tryScale is scale for what the API server may refuse.
func tryScale(t *testing.T, namespace, set string, replicas int32) error {
	obj := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: set}}
	wanted := &autoscalingv1.Scale{Spec: autoscalingv1.ScaleSpec{Replicas: replicas}}
	return env.Client.SubResource("scale").Update(t.Context(), obj, client.WithSubResourceBody(wanted),
		client.FieldOwner("autoscaler"))
}

// replicasOf waits until a WorkloadSet asks for a number of pods, and its Application is Ready.
func replicasOf(t *testing.T, app *platformv1.Application, set string, want int32) {
	t.Helper()
	obj := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: app.Namespace, Name: set}}
	testkit.WaitFor(t, env.Client, obj, fmt.Sprintf("%d replicas", want), func() error {
		if obj.Spec.Replicas != want || obj.Status.ReadyReplicas != want {
			return fmt.Errorf("there are %d of %d", obj.Status.ReadyReplicas, obj.Spec.Replicas)
		}
		return nil
	})
	// The Component has taken the number up and is done with it.
	owner := component(t, app.Namespace, platformv1.ComponentNameFor(app.Name, obj.Spec.Component))
	testkit.WaitFor(t, env.Client, owner, fmt.Sprintf("%d replicas of set %s", want, obj.Spec.Set), func() error {
		i := slices.IndexFunc(owner.Spec.Sets, func(s platformv1.ComponentSet) bool { return s.Name == obj.Spec.Set })
		if *owner.Spec.Sets[i].Replicas != want {
			return fmt.Errorf("it has %d", *owner.Spec.Sets[i].Replicas)
		}
		return nil
	})
	testkit.WaitForReady(t, env.Client, owner)
	testkit.WaitForReady(t, env.Client, app)
}

// A number of pods that an autoscaler gives a set goes up to the Application; one that the plugin
// does not allow is taken back. The Application has the last word.
func TestScaleGoesUpToTheApplication(t *testing.T) {
	namespace, app := standing(t, "tiers")
	scale(t, namespace, "a-db-1", 4)
	replicasOf(t, app, "a-db-1", 4)
	scale(t, namespace, "a-web-main", 2)
	replicasOf(t, app, "a-web-main", 2)
	want := []platformv1.ApplicationComponent{
		{Name: "db", Sets: []platformv1.ComponentSet{{Name: "0"}, {Name: "1", Replicas: new(int32(4))}}},
		{Name: "web", Replicas: new(int32(2))},
	}
	testkit.WaitFor(t, env.Client, app, "the number in the Application", func() error {
		if !equality.Semantic.DeepEqual(app.Spec.Components, want) {
			return fmt.Errorf("components are %+v", app.Spec.Components)
		}
		return nil
	})
	change(t, app, func(s *platformv1.ApplicationSpec) { s.Components[0].Sets[1].Replicas = new(int32(3)) })
	replicasOf(t, app, "a-db-1", 3)

	scale(t, namespace, "a-db-1", 9)
	replicasOf(t, app, "a-db-1", 3)
	fixed := shop(namespace, "f", "quorum")
	create(t, fixed)
	testkit.WaitForReady(t, env.Client, fixed)
	pods := recordPods(t, namespace)
	if err := tryScale(t, namespace, "f-quorum-main", 5); !apierrors.IsInvalid(err) ||
		!strings.Contains(err.Error(), "the component cannot be scaled once it is made: its plugin has scaling Fixed") {
		t.Errorf("scaling members that were counted gave %v, want that it is refused", err)
	}
	replicasOf(t, fixed, "f-quorum-main", 3)
	if pods.first("+f-quorum-main-3") >= 0 || pods.first("+f-quorum-main-4") >= 0 {
		t.Errorf("pods came: %v", pods.events)
	}
	says := []string{"component \"db\" has 9 replicas"}
	testkit.Eventually(t, "the events that say why", func(ctx context.Context) error {
		events := &eventsv1.EventList{}
		if err := env.Client.List(ctx, events, client.InNamespace(namespace)); err != nil {
			return err
		}
		for _, text := range says {
			if !slices.ContainsFunc(events.Items,
				func(e eventsv1.Event) bool { return e.Reason == "EditReverted" && strings.Contains(e.Note, text) }) {
				return fmt.Errorf("none says %q", text)
			}
		}
		return nil
	})
}

// Pods that the API server would refuse are not made by giving up those that run.
func TestPodsThatCannotBeMadeReplaceNone(t *testing.T) {
	namespace, app := standing(t, "quorum")
	pods := recordPods(t, namespace)
	change(t, app, func(s *platformv1.ApplicationSpec) {
		s.Components = []platformv1.ApplicationComponent{
			{Name: "quorum", Scheduling: &platformv1.Scheduling{PriorityClassName: "nowhere"}}}
	})
	testkit.WaitForCondition(t, env.Client, app, platformv1.StalledCondition, metav1.ConditionTrue)
	ready := conditions.Get(app, platformv1.ReadyCondition)
	if !strings.Contains(ready.Message, "no PriorityClass with name nowhere was found") {
		t.Errorf("Ready says %q", ready.Message)
	}
	change(t, app, func(s *platformv1.ApplicationSpec) { s.Components = nil })
	testkit.WaitForReady(t, env.Client, app)
	if pods.first("-") >= 0 {
		t.Errorf("pods went: %v", pods.events)
	}
}
