// SPDX-License-Identifier: Apache-2.0

package replication

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
)

// failoverSlotsSince is the major version from which standbys keep copies of the logical slots that were created with
// failover = true.
const failoverSlotsSince = 17

// standbySlots is the setting synchronized_standby_slots of a primary in a pod: the slots of the other members. What a
// member does not have yet is sent to no consumer of a failover slot, so that a consumer is never ahead of the member
// that takes over.
func (l member) standbySlots(pod string) string {
	slots := l.others(pod)
	for i := range slots {
		slots[i] = slotOf(slots[i])
	}
	return strings.Join(slots, ", ")
}

// hasFailoverSlots says whether the data is of a version that has failover slots.
func (s *Server) hasFailoverSlots() (bool, error) {
	text, err := os.ReadFile(s.data("PG_VERSION"))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("cannot read the version of the data: %w", err)
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		return false, fmt.Errorf("cannot read the version of the data: %w", err)
	}
	return major >= failoverSlotsSince, nil
}

// dropFormerSlots drops the logical slots for failover that a server has of the time in which it took writes: as a
// standby it copies those of the primary, and one of its own of the same name would stop that and hold its log for
// ever.
func (s *Server) dropFormerSlots(ctx context.Context, connection *pgconn.PgConn) error {
	has, err := s.hasFailoverSlots()
	if err != nil || !has {
		return err
	}
	return run(ctx, connection, `SELECT pg_drop_replication_slot(slot_name) FROM pg_replication_slots
		WHERE slot_type = 'logical' AND failover AND NOT synced AND NOT active`)
}
