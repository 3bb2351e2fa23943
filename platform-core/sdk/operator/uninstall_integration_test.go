// SPDX-License-Identifier: Apache-2.0

//go:build integration

package operator

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

func startEnv(t *testing.T) *testkit.Env {
	t.Helper()
	env, err := testkit.Start(testkit.EnvOptions{Own: "the definitions are removed"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := env.Stop(); err != nil {
			t.Error(err)
		}
	})
	return env
}

func TestUninstallIsRefused(t *testing.T) {
	env := startEnv(t)
	own := env.Namespace(t)
	check := func(arguments ...string) error {
		command := Command(Options{Domain: "database"})
		always := []string{"prepare-uninstall", "--namespace=" + own, "--kubeconfig", env.Kubeconfig(t)}
		command.SetArgs(append(always, arguments...))
		return command.ExecuteContext(t.Context())
	}
	if err := check(); err != nil {
		t.Errorf("a cluster without our definitions: %v", err)
	}

	definitions := envtest.CRDInstallOptions{Paths: []string{"../../config/crd/bases"}, MaxTime: testkit.Patience}
	if _, err := envtest.InstallCRDs(env.Config, definitions); err != nil {
		t.Fatal(err)
	}
	namespace := env.Namespace(t)
	set := func(name, domain string, finalizers ...string) {
		t.Helper()
		obj := &platformv1.WorkloadSet{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name,
				Labels: map[string]string{platformv1.DomainLabel: domain}, Finalizers: finalizers},
			Spec: platformv1.WorkloadSetSpec{
				Application: "a", Component: "c", Set: "s", Version: "1",
				Plugin: platformv1.PluginReference{Name: "p", Version: "1.0.0"}, Revision: "1",
			},
		}
		obj.Spec.Template.Raw, obj.Spec.Plan.Raw = []byte(`{}`), []byte(`{}`)
		if err := env.Client.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	set("plain", "database")
	set("foreign", "database", "example.com/theirs")
	set("elsewhere", "message", platformv1.VolumesFinalizer)
	if err := check(); err != nil {
		t.Errorf("nothing of this domain is held: %v", err)
	}
	set("held", "database", platformv1.VolumesFinalizer)
	err := check()
	if err == nil || !strings.Contains(err.Error(), "WorkloadSet "+namespace+"/held has the finalizer") ||
		strings.Contains(err.Error(), "elsewhere") {
		t.Errorf("got %v, want an error that names the held object", err)
	}
	if err := check("--watch-namespaces=" + own); err != nil {
		t.Errorf("it is not in a namespace of this operator: %v", err)
	}
	if err := check("--watch-namespaces=" + own + "," + namespace); err == nil {
		t.Error("it is in a namespace of this operator")
	}

	standsByForAnother(t, env, check)

	held := &platformv1.WorkloadSet{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "held"}}
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(held), held); err != nil {
		t.Fatal(err)
	}
	if err := testkit.Edit(t.Context(), env.Client, held, func() { held.Finalizers = nil }); err != nil {
		t.Fatal(err)
	}
	repositoryIsHeld(t, env, namespace, check)

	if err := check("--force"); err != nil {
		t.Errorf("it was told to: %v", err)
	}
	isForcedBySettings(t, env, own, check)
}

// isForcedBySettings has the settings of an operator say that it goes, whatever there is.
func isForcedBySettings(t *testing.T, env *testkit.Env, own string, check func(...string) error) {
	t.Helper()
	settings := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: "database-operator-settings"},
		Data: map[string]string{"uninstall.force": "false"}}
	if err := env.Client.Create(t.Context(), settings); err != nil {
		t.Fatal(err)
	}
	if err := check(); err == nil || !strings.Contains(err.Error(), own+"/database-operator-settings") {
		t.Errorf("got %v, want an error that says where to force it", err)
	}
	force := func() { settings.Data["uninstall.force"] = "true" }
	if err := testkit.Edit(t.Context(), env.Client, settings, force); err != nil {
		t.Fatal(err)
	}
	if err := check(); err != nil {
		t.Errorf("the settings say so: %v", err)
	}
}

