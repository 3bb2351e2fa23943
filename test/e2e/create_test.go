// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	databasev1 "github.com/zeroinfra/database-operator/api/v1"
	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// applySamples creates the database operator's samples and returns the names of those of each kind.
func (s *space) applySamples() map[string][]string {
	s.Helper()
	names := map[string][]string{}
	files, err := filepath.Glob(filepath.Join(set.samples, "*.yaml"))
	if err != nil {
		s.Fatal(err)
	}
	for _, file := range files {
		if filepath.Base(file) == "kustomization.yaml" {
			continue
		}
		data, err := os.ReadFile(file)
		if err != nil {
			s.Fatal(err)
		}
		for _, document := range strings.Split("\n"+string(data), "\n---") {
			object := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
				s.Fatalf("cannot read sample %q: %v", file, err)
			}
			if len(object.Object) == 0 {
				continue
			}
			object.SetNamespace("")
			s.create(object)
			names[object.GetKind()] = append(names[object.GetKind()], object.GetName())
		}
	}
	for _, kind := range []string{"Redis", "RedisCluster", "PostgreSQL"} {
		if len(names[kind]) == 0 {
			s.Fatalf("among the samples in %q is no %s: %v", set.samples, kind, names)
		}
	}
	return names
}

// TestSamples proves that what a person applies first becomes ready and can be used with what the status names.
func TestSamples(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "sample")
	names := s.applySamples()
	for _, name := range names["Redis"] {
		i := &instance{space: s, name: name}
		t.Logf("sample %s: apply to Ready: %s", name, seconds(i.ready()))
		i.checkStatus()
		i.checkBinding()
	}
	for _, name := range names["PostgreSQL"] {
		p := &pgInstance{space: s, name: name, ways: s.ways()}
		t.Logf("sample %s: apply to Ready: %s", name, seconds(p.ready()))
		p.following(int(p.object().Spec.Replicas))
		p.answers(p.pool(login{}), "1", "SELECT 1::text")
	}
	for _, name := range names["RedisCluster"] {
		r := &redisCluster{space: s, name: name, ways: s.ways()}
		t.Logf("sample %s: apply to Ready: %s", name, seconds(r.ready()))
		r.whole(3)
	}
}

// TestMinimal proves that a Redis of which nothing but the version is said gets the stated defaults.
func TestMinimal(t *testing.T) {
	t.Parallel()
	s := newSpace(t, "minimal")
	s.create(&databasev1.Redis{ObjectMeta: named("plain"), Spec: databasev1.RedisSpec{Version: "7.0"}})
	i := &instance{space: s, name: "plain"}
	t.Logf("apply to Ready: %s", seconds(i.ready()))
	i.checkStatus()
	i.checkBinding()
	i.want(map[string]string{"appendonly": "yes", "appendfsync": "everysec", "save": "", "maxmemory": "0", "maxmemory-policy": "noeviction"})
	if size := i.claim().Spec.Resources.Requests.Storage().String(); size != "1Gi" {
		t.Errorf("the claim asks for %s, want 1Gi", size)
	}
	if class := i.claim().Spec.StorageClassName; class == nil || *class != s.defaultClass().Name {
		t.Errorf("the claim has class %v, want the cluster's default", class)
	}
	service := &corev1.Service{}
	i.mustGet(i.application(), service)
	if service.Spec.Type != corev1.ServiceTypeClusterIP {
		t.Errorf("the Service is of type %s, want ClusterIP", service.Spec.Type)
	}
	if policy := i.object().Spec.DeletionPolicy; policy != platformv1.DeletionPolicyRetain {
		t.Errorf("the deletion policy is %q, want Retain", policy)
	}
	if password := i.account().password; len(password) < 24 {
		t.Errorf("the generated password has %d characters", len(password))
	}
	other := s.redis("second")
	other.ready()
	if other.account().password == i.account().password {
		t.Error("two instances were given the same password")
	}
}

