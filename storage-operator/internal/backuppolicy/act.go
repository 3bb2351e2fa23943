// SPDX-License-Identifier: Apache-2.0

package backuppolicy

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"

	storagev1 "github.com/zeroinfra/storage-operator/api/v1"
)

// act edits some of the instances that are to be edited, others in each turn. What an API server refuses is said of the
// instance; only what is a fault of the moment is an error. It says when the rest follows: soon where something was
// changed, and later where these would only be tried again.
func (c *Controller) act(ctx context.Context, f facts, p *plan) (time.Duration, error) {
	rand.Shuffle(len(p.edits), func(i, j int) { p.edits[i], p.edits[j] = p.edits[j], p.edits[i] })
	next := later
	for _, e := range p.edits[:min(len(p.edits), mostEdits)] {
		changed, err := c.apply(ctx, f, e)
		switch {
		case err == nil && changed:
			next = again
		case err == nil, apierrors.IsNotFound(err):
		case apierrors.IsConflict(err), apierrors.IsInvalid(err), apierrors.IsForbidden(err), apierrors.IsBadRequest(err):
			p.refused(e, err)
		default:
			return 0, fmt.Errorf("cannot edit the schedules of Application %q: %w", client.ObjectKeyFromObject(e.application),
				err)
		}
	}
	return next, nil
}

// refused says of an instance why its schedules cannot be edited.
func (p *plan) refused(e edit, err error) {
	i := slices.IndexFunc(p.sources, func(s storagev1.BackupPolicySource) bool {
		return s.Namespace == e.application.Namespace && s.Application == e.application.Name
	})
	if i < 0 {
		return
	}
	if len(e.schedules) > 0 && p.sources[i].State == storagev1.SourceUncovered {
		p.pending = max(0, p.pending-1)
	}
	p.sources[i].State, p.sources[i].NextTime = storagev1.SourceUncovered, nil
	p.sources[i].Message = fmt.Sprintf("its schedules cannot be edited: %v", err)
}

// apply brings the schedules of an edit into its Application, or takes them away: what is applied no more by this owner
// goes. It says whether that changed anything.
func (c *Controller) apply(ctx context.Context, f facts, e edit) (bool, error) {
	// The UID has an Application of that name that is made anew meanwhile refused.
	metadata := map[string]any{"name": e.application.Name, "namespace": e.application.Namespace,
		"uid": string(e.application.UID)}
	object := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": platformv1.GroupVersion.String(), "kind": applicationKind, "metadata": metadata,
	}}
	options := []client.ApplyOption{client.FieldOwner(owner + "/" + f.name)}
	if len(e.schedules) > 0 {
		var entries []any
		for i := range e.schedules {
			entry, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&e.schedules[i])
			if err != nil {
				return false, err
			}
			entries = append(entries, entry)
		}
		annotations := map[string]any{annotationPrefix + f.name: string(f.policy.UID)}
		if f.policy.Spec.Drill != nil {
			annotations[drillPrefix+f.name] = string(f.policy.UID)
		}
		metadata["annotations"] = annotations
		object.Object["spec"] = map[string]any{"schedules": entries}
	}
	if by, ours := e.application.Annotations[annotationPrefix+f.name]; ours && len(e.schedules) > 0 &&
		by != string(f.policy.UID) {
		// It was that of a policy of this name that is gone. Whoever else has taken the entry over keeps it: two who insist
		// would never come to an end.
		options = append(options, client.ForceOwnership)
	}
	err := c.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), options...)
	return object.GetResourceVersion() != e.application.ResourceVersion, err
}
