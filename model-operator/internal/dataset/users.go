// SPDX-License-Identifier: Apache-2.0

package dataset

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	aiv1 "github.com/zeroinfra/model-operator/api/v1"
)

// uses are the versions of Datasets that an Inference is to mount, and those that pods of it mounted when they were
// last looked at, by the name of the Dataset.
func uses(i *aiv1.Inference) map[string][]aiv1.DatasetVersionName {
	all := map[string][]aiv1.DatasetVersionName{}
	for _, named := range i.Spec.Datasets {
		all[named.Name] = append(all[named.Name], named.Version)
	}
	for _, now := range i.Status.Datasets {
		if !slices.Contains(all[now.Name], now.Version) {
			all[now.Name] = append(all[now.Name], now.Version)
		}
	}
	return all
}

// ofInference wakes the Datasets that an Inference uses.
func ofInference(_ context.Context, obj client.Object) []reconcile.Request {
	var all []reconcile.Request
	for name := range uses(obj.(*aiv1.Inference)) {
		all = append(all, reconcile.Request{NamespacedName: client.ObjectKey{Namespace: obj.GetNamespace(), Name: name}})
	}
	return all
}

// users are the Inferences that use a Dataset, in the order of their names. One that is being deleted uses it until it
// is gone.
func users(ctx context.Context, from client.Reader, ds *aiv1.Dataset) ([]*aiv1.Inference, error) {
	var list aiv1.InferenceList
	if err := from.List(ctx, &list, client.InNamespace(ds.Namespace)); err != nil {
		return nil, fmt.Errorf("cannot list the Inferences that use Dataset %q: %w", ds.Name, err)
	}
	var all []*aiv1.Inference
	for i := range list.Items {
		if len(uses(&list.Items[i])[ds.Name]) > 0 {
			all = append(all, &list.Items[i])
		}
	}
	slices.SortFunc(all, func(a, b *aiv1.Inference) int { return strings.Compare(a.Name, b.Name) })
	return all, nil
}

// inUse is how many Inferences use a version.
func (f *facts) inUse(ds *aiv1.Dataset, version aiv1.DatasetVersionName) int32 {
	count := int32(0)
	for _, user := range f.users {
		if slices.Contains(uses(user)[ds.Name], version) {
			count++
		}
	}
	return count
}

// keptBy says who keeps a Dataset that is being deleted; empty for nobody.
func (f *facts) keptBy() string {
	if len(f.users) == 0 {
		return ""
	}
	more := ""
	if n := len(f.users) - 1; n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return fmt.Sprintf("it is used by Inference %q%s, and goes when nothing uses it any more: delete these, or have them "+
		"use another one", f.users[0].Name, more)
}
