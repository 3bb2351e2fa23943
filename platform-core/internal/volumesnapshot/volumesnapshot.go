// SPDX-License-Identifier: Apache-2.0

// Package volumesnapshot speaks of the VolumeSnapshots of CSI drivers (snapshot.storage.k8s.io/v1), which a cluster may
// not have: what is asked of an API server that does not know them is an error for which IsAbsent is true. Nothing is
// watched. The kinds are few and their fields fewer, so that they are read without the types of their project.
package volumesnapshot

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// Group of the kinds.
const Group = "snapshot.storage.k8s.io"

var (
	// Kind of a snapshot.
	Kind = schema.GroupVersionKind{Group: Group, Version: "v1", Kind: "VolumeSnapshot"}
	// ClassKind is of what snapshots are made after.
	ClassKind = schema.GroupVersionKind{Group: Group, Version: "v1", Kind: "VolumeSnapshotClass"}
)

// KindsAbsent is why there are no snapshots in a cluster that does not know them.
const KindsAbsent = "the cluster has no VolumeSnapshots (" + Group + "/v1): install them with their controller"

// DefaultAnnotation is on the class of a driver that is taken where nobody names one.
const DefaultAnnotation = "snapshot.storage.kubernetes.io/is-default-class"

// SourceFinalizer is what the snapshot controller keeps on a claim while a snapshot is made of it.
const SourceFinalizer = "snapshot.storage.kubernetes.io/pvc-as-source-protection"

// IsHeld says whether the snapshot controller has not let go of a claim yet. It tries once when a snapshot becomes
// ready. Where that meets another change, such as a deletion, it comes back only when the snapshot changes, or with its
// next resync, after 15 minutes by default.
func IsHeld(claim *corev1.PersistentVolumeClaim) bool {
	return slices.Contains(claim.Finalizers, SourceFinalizer)
}

// IsAbsent says whether an error is that the cluster does not know the kinds, or knows them no more: then it is not an
// object that is not found.
func IsAbsent(err error) bool {
	return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) &&
		apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// Snapshot is a VolumeSnapshot as it is.
type Snapshot struct{ *unstructured.Unstructured }

// NameFor is the name of the last snapshot of a claim: that of the claim, and what tells this claim from a later one of
// its name.
func NameFor(claim *corev1.PersistentVolumeClaim) string {
	short := string(claim.UID)
	return platformv1.DerivedName(platformv1.MaxObjectName, claim.Name, short[:min(8, len(short))])
}

// Of is a snapshot, to be made, of the volume of a claim, as that leaves it. It has the labels of the claim, and whose
// data it is.
func Of(claim *corev1.PersistentVolumeClaim, by Maker) Snapshot {
	return named(NameFor(claim), claim, by, claim.Labels)
}

// For is a snapshot, to be made, of the volume of a claim that has the data of a Backup. It is none of those that an
// Application leaves, and is not found as one.
func For(b *platformv1.Backup, record *platformv1.VolumeSnapshotRecord, claim *corev1.PersistentVolumeClaim,
	by Maker) Snapshot {
	labels := maps.Clone(claim.Labels)
	delete(labels, platformv1.ApplicationUIDLabel)
	labels[platformv1.BackupLabel] = string(b.UID)
	return named(record.Name, claim, by, labels)
}

// Maker is what makes a snapshot of a volume.
type Maker struct{ Driver, Class string }

func named(name string, claim *corev1.PersistentVolumeClaim, by Maker, labels map[string]string) Snapshot {
	s := Snapshot{&unstructured.Unstructured{}}
	s.SetGroupVersionKind(Kind)
	s.SetNamespace(claim.Namespace)
	s.SetName(name)
	s.SetLabels(maps.Clone(labels))
	s.SetAnnotations(map[string]string{
		platformv1.ClaimAnnotation: claim.Name, platformv1.ClaimUIDAnnotation: string(claim.UID),
		platformv1.DriverAnnotation: by.Driver,
		platformv1.DataAnnotation:   claim.Annotations[platformv1.DataAnnotation],
	})
	s.Object["spec"] = map[string]any{"volumeSnapshotClassName": by.Class,
		"source": map[string]any{"persistentVolumeClaimName": claim.Name}}
	return s
}

// Get reads a snapshot.
func Get(ctx context.Context, live client.Reader, key client.ObjectKey) (Snapshot, error) {
	s := Snapshot{&unstructured.Unstructured{}}
	s.SetGroupVersionKind(Kind)
	return s, live.Get(ctx, key, s.Unstructured)
}

// List reads those of a namespace with these labels that are not being deleted, by name. A cluster that does not know
// the kind has none.
func List(ctx context.Context, live client.Reader, namespace string, labels client.MatchingLabels) ([]Snapshot, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(Kind.GroupVersion().WithKind(Kind.Kind + "List"))
	err := live.List(ctx, list, client.InNamespace(namespace), labels)
	if IsAbsent(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("cannot list the VolumeSnapshots of namespace %q: %w", namespace, err)
	}
	var all []Snapshot
	for i := range list.Items {
		if list.Items[i].GetDeletionTimestamp() == nil {
			all = append(all, Snapshot{&list.Items[i]})
		}
	}
	slices.SortFunc(all, func(a, b Snapshot) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return all, nil
}

// IsOf says whether a snapshot was made of this very claim.
func (s Snapshot) IsOf(claim *corev1.PersistentVolumeClaim) bool {
	return s.GetAnnotations()[platformv1.ClaimUIDAnnotation] == string(claim.UID)
}

// HasDataOf says whether a snapshot was made for this very Backup.
func (s Snapshot) HasDataOf(b *platformv1.Backup) bool {
	return s.GetLabels()[platformv1.BackupLabel] == string(b.UID)
}

// Taken is the moment that the data is of; nil while it is not known.
func (s Snapshot) Taken() *metav1.Time {
	text, _, _ := unstructured.NestedString(s.Object, "status", "creationTime")
	at, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return nil
	}
	return &metav1.Time{Time: at}
}

