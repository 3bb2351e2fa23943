// SPDX-License-Identifier: Apache-2.0

//go:build integration

package apply_test

import (
	"context"
	"errors"
	"io/fs"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/config/crd"
	"github.com/zeroinfra/platform-core/sdk/apply"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

var env *testkit.Env

// An Applier has the rights of an operator, so that it can do what it does with those; others who write are
// administrators.
func TestMain(m *testing.M) {
	testkit.Main(m, &env, testkit.EnvOptions{CRDs: []fs.FS{crd.FS}, System: "zeroinfra-system"})
}

// bench is an Applier in a namespace of its own, with an owner for what it makes.
type bench struct {
	*testing.T
	*apply.Applier
	namespace string
	owner     *metav1.OwnerReference
	writes    *testkit.Writes
}

func newBench(t *testing.T) *bench {
	t.Helper()
	c, writes, err := env.CountingClient()
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{T: t, Applier: apply.New(c, "test"), namespace: env.Namespace(t), writes: writes}
	b.owner = b.newOwner("owner")
	return b
}

// newOwner makes an object and returns the reference that has it control others.
func (b *bench) newOwner(name string) *metav1.OwnerReference {
	b.Helper()
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name}}
	if err := env.Client.Create(b.Context(), owner); err != nil {
		b.Fatal(err)
	}
	return metav1.NewControllerRef(owner, corev1.SchemeGroupVersion.WithKind("ConfigMap"))
}

func (b *bench) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Namespace: b.namespace, Name: name,
		Labels: map[string]string{platformv1.ManagedByLabel: platformv1.ManagedBy,
			platformv1.DomainLabel: "database"},
		OwnerReferences: []metav1.OwnerReference{*b.owner},
	}
}

// expect applies an object and checks what that did, writes included.
func (b *bench) expect(obj client.Object, change apply.Change, writes int) {
	b.Helper()
	before := obj.DeepCopyObject()
	b.writes.Count()
	got, err := b.Apply(context.Background(), obj)
	if err != nil {
		b.Fatalf("%T: %v", obj, err)
	}
	if n := b.writes.Count(); got != change || n != writes {
		b.Errorf("%T: %s with %d writes, want %s with %d", obj, got, n, change, writes)
	}
	if !equalJSON(b, before, obj) {
		b.Errorf("%T: the desired object was changed", obj)
	}
}

func (b *bench) read(obj client.Object) {
	b.Helper()
	if err := env.Client.Get(b.Context(), client.ObjectKeyFromObject(obj), obj); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) mustUpdate(obj client.Object) {
	b.Helper()
	if err := env.Client.Update(b.Context(), obj); err != nil {
		b.Fatal(err)
	}
}

