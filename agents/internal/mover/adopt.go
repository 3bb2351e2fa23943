// SPDX-License-Identifier: Apache-2.0

package mover

import (
	"context"
	"errors"
	"os"
	"strings"

	"github.com/zeroinfra/agents/internal/atomicfile"
	"github.com/zeroinfra/platform-core/agentproto/mover"
)

// adopt makes of a volume that was made of a snapshot that of another member. What agents noted for the former one goes
// first, the plugin's command takes out what the middleware did, and the mark comes last: a mover that is killed is
// followed by one that does all of it again.
func (m *Mover) adopt(ctx context.Context, plan *mover.Plan) error {
	t := target{TargetVolume: *plan.Volume}
	if id, err := os.ReadFile(t.path(mover.RestoredName)); err == nil && strings.TrimSpace(string(id)) == t.ID {
		return nil
	}
	entries, err := os.ReadDir(t.Folder)
	if err != nil {
		return t.failed(err)
	}
	has := false
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), mover.OwnPrefix) {
			if err := os.RemoveAll(t.path(entry.Name())); err != nil {
				return t.failed(err)
			}
			continue
		}
		has = has || entry.Name() != foundName
	}
	if !has {
		return fail(mover.ReasonDamaged, "the volume at %s is empty: it was not made of the snapshot, or the snapshot has "+
			"nothing", t.Folder)
	}
	m.dir = t.Folder
	tool, err := m.with(told(plan.Known)).begin(ctx, plan.Command, toInput)
	if err != nil {
		return err
	}
	// It has nothing to read, and no point in time to miss.
	tool.restores = false
	if err := errors.Join(tool.data.Close(), tool.end()); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return err
	}
	if err := t.sync(); err != nil {
		return err
	}
	return t.failed(atomicfile.Write(t.path(mover.RestoredName), []byte(t.ID+"\n"), markMode))
}
