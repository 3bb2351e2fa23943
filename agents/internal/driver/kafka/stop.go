// SPDX-License-Identifier: Apache-2.0

package kafka

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/zeroinfra/agents/internal/driver/kafka/placement"
)

// awaitPause is between two looks at whether a broker may stop, and awaitLongPause after the first minute.
const (
	awaitPause     = time.Second
	awaitLongPause = 10 * time.Second
)

// waits are how long a broker that is to stop waits for what.
type waits struct {
	// away is for brokers that are down, and silence for an answer; each in a row.
	away, silence time.Duration
	// look is for the answer of one look.
	look time.Duration
}

const (
	awaitSilence = 30 * time.Second
	awaitLook    = 15 * time.Second
)

// refusal says why a broker must not be stopped now.
type refusal struct {
	// told says that the cluster has told which replicas are in sync.
	told bool
	// reason; empty when it may be stopped.
	reason string
	// catchesUp says that waiting helps although no broker comes back: replicas that are there catch up.
	catchesUp bool
}

// AwaitRestart waits until a broker may be stopped: no partition is left with fewer replicas in sync than
// min.insync.replicas, and then the other brokers take records with acks=all. It waits for as long as ctx while
// replicas catch up that are there, for away in a row where that alone would not do, such as while another broker is
// down, and for half a minute where nobody can tell, such as in a namespace that is deleted: its controllers have ended
// before. The error says what is in the way when the time is over.
func (d *Driver) AwaitRestart(ctx context.Context, node string, away time.Duration) error {
	return d.awaitRestart(ctx, node, waits{away, awaitSilence, awaitLook})
}

func (d *Driver) awaitRestart(ctx context.Context, node string, waits waits) error {
	id, err := brokerOf(node)
	if err != nil {
		return err
	}
	began, last := time.Now(), ""
	hopeful, told := began, began
	for ctx.Err() == nil && time.Since(hopeful) < waits.away && time.Since(told) < waits.silence {
		now, refused := d.restartRefusal(ctx, id, waits.look)
		if refused == nil && now.reason == "" {
			return nil
		}
		// What was cut off tells less than what was seen before.
		if err = refused; err == nil && (ctx.Err() == nil || last == "") {
			last = now.reason
		}
		if now.catchesUp {
			hopeful = time.Now()
		}
		if now.told {
			told = time.Now()
		}
		pause := awaitPause
		if time.Since(began) > time.Minute {
			pause = awaitLongPause
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	if last == "" {
		return cmp.Or(err, ctx.Err())
	}
	return fmt.Errorf("broker %s is stopped although %s", node, last)
}

// restartRefusal says why a broker must not be stopped now. The cluster has so long to tell what is in sync.
func (d *Driver) restartRefusal(ctx context.Context, id int32, limit time.Duration) (refusal, error) {
	held, now := placement.Holding{}, refusal{}
	look, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := d.with(look, func(s *session) error {
		all, err := s.everything()
		if err != nil {
			return err
		}
		all = withoutCanary(all)
		held = placement.Held(all, id)
		verdict := placement.Restart(all, id)
		now = refusal{true, blocked(verdict, id), !verdict.MayRestart() && len(verdict.Lost) == 0}
		return nil
	})
	// A broker that holds nothing, such as one that leaves, is missed by nobody. It gets no replica of the canary's topic.
	if err != nil || now.reason != "" || held.Replicas == 0 {
		return now, err
	}
	now.reason, err = d.canary(ctx, id)
	return now, err
}

// blocked says which partitions keep a broker from being restarted; empty when none does.
func blocked(verdict placement.Verdict, id int32) string {
	if verdict.MayRestart() {
		return ""
	}
	return fmt.Sprintf("without broker %d too few replicas would be in sync of %s: wait until others have caught up", id,
		shortened(verdict.Blocking))
}
