// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/test/e2e/framework"
)

// preparer is the account that prepares versions.
const preparer = "preparer"

// allowJobs makes that account, which may make Jobs and nothing else.
func allowJobs(s *framework.Namespace) {
	s.Helper()
	s.Create(&corev1.ServiceAccount{ObjectMeta: framework.ObjectMeta(preparer)})
	s.Create(&rbacv1.Role{ObjectMeta: framework.ObjectMeta(preparer), Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{"batch"}, Resources: []string{"jobs"}, Verbs: []string{"create"}}}})
	s.Create(&rbacv1.RoleBinding{ObjectMeta: framework.ObjectMeta(preparer),
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: preparer},
		Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: s.Name, Name: preparer}}})
}

// datasetSpec is a Dataset whose claims go with it, with these versions in YAML.
func datasetSpec(versions ...string) string {
	return "serviceAccountName: " + preparer +
		"\nstorage: {size: 64Mi}\nretention: {deletionPolicy: Delete}\nversions:\n  - " + strings.Join(versions, "\n  - ") +
		"\n"
}

// fetched is a version of the file of a seed, from the library.
func fetched(name string, seed uint64, digest string) string {
	return fmt.Sprintf(`{name: %s, source: {http: {url: "http://%s:8080"}}, files: [{path: m%d.gguf, sha256: "%s"}]}`,
		name, libraryPod, seed, digest)
}

// version waits until one of a Dataset has a phase, and returns its status.
func version(s *framework.Namespace, ds *unstructured.Unstructured, name, phase string) map[string]any {
	s.Helper()
	var found map[string]any
	s.Eventually(framework.ReadyTimeout, "version "+name+" is "+phase, func() error {
		if err := framework.Cluster.Client.Get(s.Ctx, client.ObjectKeyFromObject(ds), ds); err != nil {
			return err
		}
		all, _, _ := unstructured.NestedSlice(ds.Object, "status", "versions")
		for _, one := range all {
			if found, _ = one.(map[string]any); found["name"] == name && found["phase"] == phase {
				return nil
			}
		}
		return fmt.Errorf("the versions are %v", all)
	})
	return found
}

// reader is a pod with the claim of a version in /data, read-only.
func reader(s *framework.Namespace, name string, version map[string]any, command ...string) *corev1.Pod {
	s.Helper()
	claim, _ := version["claim"].(string)
	path, _ := version["path"].(string)
	pod := &corev1.Pod{ObjectMeta: framework.ObjectMeta(name), Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever, AutomountServiceAccountToken: new(false),
		TerminationGracePeriodSeconds: new(int64(0)),
		SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: new(true), RunAsUser: new(int64(999)),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		Volumes: []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim, ReadOnly: true}}}},
		Containers: []corev1.Container{{Name: name, Image: image, Command: command, WorkingDir: "/data",
			VolumeMounts: []corev1.VolumeMount{{Name: "data", MountPath: "/data", SubPath: path, ReadOnly: true}},
			SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: new(false),
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}}},
	}}
	s.Create(pod)
	return pod
}

// phase waits until a pod has one.
func phase(s *framework.Namespace, pod *corev1.Pod, want corev1.PodPhase) {
	s.Helper()
	s.Eventually(framework.ReadyTimeout, fmt.Sprintf("pod %s is %s", pod.Name, want), func() error {
		s.MustGet(pod.Name, pod)
		if pod.Status.Phase != want {
			said, _ := framework.Logs(s.Ctx, s.Name, pod.Name, pod.Name)
			return fmt.Errorf("it is %s: %s", pod.Status.Phase, said)
		}
		return nil
	})
}

