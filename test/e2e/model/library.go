// SPDX-License-Identifier: Apache-2.0

package model

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/zeroinfra/test/e2e/framework"
	"github.com/zeroinfra/test/e2e/model/tinygguf"
)

// image has a web server for the files of models: that of busybox.
const image = "zeroinfra/llama-cpp:0.7"

// libraryPod serves the files of models, and so does the Service of that name.
const libraryPod = "library"

// library has a web server in the namespace serve the models of the seeds, as /m<seed>.gguf. It returns their digests.
func library(s *framework.Namespace, seeds ...uint64) map[uint64]string {
	s.Helper()
	digests, files := map[uint64]string{}, map[string][]byte{}
	for _, seed := range seeds {
		data := tinygguf.Model(seed)
		digests[seed] = digestOf(data)
		files[fmt.Sprintf("m%d.gguf", seed)] = data
	}
	libraryOf(s, files)
	return digests
}

func digestOf(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// libraryOf has a web server in the namespace serve files by their paths.
func libraryOf(s *framework.Namespace, files map[string][]byte) {
	s.Helper()
	volume := corev1.Volume{Name: "models", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}}
	for n, path := range slices.Sorted(maps.Keys(files)) {
		name := fmt.Sprintf("%s-%d", libraryPod, n)
		s.Create(&corev1.ConfigMap{ObjectMeta: framework.ObjectMeta(name),
			BinaryData: map[string][]byte{"file": files[path]}})
		volume.Projected.Sources = append(volume.Projected.Sources, corev1.VolumeProjection{
			ConfigMap: &corev1.ConfigMapProjection{LocalObjectReference: corev1.LocalObjectReference{Name: name},
				Items: []corev1.KeyToPath{{Key: "file", Path: path}}}})
	}
	meta := framework.ObjectMeta(libraryPod)
	meta.Labels = map[string]string{"app": libraryPod}
	s.Create(&corev1.Pod{ObjectMeta: meta, Spec: corev1.PodSpec{
		AutomountServiceAccountToken: new(false), TerminationGracePeriodSeconds: new(int64(0)),
		Volumes: []corev1.Volume{volume},
		SecurityContext: &corev1.PodSecurityContext{RunAsNonRoot: new(true), RunAsUser: new(int64(999)),
			SeccompProfile: &corev1.SeccompProfile{Type: corev1.SeccompProfileTypeRuntimeDefault}},
		Containers: []corev1.Container{{Name: libraryPod, Image: image,
			Command:      []string{"/usr/bin/busybox", "httpd", "-f", "-vv", "-p", "8080", "-h", "/models"},
			VolumeMounts: []corev1.VolumeMount{{Name: volume.Name, MountPath: "/models", ReadOnly: true}},
			SecurityContext: &corev1.SecurityContext{AllowPrivilegeEscalation: new(false),
				Capabilities: &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}}}}},
	}})
	s.Create(&corev1.Service{ObjectMeta: framework.ObjectMeta(libraryPod), Spec: corev1.ServiceSpec{
		Selector: meta.Labels, Ports: []corev1.ServicePort{{Port: 8080}}}})
}

// object makes one of the group of the operator in the namespace.
func object(s *framework.Namespace, kind, name, spec string) *unstructured.Unstructured {
	s.Helper()
	u := unmade(s, kind, name, spec)
	s.Create(u)
	return u
}

// unmade is an object that is not created yet.
func unmade(s *framework.Namespace, kind, name, spec string) *unstructured.Unstructured {
	s.Helper()
	content := map[string]any{}
	if err := yaml.Unmarshal([]byte(spec), &content); err != nil {
		s.Fatal(err)
	}
	u := &unstructured.Unstructured{Object: map[string]any{"spec": content}}
	u.SetAPIVersion("ai.zeroinfra.github.com/v1")
	u.SetKind(kind)
	u.SetName(name)
	return u
}

// modelSpec is a Model with a version for each seed, called v<seed>, of which one is in production.
func modelSpec(digests map[uint64]string, production uint64) string {
	spec := fmt.Sprintf("format: GGUF\nstages: {Production: v%d}\nversions:\n", production)
	for _, seed := range slices.Sorted(maps.Keys(digests)) {
		spec += fmt.Sprintf("  - {name: v%d, sha256: \"%s\", source: {http: {url: \"http://%s:8080/m%d.gguf\"}}}\n", seed,
			digests[seed], libraryPod, seed)
	}
	return spec
}
