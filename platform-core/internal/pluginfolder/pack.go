// SPDX-License-Identifier: Apache-2.0

package pluginfolder

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin"
)

// maxPartBytes is the most that a part may have: the API server takes objects of up to 1 MiB or so.
const maxPartBytes = 900 << 10

// keepAnnotation has Helm leave the object when its release is removed, since instances still use it.
const (
	keepAnnotation = "helm.sh/resource-policy"
	keepValue      = "keep"
)

// Package returns the ConfigMaps of a plugin, the manifest last, so that a reader that
// sees the manifest finds the other parts. The namespace may be empty.
func Package(sources map[plugin.Part]plugin.Source, namespace string) ([]runtime.Object, error) {
	parts := plugin.Parts()
	var objects []runtime.Object
	for _, part := range slices.Concat(parts[1:], parts[:1]) {
		source, ok := sources[part]
		if !ok {
			return nil, fmt.Errorf("cannot package the plugin: the %s part is missing", part)
		}
		size := 0
		for key, value := range source.Data {
			size += len(key) + len(value)
		}
		if size > maxPartBytes {
			return nil, fmt.Errorf("cannot package part %q: it has %d bytes, at most %d are allowed", source.Name, size,
				maxPartBytes)
		}
		objects = append(objects, &corev1.ConfigMap{
			TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{
				Name: source.Name, Namespace: namespace,
				Labels:      map[string]string{platformv1.PluginLabel: source.Plugin},
				Annotations: map[string]string{keepAnnotation: keepValue},
			},
			Immutable: new(true),
			Data:      source.Data,
		})
	}
	return objects, nil
}