// checkStatus proves that the status says what the running server says, in the API and in kubectl's columns.
func (i *instance) checkStatus() {
	i.Helper()
	r := i.object()
	a := i.account()
	if version := i.info("redis_version"); r.Status.Version != version || version == "" {
		i.Errorf("status.version is %q and INFO says %q", r.Status.Version, version)
	}
	for what, pair := range map[string][2]string{
		"primary":     {r.Status.Primary, i.podName()},
		"endpoint":    {r.Status.Endpoint, net.JoinHostPort(a.host, a.port)},
		"application": {r.Status.Application, i.application()},
		"ready":       {r.Status.Ready, fmt.Sprintf("%[1]d/%[1]d", 1+ptr.Deref(r.Spec.Replicas, 0)+ptr.Deref(r.Spec.Sentinel, databasev1.RedisSentinel{}).Replicas)},
		"phase":       {string(r.Status.Phase), string(platformv1.PhaseReady)},
	} {
		if pair[0] != pair[1] {
			i.Errorf("status.%s is %q, want %q", what, pair[0], pair[1])
		}
	}
	component := platformv1.ComponentNameFor(i.application(), redisComponent)
	i.wantColumns(databasev1.GroupVersion.WithResource("redis"), i.name, "Version", "Pods", "Primary", "Phase", "Endpoint", "Message", "Age")
	i.wantColumns(platformv1.GroupVersion.WithResource("applications"), i.application(), "Plugin", "Version", "Topology", "Pods", "Phase", "Message", "Age")
	i.wantColumns(platformv1.GroupVersion.WithResource("components"), component, "Application", "Component", "Wanted", "Ready", "Version", "Phase", "Age")
	i.wantColumns(platformv1.GroupVersion.WithResource("workloadsets"), i.workloadSet(), "Application", "Component", "Wanted", "Updated", "Ready", "Phase", "Age")
	(&space{T: i.T, ctx: i.ctx, failures: i.failures}).wantColumns(platformv1.GroupVersion.WithResource("plugins"), "redis-1.0.0", "Plugin", "Version", "Domain", "Accepted", "Digest", "Message")
	for _, obj := range []platformv1.Conditioned{&platformv1.Application{}, &platformv1.Component{}, &platformv1.WorkloadSet{}} {
		i.checkReady(obj, component)
	}
}

func (i *instance) checkReady(obj platformv1.Conditioned, component string) {
	i.Helper()
	var err error
	switch o := obj.(type) {
	case *platformv1.Application:
		i.mustGet(i.application(), o)
		err = readyNow(o, o.Status.ObservedGeneration)
	case *platformv1.Component:
		i.mustGet(component, o)
		err = readyNow(o, o.Status.ObservedGeneration)
	case *platformv1.WorkloadSet:
		i.mustGet(i.workloadSet(), o)
		err = readyNow(o, o.Status.ObservedGeneration)
	}
	if err != nil {
		i.Error(err)
	}
}

// checkBinding proves that the data of the binding Secret are all that a client needs, and that less is refused.
func (i *instance) checkBinding() {
	i.Helper()
	a := i.account()
	secret := &corev1.Secret{}
	i.mustGet(i.object().Status.BindingName, secret)
	if secret.Type != "servicebinding.io/redis" || string(secret.Data["type"]) != "redis" {
		i.Errorf("binding %q is of type %q with data type %q, want servicebinding.io/redis and redis", secret.Name, secret.Type, secret.Data["type"])
	}
	if out := i.must("SET", "greeting", "hello"); out != "OK" {
		i.Errorf("SET answered %q", out)
	}
	if out := i.must("GET", "greeting"); out != "hello" {
		i.Errorf("GET answered %q", out)
	}
	if out, err := i.told(func() (string, error) { return i.redisURI(a.uri, "GET", "greeting") }); err != nil || out != "hello" {
		i.Errorf("GET with the binding's uri answered %q: %v", out, err)
	}
	parsed, err := url.Parse(a.uri)
	if err != nil {
		i.Fatalf("the binding's uri cannot be parsed")
	}
	if password, _ := parsed.User.Password(); parsed.Scheme != "redis" || password != a.password || parsed.Host != net.JoinHostPort(a.host, a.port) {
		i.Errorf("the binding's uri does not carry the scheme redis and the same host, port and password as the rest")
	}
	for name, wrong := range map[string]account{
		"a wrong password": {host: a.host, port: a.port, username: a.username, password: "x" + a.password},
		"no password":      {host: a.host, port: a.port},
		"another user":     {host: a.host, port: a.port, username: "admin", password: a.password},
	} {
		out, err := i.told(func() (string, error) { return i.redisCLI(wrong, "GET", "greeting") })
		if err == nil || out == "hello" {
			i.Errorf("with %s, GET answered %q", name, out)
		} else if !strings.Contains(err.Error(), "NOAUTH") && !strings.Contains(err.Error(), "WRONGPASS") {
			i.Errorf("with %s, GET failed for another reason: %v", name, err)
		}
	}
	host := strings.TrimSuffix(a.host, ".")
	if !slices.Contains([]string{i.application() + "." + i.space.name + ".svc.cluster.local", i.application() + "." + i.space.name + ".svc", i.application() + "." + i.space.name}, host) {
		i.Errorf("the binding's host %q is not the Service of the instance", a.host)
	}
}
