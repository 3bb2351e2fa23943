// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"context"
	"fmt"
	"time"

	"github.com/zeroinfra/agents/internal/driver/kafka/placement"
)

// awaitPause is between two looks at whether a broker may stop.
const awaitPause = time.Second

// AwaitRestart waits until a broker may be stopped: no partition is left with fewer replicas in sync than
// min.insync.replicas, and then the other brokers take records with acks=all. The error says what is in the way when
// the time is over.
func (d *Driver) AwaitRestart(ctx context.Context, node string) error {
	id, err := brokerOf(node)
	if err != nil {
		return err
	}
	last := ""
	for {
		reason, err := d.restartRefusal(ctx, id)
		if err == nil && reason == "" {
			return nil
		}
		// What was cut off tells less than what was seen before.
		if err == nil && (ctx.Err() == nil || last == "") {
			last = reason
		}
		select {
		case <-ctx.Done():
			if last == "" {
				return err
			}
			return fmt.Errorf("broker %s is stopped although %s", node, last)
		case <-time.After(awaitPause):
		}
	}
}

// restartRefusal says why a broker must not be stopped now; empty when it may be.
func (d *Driver) restartRefusal(ctx context.Context, id int32) (reason string, err error) {
	held := placement.Holding{}
	err = d.with(ctx, func(s *session) error {
		all, err := s.everything()
		if err != nil {
			return err
		}
		all = withoutCanary(all)
		held = placement.Held(all, id)
		reason = blocked(placement.Restart(all, id), id)
		return nil
	})
	// A broker that holds nothing, such as one that leaves, is missed by nobody. It gets no replica of the canary's topic.
	if err != nil || reason != "" || held.Replicas == 0 {
		return reason, err
	}
	return d.canary(ctx, id)
}

// blocked says which partitions keep a broker from being restarted; empty when none does.
func blocked(verdict placement.Verdict, id int32) string {
	if verdict.MayRestart() {
		return ""
	}
	return fmt.Sprintf("without broker %d too few replicas would be in sync of %s: wait until others have caught up", id,
		shortened(verdict.Blocking))
}
