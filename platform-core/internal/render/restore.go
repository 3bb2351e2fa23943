// SPDX-License-Identifier: Apache-2.0

package render

import (
	"fmt"
	"slices"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/platform-core/internal/plugin/placeholder"
)

// restore says how the volumes of the first pod are filled, where the component begins with the data of a Backup, and the set with a part of it where
// that is in several. A plugin that has lost the way back is an error: an instance that waits for its data must not begin without.
func (c *setContext) restore(values placeholder.Values) (*platformv1.SetRestore, error) {
	from := c.spec.RestoreFrom
	if from == nil || len(from.Sets) > 0 && !slices.Contains(from.Sets, c.set.name) {
		return nil, nil
	}
	method, found := c.declared.BackupMethod(from.Method)
	if !found || method.Restore == nil {
		return nil, fmt.Errorf("it begins with Backup %q, and this version of the plugin restores nothing of method %q", from.Backup, from.Method)
	}
	way, err := method.Restore.Expand(values)
	if err != nil {
		return nil, fmt.Errorf("method %q: %w", from.Method, err)
	}
	restore := &platformv1.SetRestore{From: *from, Container: c.declared.Container, Folder: way.Folder, Command: way.Command, Env: way.Env}
	if len(from.Sets) > 0 {
		// Of the others it need not know.
		restore.From.Sets, restore.Part = nil, c.set.name
	}
	return restore, nil
}
