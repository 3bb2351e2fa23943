// SPDX-License-Identifier: Apache-2.0

//go:build integration

package operator_test

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/operator"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// everyKind is one object of each kind of which an operator holds those of its domain, as small as the API server takes
// it.
func everyKind(t *testing.T) []client.Object {
	t.Helper()
	plugin := platformv1.PluginReference{Name: "redis", Version: "1.0.0", Digest: "sha256:" + strings.Repeat("0", 64)}
	pod := corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever,
		Volumes: []corev1.Volume{{Name: "scratch",
			VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}},
		Containers: []corev1.Container{{Name: "main", Image: "example/main:1",
			Env: []corev1.EnvVar{{Name: "A", Value: "b"}}}},
	}
	selector := metav1.LabelSelector{MatchLabels: map[string]string{"app": "a"}}
	raw := runtime.RawExtension{Raw: []byte(`{}`)}
	return []client.Object{
		testkit.BuildApplication("", "").Plugin("redis", "1.0.0").Version("7.0").Topology("standalone").Build(),
		&platformv1.Component{Spec: platformv1.ComponentSpec{Application: "a", Component: "c", Plugin: plugin, Version: "7.0",
			Topology: "standalone", Replicas: 1,
			Sets: []platformv1.ComponentSet{{Name: "main"}}}},
		&platformv1.WorkloadSet{Spec: platformv1.WorkloadSetSpec{Application: "a", Component: "c", Set: "main",
			Plugin: plugin, Version: "7.0", Replicas: 1,
			Revision: "r1", Template: raw, Plan: raw}},
		&platformv1.Operation{Spec: platformv1.OperationSpec{TemplateRef: "Restart", TargetRef: target()}},
		&platformv1.Entity{Spec: platformv1.EntitySpec{ApplicationRef: platformv1.ApplicationReference{Name: "a"},
			Type: "acl-user", Name: "e"}},
		&platformv1.Backup{Spec: platformv1.BackupSpec{ApplicationRef: platformv1.ApplicationReference{Name: "a"},
			RepositoryRef: platformv1.RepositoryReference{Name: "r"}, Method: "dump"}},
		&batchv1.Job{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: pod}}},
		&corev1.Pod{Spec: pod},
		&corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}}},
		&corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}}},
		&corev1.ConfigMap{}, &corev1.Secret{}, &corev1.ServiceAccount{}, &rbacv1.Role{},
		&rbacv1.RoleBinding{RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "a"}},
		&policyv1.PodDisruptionBudget{Spec: policyv1.PodDisruptionBudgetSpec{Selector: &selector}},
		&networkingv1.NetworkPolicy{Spec: networkingv1.NetworkPolicySpec{PodSelector: selector}},
		&networkingv1.Ingress{Spec: networkingv1.IngressSpec{DefaultBackend: &networkingv1.IngressBackend{
			Service: &networkingv1.IngressServiceBackend{Name: "a", Port: networkingv1.ServiceBackendPort{Number: 80}}}}},
		&autoscalingv2.HorizontalPodAutoscaler{Spec: autoscalingv2.HorizontalPodAutoscalerSpec{MaxReplicas: 2,
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: platformv1.GroupVersion.String(),
				Kind: "WorkloadSet", Name: "a"}}},
	}
}

func target() platformv1.TargetReference {
	return platformv1.TargetReference{APIVersion: platformv1.GroupVersion.String(), Kind: "Application", Name: "a"}
}

// owners are the domains whose objects there are in a namespace, by the names of those.
var owners = map[string]string{"ours": "database", "theirs": "message", "nobodys": ""}

// populate makes objects of every kind in a namespace, those of two domains and those of none. A Backup is made by an
// engine, as a policy asks for.
func populate(t *testing.T, namespace string, engine *testkit.Operator) {
	t.Helper()
	own, err := client.New(engine.Config, client.Options{Scheme: env.Scheme})
	if err != nil {
		t.Fatal(err)
	}
	for name, domain := range owners {
		for _, obj := range everyKind(t) {
			obj.SetNamespace(namespace)
			obj.SetName(name)
			obj.SetLabels(map[string]string{"app": "a"})
			if domain != "" {
				obj.SetLabels(map[string]string{"app": "a", platformv1.DomainLabel: domain})
			}
			maker := env.Client
			if _, ok := obj.(*platformv1.Backup); ok {
				maker = own
			}
			if err := maker.Create(t.Context(), obj); err != nil {
				t.Fatalf("cannot create %T %q: %v", obj, name, err)
			}
		}
	}
}

