// SPDX-License-Identifier: Apache-2.0

package model

import (
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	storagev1 "github.com/zeroinfra/storage-operator/api/v1"

	"github.com/zeroinfra/test/e2e/framework"
	"github.com/zeroinfra/test/e2e/model/tinygguf"
)

// shelf is the bucket of models, and a folder in it.
const (
	shelf       = "models"
	shelfFolder = "chat/"
	// denied is what the storage says to who may not.
	denied = "Access Denied"
)

// TestFilesInObjectStorage has a version of a Dataset and the servers of an Inference fetch a file from an
// ObjectStorage, by TLS, as a user who may read the bucket. For one who may not the version fails and says why, and the
// Inference says the same, waits, and is ready once the user may.
func TestFilesInObjectStorage(t *testing.T) {
	t.Parallel()
	s := framework.NewNamespaceWithOperator(t, operator)
	s.EnsureStorageOperator()
	allowJobs(s)
	file := tinygguf.Model(1)
	o := shelfOf(s, map[string]string{shelfFolder + "m1.gguf": string(file)})
	from := func(user, field string) string {
		return fmt.Sprintf("source: {s3: {endpoint: %q, bucket: %s, %s, credentialsSecretRef: {name: %s}, "+
			"caSecretRef: {name: %s}}}", o.Binding()["endpoint"], shelf, field, user, o.Object().Status.BindingName)
	}
	fetched := func(name, user string) string {
		return fmt.Sprintf(`{name: %s, %s, files: [{path: m1.gguf, sha256: "%s"}]}`, name,
			from(user, "prefix: "+shelfFolder), digestOf(file))
	}
	object(s, "Model", "chat", fmt.Sprintf("format: GGUF\nversions:\n  - {name: v1, sha256: %q, %s}\n", digestOf(file),
		from("stranger", "key: "+shelfFolder+"m1.gguf")))
	i := object(s, "Inference", "chat", `{version: "0.7", modelRef: {name: chat, version: v1}, parameters: {ctx-size: 512},
  resources: {requests: {cpu: 50m, memory: 96Mi}, limits: {memory: 512Mi}}}`)
	ds := object(s, "Dataset", "weights", datasetSpec(fetched("v1", "reader"), fetched("refused", "stranger")))

	phase(s, reader(s, "check", version(s, ds, "v1", "Ready"), "/usr/bin/busybox", "sha256sum", "-c",
		".zeroinfra/SHA256SUMS"), corev1.PodSucceeded)
	if said := fmt.Sprint(version(s, ds, "refused", "Failed")["message"]); !strings.Contains(said, denied) {
		s.Errorf("the version says %s", said)
	}
	tellsRefusal(s, i)
	o.Update(func(spec *storagev1.ObjectStorageSpec) { spec.Users[1].Grants = spec.Users[0].Grants })
	s.WaitForReady(i)
	complete(s, "inference-chat")
}

// shelfOf is an ObjectStorage with objects in the bucket of models. The user reader may read it; stranger may not.
func shelfOf(s *framework.Namespace, objects map[string]string) *framework.ObjectStorage {
	s.Helper()
	users := make([]storagev1.ObjectStorageUser, 0, 2)
	for _, name := range []string{"reader", "stranger"} {
		s.Create(&corev1.Secret{ObjectMeta: framework.ObjectMeta(name),
			StringData: map[string]string{"accessKey": name, "secretKey": "key-of-the-" + name}})
		users = append(users, storagev1.ObjectStorageUser{Name: name,
			SecretKeyFrom: platformv1.SecretKeyReference{Name: name, Key: "secretKey"}})
	}
	users[0].Grants = []storagev1.ObjectStorageGrant{{Bucket: shelf, Access: "Read"}}
	issuer := s.CreateClusterIssuer()
	o := s.CreateObjectStorage("shelf", func(spec *storagev1.ObjectStorageSpec) {
		spec.TLS = &platformv1.TLS{Enabled: true, IssuerRef: issuer}
		spec.Buckets = []storagev1.ObjectStorageBucket{{Name: shelf}}
		spec.Users = users
	})
	o.WaitReady()
	root := o.RootClient(o.Pod("main", 0))
	for name, text := range objects {
		o.Put(root, shelf, name, text)
	}
	return o
}

// tellsRefusal waits until an Inference, which is not ready, says that the storage refuses the file.
func tellsRefusal(s *framework.Namespace, i *unstructured.Unstructured) {
	s.Helper()
	s.Eventually(framework.ReadyTimeout, "the Inference says why it is not ready", func() error {
		if err := framework.Cluster.Client.Get(s.Ctx, client.ObjectKeyFromObject(i), i); err != nil {
			return err
		}
		ready, _, _ := unstructured.NestedString(i.Object, "status", "ready")
		conditions, _, _ := unstructured.NestedSlice(i.Object, "status", "conditions")
		for _, one := range conditions {
			condition, _ := one.(map[string]any)
			message, _ := condition["message"].(string)
			if condition["type"] == platformv1.ReadyCondition && ready == "0/1" && strings.Contains(message, denied) {
				return nil
			}
		}
		return fmt.Errorf("%q servers are ready, and the conditions are %v", ready, conditions)
	})
}
