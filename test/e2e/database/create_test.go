// SPDX-License-Identifier: Apache-2.0

package database

import (
	"fmt"
	"net"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// TestSamples proves that what a person applies first becomes ready and can be used with what the status names.
func TestSamples(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "sample")
	samples := s.ApplySamplesOf("database-operator")
	for _, name := range samples.Names("Redis") {
		i := &framework.Instance{Namespace: s, Name: name}
		t.Logf("sample %s: apply to Ready: %s", name, framework.FormatSeconds(i.WaitReady()))
		checkStatus(i)
		i.CheckBinding()
	}
	for _, name := range samples.Names("PostgreSQL") {
		p := &framework.PostgreSQLInstance{Namespace: s, Name: name, PortForwards: s.NewPortForwards()}
		t.Logf("sample %s: apply to Ready: %s", name, framework.FormatSeconds(p.WaitReady()))
		p.WaitForReplicas(int(p.Object().Spec.Replicas))
		p.WaitForAnswer(p.Pool(framework.Login{Bound: true}), "app", "SELECT current_user::text")
	}
	for _, name := range samples.Names("RedisCluster") {
		r := &redisCluster{Namespace: s, name: name, ways: s.NewPortForwards()}
		t.Logf("sample %s: apply to Ready: %s", name, framework.FormatSeconds(r.ready()))
		r.whole(3)
	}
}

// TestMinimal proves that a Redis of which nothing but the version is said gets the stated defaults.
func TestMinimal(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespace(t, "minimal")
	s.Create(&databasev1.Redis{ObjectMeta: framework.ObjectMeta("plain"), Spec: databasev1.RedisSpec{
		InstanceSpec: platformv1.InstanceSpec{Version: "7.0"},
	}})
	i := &framework.Instance{Namespace: s, Name: "plain"}
	t.Logf("apply to Ready: %s", framework.FormatSeconds(i.WaitReady()))
	checkStatus(i)
	i.CheckBinding()
	i.ExpectConfig(map[string]string{"appendonly": "yes", "appendfsync": "everysec", "save": "", "maxmemory": "0",
		"maxmemory-policy": "noeviction"})
	if size := i.Claim().Spec.Resources.Requests.Storage().String(); size != "1Gi" {
		t.Errorf("the claim asks for %s, want 1Gi", size)
	}
	if class := i.Claim().Spec.StorageClassName; class == nil || *class != s.DefaultClass().Name {
		t.Errorf("the claim has class %v, want the cluster's default", class)
	}
	service := &corev1.Service{}
	i.MustGet(i.Application(), service)
	if service.Spec.Type != corev1.ServiceTypeClusterIP {
		t.Errorf("the Service is of type %s, want ClusterIP", service.Spec.Type)
	}
	if policy := i.Object().Spec.DeletionPolicy; policy != platformv1.DeletionPolicyRetain {
		t.Errorf("the deletion policy is %q, want Retain", policy)
	}
	if password := i.Account().Password; len(password) < 24 {
		t.Errorf("the generated password has %d characters", len(password))
	}
	other := s.CreateRedis("second")
	other.WaitReady()
	if other.Account().Password == i.Account().Password {
		t.Error("two instances were given the same password")
	}
}

// checkStatus proves that the status says what the running server says, in the API and in kubectl's columns.
func checkStatus(i *framework.Instance) {
	i.Helper()
	r := i.Object()
	a := i.Account()
	if version := i.Info("redis_version"); r.Status.Version != version || version == "" {
		i.Errorf("status.version is %q and INFO says %q", r.Status.Version, version)
	}
	for what, pair := range map[string][2]string{
		"primary":     {r.Status.Primary, i.PodName()},
		"endpoint":    {r.Status.Endpoint, net.JoinHostPort(a.Host, a.Port)},
		"application": {r.Status.Application, i.Application()},
		"ready": {r.Status.Ready, fmt.Sprintf("%[1]d/%[1]d", 1+ptr.Deref(r.Spec.Replicas, 0)+
			ptr.Deref(r.Spec.Sentinel, databasev1.RedisSentinel{}).Replicas)},
		"phase": {string(r.Status.Phase), string(platformv1.PhaseReady)},
	} {
		if pair[0] != pair[1] {
			i.Errorf("status.%s is %q, want %q", what, pair[0], pair[1])
		}
	}
	component := platformv1.ComponentNameFor(i.Application(), framework.RedisComponent)
	i.ExpectTableColumns(databasev1.GroupVersion.WithResource("redis"), i.Name, "Version", "Pods", "Primary", "Phase",
		"Endpoint", "Message", "Age")
	i.ExpectTableColumns(platformv1.GroupVersion.WithResource("applications"), i.Application(), "Plugin", "Version",
		"Topology", "Pods", "Phase", "Message", "Age")
	i.ExpectTableColumns(platformv1.GroupVersion.WithResource("components"), component, "Application", "Component",
		"Wanted", "Ready", "Version", "Phase", "Age")
	i.ExpectTableColumns(platformv1.GroupVersion.WithResource("workloadsets"), i.WorkloadSet(), "Application", "Component",
		"Wanted", "Updated", "Ready", "Phase", "Age")
	(&framework.Namespace{T: i.T, Ctx: i.Ctx, Failures: i.Failures}).ExpectTableColumns(
		platformv1.GroupVersion.WithResource("plugins"), "redis-1.0.0", "Plugin", "Version", "Domain", "Accepted", "Digest",
		"Message")
	for _, obj := range []platformv1.Conditioned{&platformv1.Application{}, &platformv1.Component{},
		&platformv1.WorkloadSet{}} {
		checkReady(i, obj, component)
	}
}

func checkReady(i *framework.Instance, obj platformv1.Conditioned, component string) {
	i.Helper()
	var err error
	switch o := obj.(type) {
	case *platformv1.Application:
		i.MustGet(i.Application(), o)
		err = framework.ReadyNow(o, o.Status.ObservedGeneration)
	case *platformv1.Component:
		i.MustGet(component, o)
		err = framework.ReadyNow(o, o.Status.ObservedGeneration)
	case *platformv1.WorkloadSet:
		i.MustGet(i.WorkloadSet(), o)
		err = framework.ReadyNow(o, o.Status.ObservedGeneration)
	}
	if err != nil {
		i.Error(err)
	}
}
