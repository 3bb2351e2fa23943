// SPDX-License-Identifier: Apache-2.0

package testkit

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Samples fails the test unless the server takes each object of the files that match the pattern, in a namespace of the
// test, with no field that it does not know, and takes the same object again as an update.
func Samples(t *testing.T, c client.Client, namespace, pattern string) {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no file matches %q (%v)", pattern, err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), len(text))
			for {
				var sample unstructured.Unstructured
				if err := decoder.Decode(&sample); errors.Is(err, io.EOF) {
					return
				} else if err != nil {
					t.Fatal(err)
				}
				takesTwice(t, c, namespace, &sample)
			}
		})
	}
}

// takesTwice creates an object, updates it with what it was made from, and deletes it, so that the next one can have
// its name.
func takesTwice(t *testing.T, c client.Client, namespace string, sample *unstructured.Unstructured) {
	t.Helper()
	sample.SetNamespace(namespace)
	stored := sample.DeepCopy()
	if err := c.Create(t.Context(), stored, Strict); err != nil {
		t.Fatalf("%s %q is refused: %v", sample.GetKind(), sample.GetName(), err)
	}
	again := sample.DeepCopy()
	again.SetResourceVersion(stored.GetResourceVersion())
	if err := c.Update(t.Context(), again, Strict); err != nil {
		t.Errorf("%s %q is refused as an update: %v", sample.GetKind(), sample.GetName(), err)
	}
	unprotect := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"deletionProtection":null}}`))
	if err := errors.Join(c.Patch(t.Context(), again, unprotect), c.Delete(t.Context(), again)); err != nil {
		t.Error(err)
	}
}
