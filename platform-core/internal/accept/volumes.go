// SPDX-License-Identifier: Apache-2.0

package accept

import (
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/opsflow"
	"github.com/zeroinfra/platform-core/internal/render"
)

// DataOf says whose data the volumes of a set hold.
func DataOf(set *platformv1.WorkloadSetSpec) string {
	return set.Plugin.Name + "/" + set.Version
}

// majorOf leaves the major version of what DataOf says: "redis/7" of "redis/7.2".
func majorOf(data string) string {
	name, version, _ := strings.Cut(data, "/")
	major, _, _ := strings.Cut(version, ".")
	return name + "/" + major
}

// Adoption says why a claim of an earlier Application is not used; nil when adoptVolumes names that Application and the data fits: it is of the
// same plugin and major version, and of no later version (docs/adr/0032).
func Adoption(set *platformv1.WorkloadSetSpec, ordinal int32, claim *corev1.PersistentVolumeClaim) *render.Refusal {
	uid := claim.Labels[platformv1.ApplicationUIDLabel]
	if uid == "" {
		return refuse(platformv1.ReasonRetainedVolumesExist,
			"claim %s does not say whose data it holds and is left alone: delete it if the data is not wanted, or use another name", claim.Name)
	}
	if set.AdoptVolumes != uid {
		return refuse(platformv1.ReasonRetainedVolumesExist,
			"claim %s holds the data of an earlier %s and is left alone: set adoptVolumes to %s to use it, delete it if the data is not wanted, or use another name",
			claim.Name, set.Application, uid)
	}
	if claim.DeletionTimestamp != nil {
		return refuse(platformv1.ReasonAdoptionRefused, "claim %s cannot be adopted: it is being deleted", claim.Name)
	}
	return fitting(set, ordinal, "claim "+claim.Name, claim)
}

// LeftSnapshot is a VolumeSnapshot that an earlier Application left.
type LeftSnapshot interface {
	metav1.Object
	// RestoreSize is how large a volume of it has to be; zero when that is not known.
	RestoreSize() resource.Quantity
	// Driver is the CSI driver that has the data; empty when it does not say.
	Driver() string
}

// SnapshotAdoption says why no volume is made of a snapshot that an earlier Application left, which adoptVolumes names; nil when the data fits as that of a
// volume has to, the volume is as large as the snapshot asks for, and class is of the driver that has the data. A class of nil is that of nobody.
func SnapshotAdoption(set *platformv1.WorkloadSetSpec, ordinal int32, volume platformv1.SetVolume, class *storagev1.StorageClass, snapshot LeftSnapshot) *render.Refusal {
	if r := fitting(set, ordinal, "VolumeSnapshot "+snapshot.GetName(), snapshot); r != nil {
		return r
	}
	if needs := snapshot.RestoreSize(); volume.Size.Cmp(needs) < 0 {
		return refuse(platformv1.ReasonAdoptionRefused, "VolumeSnapshot %s cannot be adopted: a volume of it has %s at least, and %s are asked for: ask for more storage", snapshot.GetName(), needs.String(), volume.Size.String())
	}
	if driver := snapshot.Driver(); driver != "" && class != nil && class.Provisioner != driver {
		return refuse(platformv1.ReasonAdoptionRefused, "VolumeSnapshot %s cannot be adopted: it is of the CSI driver %q, and StorageClass %q is of %q: name a class of the former in storage.storageClassName",
			snapshot.GetName(), driver, class.Name, class.Provisioner)
	}
	return nil
}

// fitting says why the data of what another Application left, a claim or a snapshot of one, is not that of a volume of the set; nil when it is.
func fitting(set *platformv1.WorkloadSetSpec, ordinal int32, named string, left metav1.Object) *render.Refusal {
	labels, data := left.GetLabels(), left.GetAnnotations()[platformv1.DataAnnotation]
	for _, trait := range []struct{ what, is, should string }{
		{"component", labels[platformv1.ComponentLabel], set.Component},
		{"set", labels[platformv1.SetLabel], set.Set},
		{"ordinal", labels[platformv1.OrdinalLabel], strconv.Itoa(int(ordinal))},
		{"plugin and major version", majorOf(data), majorOf(DataOf(set))},
	} {
		if trait.is != trait.should {
			return refuse(platformv1.ReasonAdoptionRefused, "%s cannot be adopted: its %s is %q and has to be %q; take adoptVolumes out or ask for what the data is of",
				named, trait.what, trait.is, trait.should)
		}
	}
	if _, version, _ := strings.Cut(data, "/"); opsflow.IsOlder(set.Version, version) {
		return refuse(platformv1.ReasonAdoptionRefused, "%s cannot be adopted: its data is of version %s, and version %s, which is older, may not read it: set version to %s or a later one of the same major version",
			named, version, set.Version, version)
	}
	return nil
}

// Shrink says that a claim cannot have a size that is below its own; nil when it is not.
func Shrink(claim *corev1.PersistentVolumeClaim, size resource.Quantity) *render.Refusal {
	have := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if have.Cmp(size) <= 0 {
		return nil
	}
	return refuse(platformv1.ReasonVolumeShrinkRefused,
		"claim %s has %s and cannot shrink to %s: set the size to at least %s", claim.Name, have.String(), size.String(), have.String())
}