// Of every kind that the engine makes, the way the server spells and defaults it must not look like drift.
func TestApplyWritesOnlyOnce(t *testing.T) {
	b := newBench(t)
	pod := corev1.PodTemplateSpec{Spec: corev1.PodSpec{Containers: []corev1.Container{{
		Name: "redis", Image: "redis",
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("1024Mi"),
				corev1.ResourceCPU: resource.MustParse("0.5")}},
	}}}}
	objects := []client.Object{
		&corev1.Service{ObjectMeta: b.meta("service"), Spec: corev1.ServiceSpec{
			Selector: map[string]string{"a": "b"},
			Ports: []corev1.ServicePort{{Name: "redis", Port: 6379, TargetPort: intstr.FromString("redis")},
				{Name: "bus", Port: 16379}},
		}},
		&corev1.Service{ObjectMeta: b.meta("headless"), Spec: corev1.ServiceSpec{
			ClusterIP: corev1.ClusterIPNone, PublishNotReadyAddresses: true, Ports: []corev1.ServicePort{{Port: 6379}},
		}},
		&rbacv1.Role{ObjectMeta: b.meta("role"), Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"patch"}},
			{APIGroups: []string{platformv1.GroupVersion.Group}, Resources: []string{"workloadsets"}, Verbs: []string{"get"},
				ResourceNames: []string{"a"}},
		}},
		&rbacv1.RoleBinding{ObjectMeta: b.meta("binding"),
			RoleRef:  rbacv1.RoleRef{Kind: "Role", Name: "role", APIGroup: rbacv1.GroupName},
			Subjects: []rbacv1.Subject{{Kind: "ServiceAccount", Name: "account", Namespace: b.namespace}}},
		&corev1.ServiceAccount{ObjectMeta: b.meta("account"), AutomountServiceAccountToken: ptr.To(false)},
		&corev1.ConfigMap{ObjectMeta: b.meta("config"), Data: map[string]string{"a": "1", "empty": ""},
			BinaryData: map[string][]byte{"b": {0, 1}}},
		&corev1.Secret{ObjectMeta: b.meta("secret"), StringData: map[string]string{"password": "x"},
			Data: map[string][]byte{"user": []byte("u")}, Type: corev1.SecretTypeOpaque},
		&corev1.PersistentVolumeClaim{ObjectMeta: b.meta("claim"), Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce}, StorageClassName: ptr.To("local-path"),
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1024Mi")}},
		}},
		&policyv1.PodDisruptionBudget{ObjectMeta: b.meta("budget"), Spec: policyv1.PodDisruptionBudgetSpec{
			MaxUnavailable: ptr.To(intstr.FromString("20%")),
			Selector:       &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
		}},
		&networkingv1.NetworkPolicy{ObjectMeta: b.meta("wall"), Spec: networkingv1.NetworkPolicySpec{
			PodSelector: metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
			Ingress: []networkingv1.NetworkPolicyIngressRule{
				{Ports: []networkingv1.NetworkPolicyPort{{Port: ptr.To(intstr.FromInt32(6379))}}}},
		}},
		&corev1.Pod{ObjectMeta: b.meta("pod"), Spec: pod.Spec},
		b.application("app"),
		b.workloadSet("set", pod),
	}
	for _, obj := range objects {
		b.expect(obj, apply.Created, 1)
		b.expect(obj, apply.Unchanged, 0)
	}
	// A restart: another Applier, which remembers nothing.
	b.Applier = newBench(t).Applier
	for _, obj := range objects {
		if change, err := b.Apply(t.Context(), obj); err != nil || change != apply.Unchanged {
			t.Errorf("%T after a restart: %s, %v", obj, change, err)
		}
	}
}

// service is an object that an operator may also delete, which it may not do with every kind that it makes.
func (b *bench) service(name string) *corev1.Service {
	return &corev1.Service{ObjectMeta: b.meta(name),
		Spec: corev1.ServiceSpec{ClusterIP: corev1.ClusterIPNone, Selector: map[string]string{"a": "1"}}}
}

func (b *bench) application(name string) *platformv1.Application {
	app := testkit.BuildApplication(b.namespace, name).
		Component("redis", 0).Storage("2048Mi").Resources("1000m", "0.5Gi").Parameter("maxmemory", "1000").Build()
	app.ObjectMeta = b.meta(name)
	app.Spec.Components[0].Service = &platformv1.ServiceExposure{}
	app.Spec.Credentials = []platformv1.Credential{
		{Name: "default", PasswordFrom: platformv1.SecretKeyReference{Name: "mine"}}}
	return app
}

func (b *bench) workloadSet(name string, pod corev1.PodTemplateSpec) *platformv1.WorkloadSet {
	return &platformv1.WorkloadSet{ObjectMeta: b.meta(name), Spec: platformv1.WorkloadSetSpec{
		Application: "app", Component: "redis", Set: "main", Version: "7.0", Replicas: 1, Revision: "1",
		Plugin:   platformv1.PluginReference{Name: "redis", Version: "1.0.0"},
		Template: runtime.RawExtension{Object: nil, Raw: toJSON(b, pod)},
		Plan:     runtime.RawExtension{Raw: []byte(`{"process":{"command":["redis-server"]},"n":1}`)},
		Volumes:  []platformv1.SetVolume{{Name: "data", Storage: platformv1.Storage{Size: resource.MustParse("1024Mi")}}},
	}}
}

