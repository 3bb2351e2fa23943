// SPDX-License-Identifier: Apache-2.0

package database

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// manyKeys is how many keys are there before a fault.
const manyKeys = 5000

// placed says where the pods may run and who may reach them, in ways that this cluster can show.
func placed(spec *databasev1.RedisSpec) {
	spec.Scheduling = &platformv1.Scheduling{
		NodeSelector:      map[string]string{corev1.LabelOSStable: "linux"},
		Tolerations:       []corev1.Toleration{{Key: "example.com/redis", Operator: corev1.TolerationOpExists}},
		PriorityClassName: "system-cluster-critical",
	}
	spec.PodDisruptionBudget = &platformv1.PodDisruptionBudget{MaxUnavailable: new(intstr.FromInt32(0))}
	spec.NetworkPolicy = &platformv1.NetworkPolicy{
		From: []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}}}}
}

// TestRedisWithReplicas takes a Redis from one server to several and back, reads each field of that back, and has its
// primary lose pod and volume.
func TestRedisWithReplicas(t *testing.T) {
	s := framework.NewNamespace(t, "replicas")
	i := s.CreateRedis("db", framework.WithFsyncAlways(), placed)
	i.WaitReady()
	t.Logf("alone: %v", i.TableColumns(databasev1.GroupVersion.WithResource("redis"), i.Name))
	i.MustDo("EVAL", "for n=1,tonumber(ARGV[1]) do redis.call('SET','k:'..n,n) end", "0", fmt.Sprint(manyKeys))

	alone := i.Footprint()
	w := i.StartWriter()
	i.Update(framework.WithReplicas(2))
	i.WaitForReplicas(2)
	w.Stop()
	w.StopAndVerify("with its first replicas", framework.InPlaceGapLimit)
	i.MustDo("EVAL", "for n=1,tonumber(ARGV[1]) do redis.call('DEL',ARGV[2]..':'..n) end", "0",
		fmt.Sprint(w.Numbers[len(w.Numbers)-1]+100), w.Prefix)
	if err := alone.RestartedInPlace(i.Footprint()); err != nil {
		t.Errorf("with its first replicas: %v", err)
	}
	if err := i.TryUpdate(func(spec *databasev1.RedisSpec) { spec.Replicas, spec.Durability = nil, nil }); err == nil ||
		!strings.Contains(err.Error(), "not taken out") {
		t.Errorf("without replicas again: %v", err)
	}
	i.ExpectTableColumns(databasev1.GroupVersion.WithResource("redis"), i.Name, "Pods", "Primary", "Replicas", "Read-Only")
	checkReads(i)
	checkPlaced(i)

	i.Update(func(spec *databasev1.RedisSpec) {
		spec.Durability = &databasev1.RedisDurability{MinReplicas: 1, MaxLagSeconds: 7}
		spec.Failover = &databasev1.Failover{Mode: platformv1.FailoverAuto,
			After: &metav1.Duration{Duration: 3 * time.Second}}
	})
	i.WaitForReplicas(2)
	wantEverywhere(i, "min-replicas-to-write", "1")
	wantEverywhere(i, "min-replicas-max-lag", "7")
	set := &platformv1.WorkloadSet{}
	i.MustGet(i.WorkloadSet(), set)
	if after := set.Spec.Failover.After; after == nil || after.Duration != 3*time.Second {
		t.Errorf("the engine waits for %v, want 3s", after)
	}
	if got := i.Object().Status.Durability; got != platformv1.DurabilityAsynchronous {
		t.Errorf("status.durability is %q", got)
	}
	hasUsers(i)
	losesItsPrimary(i)
	wantSays(i, "PONG", "Ops@shop", "first", "PING")
	scales(i)
}

// hasUsers declares a user, who is waited for, let in, changed, and removed for another one.
func hasUsers(i *framework.Instance) {
	i.Helper()
	i.Update(framework.WithUser("app"))
	i.ExpectStalled(framework.ExpectedStall{Reason: platformv1.ReasonSecretNotFound,
		Texts: []string{`acl-user "app"`, "users"}})
	i.CreateSecret("users", "password", "first")
	i.WaitReady()
	wantSays(i, "77", "app", "first", "GET", "k:77")
	wantSays(i, "NOPERM", "app", "first", "SET", "k:77", "1")
	wantSays(i, "NOPERM", "app", "first", "GET", "other")
	rules := i.MustDo("ACL", "GETUSER", "app")
	for _, want := range []string{"~k:*", "&news"} {
		if !strings.Contains(rules, want) {
			i.Errorf("the user app has not %s: %s", want, rules)
		}
	}
	i.Update(func(spec *databasev1.RedisSpec) { spec.Users[0].Enabled = ptr.To(false) })
	i.WaitReady()
	wantSays(i, "WRONGPASS", "app", "first", "PING")
	i.Update(framework.WithUser("Ops@shop"))
	i.WaitReady()
	wantSays(i, "PONG", "Ops@shop", "first", "PING")
	i.Eventually(framework.SettleTimeout, "the user that is declared no more is gone", func() error {
		if users := i.MustDo("ACL", "USERS"); strings.Contains(users, "app") {
			return fmt.Errorf("there are %s", users)
		}
		return nil
	})
}