// TestDataset fetches a version, makes another one of it, has two pods read each, and refuses a file that is another.
// It runs before the tests beside which others may run, since each installs the operator.
func TestDataset(t *testing.T) {
	s := framework.NewNamespaceWithOperator(t, operator)
	digests := library(s, 1, 2)
	allowJobs(s)
	made := `{name: copied, from: {version: v1, steps: [{name: copy, image: "` + image + `", runAsUser: 999,
      command: [/usr/bin/busybox, sh, -ec, "/usr/bin/busybox mkdir -p /output/all &&
        /usr/bin/busybox cp /input/m1.gguf /output/all/"]}]}}`
	ds := object(s, "Dataset", "weights", datasetSpec(fetched("v1", 1, digests[1]), fetched("bad", 1, digests[2]),
		made))
	v1, copied := version(s, ds, "v1", "Ready"), version(s, ds, "copied", "Ready")
	for name, one := range map[string]map[string]any{"v1": v1, "copied": copied} {
		for i := range 2 {
			pod := reader(s, fmt.Sprintf("%s-%d", name, i), one, "/usr/bin/busybox", "sha256sum", "-c",
				".zeroinfra/SHA256SUMS")
			phase(s, pod, corev1.PodSucceeded)
			// One that has ended keeps a claim as long as it exists.
			s.Delete(pod)
		}
	}
	bad := version(s, ds, "bad", "Failed")
	said, _ := bad["message"].(string)
	if bad["claim"] != nil || !strings.Contains(said, "has the SHA-256 digest "+digests[1]) {
		s.Errorf("the version with another digest is %v", bad)
	}
	if from, _, _ := unstructured.NestedString(copied, "provenance", "digest"); from == "" || from != v1["digest"] {
		s.Errorf("the provenance is %v, and it was made from %v", copied["provenance"], v1["digest"])
	}

	// The same files under the same names have the same digest, wherever they are.
	claim, _ := v1["claim"].(string)
	again := object(s, "Dataset", "again",
		datasetSpec(fmt.Sprintf(`{name: v1, source: {pvc: {claimName: %s}}, files: [{path: m1.gguf, sha256: "%s"}]}`,
			claim, digests[1])))
	if verified := version(s, again, "v1", "Ready"); verified["digest"] != v1["digest"] ||
		verified["claim"] != v1["claim"] {
		s.Errorf("the version on the claim is %v, want the digest and the claim of %v", verified, v1)
	}
	s.Delete(again)
	expectHeld(s, ds, v1)
	s.UninstallOperator(operator)
}

// expectHeld deletes a Dataset while a pod reads a version, which goes on, and is gone with its claim when the pod is.
func expectHeld(s *framework.Namespace, ds *unstructured.Unstructured, version map[string]any) {
	s.Helper()
	pod := reader(s, "holder", version, "/usr/bin/busybox", "sleep", "3600")
	phase(s, pod, corev1.PodRunning)
	s.Delete(ds)
	s.Eventually(framework.SettleTimeout, "the Dataset names the pod", func() error {
		if err := framework.Cluster.Client.Get(s.Ctx, client.ObjectKeyFromObject(ds), ds); err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(ds.Object, "status", "conditions")
		if said := fmt.Sprint(conditions); !strings.Contains(said, `pod "holder" mounts`) {
			return fmt.Errorf("the conditions are %s", said)
		}
		return nil
	})
	claim := &corev1.PersistentVolumeClaim{}
	name, _ := version["claim"].(string)
	s.MustGet(name, claim)
	if claim.DeletionTimestamp != nil {
		s.Errorf("the claim %s is being deleted, and a pod mounts it", name)
	}
	s.Delete(pod)
	s.Eventually(framework.ReadyTimeout, "the Dataset and its claim are gone", func() error {
		for _, obj := range []client.Object{ds, claim} {
			err := framework.Cluster.Client.Get(s.Ctx, client.ObjectKeyFromObject(obj), obj)
			if err == nil {
				return fmt.Errorf("%s is still there", obj.GetName())
			}
			if err := framework.ErrUnlessNotFound(err); err != nil {
				return err
			}
		}
		return nil
	})
}