func TestApplyRepairsDrift(t *testing.T) {
	b := newBench(t)
	service := &corev1.Service{ObjectMeta: b.meta("drift"), Spec: corev1.ServiceSpec{
		Selector: map[string]string{"role": "primary"}, Ports: []corev1.ServicePort{{Name: "redis", Port: 6379}},
	}}
	b.expect(service, apply.Created, 1)
	drifts := map[string]func(*corev1.Service){
		"a value":             func(s *corev1.Service) { s.Spec.Selector["role"] = "replica" },
		"a label":             func(s *corev1.Service) { delete(s.Labels, platformv1.DomainLabel) },
		"the digest":          func(s *corev1.Service) { delete(s.Annotations, platformv1.AppliedAnnotation) },
		"the owner reference": func(s *corev1.Service) { s.OwnerReferences = nil },
	}
	for name, drift := range drifts {
		t.Run(name, func(t *testing.T) {
			live := &corev1.Service{ObjectMeta: b.meta("drift")}
			b.read(live)
			drift(live)
			b.mustUpdate(live)
			b.expect(service, apply.Updated, 1)
			b.expect(service, apply.Unchanged, 0)
			b.read(live)
			if live.Spec.Selector["role"] != "primary" || live.Labels[platformv1.DomainLabel] != "database" ||
				!metav1.IsControlledBy(live, owned(b)) {
				t.Errorf("not repaired: %+v", live)
			}
		})
	}
}

func TestApplyRemovesWhatIsNoLongerWanted(t *testing.T) {
	b := newBench(t)
	config := &corev1.ConfigMap{ObjectMeta: b.meta("shrinks"), Data: map[string]string{"a": "1", "b": "2"}}
	config.Annotations = map[string]string{"note": "x"}
	b.expect(config, apply.Created, 1)
	live := &corev1.ConfigMap{ObjectMeta: b.meta("shrinks")}
	b.read(live)
	live.Data["theirs"] = "3"
	b.mustUpdate(live)
	b.expect(config, apply.Unchanged, 0)

	delete(config.Data, "b")
	config.Annotations = nil
	b.expect(config, apply.Updated, 1)
	b.expect(config, apply.Unchanged, 0)
	b.read(live)
	if _, found := live.Data["b"]; found || live.Data["theirs"] != "3" || live.Data["a"] != "1" ||
		live.Annotations["note"] != "" {
		t.Errorf("data is %v, annotations %v", live.Data, live.Annotations)
	}
}

// What an apply cannot take away, since another manager owns it, is not written for ever.
func TestApplyGivesWayAfterOneWrite(t *testing.T) {
	b := newBench(t)
	app := b.application("extra")
	b.expect(app, apply.Created, 1)
	live := &platformv1.Application{ObjectMeta: b.meta("extra")}
	b.read(live)
	live.Spec.Components = append(live.Spec.Components, platformv1.ApplicationComponent{Name: "sentinel"})
	b.mustUpdate(live)
	b.expect(app, apply.Updated, 1)
	b.expect(app, apply.Unchanged, 0)
	b.read(live)
	live.Spec.Components[0].Replicas = ptr.To[int32](5)
	b.mustUpdate(live)
	b.expect(app, apply.Updated, 1)
	b.read(live)
	if *live.Spec.Components[0].Replicas != 0 {
		t.Errorf("replicas is %d", *live.Spec.Components[0].Replicas)
	}
}