// checkPlaced reads back where the pods run.
func checkPlaced(i *framework.Instance) {
	i.Helper()
	pod := i.Pod().Spec
	tolerated := false
	for _, toleration := range pod.Tolerations {
		tolerated = tolerated || toleration.Key == "example.com/redis"
	}
	if pod.NodeSelector[corev1.LabelOSStable] != "linux" || !tolerated ||
		pod.PriorityClassName != "system-cluster-critical" {
		i.Errorf("the pod has node selector %v, tolerations %v and class %q", pod.NodeSelector, pod.Tolerations,
			pod.PriorityClassName)
	}
	var budgets policyv1.PodDisruptionBudgetList
	if err := framework.Cluster.Client.List(i.Ctx, &budgets, client.InNamespace(i.Namespace.Name)); err != nil ||
		len(budgets.Items) != 1 {
		i.Errorf("there are %d budgets, want 1: %v", len(budgets.Items), err)
	} else if stay := ptr.Deref(budgets.Items[0].Spec.MinAvailable, intstr.FromInt32(-1)); stay.IntValue() != 3 {
		i.Errorf("the budget has %s pods stay, want all 3", stay.String())
	}
	var policies networkingv1.NetworkPolicyList
	if err := framework.Cluster.Client.List(i.Ctx, &policies, client.InNamespace(i.Namespace.Name)); err != nil ||
		len(policies.Items) == 0 {
		i.Errorf("there is no NetworkPolicy: %v", err)
	}
}

// checkReads proves that the read-only endpoint of binding and status leads to replicas, which have the data and take
// no writes.
func checkReads(i *framework.Instance) {
	i.Helper()
	secret := &corev1.Secret{}
	i.MustGet(i.Object().Status.BindingName, secret)
	a := i.Account()
	a.Host = string(secret.Data["host-ro"])
	if want := a.Host + ":" + a.Port; a.Host == "" || i.Object().Status.ReadOnlyEndpoint != want {
		i.Errorf("the binding reads at %q and the status at %q", a.Host, i.Object().Status.ReadOnlyEndpoint)
	}
	i.Eventually(framework.EndpointTimeout, "a replica answers reads", func() error {
		out, err := i.RedisCLI(a, "ROLE")
		if err != nil || !strings.HasPrefix(out, "slave") {
			return fmt.Errorf("it answers %q: %v", out, err)
		}
		return nil
	})
	if out, err := i.RunClientCommand(func() (string, error) {
		return i.RedisURI(string(secret.Data["uri-ro"]), "GET", "k:7")
	}); err != nil || out != "7" {
		i.Errorf("a replica has %q: %v", out, err)
	}
	if out, err := i.RunClientCommand(func() (string, error) { return i.RedisCLI(a, "SET", "k:7", "8") }); err == nil ||
		!strings.Contains(out+err.Error(), "READONLY") {
		i.Errorf("a replica answered a write with %q: %v", out, err)
	}
}

// WaitForAnswerEverywhere reads a setting back from each pod.
func wantEverywhere(i *framework.Instance, name, value string) {
	i.Helper()
	for _, m := range i.Object().Status.Members {
		out, err := i.RunClientCommand(func() (string, error) {
			return i.RedisCLI(i.AccountAt(m.Name), "CONFIG", "GET", name)
		})
		if _, got, _ := strings.Cut(out, "\n"); err != nil || got != value {
			i.Errorf("%s of %s is %q, want %q: %v", name, m.Name, got, value, err)
		}
	}
}

// losesItsPrimary deletes pod and volume of the primary, which come back sooner than anything is noticed: no replica
// may be emptied.
func losesItsPrimary(i *framework.Instance) {
	i.Helper()
	primary, term := i.Object().Status.Primary, i.Object().Status.Term
	for _, claim := range (&framework.Application{Namespace: i.Namespace, Name: i.Application()}).Claims() {
		if strings.HasSuffix(claim.Name, primary) {
			i.Delete(&claim)
		}
	}
	pod := &corev1.Pod{}
	i.MustGet(primary, pod)
	i.Delete(pod, framework.GraceZero)
	took := i.Eventually(framework.SettleTimeout, "a replica takes over", func() error {
		r := i.Object()
		if r.Status.Primary == "" || r.Status.Primary == primary || r.Status.Term <= term {
			return fmt.Errorf("%q writes in term %d", r.Status.Primary, r.Status.Term)
		}
		return nil
	})
	i.Logf("pod and volume of the primary gone: a replica writes after %s", framework.FormatSeconds(took))
	i.WaitForReplicas(2)
	if got := i.MustDo("DBSIZE"); got != fmt.Sprint(manyKeys) {
		i.Errorf("there are %s keys, want %d", got, manyKeys)
	}
	if err := readsOne(i, primary); err != nil {
		i.Error(err)
	}
}

