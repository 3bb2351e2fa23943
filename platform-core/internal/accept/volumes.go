// SPDX-License-Identifier: Apache-2.0

package accept

import (
	"fmt"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/podtemplate"
	"github.com/zeroinfra/platform-core/internal/render"
	"github.com/zeroinfra/platform-core/sdk/version"
)

// DataOf says whose data the volumes of a set hold.
func DataOf(set *platformv1.WorkloadSetSpec) string {
	data := set.Plugin.Name + "/" + set.Version
	if set.Topology != "" {
		data += "/" + set.Topology
	}
	return data
}

// origin is what DataOf says, in its parts.
type origin struct{ plugin, version, topology string }

func originOf(data string) origin {
	name, rest, _ := strings.Cut(data, "/")
	of, topology, _ := strings.Cut(rest, "/")
	return origin{name, of, topology}
}

// major leaves the major version: "redis/7" of "redis/7.2".
func (o origin) major() string {
	return o.plugin + "/" + version.Major(o.version)
}

// topologies are two to be compared. One that nobody noted is like the other.
func topologies(a, b origin) (string, string) {
	if a.topology == "" || b.topology == "" {
		return "", ""
	}
	return a.topology, b.topology
}

// IsNoted says whether what a claim says of its data is true of a set. A topology alone is not added to a claim of
// before topologies were noted: that would be a write for every volume there is, at the first start of another
// operator.
func IsNoted(set *platformv1.WorkloadSetSpec, claim *corev1.PersistentVolumeClaim) bool {
	is, should := originOf(claim.Annotations[platformv1.DataAnnotation]), originOf(DataOf(set))
	noted, wanted := topologies(is, should)
	return is.plugin == should.plugin && is.version == should.version && noted == wanted
}

