// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

// diskDriver is a CSI driver that makes snapshots.
const diskDriver = "disk.example.com"

// onDisks gives each claim of a namespace a volume of the driver, as a provisioner does.
func onDisks(t *testing.T, namespace string) {
	t.Helper()
	var claims corev1.PersistentVolumeClaimList
	if err := env.Client.List(t.Context(), &claims, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	for i := range claims.Items {
		volume := &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "pv-"},
			Spec: corev1.PersistentVolumeSpec{AccessModes: claims.Items[i].Spec.AccessModes,
				Capacity: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
				PersistentVolumeSource: corev1.PersistentVolumeSource{
					CSI: &corev1.CSIPersistentVolumeSource{Driver: diskDriver, VolumeHandle: "v"}}},
		}
		if err := env.Client.Create(t.Context(), volume); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = env.Client.Delete(context.Background(), volume) })
		body := fmt.Sprintf(`{"spec":{"volumeName":%q}}`, volume.Name)
		err := env.Client.Patch(t.Context(), &claims.Items[i], client.RawPatch(types.MergePatchType, []byte(body)))
		if err != nil {
			t.Fatal(err)
		}
	}
}

// An instance of several sets goes when there is a snapshot of each of its volumes, and one that is made anew under its
// name begins with them.
func TestAnInstanceLeavesSnapshots(t *testing.T) {
	run(t, -1)
	env.Controllers(t, testkit.GarbageCollector, testkit.ClaimProtection)
	env.InstallSnapshots(t)
	namespace := env.Namespace(t)
	node(t, namespace)
	disk := &storagev1.StorageClass{ObjectMeta: metav1.ObjectMeta{Name: "disk"}, Provisioner: diskDriver}
	if err := env.Client.Create(t.Context(), disk); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	stored := platformv1.ApplicationComponent{Name: "db",
		Storage: &platformv1.Storage{Size: resource.MustParse("1Gi"), StorageClassName: &disk.Name}}
	app := shop(namespace, "a", "tiers")
	app.Spec.Components = append(app.Spec.Components, stored)
	app.Spec.DeletionPolicy = platformv1.DeletionPolicySnapshot
	create(t, app)
	testkit.WaitForReady(t, env.Client, app)
	onDisks(t, namespace)
	env.SnapshotClass(t, "disk", diskDriver)
	was := claimsOf(t, namespace)
	if err := env.Client.Delete(t.Context(), app); err != nil {
		t.Fatal(err)
	}
	env.SnapshotsBecome(t, namespace, len(was), map[string]any{"readyToUse": true})
	testkit.Eventually(t, "the end of all sets and volumes", func(ctx context.Context) error {
		var sets platformv1.WorkloadSetList
		if err := env.Client.List(ctx, &sets, client.InNamespace(namespace)); err != nil {
			return err
		}
		if claims := claimsOf(t, namespace); len(claims)+len(sets.Items) > 0 {
			return fmt.Errorf("there are %d sets, and the claims %v", len(sets.Items), claims)
		}
		return nil
	})

	again := shop(namespace, "a", "tiers")
	again.Spec.Components = append(again.Spec.Components, stored)
	again.Spec.AdoptVolumes = string(app.UID)
	create(t, again)
	testkit.WaitForReady(t, env.Client, again)
	now := claimsOf(t, namespace)
	for name, claim := range was {
		next, found := now[name]
		if !found || next.UID == claim.UID || next.Spec.DataSource == nil ||
			!strings.HasPrefix(next.Spec.DataSource.Name, name+"-") {
			t.Errorf("claim %s is %+v", name, next.Spec)
		}
	}
}

// claimsOf are the claims of a namespace by name.
func claimsOf(t *testing.T, namespace string) map[string]corev1.PersistentVolumeClaim {
	t.Helper()
	var list corev1.PersistentVolumeClaimList
	if err := env.Client.List(t.Context(), &list, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	claims := map[string]corev1.PersistentVolumeClaim{}
	for _, claim := range list.Items {
		claims[claim.Name] = claim
	}
	return claims
}