// readsOne says what is wrong unless a pod is a replica with the data.
func readsOne(i *framework.Instance, pod string) error {
	out, err := i.RunClientCommand(func() (string, error) { return i.RedisCLI(i.AccountAt(pod), "GET", "k:77") })
	if err != nil || out != "77" {
		return fmt.Errorf("%s has %q: %w", pod, out, err)
	}
	return nil
}

// takesUpEdits scales the WorkloadSet and edits the Component: the Redis declares what it has fields for, and the rest
// is taken back.
func takesUpEdits(i *framework.Instance) {
	i.Helper()
	for pods := int32(3); pods > 1; pods-- {
		i.ScaleWorkloadSet(i.WorkloadSet(), pods)
		i.WaitForReplicas(int(pods) - 1)
		if got := ptr.Deref(i.Object().Spec.Replicas, -1); got != pods-1 {
			i.Errorf("the Redis declares %d replicas after a scale to %d pods", got, pods)
		}
	}
	component := &platformv1.Component{
		ObjectMeta: metav1.ObjectMeta{Namespace: i.Namespace.Name,
			Name: platformv1.ComponentNameFor(i.Application(), framework.RedisComponent)}}
	edit := client.RawPatch(types.MergePatchType,
		[]byte(`{"spec":{"parameters":{"hz":"20"},"podDisruptionBudget":{"maxUnavailable":2}}}`))
	if err := framework.Cluster.Client.Patch(i.Ctx, component, edit, client.FieldOwner("kubectl-edit")); err != nil {
		i.Fatalf("cannot edit the Component: %v", err)
	}
	i.Eventually(framework.SettleTimeout, "the Redis declares the parameter, and the budget is taken back", func() error {
		i.MustGet(component.Name, component)
		got, budget := i.Object().Spec.Parameters["hz"], component.Spec.PodDisruptionBudget
		if got != "20" || budget == nil || budget.MaxUnavailable == nil || *budget.MaxUnavailable != intstr.FromInt32(0) ||
			component.Spec.Parameters["hz"] != "20" {
			return fmt.Errorf("hz is %q, and the Component has %+v and %v", got, budget, component.Spec.Parameters)
		}
		return reverted(i, "spec.podDisruptionBudget")
	})
	i.WaitForReplicas(1)
	wantEverywhere(i, "hz", "20")
	// What the Redis says from then on comes down as before, although somebody else gave the Component its first
	// parameter.
	i.Update(func(spec *databasev1.RedisSpec) { spec.Parameters["hz"] = "30" })
	i.WaitForReplicas(1)
	wantEverywhere(i, "hz", "30")
	if reverted(i, "spec.parameters") == nil {
		i.Error("an event tells that what is declared was taken back")
	}
}

// reverted says whether an event tells that an edit of a field was taken back.
func reverted(i *framework.Instance, field string) error {
	events := &corev1.EventList{}
	if err := framework.Cluster.Client.List(i.Ctx, events, client.InNamespace(i.Namespace.Name)); err != nil {
		return err
	}
	for _, e := range events.Items {
		if e.Reason == "EditReverted" && strings.Contains(e.Message, field) {
			return nil
		}
	}
	return fmt.Errorf("none of %d events tells of %s", len(events.Items), field)
}

// scales changes the number of replicas by an Operation, which counts pods, and takes them all away in the end.
func scales(i *framework.Instance) {
	i.Helper()
	i.Create(framework.NewOperation("fewer", "HorizontalScale", i.Reference(), "replicas", "2"))
	i.ExpectOperationSucceeded("fewer")
	if got := ptr.Deref(i.Object().Spec.Replicas, -1); got != 1 {
		i.Errorf("the Redis declares %d replicas, want 1", got)
	}
	i.WaitForReplicas(1)
	takesUpEdits(i)
	i.ExpectOperationRefused(framework.NewOperation("none", "HorizontalScale", i.Reference(), "replicas", "0"),
		"a Redis has 1 at least")
	i.ExpectOperationRefused(framework.NewOperation("many", "HorizontalScale", i.Reference(), "replicas", "9"), "replicas")
	i.Update(func(spec *databasev1.RedisSpec) { spec.Durability, spec.Replicas = nil, ptr.To[int32](0) })
	i.WaitForReplicas(0)
	if got := i.MustDo("DBSIZE"); got != fmt.Sprint(manyKeys) {
		i.Errorf("alone again, there are %s keys, want %d", got, manyKeys)
	}
}