// Adoption says why a claim of an earlier Application is not used; nil when adoptVolumes names that Application and the
// data fits: it is of the same plugin, major version and topology, and of no later version (docs/adr/0032).
func Adoption(set *platformv1.WorkloadSetSpec, ordinal int32, claim *corev1.PersistentVolumeClaim) *render.Refusal {
	uid := claim.Labels[platformv1.ApplicationUIDLabel]
	if uid == "" {
		return refuse(platformv1.ReasonRetainedVolumesExist,
			"claim %s does not say whose data it holds and is left alone: delete it if the data is not wanted, or use another "+
				"name", claim.Name)
	}
	if set.AdoptVolumes != uid {
		return refuse(platformv1.ReasonRetainedVolumesExist,
			"claim %s holds the data of an earlier %s and is left alone: set adoptVolumes to %s to use it, delete it if the "+
				"data is not wanted, or use another name",
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

// SnapshotAdoption says why no volume is made of a snapshot that an earlier Application left, which adoptVolumes names;
// nil when the data fits as that of a volume has to, the volume is as large as the snapshot asks for, and class is of
// the driver that has the data. A class of nil is that of nobody.
func SnapshotAdoption(set *platformv1.WorkloadSetSpec, ordinal int32, volume platformv1.SetVolume,
	class *storagev1.StorageClass, snapshot LeftSnapshot) *render.Refusal {
	if r := fitting(set, ordinal, "VolumeSnapshot "+snapshot.GetName(), snapshot); r != nil {
		return r
	}
	if why := VolumeOf(volume, class, snapshot); why != "" {
		return refuse(platformv1.ReasonAdoptionRefused, "VolumeSnapshot %s cannot be adopted: %s", snapshot.GetName(), why)
	}
	return nil
}

// VolumeOf says why no such volume can be made of a snapshot, as a part of a sentence; empty when one can.
func VolumeOf(volume platformv1.SetVolume, class *storagev1.StorageClass, snapshot LeftSnapshot) string {
	if needs := snapshot.RestoreSize(); volume.Size.Cmp(needs) < 0 {
		return fmt.Sprintf("a volume of it has %s at least, and %s are asked for: ask for more storage", needs.String(),
			volume.Size.String())
	}
	if driver := snapshot.Driver(); driver != "" && class != nil && class.Provisioner != driver {
		return fmt.Sprintf("it is of the CSI driver %q, and StorageClass %q is of %q: name a class of the former in "+
			"storage.storageClassName", driver, class.Name, class.Provisioner)
	}
	return ""
}

// fitting says why the data of what another Application left, a claim or a snapshot of one, is not that of a volume of
// the set; nil when it is.
func fitting(set *platformv1.WorkloadSetSpec, ordinal int32, named string, left metav1.Object) *render.Refusal {
	labels, is, should := left.GetLabels(), originOf(left.GetAnnotations()[platformv1.DataAnnotation]),
		originOf(DataOf(set))
	noted, wanted := topologies(is, should)
	for _, trait := range []struct{ what, is, should string }{
		{"component", labels[platformv1.ComponentLabel], set.Component},
		{"set", labels[platformv1.SetLabel], set.Set},
		{"ordinal", labels[platformv1.OrdinalLabel], strconv.Itoa(int(ordinal))},
		{"plugin and major version", is.major(), should.major()},
		{"topology", noted, wanted},
	} {
		if trait.is != trait.should {
			return refuse(platformv1.ReasonAdoptionRefused,
				"%s cannot be adopted: its %s is %q and has to be %q; take adoptVolumes out or ask for what the data is of",
				named, trait.what, trait.is, trait.should)
		}
	}
	if version.Compare(set.Version, is.version) < 0 {
		return refuse(platformv1.ReasonAdoptionRefused, "%s cannot be adopted: its data is of version %s, and version %s, "+
			"which is older, may not read it: set version to %s or a later one of the same major version",
			named, is.version, set.Version, is.version)
	}
	return nil
}

// Growing says how much the volume of a claim has, and whether that is less than is asked for.
func Growing(claim *corev1.PersistentVolumeClaim) (has resource.Quantity, grows bool) {
	has, told := claim.Status.Capacity[corev1.ResourceStorage]
	asks := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	return has, told && claim.Status.Phase == corev1.ClaimBound && has.Cmp(asks) < 0
}

// Shrink says that a claim cannot have a size that is below its own; nil when it can. A size that the volume has not
// got yet can be taken back, to one above what it has: to exactly that, Kubernetes does not let a claim go back.
func Shrink(claim *corev1.PersistentVolumeClaim, size resource.Quantity) *render.Refusal {
	asks := claim.Spec.Resources.Requests[corev1.ResourceStorage]
	if asks.Cmp(size) <= 0 {
		return nil
	}
	has, grows := Growing(claim)
	switch {
	case !grows:
		return refuse(platformv1.ReasonVolumeShrinkRefused,
			"claim %s has %s and cannot shrink to %s: set the size to at least %s", claim.Name, asks.String(), size.String(),
			asks.String())
	case size.Cmp(has) <= 0:
		return refuse(platformv1.ReasonVolumeShrinkRefused,
			"claim %s has %s, is to have %s and cannot shrink to %s: set the size to one above %s", claim.Name, has.String(),
			asks.String(), size.String(), has.String())
	}
	return nil
}

// OtherClass says that a claim cannot be of the StorageClass that is asked for, since it is of another one; nil when it
// is, or when none is named.
func OtherClass(claim *corev1.PersistentVolumeClaim, volume platformv1.SetVolume) *render.Refusal {
	has, wanted := claim.Spec.StorageClassName, volume.StorageClassName
	if has == nil || *has == "" || wanted == nil || *has == *wanted {
		return nil
	}
	field, or := ClassField(volume.Name)
	return refuse(platformv1.ReasonVolumeClassRefused,
		"claim %s is of StorageClass %q and cannot be of %q: take %s out, and set it again with storageClassName %q%s",
		claim.Name, *has, *wanted, field, *has, or)
}

// ClassField is the field that has the StorageClass of a volume, and what else can be done about one that its claims
// are not of: nobody deletes data for a class.
func ClassField(volume string) (field, or string) {
	if volume == podtemplate.LogsVolume {
		return "logs.volume", ", or delete the claims of the logs before you set it again"
	}
	if i := strings.LastIndexByte(volume, '-'); i > 0 {
		if number, err := strconv.Atoi(volume[i+1:]); err == nil && number > 0 {
			return fmt.Sprintf("additionalVolumes[%d]", number-1), ""
		}
	}
	return "storage", ""
}
