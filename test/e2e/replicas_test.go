// SPDX-License-Identifier: Apache-2.0

package e2e

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
)

// manyKeys is how many keys are there before a fault.
const manyKeys = 5000

// countAtRest counts the keys but for those that a writer may be writing meanwhile.
const countAtRest = `local n = 0
for _, key in ipairs(redis.call('KEYS', '*')) do if string.sub(key, 1, 2) ~= 'w:' then n = n + 1 end end
return n`

// withReplicas asks for that many beside the primary.
func withReplicas(number int32) setting {
	return func(spec *databasev1.RedisSpec) { spec.Replicas = &number }
}

// placed says where the pods may run and who may reach them, in ways that this cluster can show.
func placed(spec *databasev1.RedisSpec) {
	spec.Scheduling = &platformv1.Scheduling{
		NodeSelector:      map[string]string{corev1.LabelOSStable: "linux"},
		Tolerations:       []corev1.Toleration{{Key: "example.com/redis", Operator: corev1.TolerationOpExists}},
		PriorityClassName: "system-cluster-critical",
	}
	spec.PodDisruptionBudget = &platformv1.PodDisruptionBudget{MaxUnavailable: intstr.FromInt32(0)}
	spec.NetworkPolicy = &platformv1.NetworkPolicy{From: []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{}}}}
}

// withUser has one user who may read, with the password of the key "password" of the Secret "users".
func withUser(name string) setting {
	return func(spec *databasev1.RedisSpec) {
		spec.Users = []databasev1.RedisUser{{Name: name, PasswordFrom: platformv1.SecretKeyReference{Name: "users"}, Keys: "~k:*", Channels: "&news", Commands: "+@read +ping"}}
	}
}

// at is the account for one pod, by its own name.
func (i *instance) at(pod string) account {
	i.Helper()
	a := i.account()
	a.host = pod + "." + i.application() + "-" + redisComponent + "-headless." + i.space.name + ".svc"
	return a
}

// role are the pods of a role, as the status says.
func (i *instance) role(role string) []string {
	i.Helper()
	var pods []string
	for _, m := range i.object().Status.Members {
		if m.Role == role {
			pods = append(pods, m.Name)
		}
	}
	return pods
}

// following waits until that many replicas follow the primary with all that it has.
func (i *instance) following(number int) {
	i.Helper()
	i.ready()
	i.eventually(readyIn, fmt.Sprintf("%d replicas have all that the primary has", number), func() error {
		r := i.object()
		if want := fmt.Sprintf("%[1]d/%[1]d", number); r.Status.Replicas != want || len(i.role("replica")) != number {
			return fmt.Errorf("status says %q: %v", r.Status.Replicas, r.Status.Members)
		}
		if got, err := i.do("WAIT", fmt.Sprint(number), "1000"); err != nil || got != fmt.Sprint(number) {
			return fmt.Errorf("%s of %d replicas have the last write: %v", got, number, err)
		}
		want := i.must("EVAL", countAtRest, "0")
		for _, pod := range i.role("replica") {
			if got, err := i.redisCLI(i.at(pod), "EVAL", countAtRest, "0"); err != nil || got != want {
				return fmt.Errorf("%s has %q keys of %s: %v", pod, got, want, err)
			}
		}
		return nil
	})
}

// TestRedisWithReplicas takes a Redis from one server to several and back, reads each field of that back, and has its primary lose pod and volume.
func TestRedisWithReplicas(t *testing.T) {
	s := newSpace(t, "replicas")
	i := s.redis("db", safe(), placed)
	i.ready()
	t.Logf("alone: %v", i.columns(databasev1.GroupVersion.WithResource("redis"), i.name))
	i.must("EVAL", "for n=1,tonumber(ARGV[1]) do redis.call('SET','k:'..n,n) end", "0", fmt.Sprint(manyKeys))

	alone := i.footprint()
	w := i.startWriter()
	i.update(withReplicas(2))
	i.following(2)
	w.stop()
	w.judge("with its first replicas", inPlaceGap)
	i.must("EVAL", "for n=1,tonumber(ARGV[1]) do redis.call('DEL',ARGV[2]..':'..n) end", "0", fmt.Sprint(w.numbers[len(w.numbers)-1]+100), w.prefix)
	if err := alone.restartedInPlace(i.footprint()); err != nil {
		t.Errorf("with its first replicas: %v", err)
	}
	if err := i.tryUpdate(func(spec *databasev1.RedisSpec) { spec.Replicas, spec.Durability = nil, nil }); err == nil || !strings.Contains(err.Error(), "not taken out") {
		t.Errorf("without replicas again: %v", err)
	}
	i.wantColumns(databasev1.GroupVersion.WithResource("redis"), i.name, "Pods", "Primary", "Replicas", "Read-Only")
	i.checkReads()
	i.checkPlaced()

	i.update(func(spec *databasev1.RedisSpec) {
		spec.Durability = &databasev1.RedisDurability{MinReplicas: 1, MaxLagSeconds: 7}
		spec.Failover = &databasev1.Failover{Mode: platformv1.FailoverAuto, After: &metav1.Duration{Duration: 3 * time.Second}}
	})
	i.following(2)
	i.wantEverywhere("min-replicas-to-write", "1")
	i.wantEverywhere("min-replicas-max-lag", "7")
	set := &platformv1.WorkloadSet{}
	i.mustGet(i.workloadSet(), set)
	if after := set.Spec.Failover.After; after == nil || after.Duration != 3*time.Second {
		t.Errorf("the engine waits for %v, want 3s", after)
	}
	if got := i.object().Status.Durability; got != platformv1.DurabilityAsynchronous {
		t.Errorf("status.durability is %q", got)
	}
	i.hasUsers()
	i.losesItsPrimary()
	i.wantSays("PONG", "Ops@shop", "first", "PING")
	i.scales()
}