// Class that it was made after.
func (s Snapshot) Class() string {
	class, _, _ := unstructured.NestedString(s.Object, "spec", "volumeSnapshotClassName")
	return class
}

// IsReady says whether volumes can be made of it.
func (s Snapshot) IsReady() bool {
	ready, _, _ := unstructured.NestedBool(s.Object, "status", "readyToUse")
	return ready
}

// Error is what its driver says is wrong; empty for nothing.
func (s Snapshot) Error() string {
	failure, found, _ := unstructured.NestedMap(s.Object, "status", "error")
	if !found {
		return ""
	}
	message, _, _ := unstructured.NestedString(failure, "message")
	return cmp.Or(message, "its driver does not say why")
}

// RestoreSize is how large a volume of it has to be; zero when that is not known.
func (s Snapshot) RestoreSize() resource.Quantity {
	text, _, _ := unstructured.NestedString(s.Object, "status", "restoreSize")
	size, err := resource.ParseQuantity(text)
	if err != nil {
		return resource.Quantity{}
	}
	return size
}

// Driver that has the data; empty when it does not say.
func (s Snapshot) Driver() string { return s.GetAnnotations()[platformv1.DriverAnnotation] }

// Source is what has a claim begin with the data.
func (s Snapshot) Source() *corev1.TypedLocalObjectReference {
	return &corev1.TypedLocalObjectReference{APIGroup: new(Group), Kind: Kind.Kind, Name: s.GetName()}
}

// Generations are those of the volumes that these are of; the empty one is what a set is made with.
func Generations(all []Snapshot) []string {
	found := map[string]bool{}
	for _, s := range all {
		found[s.generation()] = true
	}
	return slices.Sorted(maps.Keys(found))
}

func (s Snapshot) generation() string { return s.GetLabels()[platformv1.GenerationLabel] }

// Latest are the last snapshots of each claim, by the name that it has without a generation: whoever begins with them
// has none yet.
func Latest(all []Snapshot) map[string]Snapshot {
	latest := map[string]Snapshot{}
	for _, s := range all {
		claim := s.GetAnnotations()[platformv1.ClaimAnnotation]
		if generation := s.generation(); generation != "" {
			claim = strings.TrimSuffix(claim, "-"+generation)
		}
		if former, found := latest[claim]; claim != "" && (!found || !s.made().Before(former.made())) {
			latest[claim] = s
		}
	}
	return latest
}

func (s Snapshot) made() time.Time { return s.GetCreationTimestamp().Time }

// MakerOf finds what makes a snapshot of the volume of a claim. Where there is none, why says so, as a part of a
// sentence.
func MakerOf(ctx context.Context, live client.Reader, claim *corev1.PersistentVolumeClaim) (by Maker, why string,
	err error) {
	volume := &corev1.PersistentVolume{}
	err = live.Get(ctx, client.ObjectKey{Name: claim.Spec.VolumeName}, volume)
	switch {
	case apierrors.IsNotFound(err):
		return by, fmt.Sprintf("its PersistentVolume %q is gone", claim.Spec.VolumeName), nil
	case err != nil:
		return by, "", fmt.Errorf("cannot read PersistentVolume %q: %w", claim.Spec.VolumeName, err)
	case volume.Spec.CSI == nil:
		return by, fmt.Sprintf("its PersistentVolume %q, of StorageClass %q, is of no CSI driver, and others make no "+
			"snapshots", volume.Name, volume.Spec.StorageClassName), nil
	}
	by.Driver = volume.Spec.CSI.Driver
	by.Class, why, err = ClassFor(ctx, live, by.Driver)
	switch {
	case IsAbsent(err):
		return by, KindsAbsent, nil
	case err != nil:
		return by, "", fmt.Errorf("cannot list VolumeSnapshotClasses: %w", err)
	}
	return by, why, nil
}

// ClassFor is the name of the class to make a snapshot after that is of a driver: the default one, or the only one.
// Where there is none, why says so.
func ClassFor(ctx context.Context, live client.Reader, driver string) (class, why string, err error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(ClassKind.GroupVersion().WithKind(ClassKind.Kind + "List"))
	if err := live.List(ctx, list); err != nil {
		return "", "", err
	}
	class, why = choose(list.Items, driver)
	return class, why, nil
}

// choose is ClassFor among these.
func choose(classes []unstructured.Unstructured, driver string) (class, why string) {
	var all, defaults []string
	for i := range classes {
		if of, _, _ := unstructured.NestedString(classes[i].Object, "driver"); of != driver {
			continue
		}
		all = append(all, classes[i].GetName())
		if classes[i].GetAnnotations()[DefaultAnnotation] == "true" {
			defaults = append(defaults, classes[i].GetName())
		}
	}
	slices.Sort(all)
	slices.Sort(defaults)
	switch {
	case len(defaults) > 0:
		return defaults[0], ""
	case len(all) == 1:
		return all[0], ""
	case len(all) == 0:
		return "", fmt.Sprintf("there is no VolumeSnapshotClass of its CSI driver %q: create one, if the driver makes "+
			"snapshots", driver)
	}
	return "", fmt.Sprintf("of its CSI driver %q there are the VolumeSnapshotClasses %s, and none is the default: "+
		"annotate one with %s: \"true\"", driver, strings.Join(all, ", "), DefaultAnnotation)
}
