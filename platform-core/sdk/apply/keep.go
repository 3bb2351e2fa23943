// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"context"
	"encoding/json"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
)

// Keep has an object go by a deletion policy under which more is kept than it was to. It cannot wait for what else is
// wanted, which may be refused or left alone: who deletes the instance next counts on it.
func (a *Applier) Keep(ctx context.Context, live client.Object, was, policy platformv1.DeletionPolicy) error {
	if live.GetDeletionTimestamp() != nil || !policy.KeepsMoreThan(was) {
		return nil
	}
	body, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": live.GetUID()},
		"spec": map[string]any{"deletionPolicy": policy}})
	if err != nil {
		return err
	}
	target, err := copyOf(live)
	if err != nil {
		return err
	}
	if err := a.client.Patch(ctx, target, client.RawPatch(client.Merge.Type(), body),
		client.FieldOwner(a.owner)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("cannot have the volumes of %q kept: %w", live.GetName(), err)
	}
	return nil
}
