// SPDX-License-Identifier: Apache-2.0

// Package volumesnapshot speaks of the VolumeSnapshots of CSI drivers (snapshot.storage.k8s.io/v1), which a cluster may not have: what is asked of an API
// server that does not know them is an error for which IsAbsent is true. Nothing is watched. The kinds are few and their fields fewer, so that they are
// read without the types of their project.
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

// DefaultAnnotation is on the class of a driver that is taken where nobody names one.
const DefaultAnnotation = "snapshot.storage.kubernetes.io/is-default-class"

// IsAbsent says whether an error is that the cluster does not know the kinds, or knows them no more: then it is not an object that is not found.
func IsAbsent(err error) bool {
	return meta.IsNoMatchError(err) || apierrors.IsNotFound(err) && apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// Snapshot is a VolumeSnapshot as it is.
type Snapshot struct{ *unstructured.Unstructured }

// NameFor is the name of the last snapshot of a claim: that of the claim, and what tells this claim from a later one of its name.
func NameFor(claim *corev1.PersistentVolumeClaim) string {
	short := string(claim.UID)
	return claim.Name + "-" + short[:min(8, len(short))]
}

// Of is a snapshot, to be made, of the volume of a claim, by the driver and after the class. It has the labels of the claim, and whose data it is.
func Of(claim *corev1.PersistentVolumeClaim, driver, class string) Snapshot {
	s := Snapshot{&unstructured.Unstructured{}}
	s.SetGroupVersionKind(Kind)
	s.SetNamespace(claim.Namespace)
	s.SetName(NameFor(claim))
	s.SetLabels(maps.Clone(claim.Labels))
	s.SetAnnotations(map[string]string{
		platformv1.ClaimAnnotation: claim.Name, platformv1.ClaimUIDAnnotation: string(claim.UID), platformv1.DriverAnnotation: driver,
		platformv1.DataAnnotation: claim.Annotations[platformv1.DataAnnotation],
	})
	s.Object["spec"] = map[string]any{"volumeSnapshotClassName": class, "source": map[string]any{"persistentVolumeClaimName": claim.Name}}
	return s
}

// Get reads a snapshot.
func Get(ctx context.Context, live client.Reader, key client.ObjectKey) (Snapshot, error) {
	s := Snapshot{&unstructured.Unstructured{}}
	s.SetGroupVersionKind(Kind)
	return s, live.Get(ctx, key, s.Unstructured)
}

// List reads those of a namespace with these labels that are not being deleted, by name. A cluster that does not know the kind has none.
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

// Latest are the last snapshots of each claim, by the name that it has without a generation: whoever begins with them has none yet.
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

// ClassFor is the name of the class to make a snapshot after that is of a driver: the default one, or the only one. Where there is none, why says so.
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
		return "", fmt.Sprintf("there is no VolumeSnapshotClass of its CSI driver %q: create one, if the driver makes snapshots", driver)
	}
	return "", fmt.Sprintf("of its CSI driver %q there are the VolumeSnapshotClasses %s, and none is the default: annotate one with %s: \"true\"", driver, strings.Join(all, ", "), DefaultAnnotation)
}
