// SPDX-License-Identifier: Apache-2.0

//go:build integration

package engine_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/sdk/testkit"
)

func sharedClaim(namespace, name string, labels map[string]string) *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, Labels: labels},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			},
		},
	}
}

// A volume that a user names has to be there before pods are made with it; one that is not costs no pod that runs; and
// data of another pod is refused.
func TestVolumesThatUsersName(t *testing.T) {
	namespace := env.Namespace(t)
	run(t, -1)
	node(t, namespace)
	app := testkit.BuildApplication(namespace, "b").Domain("database").Plugin("broker",
		"1.0.0").Version("1.0").Topology("cluster").Build()
	app.Spec.Components = []platformv1.ApplicationComponent{{
		Name: "broker", Mounts: []platformv1.Mount{{Name: "models",
			PersistentVolumeClaim: &platformv1.ObjectName{Name: "models"}}},
	}}
	create(t, app)
	unready(t, app, platformv1.ReasonVolumeUnavailable, `mount "models": there is no PersistentVolumeClaim "models"`)
	if pods := podNames(t, namespace); len(pods) > 0 {
		t.Fatalf("there are pods %v without their volume", pods)
	}
	create(t, sharedClaim(namespace, "models", nil))
	testkit.WaitForReady(t, env.Client, app)
	pod := &corev1.Pod{}
	key := client.ObjectKey{Namespace: namespace, Name: "b-broker-main-1"}
	if err := env.Client.Get(t.Context(), key, pod); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool {
		return v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == "models" &&
			v.PersistentVolumeClaim.ReadOnly
	}) {
		t.Errorf("the pod has the volumes %+v", pod.Spec.Volumes)
	}

	create(t, sharedClaim(namespace, "data-x-0", map[string]string{platformv1.ApplicationLabel: "x"}))
	change(t, app, func(s *platformv1.ApplicationSpec) {
		s.Components[0].Mounts = []platformv1.Mount{{Name: "scratch",
			PersistentVolumeClaim: &platformv1.ObjectName{Name: "data-x-0"}}}
	})
	unready(t, app, platformv1.ReasonVolumeUnavailable, `has data of a pod of Application "x"`)
	kept := &corev1.Pod{}
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(pod), kept); err != nil || kept.UID != pod.UID ||
		kept.DeletionTimestamp != nil {
		t.Errorf("a pod that runs was given up for a volume that it cannot have: %v", err)
	}

	two := app.DeepCopy()
	two.ObjectMeta = metav1.ObjectMeta{Namespace: namespace, Name: "c", Labels: app.Labels}
	two.Spec.Components[0].Mounts = []platformv1.Mount{{
		Name: "models", Secret: &platformv1.ObjectName{Name: "a"}, ConfigMap: &platformv1.ObjectName{Name: "a"},
	}}
	if err := env.Client.Create(t.Context(), two); err == nil ||
		!strings.Contains(err.Error(), "a mount has exactly one of") {
		t.Errorf("a mount of two volumes: %v", err)
	}
}