// standsByForAnother has an operator be uninstalled that stands by for another one, which finishes deleting what there
// is.
func standsByForAnother(t *testing.T, env *testkit.Env, check func(...string) error) {
	t.Helper()
	elsewhere := env.Namespace(t)
	registry := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: "kube-system", Name: "database-scopes.zeroinfra.github.com",
		Annotations: map[string]string{"operator.platform.zeroinfra.github.com/" + elsewhere: "*"},
	}}
	leader := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: elsewhere, Name: leaseName("database")}}
	leader.Spec = coordinationv1.LeaseSpec{
		HolderIdentity: ptr.To("operator-1"), LeaseDurationSeconds: ptr.To[int32](3600),
		RenewTime: ptr.To(metav1.NowMicro()),
	}
	for _, obj := range []client.Object{registry, leader} {
		if err := env.Client.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	if err := check(); err != nil {
		t.Errorf("another operator serves all namespaces: %v", err)
	}
	for _, obj := range []client.Object{leader, registry} {
		if err := env.Client.Delete(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
		if err := check(); err == nil {
			t.Errorf("without %T %q there is no other operator", obj, obj.GetName())
		}
	}
}

// repositoryIsHeld has a BackupRepository be let go of by any operator that serves it, and leaves it to this one alone.
func repositoryIsHeld(t *testing.T, env *testkit.Env, namespace string, check func(...string) error) {
	t.Helper()
	repository := &platformv1.BackupRepository{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "share", Finalizers: []string{platformv1.ShareFinalizer}},
		Spec: platformv1.BackupRepositorySpec{
			NFS: &platformv1.NFSRepository{Server: "nfs.example.com", Path: "/export"}},
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(t), Name: leaseName("storage")},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("operator-1"), LeaseDurationSeconds: ptr.To[int32](3600),
			RenewTime: ptr.To(metav1.NowMicro()),
		}}
	for _, obj := range []client.Object{repository, lease} {
		if err := env.Client.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	spoken := func(domains ...string) {
		t.Helper()
		before := repository.DeepCopy()
		repository.Status.Domains = nil
		for _, domain := range domains {
			repository.Status.Domains = append(repository.Status.Domains,
				platformv1.RepositoryState{Domain: domain, Ready: metav1.ConditionTrue, Reason: platformv1.ReasonReady})
		}
		if err := env.Client.Status().Patch(t.Context(), repository, client.MergeFrom(before)); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(when string) {
		t.Helper()
		if err := check(); err == nil || !strings.Contains(err.Error(), "BackupRepository "+namespace+
			"/share has the finalizer "+platformv1.ShareFinalizer) {
			t.Errorf("%s: got %v, want an error that names the BackupRepository", when, err)
		}
	}
	spoken("database")
	refused("another operator leads, and does not serve it")
	spoken("database", "message", "storage")
	if err := check(); err != nil {
		t.Errorf("another operator serves it: %v", err)
	}
	if err := testkit.Edit(t.Context(), env.Client, lease, func() { lease.Spec.HolderIdentity = ptr.To("") }); err != nil {
		t.Fatal(err)
	}
	refused("the other operator is gone")
}

// The hook ends when the operator has given its lease back, and not before.
func TestStandDown(t *testing.T) {
	env := startEnv(t)
	own := env.Namespace(t)
	labels := map[string]string{"a": "b"}
	deployment := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: "operator"},
		Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](2), Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "a", Image: "a"}}},
			}},
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: own, Name: leaseName("database")},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("operator-1"), LeaseDurationSeconds: ptr.To[int32](3600),
			RenewTime: ptr.To(metav1.NowMicro()),
		}}
	for _, obj := range []client.Object{deployment, lease} {
		if err := env.Client.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	prepare := func(ctx context.Context, name string) chan error {
		ended := make(chan error, 1)
		go func() {
			command := Command(Options{Domain: "database"})
			command.SetArgs([]string{"prepare-uninstall", "--namespace=" + own, "--kubeconfig", env.Kubeconfig(t),
				"--deployment=" + name})
			ended <- command.ExecuteContext(ctx)
		}()
		return ended
	}
	ended := prepare(t.Context(), deployment.Name)
	testkit.WaitFor(t, env.Client, deployment, "is scaled to 0", func() error {
		if *deployment.Spec.Replicas != 0 {
			return errors.New("it is not")
		}
		return nil
	})
	select {
	case err := <-ended:
		t.Errorf("it ended while the operator held its lease: %v", err)
	case <-time.After(5 * standDownLook):
	}
	if err := testkit.Edit(t.Context(), env.Client, lease, func() { lease.Spec.HolderIdentity = ptr.To("") }); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err != nil {
		t.Errorf("the lease was given back: %v", err)
	}

	// A lease that has run out is nobody's, and an operator that is gone already is stopped.
	past := func() {
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = ptr.To("operator-1"), ptr.To[int32](1)
		lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(time.Now().Add(-time.Minute)))
	}
	if err := testkit.Edit(t.Context(), env.Client, lease, past); err != nil {
		t.Fatal(err)
	}
	if err := <-prepare(t.Context(), "gone"); err != nil {
		t.Errorf("there is nothing to wait for: %v", err)
	}
}
