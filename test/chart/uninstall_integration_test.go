// SPDX-License-Identifier: Apache-2.0

//go:build integration

package chart_test

import (
	"context"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// prepare runs what the chart's hook runs, as the account that it runs as.
func (r *release) prepare() chan error {
	r.Helper()
	path, err := operators[r.chart]()
	if err != nil {
		r.Fatal(err)
	}
	hook := exec.Command(path, "prepare-uninstall", "--namespace="+r.namespace, "--deployment="+chartName,
		"--settings-configmap="+chartName+"-settings", "--kubeconfig="+env.KubeconfigOf(r, r.account))
	ended := make(chan error, 1)
	go func() {
		text, err := hook.CombinedOutput()
		if err != nil {
			err = fmt.Errorf("%w: %s", err, text)
		}
		ended <- err
	}()
	return ended
}

// The hook refuses while an object would be stranded; else it stops the operator, which gives its Lease
// back as long as it may, so that the next one need not wait.
func TestUninstall(t *testing.T) {
	r := install(t)
	r.start()
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace,
		Name: "database-operator.zeroinfra.github.com"}}
	held := func(want bool) func() error {
		return func() error {
			if holder := ptr.Deref(lease.Spec.HolderIdentity, ""); (holder != "") != want {
				return fmt.Errorf("it is held by %q", holder)
			}
			return nil
		}
	}
	testkit.WaitFor(t, env.Client, lease, "has a holder", held(true))

	stranded := application(env.Namespace(t))
	stranded.Finalizers = []string{platformv1.VolumesFinalizer}
	stranded.Labels = map[string]string{platformv1.DomainLabel: "database"}
	if err := env.Client.Create(t.Context(), stranded); err != nil {
		t.Fatal(err)
	}
	if err := <-r.prepare(); err == nil ||
		!strings.Contains(err.Error(), "Application "+stranded.Namespace+"/redis-a has the finalizer") {
		t.Errorf("got %v, want a refusal that names the Application", err)
	}
	deployment := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: r.namespace, Name: chartName}}
	testkit.WaitFor(t, env.Client, deployment, "is as it was", func() error { return replicas(deployment, 1) })

	if err := testkit.Edit(t.Context(), env.Client, stranded, func() { stranded.Finalizers = nil }); err != nil {
		t.Fatal(err)
	}
	r.leavesARepository()
	ended := r.prepare()
	testkit.WaitFor(t, env.Client, deployment, "is scaled to 0", func() error { return replicas(deployment, 0) })
	select {
	case err := <-ended:
		t.Errorf("the hook has ended before the operator: %v", err)
	default:
	}
	// There is no kubelet here to do it.
	r.stop()
	if err := <-ended; err != nil {
		t.Errorf("the hook failed: %v", err)
	}
	testkit.WaitFor(t, env.Client, lease, "was given back", held(false))
}

// leavesARepository has the hook refuse while there is a BackupRepository on NFS, whose volume only an operator takes
// away, until another operator serves it.
func (r *release) leavesARepository() {
	r.Helper()
	repository := &platformv1.BackupRepository{
		ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(r.T), Name: "share"},
		Spec: platformv1.BackupRepositorySpec{
			NFS: &platformv1.NFSRepository{Server: "nfs.example.com", Path: "/export"}},
	}
	if err := env.Client.Create(r.Context(), repository); err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() {
		// There is no other operator here to do it.
		err := testkit.Edit(context.Background(), env.Client, repository, func() { repository.Finalizers = nil })
		if err != nil {
			r.Error(err)
		}
		if err := env.Client.Delete(context.Background(), repository); err != nil {
			r.Error(err)
		}
	})
	testkit.WaitFor(r, env.Client, repository, "has its finalizer and what the operator says", func() error {
		if !controllerutil.ContainsFinalizer(repository, platformv1.ShareFinalizer) || len(repository.Status.Domains) == 0 {
			return fmt.Errorf("finalizers %v, domains %+v", repository.Finalizers, repository.Status.Domains)
		}
		return nil
	})
	// An operator in another namespace said something, too, and is gone.
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: env.Namespace(r.T),
		Name: "storage-operator.zeroinfra.github.com"}, Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("")}}
	if err := env.Client.Create(r.Context(), lease); err != nil {
		r.Fatal(err)
	}
	before := repository.DeepCopy()
	repository.Status.Domains = append(repository.Status.Domains,
		platformv1.RepositoryState{Domain: "storage", Ready: metav1.ConditionTrue, Reason: platformv1.ReasonReady})
	if err := env.Client.Status().Patch(r.Context(), repository, client.MergeFrom(before)); err != nil {
		r.Fatal(err)
	}
	if err := <-r.prepare(); err == nil ||
		!strings.Contains(err.Error(), "BackupRepository "+repository.Namespace+"/share has the finalizer") {
		r.Errorf("got %v, want a refusal that names the BackupRepository", err)
	}
	holds := func() {
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds, lease.Spec.RenewTime = ptr.To("storage-1"),
			ptr.To[int32](3600), ptr.To(metav1.NowMicro())
	}
	if err := testkit.Edit(r.Context(), env.Client, lease, holds); err != nil {
		r.Fatal(err)
	}
}

func replicas(deployment *appsv1.Deployment, want int32) error {
	if got := ptr.Deref(deployment.Spec.Replicas, 1); got != want {
		return fmt.Errorf("it has %d replicas", got)
	}
	return nil
}