func TestNameTaken(t *testing.T) {
	b := newBench(t)
	other := b.newOwner("other")
	owned := b.meta("owned")
	owned.OwnerReferences = []metav1.OwnerReference{*other}
	foreign := metav1.ObjectMeta{Namespace: b.namespace, Name: "foreign"}
	for name, live := range map[string]metav1.ObjectMeta{"owned by another": owned, "nobody's": foreign} {
		t.Run(name, func(t *testing.T) {
			if err := env.Client.Create(t.Context(),
				&corev1.Secret{ObjectMeta: live, StringData: map[string]string{"a": "theirs"}}); err != nil {
				t.Fatal(err)
			}
			want := &corev1.Secret{ObjectMeta: b.meta(live.Name), StringData: map[string]string{"a": "ours"}}
			b.writes.Count()
			for verb, do := range map[string]func(context.Context, client.Object) (apply.Change, error){"apply": b.Apply,
				"create": b.Create} {
				change, err := do(t.Context(), want)
				var taken *apply.NameTakenError
				if !errors.As(err, &taken) || change != apply.Unchanged || taken.Leaving {
					t.Errorf("%s: %s, %v", verb, change, err)
				}
			}
			if n := b.writes.Count(); n != 0 {
				t.Errorf("%d writes to an object that is not ours", n)
			}
		})
	}
}

// An object of ours that lost its labels is not in the selected cache; an Applier runs into it, reads it and labels it
// again.
func TestApplyFindsWhatTheCacheHides(t *testing.T) {
	b := newBench(t)
	b.Applier = b.hidden()
	config := &corev1.ConfigMap{ObjectMeta: b.meta("hidden"), Data: map[string]string{"a": "1"}}
	b.expect(config, apply.Created, 1)
	live := &corev1.ConfigMap{ObjectMeta: b.meta("hidden")}
	b.read(live)
	b.expect(config, apply.Unchanged, 0)
	live.Labels = nil
	b.mustUpdate(live)
	b.expect(config, apply.Updated, 2)
	b.read(live)
	if live.Labels[platformv1.DomainLabel] != "database" {
		t.Errorf("labels are %v", live.Labels)
	}
}

// What is outside of the cache and not ours is not touched, in none of its fields.
func TestApplyLeavesForeignObjectsThatTheCacheHides(t *testing.T) {
	b := newBench(t)
	b.Applier = b.hidden()
	for name, object := range map[string]client.Object{
		"native": &corev1.ServiceAccount{}, "custom": b.application("theirs"),
	} {
		foreign := object.DeepCopyObject().(client.Object)
		foreign.SetNamespace(b.namespace)
		foreign.SetName("theirs")
		foreign.SetLabels(nil)
		foreign.SetOwnerReferences(nil)
		if err := env.Client.Create(t.Context(), foreign); err != nil {
			t.Fatal(err)
		}
		want := object.DeepCopyObject().(client.Object)
		meta := b.meta("theirs")
		want.SetNamespace(meta.Namespace)
		want.SetName(meta.Name)
		want.SetLabels(meta.Labels)
		want.SetOwnerReferences(meta.OwnerReferences)
		for verb, do := range map[string]func(context.Context, client.Object) (apply.Change, error){"apply": b.Apply,
			"create": b.Create} {
			var taken *apply.NameTakenError
			if change, err := do(t.Context(), want); !errors.As(err, &taken) || change != apply.Unchanged {
				t.Errorf("%s, %s: %s, %v", name, verb, change, err)
			}
		}
		before := foreign.GetResourceVersion()
		b.read(foreign)
		if foreign.GetResourceVersion() != before {
			t.Errorf("%s: it was written to: %+v", name, foreign)
		}
	}
}

// A cache that is behind does not have an object made twice.
func TestApplyRemembersWhatItMade(t *testing.T) {
	b := newBench(t)
	c, writes, err := env.CountingClient()
	if err != nil {
		t.Fatal(err)
	}
	b.Applier, b.writes = apply.NewWithReader(blind{c}, c, "test"), writes
	service := b.service("behind")
	b.expect(service, apply.Created, 1)
	b.expect(service, apply.Unchanged, 0)
	service.Spec.Selector["a"] = "2"
	b.expect(service, apply.Updated, 1)
	live := &corev1.Service{ObjectMeta: b.meta("behind")}
	b.read(live)
	if err := b.Delete(t.Context(), live); err != nil {
		t.Fatal(err)
	}
	b.expect(service, apply.Created, 1)
}

