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

// TestInferenceDatasets has two Inferences mount two versions of a Dataset: what they read has the digests that the
// Dataset has, and stays while they use it.
func TestInferenceDatasets(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespaceWithOperator(t, operator)
	digests := library(s, 1, 2)
	allowJobs(s)
	object(s, "Model", "chat", modelSpec(digests, 1))
	ds := object(s, "Dataset", "weights", datasetSpec(fetched("v1", 1, digests[1]), fetched("v2", 2, digests[2])))
	spec := `{version: "0.7", modelRef: {name: chat, stage: Production}, parameters: {ctx-size: 512},
  resources: {requests: {cpu: 50m, memory: 96Mi}, limits: {memory: 512Mi}}, datasets: [{name: weights, version: %s}]}`
	first, second := object(s, "Inference", "first", fmt.Sprintf(spec, "v1")),
		object(s, "Inference", "second", fmt.Sprintf(spec, "v1"))
	expectMounted(s, ds, first, "v1", digests[1])
	expectMounted(s, ds, second, "v1", digests[1])

	other := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"datasets":[{"name":"weights","version":"v2"}]}}`))
	if err := framework.Cluster.Client.Patch(s.Ctx, second, other); err != nil {
		s.Fatal(err)
	}
	expectMounted(s, ds, second, "v2", digests[2])
	expectMounted(s, ds, first, "v1", digests[1])

	// What is in use is neither taken out nor deleted.
	version(s, ds, "v1", "Ready")
	out := client.RawPatch(types.JSONPatchType, []byte(`[{"op":"remove","path":"/spec/versions/0"}]`))
	if err := framework.Cluster.Client.Patch(s.Ctx, ds, out, client.DryRunAll); err == nil ||
		!strings.Contains(err.Error(), "a version that an Inference uses cannot be taken out") {
		s.Errorf("taking out a version in use: %v", err)
	}
	if err := framework.Cluster.Client.Delete(s.Ctx, ds); err != nil {
		s.Fatal(err)
	}
	s.Eventually(framework.SettleTimeout, "the Dataset names who uses it", func() error {
		if err := framework.Cluster.Client.Get(s.Ctx, client.ObjectKeyFromObject(ds), ds); err != nil {
			return err
		}
		conditions, _, _ := unstructured.NestedSlice(ds.Object, "status", "conditions")
		if said := fmt.Sprint(conditions); !strings.Contains(said, `it is used by Inference "first" and 1 more`) {
			return fmt.Errorf("the conditions are %s", said)
		}
		return nil
	})
	expectFiles(s, first, digests[1])
	for _, i := range []*unstructured.Unstructured{first, second} {
		s.Delete(i)
	}
	s.Eventually(framework.ReadyTimeout, "the Dataset is gone", func() error {
		if err := framework.Cluster.Client.Get(s.Ctx, client.ObjectKeyFromObject(ds), ds); err != nil {
			return framework.ErrUnlessNotFound(err)
		}
		return fmt.Errorf("its finalizers are %v", ds.GetFinalizers())
	})
}

// expectMounted waits until an Inference says that it mounts a version, by the digest that the Dataset has, and reads
// the file in its pod.
func expectMounted(s *framework.Namespace, ds, i *unstructured.Unstructured, name, file string) {
	s.Helper()
	digest := version(s, ds, name, "Ready")["digest"]
	s.Eventually(framework.ReadyTimeout, "it mounts "+name, func() error {
		if err := framework.Cluster.Client.Get(s.Ctx, client.ObjectKeyFromObject(i), i); err != nil {
			return err
		}
		all, _, _ := unstructured.NestedSlice(i.Object, "status", "datasets")
		if len(all) == 1 {
			if one, _ := all[0].(map[string]any); one["version"] == name && one["digest"] == digest {
				return framework.Current(i)
			}
		}
		return fmt.Errorf("it mounts %v", all)
	})
	s.WaitForReady(i)
	expectFiles(s, i, file)
}

// expectFiles reads the file of a Dataset in each pod of an Inference, by the list that is on the volume, and tries to
// write there.
func expectFiles(s *framework.Namespace, i *unstructured.Unstructured, digest string) {
	s.Helper()
	pods := &corev1.PodList{}
	err := framework.Cluster.Client.List(s.Ctx, pods, client.InNamespace(s.Name),
		client.MatchingLabels{"platform.zeroinfra.github.com/application": "inference-" + i.GetName()})
	if err != nil || len(pods.Items) == 0 {
		s.Fatalf("there are %d pods: %v", len(pods.Items), err)
	}
	const script = "cd /datasets/weights && busybox sha256sum -c .zeroinfra/SHA256SUMS && busybox cat " +
		".zeroinfra/SHA256SUMS && ! busybox touch new 2>/dev/null && echo read-only"
	for _, pod := range pods.Items {
		said, err := framework.Run(s.Ctx, s.Name, pod.Name, "llama", "", "/usr/bin/busybox", "sh", "-c", script)
		if err != nil || !strings.Contains(said, digest) || !strings.Contains(said, "read-only") {
			s.Errorf("pod %s reads %q, want the digest %s: %v", pod.Name, said, digest, err)
		}
	}
}
