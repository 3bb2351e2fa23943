// SPDX-License-Identifier: Apache-2.0

package database

import (
	"fmt"
	"strings"
	"testing"
	"time"

	platformv1 "github.com/zeroinfra/platform-core/api/v1"
	"github.com/zeroinfra/test/e2e/framework"
)

// handoverIn is how long a new password takes that processes take over beside the one before: three times as long as at
// once.
const handoverIn = 3 * rotationIn

// TestRotationOfMembers has servers that log in at each other get another password while clients write: none is kept
// out by another, and no client that reads the binding Secret when it connects loses a write. It runs alone because it
// measures.
func TestRotationOfMembers(t *testing.T) {
	t.Run("RedisCluster", func(t *testing.T) {
		createRedisCluster(framework.NewNamespace(t, "clusterrotation"), "shop").rotates()
	})
	t.Run("Redis with replicas", func(t *testing.T) {
		rotates(framework.NewNamespace(t, "replicarotation").CreateRedis("db", framework.WithFsyncAlways(),
			framework.WithReplicas(2)), framework.InPlaceGapLimit)
	})
	t.Run("Redis with Sentinels", func(t *testing.T) {
		rotates(framework.NewNamespace(t, "sentinelrotation").CreateRedis("db", framework.WithFsyncAlways(),
			framework.WithReplicas(2), framework.WithSentinels(3)), framework.FailoverGapLimit)
	})
}

func (r *redisCluster) rotates() {
	r.Helper()
	r.ready()
	r.whole(3)
	old, uids := r.account().Password, r.uids()
	load := r.load()
	r.Create(framework.NewOperation("rotate", "RotateCredentials", r.reference()))
	rotated(r.Namespace, "rotate")
	r.whole(3)
	load.judge(clusterFault{Fault: framework.Fault{Name: "cluster: password made anew", Limit: framework.FailoverGapLimit},
		shards: 3})
	if r.account().Password == old {
		r.Error("clients are told the former password")
	}
	for _, pod := range r.pods() {
		if pod.UID != uids[pod.Name] {
			r.Errorf("pod %s was replaced", pod.Name)
		}
		if role, link := r.info(pod.Name, "replication", "role"),
			r.info(pod.Name, "replication", "master_link_status"); role != "master" && link != "up" {
			r.Errorf("%s is a %s whose link is %q", pod.Name, role, link)
		}
		if err := r.as(pod.Name, "", old).Ping(r.Ctx).Err(); err == nil || !strings.Contains(err.Error(), "WRONGPASS") {
			r.Errorf("%s says of the former password: %v", pod.Name, err)
		}
	}
}

func rotates(i *framework.Instance, limit time.Duration) {
	i.Helper()
	i.WaitForReplicas(2)
	former := map[string]framework.Account{}
	for _, m := range i.Object().Status.Members {
		former[m.Name] = i.AccountAt(m.Name)
	}
	i.Create(framework.NewOperation("rotate", "RotateCredentials", i.Reference()))
	var numbers []int
	var times []time.Time
	// Each write is a client of its own, with what the binding has then.
	put := func(number int) {
		if _, err := i.Do("SET", fmt.Sprintf("rotated:%d", number), fmt.Sprint(number)); err == nil {
			numbers, times = append(numbers, number), append(times, time.Now())
		}
	}
	op := &platformv1.Operation{}
	number := 0
	i.Eventually(handoverIn, "the password is made anew", func() error {
		put(number)
		number++
		i.MustGet("rotate", op)
		if op.Status.Phase != platformv1.OperationSucceeded && op.Status.Phase != platformv1.OperationFailed {
			return fmt.Errorf("it is %q: %s", op.Status.Phase, framework.Describe(op.Status.Conditions))
		}
		return nil
	})
	rotated(i.Namespace, "rotate")
	i.WaitForReplicas(2)
	put(number)
	gap := framework.LongestGap(times)
	framework.Verdict{Acknowledged: len(numbers), Lost: i.Lost("rotated", numbers), Gap: gap, Vacancy: gap}.ExpectWithin(
		i.T, "password made anew", limit)
	if len(former) != 3 {
		i.Errorf("there were %d members", len(former))
	}
	for pod, a := range former {
		if i.AccountAt(pod).Password == a.Password {
			i.Error("clients are told the former password")
		}
		if said, err := i.RedisCLI(a, "PING"); err == nil && said == "PONG" {
			i.Errorf("%s lets the former password in", pod)
		}
	}
}

// rotated waits until an Operation that makes a password anew has succeeded.
func rotated(s *framework.Namespace, name string) {
	s.Helper()
	if ended := s.WaitForOperationEnd(name, handoverIn); ended.Status.Phase != platformv1.OperationSucceeded {
		s.Fatalf("it is %s: %s", ended.Status.Phase, ended.Status.Error)
	}
}