// An operator holds the objects of its own domain: neither those of another one that works in the same namespace, nor
// what has nothing to do with any.
func TestACacheHoldsItsOwnDomain(t *testing.T) {
	// The definitions come with an operator, which does not stay.
	first := run(t, env.Namespace(t))
	first.waitReady()
	first.end(syscall.SIGTERM)
	here, there := env.Namespace(t), env.Namespace(t)
	populate(t, here, first.account)
	populate(t, there, first.account)
	for name, c := range map[string]struct {
		domain     string
		namespaces []string
		want       []string
	}{
		"database":                  {"database", nil, []string{here + "/ours", there + "/ours"}},
		"message":                   {"message", nil, []string{here + "/theirs", there + "/theirs"}},
		"database in one namespace": {"database", []string{here}, []string{here + "/ours"}},
		"batch, which has nothing":  {"batch", nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			held := holds(t, first.account, operator.CacheOptions(c.domain, operator.Watched(c.namespaces)))
			slices.Sort(c.want)
			for kind, objects := range held {
				names := slices.DeleteFunc(slices.Sorted(maps.Keys(objects)), func(name string) bool {
					return !strings.HasPrefix(name, here+"/") && !strings.HasPrefix(name, there+"/")
				})
				if !slices.Equal(names, c.want) {
					t.Errorf("of kind %s it has %q, want %q", kind, names, c.want)
				}
			}
			for kind, objects := range held {
				// These the engine did not make, and an edit is told by who wrote what.
				if kind == "Component" || kind == "WorkloadSet" {
					continue
				}
				for name, obj := range objects {
					if len(obj.GetManagedFields()) > 0 {
						t.Errorf("%s %s is held with its managed fields", kind, name)
					}
				}
			}
			for _, obj := range held["Pod"] {
				if pod := obj.(*corev1.Pod); len(pod.Spec.Volumes) > 0 || len(pod.Spec.Containers[0].Env) > 0 {
					t.Errorf("pod %s is held with what nobody reads: %s", pod.Name, asJSON(t, pod.Spec))
				}
			}
		})
	}
}

func asJSON(t *testing.T, value any) string {
	t.Helper()
	data, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// holds runs a cache with the rights of an operator and says what it holds once it is filled: by kind, and by namespace
// and name.
func holds(t *testing.T, account *testkit.Operator, options cache.Options) map[string]map[string]client.Object {
	t.Helper()
	options.Scheme = env.Scheme
	c, err := cache.New(account.Config, options)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), testkit.Patience)
	ended := make(chan error, 1)
	go func() { ended <- c.Start(ctx) }()
	defer func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("the cache ended with: %v", err)
		}
	}()
	if !c.WaitForCacheSync(ctx) {
		t.Fatal("the cache did not start")
	}
	held := map[string]map[string]client.Object{}
	examples := everyKind(t)
	for _, object := range operator.OfDomain() {
		if !slices.ContainsFunc(examples, func(example client.Object) bool {
			return fmt.Sprintf("%T", example) == fmt.Sprintf("%T", object)
		}) {
			t.Errorf("the test has no object of %T", object)
			continue
		}
		kind, err := apiutil.GVKForObject(object, env.Scheme)
		if err != nil {
			t.Fatal(err)
		}
		list, err := env.Scheme.New(kind.GroupVersion().WithKind(kind.Kind + "List"))
		if err != nil {
			t.Fatal(err)
		}
		if err := c.List(ctx, list.(client.ObjectList)); err != nil {
			t.Fatal(err)
		}
		held[kind.Kind] = map[string]client.Object{}
		err = meta.EachListItem(list, func(item runtime.Object) error {
			obj := item.(client.Object)
			held[kind.Kind][obj.GetNamespace()+"/"+obj.GetName()] = obj
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return held
}