func TestCreate(t *testing.T) {
	b := newBench(t)
	secret := &corev1.Secret{ObjectMeta: b.meta("once"), StringData: map[string]string{"password": "first"}}
	create := func(name string, change apply.Change, writes int) {
		t.Helper()
		b.writes.Count()
		got, err := b.Create(t.Context(), secret)
		if n := b.writes.Count(); err != nil || got != change || n != writes {
			t.Errorf("%s: %s with %d writes, %v", name, got, n, err)
		}
	}
	create("first", apply.Created, 1)
	secret.StringData["password"] = "other"
	create("again", apply.Unchanged, 0)
	b.Applier = b.hidden()
	create("from a cache that has it", apply.Unchanged, 0)
	b.Applier = b.behind()
	create("from a cache that is behind", apply.Unchanged, 1)

	live := &corev1.Secret{ObjectMeta: b.meta("once")}
	b.read(live)
	if string(live.Data["password"]) != "first" {
		t.Errorf("password is %q", live.Data["password"])
	}
}

func TestDelete(t *testing.T) {
	b := newBench(t)
	service := b.service("gone")
	b.expect(service, apply.Created, 1)
	if err := b.Delete(t.Context(), service); err == nil {
		t.Error("an object without a UID was deleted")
	}
	first := &corev1.Service{ObjectMeta: b.meta("gone")}
	b.read(first)
	if err := b.Delete(t.Context(), first); err != nil {
		t.Fatal(err)
	}
	b.expect(service, apply.Created, 1)
	if err := b.Delete(t.Context(), first); err != nil {
		t.Errorf("deleting one that is gone: %v", err)
	}
	second := &corev1.Service{ObjectMeta: b.meta("gone")}
	b.read(second)
	if second.UID == first.UID {
		t.Error("the object was not made anew")
	}
	if err := b.Delete(t.Context(), second); err != nil {
		t.Fatal(err)
	}
	if err := b.Delete(t.Context(), second); err != nil {
		t.Errorf("deleting twice: %v", err)
	}
}

// An image of an object that was replaced since must not be written to the one that took its place.
func TestApplyRefusesAReplacedObject(t *testing.T) {
	b := newBench(t)
	service := b.service("replaced")
	b.expect(service, apply.Created, 1)
	stale := &corev1.Service{ObjectMeta: b.meta("replaced")}
	b.read(stale)
	if err := b.Delete(t.Context(), stale); err != nil {
		t.Fatal(err)
	}
	c, _, err := env.CountingClient()
	if err != nil {
		t.Fatal(err)
	}
	b.Applier = apply.NewWithReader(frozen{c, stale}, c, "test")
	service.Spec.Selector["a"] = "2"
	if change, err := b.Apply(t.Context(), service); err == nil {
		t.Errorf("%s by a stale image", change)
	}
	testkit.WaitGone(t, env.Client, &corev1.Service{ObjectMeta: b.meta("replaced")})
}

func TestApplyLeavesWhatIsBeingDeleted(t *testing.T) {
	b := newBench(t)
	service := b.service("leaving")
	service.Finalizers = []string{"test.zeroinfra.github.com/hold"}
	b.expect(service, apply.Created, 1)
	live := &corev1.Service{ObjectMeta: b.meta("leaving")}
	b.read(live)
	if err := b.Delete(t.Context(), live); err != nil {
		t.Fatal(err)
	}
	service.Spec.Selector["a"] = "2"
	b.expect(service, apply.Unchanged, 0)
	b.read(live)
	live.Finalizers = nil
	b.mustUpdate(live)
	testkit.WaitGone(t, env.Client, live)
	b.expect(service, apply.Created, 1)
}

func owned(b *bench) metav1.Object {
	return &metav1.ObjectMeta{UID: b.owner.UID, Name: b.owner.Name}
}
