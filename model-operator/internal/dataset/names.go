// SPDX-License-Identifier: Apache-2.0

package dataset

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// domain of the operator.
const domain = "model"

// deadline of an attempt.
const deadline = 24 * time.Hour

// claimName is the claim of a version. No name of a Dataset has a dot, so that no other version has it.
func claimName(ds *aiv1.Dataset, version aiv1.DatasetVersionName) string {
	return "dataset-" + ds.Name + "." + string(version)
}

// digestOf is a digest of what the spec says of a version. Quantities are as the API server keeps them.
func digestOf(v *aiv1.DatasetVersion) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // It came as JSON.
	}
	return fmt.Sprintf("%x", sha256.Sum256(data))[:16]
}

// labels of what is made for a version.
func labels(ds *aiv1.Dataset, version aiv1.DatasetVersionName) map[string]string {
	return map[string]string{
		platformv1.DomainLabel: domain, platformv1.ManagedByLabel: platformv1.ManagedBy,
		aiv1.DatasetLabel: ds.Name, aiv1.DatasetVersionLabel: string(version),
	}
}

// claimOf is the claim of a version.
func claimOf(ds *aiv1.Dataset, v *aiv1.DatasetVersion) *corev1.PersistentVolumeClaim {
	size := ds.Spec.Storage.Size.DeepCopy()
	if v.Size != nil {
		size = v.Size.DeepCopy()
	}
	mode := corev1.PersistentVolumeAccessMode(ds.Spec.Storage.AccessMode)
	if mode == "" {
		mode = corev1.ReadWriteOnce
	}
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: ds.Namespace, Name: claimName(ds, v.Name), Labels: labels(ds, v.Name),
			Annotations: map[string]string{aiv1.DatasetDigestAnnotation: digestOf(v)}},
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{mode}, StorageClassName: ds.Spec.Storage.StorageClassName,
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: size}},
		},
	}
	claim.Labels[aiv1.DatasetUIDLabel] = string(ds.UID)
	return claim
}

// operationOf is the Operation of an attempt, complete but for its owner.
func operationOf(ds *aiv1.Dataset, version aiv1.DatasetVersionName, text string, attempt int32) *platformv1.Operation {
	id, _, _ := strings.Cut(string(ds.UID), "-")
	name := platformv1.DerivedName(platformv1.MaxLabelValue, ds.Name, strings.ReplaceAll(string(version), ".", "-"),
		shortDigest(string(version)), id, strconv.Itoa(int(attempt)))
	return &platformv1.Operation{
		ObjectMeta: metav1.ObjectMeta{Namespace: ds.Namespace, Name: name, Labels: labels(ds, version)},
		Spec: platformv1.OperationSpec{
			Template: text, ServiceAccountName: ds.Spec.ServiceAccountName,
			Timeout: &metav1.Duration{Duration: deadline},
		},
	}
}

// shortDigest tells versions apart whose names differ in dots and hyphens alone: Jobs are named after Operations, and
// have no dots in the names of their pods.
func shortDigest(text string) string { return fmt.Sprintf("%x", sha256.Sum256([]byte(text)))[:4] }

// storageOf is what a claim asks for, in bytes.
func storageOf(claim *corev1.PersistentVolumeClaim) int64 {
	size := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	return size.Value()
}

// sized is a number of bytes for a person.
func sized(bytes int64) string { return resource.NewQuantity(bytes, resource.BinarySI).String() }
