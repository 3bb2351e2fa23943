// SPDX-License-Identifier: Apache-2.0

package database

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/zeroinfra/test/e2e/framework"
)

// Of what servers said, the time around a loss is told.
const (
	beforeLoss = 2 * time.Second
	afterLoss  = 8 * time.Second
)

// lost are the numbers of the writes of a client that cannot be read back.
func (l *clusterLoad) lost(client, count int) []int {
	l.Helper()
	var lost []int
	for start := 0; start < count; start += framework.ReadBackScript {
		end := min(start+framework.ReadBackScript, count)
		var answers []redis.Cmder
		l.Eventually(framework.SettleTimeout, "the primaries tell what they have", func() error {
			// The error is that of the first command that has one, which may be that there is no such key.
			answers, _ = l.client.Pipelined(l.Ctx, func(p redis.Pipeliner) error {
				for number := start; number < end; number++ {
					p.Get(l.Ctx, l.key(client, number))
				}
				return nil
			})
			for _, answer := range answers {
				if err := answer.Err(); err != nil && !errors.Is(err, redis.Nil) {
					return err
				}
			}
			return nil
		})
		for i, answer := range answers {
			if answer.(*redis.StringCmd).Val() != l.key(client, start+i) {
				lost = append(lost, start+i)
			}
		}
	}
	return lost
}

// explain tells of the first losses what each server has of them, and logs what the servers said at that time: nobody
// can look later.
func (l *clusterLoad) explain(losses []framework.Loss) {
	l.Helper()
	for i := range losses[:min(len(losses), framework.ReportedLosses)] {
		losses[i].Reported = l.whereIs(losses[i].Key)
	}
	pods, err := framework.Cluster.Kube.CoreV1().Pods(l.Name).List(l.Ctx, metav1.ListOptions{})
	if err != nil {
		l.Log(err)
		return
	}
	for _, pod := range pods.Items {
		for _, previous := range []bool{true, false} {
			options := &corev1.PodLogOptions{Container: framework.RedisComponent, Previous: previous, Timestamps: true}
			// A container that never restarted has no log before this one.
			log, err := framework.LogsOf(l.Ctx, l.Name, pod.Name, options)
			if said := linesAround(log, losses[0].At); err == nil && len(said) > 0 {
				l.Logf("what %s said around the loss of %s:\n%s", pod.Name, losses[0].Key, strings.Join(said, "\n"))
			}
		}
	}
}

// linesAround are those of a log with timestamps that are of the time around a moment. What servers of two versions do
// not know of each other is not told.
func linesAround(log string, moment time.Time) []string {
	var lines []string
	for line := range strings.Lines(log) {
		stamp, said, _ := strings.Cut(strings.TrimSpace(line), " ")
		at, err := time.Parse(time.RFC3339Nano, stamp)
		if err == nil && at.After(moment.Add(-beforeLoss)) && at.Before(moment.Add(afterLoss)) &&
			!strings.Contains(said, "unknown extension type") {
			lines = append(lines, said)
		}
	}
	return lines
}

// whereIs says what each server has of a key.
func (l *clusterLoad) whereIs(key string) string {
	l.Helper()
	var mu sync.Mutex
	said := []string{fmt.Sprintf("slot %d", l.client.ClusterKeySlot(l.Ctx, key).Val())}
	err := l.client.ForEachShard(l.Ctx, func(ctx context.Context, c *redis.Client) error {
		conn := c.Conn()
		defer func() { _ = conn.Close() }()
		if err := conn.ReadOnly(ctx).Err(); err != nil {
			return err
		}
		value, err := conn.Get(ctx, key).Result()
		if err != nil {
			value = err.Error()
		}
		mu.Lock()
		defer mu.Unlock()
		said = append(said, fmt.Sprintf("%s with id %s says %q", c.Options().Addr, conn.ClusterMyID(ctx).Val(), value))
		return nil
	})
	if err != nil {
		said = append(said, err.Error())
	}
	return strings.Join(said, ", ")
}