// hasUsers declares a user, who is waited for, let in, changed, and removed for another one.
func (i *instance) hasUsers() {
	i.Helper()
	i.update(withUser("app"))
	i.stalled(stall{reason: platformv1.ReasonSecretNotFound, texts: []string{`acl-user "app"`, "users"}})
	i.secret("users", "password", "first")
	i.ready()
	i.wantSays("77", "app", "first", "GET", "k:77")
	i.wantSays("NOPERM", "app", "first", "SET", "k:77", "1")
	i.wantSays("NOPERM", "app", "first", "GET", "other")
	rules := i.must("ACL", "GETUSER", "app")
	for _, want := range []string{"~k:*", "&news"} {
		if !strings.Contains(rules, want) {
			i.Errorf("the user app has not %s: %s", want, rules)
		}
	}
	i.update(func(spec *databasev1.RedisSpec) { spec.Users[0].Enabled = ptr.To(false) })
	i.ready()
	i.wantSays("WRONGPASS", "app", "first", "PING")
	i.update(withUser("Ops@shop"))
	i.ready()
	i.wantSays("PONG", "Ops@shop", "first", "PING")
	i.eventually(settleIn, "the user that is declared no more is gone", func() error {
		if users := i.must("ACL", "USERS"); strings.Contains(users, "app") {
			return fmt.Errorf("there are %s", users)
		}
		return nil
	})
}

// checkPlaced reads back where the pods run.
func (i *instance) checkPlaced() {
	i.Helper()
	pod := i.pod().Spec
	tolerated := false
	for _, toleration := range pod.Tolerations {
		tolerated = tolerated || toleration.Key == "example.com/redis"
	}
	if pod.NodeSelector[corev1.LabelOSStable] != "linux" || !tolerated || pod.PriorityClassName != "system-cluster-critical" {
		i.Errorf("the pod has node selector %v, tolerations %v and class %q", pod.NodeSelector, pod.Tolerations, pod.PriorityClassName)
	}
	var budgets policyv1.PodDisruptionBudgetList
	if err := world.client.List(i.ctx, &budgets, client.InNamespace(i.space.name)); err != nil || len(budgets.Items) != 1 {
		i.Errorf("there are %d budgets, want 1: %v", len(budgets.Items), err)
	} else if stay := ptr.Deref(budgets.Items[0].Spec.MinAvailable, intstr.FromInt32(-1)); stay.IntValue() != 3 {
		i.Errorf("the budget has %s pods stay, want all 3", stay.String())
	}
	var policies networkingv1.NetworkPolicyList
	if err := world.client.List(i.ctx, &policies, client.InNamespace(i.space.name)); err != nil || len(policies.Items) == 0 {
		i.Errorf("there is no NetworkPolicy: %v", err)
	}
}

// checkReads proves that the read-only endpoint of binding and status leads to replicas, which have the data and take no writes.
func (i *instance) checkReads() {
	i.Helper()
	secret := &corev1.Secret{}
	i.mustGet(i.object().Status.BindingName, secret)
	a := i.account()
	a.host = string(secret.Data["host-ro"])
	if want := a.host + ":" + a.port; a.host == "" || i.object().Status.ReadOnlyEndpoint != want {
		i.Errorf("the binding reads at %q and the status at %q", a.host, i.object().Status.ReadOnlyEndpoint)
	}
	i.eventually(spreadIn, "a replica answers reads", func() error {
		out, err := i.redisCLI(a, "ROLE")
		if err != nil || !strings.HasPrefix(out, "slave") {
			return fmt.Errorf("it answers %q: %v", out, err)
		}
		return nil
	})
	if out, err := i.told(func() (string, error) { return i.redisURI(string(secret.Data["uri-ro"]), "GET", "k:7") }); err != nil || out != "7" {
		i.Errorf("a replica has %q: %v", out, err)
	}
	if out, err := i.told(func() (string, error) { return i.redisCLI(a, "SET", "k:7", "8") }); err == nil || !strings.Contains(out+err.Error(), "READONLY") {
		i.Errorf("a replica answered a write with %q: %v", out, err)
	}
}

