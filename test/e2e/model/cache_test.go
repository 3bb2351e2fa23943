// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/zeroinfra/test/e2e/framework"
)

// TestModelCache has each version of a cached Model be downloaded once, whatever becomes of the pods that serve it. The
// next one is cached before it is served, and the former one is removed after that. On the way back that one is
// downloaded again.
func TestModelCache(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespaceWithOperator(t, operator)
	digests := library(s, 1, 2)
	allowJobs(s)
	m := object(s, "Model", "chat",
		"cache: {serviceAccountName: "+preparer+", storage: {size: 64Mi}}\n"+modelSpec(digests, 1))
	i := object(s, "Inference", "chat",
		`{version: "0.7", modelRef: {name: chat, stage: Production}, replicas: 2, parameters: {ctx-size: 512},
  resources: {requests: {cpu: 50m, memory: 96Mi}, limits: {memory: 512Mi}}}`)
	s.WaitForReady(i)
	expectDigest(s, i, digests[1])
	complete(s, "inference-chat")
	expectDownloads(s, 1, 1)
	expectDownloads(s, 2, 0)
	expectCached(s, m, i, "v1", "v2")

	replacePods(s, i)
	s.WaitForReady(i)
	complete(s, "inference-chat")
	expectDownloads(s, 1, 1)

	promote := func(version string) {
		stage := client.RawPatch(types.MergePatchType,
			fmt.Appendf(nil, `{"spec":{"stages":{"Production":%q}}}`, version))
		if err := framework.Cluster.Client.Patch(s.Ctx, m, stage); err != nil {
			s.Fatal(err)
		}
	}
	promote("v2")
	expectDigest(s, i, digests[2])
	s.WaitForReady(i)
	complete(s, "inference-chat")
	expectCached(s, m, i, "v2", "v1")
	expectDownloads(s, 1, 1)
	expectDownloads(s, 2, 1)

	promote("v1")
	expectDigest(s, i, digests[1])
	s.WaitForReady(i)
	complete(s, "inference-chat")
	expectCached(s, m, i, "v1", "v2")
	expectDownloads(s, 1, 2)

	s.Delete(i)
	s.Delete(m)
	expectNoClaim(s, "v1")
}

// claimOf is the claim of a version in the cache.
func claimOf(version string) string { return "dataset-model-chat." + version }

// expectDownloads asks the library how often it was asked for the file of a seed.
func expectDownloads(s *framework.Namespace, seed uint64, want int) {
	s.Helper()
	said, err := framework.Logs(s.Ctx, s.Name, libraryPod, libraryPod)
	if err != nil {
		s.Fatal(err)
	}
	if got := strings.Count(said, fmt.Sprintf("GET /m%d.gguf", seed)); got != want {
		s.Errorf("m%d.gguf was downloaded %d times, want %d:\n%s", seed, got, want, said)
	}
}

// expectCached waits until a Model has one version in its cache and not another one, and finds its claim, read-only, in
// all pods.
func expectCached(s *framework.Namespace, m, i *unstructured.Unstructured, version, other string) {
	s.Helper()
	s.Eventually(framework.ReadyTimeout, version+" is in the cache", func() error {
		if err := framework.Cluster.Client.Get(s.Ctx, client.ObjectKeyFromObject(m), m); err != nil {
			return err
		}
		all, _, _ := unstructured.NestedSlice(m.Object, "status", "versions")
		for _, one := range all {
			known, _ := one.(map[string]any)
			cache, _ := known["cache"].(map[string]any)
			if known["name"] == version && cache["claim"] != claimOf(version) || known["name"] == other && cache != nil {
				return fmt.Errorf("the versions are %v", all)
			}
		}
		return framework.Current(m)
	})
	expectNoClaim(s, other)
	for _, pod := range podsOf(s, i) {
		claims := map[string]bool{}
		for _, volume := range pod.Spec.Volumes {
			if from := volume.PersistentVolumeClaim; from != nil {
				claims[from.ClaimName] = from.ReadOnly
			}
		}
		if readOnly, mounted := claims[claimOf(version)]; !mounted || !readOnly || len(claims) != 1 {
			s.Errorf("pod %s mounts %v", pod.Name, claims)
		}
	}
}

// expectNoClaim waits until the claim of a version is gone.
func expectNoClaim(s *framework.Namespace, version string) {
	s.Helper()
	s.Eventually(framework.ReadyTimeout, "the claim of "+version+" is gone", func() error {
		claim := &corev1.PersistentVolumeClaim{}
		err := framework.Cluster.Client.Get(s.Ctx, client.ObjectKey{Namespace: s.Name, Name: claimOf(version)}, claim)
		if err == nil {
			return fmt.Errorf("it is there, and its finalizers are %v", claim.Finalizers)
		}
		return framework.ErrUnlessNotFound(err)
	})
}

// podsOf are the pods of an Inference, of which there is one at least.
func podsOf(s *framework.Namespace, i *unstructured.Unstructured) []corev1.Pod {
	s.Helper()
	pods := &corev1.PodList{}
	err := framework.Cluster.Client.List(s.Ctx, pods, client.InNamespace(s.Name),
		client.MatchingLabels{"platform.zeroinfra.github.com/application": "inference-" + i.GetName()})
	if err != nil || len(pods.Items) == 0 {
		s.Fatalf("there are %d pods: %v", len(pods.Items), err)
	}
	return pods.Items
}

// replacePods deletes the pods of an Inference, and waits until there are others that are ready.
func replacePods(s *framework.Namespace, i *unstructured.Unstructured) {
	s.Helper()
	before := podsOf(s, i)
	for n := range before {
		s.Delete(&before[n])
	}
	s.Eventually(framework.ReadyTimeout, "the pods are other ones", func() error {
		for n := range before {
			pod := &corev1.Pod{}
			err := framework.Cluster.Client.Get(s.Ctx, client.ObjectKeyFromObject(&before[n]), pod)
			if err != nil {
				return err
			}
			if pod.UID == before[n].UID || !framework.PodIsReady(pod) {
				return fmt.Errorf("pod %s is %s, ready is %t", pod.Name, pod.UID, framework.PodIsReady(pod))
			}
		}
		return nil
	})
}