// wantEverywhere reads a setting back from each pod.
func (i *instance) wantEverywhere(name, value string) {
	i.Helper()
	for _, m := range i.object().Status.Members {
		out, err := i.told(func() (string, error) { return i.redisCLI(i.at(m.Name), "CONFIG", "GET", name) })
		if _, got, _ := strings.Cut(out, "\n"); err != nil || got != value {
			i.Errorf("%s of %s is %q, want %q: %v", name, m.Name, got, value, err)
		}
	}
}

// losesItsPrimary deletes pod and volume of the primary, which come back sooner than anything is noticed: no replica may be emptied.
func (i *instance) losesItsPrimary() {
	i.Helper()
	primary, term := i.object().Status.Primary, i.object().Status.Term
	for _, claim := range (&application{space: i.space, name: i.application()}).claims() {
		if strings.HasSuffix(claim.Name, primary) {
			i.delete(&claim)
		}
	}
	pod := &corev1.Pod{}
	i.mustGet(primary, pod)
	i.delete(pod, graceZero)
	took := i.eventually(settleIn, "a replica takes over", func() error {
		r := i.object()
		if r.Status.Primary == "" || r.Status.Primary == primary || r.Status.Term <= term {
			return fmt.Errorf("%q writes in term %d", r.Status.Primary, r.Status.Term)
		}
		return nil
	})
	i.Logf("pod and volume of the primary gone: a replica writes after %s", seconds(took))
	i.following(2)
	if got := i.must("DBSIZE"); got != fmt.Sprint(manyKeys) {
		i.Errorf("there are %s keys, want %d", got, manyKeys)
	}
	if err := i.readsOne(primary); err != nil {
		i.Error(err)
	}
}

// readsOne says what is wrong unless a pod is a replica with the data.
func (i *instance) readsOne(pod string) error {
	out, err := i.told(func() (string, error) { return i.redisCLI(i.at(pod), "GET", "k:77") })
	if err != nil || out != "77" {
		return fmt.Errorf("%s has %q: %w", pod, out, err)
	}
	return nil
}

// takesUpEdits scales the WorkloadSet and edits the Component: the Redis declares what it has fields for, and the rest is taken back.
func (i *instance) takesUpEdits() {
	i.Helper()
	for pods := int32(3); pods > 1; pods-- {
		i.scaleTo(i.workloadSet(), pods)
		i.following(int(pods) - 1)
		if got := ptr.Deref(i.object().Spec.Replicas, -1); got != pods-1 {
			i.Errorf("the Redis declares %d replicas after a scale to %d pods", got, pods)
		}
	}
	component := &platformv1.Component{ObjectMeta: metav1.ObjectMeta{Namespace: i.space.name, Name: platformv1.ComponentNameFor(i.application(), redisComponent)}}
	edit := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"parameters":{"hz":"20"},"podDisruptionBudget":{"maxUnavailable":2}}}`))
	if err := world.client.Patch(i.ctx, component, edit, client.FieldOwner("kubectl-edit")); err != nil {
		i.Fatalf("cannot edit the Component: %v", err)
	}
	i.eventually(settleIn, "the Redis declares the parameter, and the budget is taken back", func() error {
		i.mustGet(component.Name, component)
		got, budget := i.object().Spec.Parameters["hz"], component.Spec.PodDisruptionBudget
		if got != "20" || budget == nil || budget.MaxUnavailable != intstr.FromInt32(0) || component.Spec.Parameters["hz"] != "20" {
			return fmt.Errorf("hz is %q, and the Component has %+v and %v", got, budget, component.Spec.Parameters)
		}
		return i.reverted("spec.podDisruptionBudget")
	})
	i.following(1)
	i.wantEverywhere("hz", "20")
	// What the Redis says from then on comes down as before, although somebody else gave the Component its first parameter.
	i.update(func(spec *databasev1.RedisSpec) { spec.Parameters["hz"] = "30" })
	i.following(1)
	i.wantEverywhere("hz", "30")
	if i.reverted("spec.parameters") == nil {
		i.Error("an event tells that what is declared was taken back")
	}
}

// reverted says whether an event tells that an edit of a field was taken back.
func (i *instance) reverted(field string) error {
	events := &corev1.EventList{}
	if err := world.client.List(i.ctx, events, client.InNamespace(i.space.name)); err != nil {
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
func (i *instance) scales() {
	i.Helper()
	i.create(operation("fewer", "HorizontalScale", i.reference(), "replicas", "2"))
	i.succeeded("fewer")
	if got := ptr.Deref(i.object().Spec.Replicas, -1); got != 1 {
		i.Errorf("the Redis declares %d replicas, want 1", got)
	}
	i.following(1)
	i.takesUpEdits()
	i.refusedOperation(operation("none", "HorizontalScale", i.reference(), "replicas", "0"), "a Redis has 1 at least")
	i.refusedOperation(operation("many", "HorizontalScale", i.reference(), "replicas", "9"), "replicas")
	i.update(func(spec *databasev1.RedisSpec) { spec.Durability, spec.Replicas = nil, ptr.To[int32](0) })
	i.following(0)
	if got := i.must("DBSIZE"); got != fmt.Sprint(manyKeys) {
		i.Errorf("alone again, there are %s keys, want %d", got, manyKeys)
	}
}
